"""What is in focus, per project and agent: the facet `focus:<owner>`, in the form of the seed's focus.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kingly_memory.attention.focus import Focus, Focuses, folded
from kingly_memory.cognition.owners import current_owner
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject
from kingly_memory.ports import StoreReader, Transaction
from kingly_memory.router.threads.named import named
from kingly_memory.router.threads.roots import THREAD

if TYPE_CHECKING:  # a hook with a focus changes nothing
    from kingly_memory.router.write import WriteContext

FACET = "focus"


class Cleared(NamedTuple):
    """Topics that are no longer in focus, those that still are, and which of the former held for every agent."""

    gone: tuple[str, ...]
    left: tuple[str, ...]
    for_everyone: tuple[str, ...] = ()


def applying(reader: StoreReader, project: str, agent: str | None) -> tuple[Focus, ...]:
    """What holds for an agent: what nobody in particular has in focus, as a server that was not told for whom it
    speaks, and its own, which counts where both name a topic. Each with the thread that it names."""
    owners = {current_owner(project, one) for one in (None, agent)}
    return of_facets(reader.facets(FACET, list(owners)), reader, project, agent)


def of_facets(
    facets: Mapping[str, JsonObject], reader: StoreReader, project: str, agent: str | None
) -> tuple[Focus, ...]:
    """The same of facets that have been read."""
    nobody, own = (current_owner(project, one) for one in (None, agent))
    of_nobody = Focuses.from_json(facets.get(nobody))
    everyone = [replace(one, for_everyone=agent is not None) for one in of_nobody]
    by_topic = {folded(one.topic): one for one in (*everyone, *Focuses.from_json(facets.get(own)))}
    return tuple(naming(reader, project, one) for one in by_topic.values())


def naming(reader: StoreReader, project: str, one: Focus) -> Focus:
    """With the thread that the topic names now: of which it is an id, or the key or id of a memory in it."""
    try:
        thread_id = named(reader, project, one.topic).id
    except InvalidInput:
        return replace(one, is_name=False)
    return one if thread_id == one.topic else replace(one, thread=thread_id)


def status(reader: StoreReader, project: str, agent: str | None) -> JsonObject:
    """For a status: `focus`, when anything is in it."""
    active = applying(reader, project, agent)
    return {"focus": [_briefly(one) for one in active]} if active else {}


def _briefly(one: Focus) -> JsonObject:
    return {name: value for name, value in one.told().items() if name in ("topic", "weight", "for_everyone")}


def put(one: Focus, desk: WriteContext) -> Callable[[Transaction], list[str]]:
    """Have it in focus. Says which threads have facets, at most 1,000. Raises InvalidInput."""

    def change(transaction: Transaction) -> list[str]:
        whose = current_owner(desk.project, desk.agent)
        active = Focuses.from_json(transaction.facet(FACET, whose)).with_one(one)
        transaction.set_facet(FACET, whose, active.to_json())
        return list(transaction.owners(THREAD))

    return change


def clear(topic: str | None, desk: WriteContext) -> Callable[[Transaction], Cleared]:
    """Take the focus off a topic; off all of them for None. All that holds for the agent is meant, also what holds for
    the others."""

    def change(transaction: Transaction) -> Cleared:
        own, for_everyone = _clear(transaction, topic, desk.agent, desk), Cleared((), ())
        if desk.agent is not None:
            for_everyone = _clear(transaction, topic, None, desk)
        return Cleared(
            _each_once((*for_everyone.gone, *own.gone)), _each_once((*for_everyone.left, *own.left)), for_everyone.gone
        )

    return change


def _clear(transaction: Transaction, topic: str | None, agent: str | None, desk: WriteContext) -> Cleared:
    whose = current_owner(desk.project, agent)
    before = Focuses.from_json(transaction.facet(FACET, whose))
    after = before.without(topic, desk.now)
    if after is not before:
        transaction.set_facet(FACET, whose, after.to_json())
    gone = tuple(one.topic for one in before if one not in after.active)
    return Cleared(gone, tuple(one.topic for one in after))


def _each_once(topics: tuple[str, ...]) -> tuple[str, ...]:
    """The same topic may be written in two ways."""
    return tuple({folded(one): one for one in topics}.values())
