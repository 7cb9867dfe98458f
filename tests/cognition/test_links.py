"""Links between memories: one for the same ends and type, beside both of them, and shown only while both are there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import InvalidInput, MemoryRouter, Settings
from kingly_memory.api.choices import TypeName
from kingly_memory.cognition import links
from kingly_memory.cognition.links import MOST_LINKS, Link, LinkType
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject
from kingly_memory.router.view import View
from kingly_memory.testing import ManualClock
from tests.router.delivery.test_delivery_states import Shelf

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
QUICK = Settings(durability="process")


@pytest.fixture
async def memory(tmp_path: Path, clock: ManualClock) -> AsyncIterator[MemoryRouter]:
    opened = MemoryRouter.open(tmp_path / "home", False, project="app", settings=QUICK, clock=clock)
    async with opened as router:
        for key in ("cause", "effect", "other"):
            await router.store(f"the {key}", key=key)
        yield router


def facet_of(memory: MemoryRouter, memory_id: str) -> JsonObject | None:
    return memory._engine.store.reader.facets("links", [memory_id]).get(memory_id)


def linked(memory: MemoryRouter, *memory_ids: str, limit: int = 10) -> dict[str, tuple[JsonObject, ...]]:
    view: View = memory._engine.view
    return view.linked(memory_ids, limit)


async def id_of(memory: MemoryRouter, key: str) -> MemoryId:
    found = await memory.get(key)
    assert found is not None
    return found.id


# --- making links -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-053")
async def test_a_link_is_seen_from_both_its_ends(memory: MemoryRouter) -> None:
    link = await memory.link_memories("cause", "effect", "causal", 0.75, "it led to it")
    assert await memory.links("cause") == await memory.links("effect") == (link,)
    assert await memory.links("other") == ()
    assert link.to_json() == {
        "id": link.id,
        "source": await id_of(memory, "cause"),
        "target": await id_of(memory, "effect"),
        "link_type": "causal",
        "strength": 0.75,
        "description": "it led to it",
        "created_at": "2026-01-01T00:00:00+00:00",
    }
    assert Link.from_json(link.to_json()) == link


ENDS = st.sampled_from(["a", "b", "c"]).map(MemoryId)
SAID = st.tuples(ENDS, ENDS, st.sampled_from(list(LinkType)[:3]), st.sampled_from([0.0, 0.5, 1.0]))


@given(st.lists(SAID, max_size=30))
def test_however_often_what_is_linked_both_ends_know_the_same_links(said: list[tuple[Any, ...]]) -> None:
    shelf, wanted, ids = Shelf({}, {}), dict[tuple[Any, ...], float](), dict[tuple[Any, ...], str]()
    for source, target, kind, strength in said:
        link, is_news = links.write(shelf, source, target, links.draft(kind.value, strength), NOON)
        assert is_news == (wanted.get((source, target, kind)) != strength)
        assert ids.setdefault((source, target, kind), link.id) == link.id
        wanted[source, target, kind] = strength
    for end in "abc":
        there = {(one.source, one.target, one.link_type): one for one in links.of(shelf, end)}
        assert {name: one.strength for name, one in there.items()} == {
            name: strength for name, strength in wanted.items() if end in name[:2]
        }
        assert all(one.id == ids[name] for name, one in there.items())


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"source": "nobody"}, "source"),
        ({"target": "nobody"}, "target"),
        ({"target": "cause"}, "target"),
        ({"source": ""}, "source"),
        ({"target": 7}, "target"),
        ({"link_type": "Causal"}, "link_type"),
        ({"link_type": None}, "link_type"),
        ({"strength": 1.01}, "strength"),
        ({"strength": -0.1}, "strength"),
        ({"strength": float("nan")}, "strength"),
        ({"strength": "strong"}, "strength"),
        ({"description": "x" * 513}, "description"),
        ({"description": "two\nlines"}, "description"),
    ],
)
async def test_what_makes_no_link_is_refused_and_names_the_field(
    memory: MemoryRouter, said: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await memory.link_memories(**{"source": "cause", "target": "effect", **said})
    assert refused.value.field == field
    assert await memory.links("cause") == ()


async def test_a_memory_has_two_hundred_links_at_most(memory: MemoryRouter, clock: ManualClock) -> None:
    await memory.store("scratch", key="scratch", type="working")
    await memory.link_memories("cause", "scratch")
    for number in range(MOST_LINKS - 1):
        await memory.store(f"note {number}", key=f"note {number}")
        await memory.link_memories("cause", f"note {number}")
    with pytest.raises(InvalidInput, match=r"target: .* has 200 links"):
        await memory.link_memories("effect", "cause")
    assert await memory.links("effect") == ()
    await memory.link_memories("cause", "note 7", strength=0.5)
    clock.tick(1_801)
    assert (await memory.sweep()).erased == 1
    link = await memory.link_memories("effect", "cause")
    assert (await memory.links("cause"))[-1] == link
    assert len(await memory.links("cause")) == MOST_LINKS


# --- what becomes of the ends -----------------------------------------------------------------------------------------


async def test_a_link_to_what_was_forgotten_is_not_shown_until_it_is_restored(memory: MemoryRouter) -> None:
    link = await memory.link_memories("cause", "effect")
    await memory.forget("effect")
    assert await memory.links("cause") == ()
    await memory.restore("effect")
    assert await memory.links("cause") == await memory.links("effect") == (link,)


async def test_a_sweep_that_erases_a_memory_takes_its_links_along(memory: MemoryRouter, clock: ManualClock) -> None:
    scratch = (await memory.store("scratch", key="scratch", type="working")).id
    await memory.link_memories("cause", "scratch")
    clock.tick(1_801)
    await memory.sweep()
    assert facet_of(memory, scratch) is None
    assert await memory.links("cause") == ()


# --- linked memories, beside what was found ---------------------------------------------------------------------------


@pytest.mark.requirement("KNG-028")
async def test_linked_memories_are_told_with_their_link_as_seen_from_the_one_asked_about(memory: MemoryRouter) -> None:
    link = await memory.link_memories("cause", "effect", "causal", 0.75)
    assert linked(memory, link.source, link.target, await id_of(memory, "other")) == {
        link.source: (
            {
                "id": link.target,
                "key": "effect",
                "title": None,
                "content": "the effect",
                "type": "semantic",
                "link_type": "causal",
                "direction": "outgoing",
                "strength": 0.75,
            },
        ),
        link.target: (
            {
                "id": link.source,
                "key": "cause",
                "title": None,
                "content": "the cause",
                "type": "semantic",
                "link_type": "causal",
                "direction": "incoming",
                "strength": 0.75,
            },
        ),
    }


async def test_the_strongest_linked_memories_come_first_and_no_more_than_asked_for(memory: MemoryRouter) -> None:
    cause = await id_of(memory, "cause")
    for strength in (0.2, 0.9, 0.5):
        await memory.store(f"{strength}", key=f"{strength}")
        await memory.link_memories("cause", f"{strength}", strength=strength)
    assert [one["key"] for one in linked(memory, cause, limit=2)[cause]] == ["0.9", "0.5"]


async def test_linked_memories_that_a_search_would_not_find_are_not_told(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    cause = await id_of(memory, "cause")
    kinds: dict[str, TypeName] = {"scratch": "working", "yesterday": "conversation_context", "secret": "semantic"}
    for key, kind in kinds.items():
        await memory.store(key, key=key, type=kind)
        await memory.link_memories(key, "cause")
    await memory.forget("secret")
    assert [one["key"] for one in linked(memory, cause)[cause]] == ["scratch", "yesterday"]
    clock.tick(1_801)
    assert [one["key"] for one in linked(memory, cause)[cause]] == ["yesterday"]
    clock.tick(timedelta(days=8).total_seconds())
    await memory.sweep()
    assert linked(memory, cause) == {}
