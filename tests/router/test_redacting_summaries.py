"""What is forgotten is told no more: not by a summary, not by a summary of summaries, not by what was learned of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.summaries import gist, originals, redacted, summary
from kingly_memory.models import Memory, MemoryStatus
from kingly_memory.testing import FakeRemote, ManualClock
from kingly_memory.validation import Imported, draft
from tests.lifecycle.samples import NOON, memory
from tests.router.test_summaries import NARROW, crowd, live_summaries, of
from tests.router_bench import PromptStore, router_over

# --- the text -------------------------------------------------------------------------------------------------------


def said_of(*memories: Memory) -> Memory:
    return summary(of(*memories), [gist(one) for one in memories]).memory(
        MemoryId("019b0000-0000-7000-8000-ffffffffffff"), "app", created_at=NOON, updated_at=NOON
    )


def test_the_sentence_goes_with_its_name_and_the_count() -> None:
    one, two, three = (memory(number, content=f"Deploy {number} took an hour.") for number in (1, 2, 3))
    after = redacted(said_of(one, two, three), two.id)
    assert after.content == "Deploy 1 took an hour.\nDeploy 3 took an hour."
    assert (after.title, after.revision) == ("Summary of 2 memories about deploys", 2)
    assert (after.metadata["summarises"], after.metadata["count"]) == ([one.id, three.id], 2)
    assert redacted(after, two.id) == after
    assert redacted(after, memory(4).id) == after


def test_a_sentence_that_another_one_said_as_well_stays_until_that_one_is_forgotten() -> None:
    one, two = (memory(number, content="The queue was full.") for number in (1, 2))
    once = redacted(said_of(one, two), one.id)
    assert (once.content, originals(once)) == ("The queue was full.", [two.id])
    twice = redacted(once, two.id)
    assert (twice.content, originals(twice)) == ("Summary of 0 memories about deploys", [])


@pytest.mark.parametrize(
    "changed",
    [
        {"tells": None},
        {"tells": "x"},
        {"tells": [[], [], []]},
        {"tells": [1, 2]},
        {"tells": [[1], [{}]]},
        {"summarises": None},
        {"count": "many"},
        {"topic": None},
        {"record": "other"},
    ],
)
def test_a_summary_from_a_file_may_say_anything_of_itself(changed: dict[str, Any]) -> None:
    one, two = memory(1, content="It rained."), memory(2, content="It snowed.")
    said = said_of(one, two)
    odd = replace(said, metadata={**said.metadata, **changed})
    assert originals(odd) == []
    assert redacted(odd, one.id).content in (odd.content, "It snowed.")


# --- through the router ---------------------------------------------------------------------------------------------


@pytest.fixture
async def router(store: PromptStore, clock: ManualClock) -> AsyncIterator[MemoryRouter]:
    async with router_over(store, None, clock, settings=NARROW) as opened:
        yield opened


async def summed_up(router: MemoryRouter, **said: Any) -> tuple[Memory, list[Memory]]:
    """A summary, and those that went behind it."""
    await crowd(router, **said)
    await router.sweep(["tiers"])
    [written] = await live_summaries(router)
    return written, [entry.memory for entry in (await router.archived()).entries]


@pytest.mark.requirement("ARG-033")
async def test_what_is_forgotten_goes_out_of_its_summary_at_once(router: MemoryRouter) -> None:
    written, [gone, *others] = await summed_up(router)
    assert gone.content in written.content
    assert await router.forget(gone.id) == gone
    [left] = await live_summaries(router)
    assert gone.content not in left.content
    assert gone.id not in str(left.to_json())
    assert (left.id, left.revision, left.title) == (written.id, 2, "Summary of 2 memories about deploys")
    assert sorted(left.content.split("\n")) == sorted(one.content for one in others)
    found = await router.search(gone.content, include_archived=True)
    assert all(gone.content not in hit.memory.content for hit in found)


@pytest.mark.requirement("ARG-033")
@pytest.mark.parametrize("how", ["store", "restore and store", "import"])
async def test_a_correction_goes_out_to_the_summary_at_once(router: MemoryRouter, how: str) -> None:
    written, [wrong, *others] = await summed_up(router)
    assert wrong.key is not None
    if how == "restore and store":
        await router.restore(wrong.key)
    if how == "import":
        said = draft("Deploys are quick now.", key=wrong.key)
        await router.remember([Imported(said)])
    else:
        await router.store("Deploys are quick now.", key=wrong.key)
    [left] = await live_summaries(router)
    assert wrong.content in written.content
    assert sorted(left.content.split("\n")) == sorted(one.content for one in others)
    assert (left.title, left.metadata["count"]) == ("Summary of 2 memories about deploys", 2)
    found = await router.search(wrong.content, include_archived=True)
    assert all(wrong.content not in hit.memory.content for hit in found)


async def test_remotes_get_the_summary_as_it_is_then(store: PromptStore, clock: ManualClock) -> None:
    remote = FakeRemote(clock=clock)
    async with router_over(store, remote, clock, settings=NARROW) as router:
        written, originals_of_it = await summed_up(router)
        await router.sync()
        assert written.content in {one.content for one in remote.memories.values()}
        gone, *others = originals_of_it
        await router.forget(gone.id)
        await router.sync()
        assert gone.content not in " ".join(one.content for one in remote.memories.values())
        for one in others:
            await router.forget(one.id)
        await router.sync()
        assert not any(one.metadata.get("record") == "summary" for one in remote.memories.values())


async def test_an_imported_summary_does_not_tell_what_has_been_forgotten_here(
    router: MemoryRouter, tmp_path: Path, clock: ManualClock
) -> None:
    written, [gone, *others] = await summed_up(router)
    kept = [(one, status) for one, status in router.export() if one.id in {written.id, gone.id, others[0].id}]
    elsewhere = PromptStore(tmp_path / "elsewhere")
    async with router_over(elsewhere, None, clock, settings=NARROW) as other:
        first = [imported(one, status) for one, status in kept if one.id != written.id]
        await other.remember(first)
        await other.forget(gone.id)
        await other.remember([imported(*each) for each in kept if each[0].id == written.id])
        [left] = await live_summaries(other)
        assert gone.content not in left.content
        await other.forget(others[0].id)
        [left] = await live_summaries(other)
        assert others[0].content not in left.content


def imported(one: Memory, status: MemoryStatus) -> Imported:
    said = draft(
        one.content,
        type=one.type,
        significance=one.significance,
        tags=one.tags,
        title=one.title,
        metadata=one.metadata,
        created_at=one.created_at,
        origin=one.origin,
    )
    return Imported(said, id=one.id, status=status, updated_at=one.updated_at)


# --- what was learned -------------------------------------------------------------------------------------------------

LONG = (
    "We deployed the shop on Friday. It was sunny. The migration has 3 steps. "
    "We must run it before the deploy. Somebody told a joke. The rollback took 12 minutes."
)


@pytest.mark.parametrize("which", ["summary", "text"])
async def test_a_text_that_was_learned_is_forgotten_whole(router: MemoryRouter, store: PromptStore, which: str) -> None:
    first = await router.compress_and_learn(LONG, key="friday")
    again = await router.compress_and_learn(LONG + " Nobody was hurt.", key="friday")
    assert first.original_id is not None
    assert again.original_id is not None
    await router.forget("friday" if which == "summary" else again.original_id)
    found = await router.search("rollback migration", include_archived=True)
    left = set() if which == "summary" else {first.original_id}  # learned before, of another text
    assert {hit.memory.id for hit in found} == left
    for memory_id in {first.original_id, again.original_id, again.memory_id} - left:
        row = store.reader.row(memory_id)
        assert row is not None
        assert row.status is MemoryStatus.FORGOTTEN


async def test_a_text_that_is_a_memory_of_its_own_by_now_stays(router: MemoryRouter) -> None:
    lesson = await router.compress_and_learn(LONG, key="friday")
    assert lesson.original_id is not None
    await router.restore(lesson.original_id)
    await router.forget("friday")
    assert await router.get(lesson.original_id) is not None


async def test_what_says_something_else_by_now_is_no_summary_of_the_text(router: MemoryRouter) -> None:
    lesson = await router.compress_and_learn(LONG, key="friday", metadata={"ticket": 7})
    assert lesson.original_id is not None
    await router.store("Bananas are yellow", key="friday")
    kept = await router.get("friday")
    assert kept is not None
    assert kept.metadata == {"ticket": 7}
    assert await router.links("friday") == ()
    await router.forget("friday")
    [hit] = await router.search("rollback joke", include_archived=True)
    assert hit.memory.id == lesson.original_id
    await router.restore("friday")
    await router.forget(lesson.original_id)
    assert await router.get("friday") is not None
