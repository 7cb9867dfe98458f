"""The working memory of contexts, as an Ultimate MCP server can keep it: states that are saved, and tags."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kingly_memory.adapters.remote import ultimate_replies, ultimate_wire
from kingly_memory.adapters.remote.ultimate_calls import Calls, Deadline, Workflows
from kingly_memory.errors import RemoteError, RemoteRefused
from kingly_memory.models import Memory, MemoryType
from kingly_memory.ports import RemoteHit

log = logging.getLogger("kingly_memory.remote")

MOST_CONTEXTS = 256
MOST_ITEMS = 20


@dataclass(frozen=True, slots=True)
class _State:
    """What is at hand in a context, the newest memory last, and the state that was last saved of it."""

    state_id: str | None
    remote_ids: tuple[str, ...]


class Contexts:
    """Saves what is at hand in a context whenever that changes, so that others on the server see it as one state.

    The server finds no state by its name: an id is known only to the process that saved it. So it is read together
    with what bears the context's tag.
    """

    def __init__(self, calls: Calls, workflows: Workflows) -> None:
        self._calls = calls
        self._workflows = workflows
        self._states: OrderedDict[tuple[str, str], _State] = OrderedDict()

    def can_save(self) -> bool:
        return self._calls.offers("save_cognitive_state") and self._calls.offers("get_working_memory")

    async def note(self, memory: Memory, remote_id: str) -> None:
        """A memory has arrived. Its delivery does not depend on what comes of this."""
        context_id = memory.scope.context_id
        if memory.type is not MemoryType.WORKING or context_id is None or not self.can_save():
            return
        place = (memory.scope.project, context_id)
        try:
            await self._save(place, remote_id)
        except RemoteError as error:
            self._states.pop(place, None)  # what was at hand may have expired there: begun anew by what comes next
            log.debug("the state of a context was not saved on the remote: %s", error)

    async def held(self, project: str, context_id: str, deadline: Deadline) -> list[RemoteHit]:
        """What was saved for the context."""
        state = self._states.get((project, context_id))
        if state is None or state.state_id is None:
            return []
        arguments = {"context_id": state.state_id}
        try:
            reply = await self._calls.read("get_working_memory", arguments, project=project, deadline=deadline)
        except RemoteRefused:
            return []
        found = _hits(ultimate_replies.entries(reply, "working_memories"), project)
        placed = (_within(hit, context_id, is_ours=True) for hit in found)
        return [hit for hit in placed if hit is not None]

    async def tagged(self, project: str, context_id: str | None, deadline: Deadline | None) -> list[RemoteHit]:
        """Working memories that bear the tag of the context; all of the project's where none is named."""
        tags = {} if context_id is None else {"tags": [ultimate_wire.context_tag(context_id)]}

        async def query(workflow_id: str) -> list[RemoteHit]:
            arguments = {
                "workflow_id": workflow_id,
                "memory_level": MemoryType.WORKING.value,
                "sort_by": "created_at",
                "sort_order": "DESC",
                "limit": MOST_ITEMS,
                **tags,
            }
            reply = await self._calls.read("query_memories", arguments, project=project, deadline=deadline)
            return _hits(ultimate_replies.entries(reply), project)

        found = await self._workflows.within(project, query, deadline)
        if context_id is None:
            return found
        placed = (_within(hit, context_id) for hit in found)
        return [hit for hit in placed if hit is not None]

    async def _save(self, place: tuple[str, str], remote_id: str) -> None:
        """What is at hand is noted before it is said: several deliveries may be under way."""
        project, context_id = place
        ids = await self._with(place, remote_id)

        async def save(workflow_id: str) -> str:
            arguments = {
                "workflow_id": workflow_id,
                "title": f"Kingly Memory: {context_id}",
                "working_memory_ids": list(ids),
            }
            reply = await self._calls.write("save_cognitive_state", arguments, project=project)
            return ultimate_replies.named(reply, "state_id")

        state_id = await self._workflows.within(project, save)
        if place in self._states:
            self._states[place] = replace(self._states[place], state_id=state_id)

    async def _with(self, place: tuple[str, str], remote_id: str) -> tuple[str, ...]:
        """What is at hand in the context, with what has just arrived."""
        if place not in self._states:
            before = await self._before(*place)
            self._states.setdefault(place, _State(None, before))
        state = self._states[place]
        ids = (*(one for one in state.remote_ids if one != remote_id), remote_id)[-MOST_ITEMS:]
        self._states[place] = replace(state, remote_ids=ids)
        self._states.move_to_end(place)
        while len(self._states) > MOST_CONTEXTS:
            self._states.popitem(last=False)
        return ids

    async def _before(self, project: str, context_id: str) -> tuple[str, ...]:
        """What other processes have brought there for the context."""
        try:
            found = await self.tagged(project, context_id, None)
        except RemoteRefused:
            return ()
        return tuple(hit.remote_id for hit in reversed(found))


def _hits(entries: list[Mapping[str, Any]], project: str) -> list[RemoteHit]:
    working = frozenset({MemoryType.WORKING})
    return ultimate_replies.merged(
        (ultimate_replies.hit(entry, project, MemoryType.WORKING) for entry in entries), working
    )


def _within(hit: RemoteHit, context_id: str, *, is_ours: bool = False) -> RemoteHit | None:
    """The hit with the name of the context as it is, since it came back in lower case; None for another one's.

    What we saved for the context (`is_ours`) need not bear its tag.
    """
    said = hit.record["scope"].get("context_id")
    if said != context_id.strip().lower() and not (is_ours and said is None):
        return None
    return hit._replace(record={**hit.record, "scope": {**hit.record["scope"], "context_id": context_id}})
