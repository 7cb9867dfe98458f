"""Context whispers: every full 1,000 tokens noted in a context leave one distilled insight."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import MemoryRouter, Settings
from kingly_memory.cognition.context import RECORD, Context, covered, portions
from kingly_memory.ids import MemoryId
from kingly_memory.models import Memory
from kingly_memory.router.engine import Engine

FAST = Settings(durability="process")


def open_router(home: Path, settings: Settings = FAST) -> MemoryRouter:
    return MemoryRouter.open(home, remote=False, settings=settings)


async def whispers_of(memory: MemoryRouter) -> list[Memory]:
    return list(reversed((await memory.list(limit=500, tags=[RECORD])).memories))


@pytest.mark.requirement("KNG-025")
async def test_3500_tokens_in_chunks_leave_three_whispers_and_the_rest_counts_on(tmp_path: Path) -> None:
    async with open_router(tmp_path) as memory:
        for _ in range(35):
            await memory.store("word " * 100, context_id="c", type="working")
        assert len(await whispers_of(memory)) == 3
        assert (await memory.working_context("c")).whispers == 3
        await memory.store("word " * 499, context_id="c", type="working")
        assert len(await whispers_of(memory)) == 3
        await memory.store("word", context_id="c", type="working")
        assert len(await whispers_of(memory)) == 4


@pytest.mark.requirement("KNG-025")
async def test_one_long_note_leaves_a_whisper_for_each_thousand_tokens(tmp_path: Path) -> None:
    parts = [" ".join([topic] * 1_000) for topic in ("alpha", "bravo", "carol")]
    async with open_router(tmp_path) as memory:
        await memory.store(" ".join(parts) + " rest" * 500, context_id="c")
        found = await whispers_of(memory)
        assert [topic in one.content for one, topic in zip(found, ("alpha", "bravo", "carol"), strict=True)] == [
            True
        ] * 3
        assert "alpha" not in found[1].content
        assert [one.metadata["tokens"] for one in found] == [[0, 1_000], [1_000, 2_000], [2_000, 3_000]]


async def test_a_whisper_names_its_sources_and_is_no_item_of_the_context(tmp_path: Path) -> None:
    async with open_router(tmp_path) as memory:
        one = await memory.store("staging database " * 300, context_id="c")
        other = await memory.store("release branch " * 300, context_id="c")
        (whisper,) = await whispers_of(memory)
        assert whisper.metadata["sources"] == [one.id, other.id]
        assert whisper.scope.context_id == "c"
        assert whisper.type == "semantic"
        assert whisper.id not in {item.id for item in (await memory.working_context("c")).items}
        assert (await memory.search("what was the staging database about"))[0].memory.id in {one.id, whisper.id}


async def test_what_must_stay_on_this_machine_stays_there_in_a_whisper_too(tmp_path: Path) -> None:
    async with open_router(tmp_path) as memory:
        await memory.store("public matter " * 400, context_id="c", significance=0.9)
        await memory.store("private matter " * 200, context_id="c", significance=0.2)
        (whisper,) = await whispers_of(memory)
        assert whisper.significance == 0.2


async def test_what_was_forgotten_is_in_no_whisper(tmp_path: Path) -> None:
    async with open_router(tmp_path) as memory:
        await memory.store("secret " * 400, key="secret", context_id="c")
        await memory.forget("secret")
        await memory.store("public " * 700, context_id="c")
        (whisper,) = await whispers_of(memory)
        assert "secret" not in whisper.content
        assert "public" in whisper.content


async def test_a_whisper_that_a_crash_prevented_comes_with_the_next_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crash(self: MemoryRouter, context_id: str, due: int) -> None:
        return None

    async with open_router(tmp_path) as memory:
        with monkeypatch.context() as patch:
            patch.setattr(Engine, "_whisper", crash)
            await memory.store("word " * 2_100, context_id="c")
        assert await whispers_of(memory) == []
    async with open_router(tmp_path) as memory:
        await memory.store("word", context_id="c")
        assert len(await whispers_of(memory)) == 2


@given(st.lists(st.integers(1, 60), min_size=1, max_size=30), st.integers(1, 50))
def test_every_noted_token_is_in_exactly_one_whisper_or_still_waits(lengths: list[int], size: int) -> None:
    context, texts, said, whispered = Context("c"), {}, [], []
    for number, length in enumerate(lengths):
        memory_id = MemoryId(str(number))
        texts[memory_id] = " ".join(f"t{number}x{index}" for index in range(length))
        said += texts[memory_id].split()
        context = Context(
            "c",
            tokens=context.tokens + length,
            whispers=context.whispers,
            pending=(*context.pending, memory_id),
            skipped=context.skipped,
        )
        count = context.due(size)
        found = portions(context, texts, size, count)
        assert [len(text.split()) for text, _ in found] == [size] * count
        whispered += [token for text, _ in found for token in text.split()]
        context = covered(context, texts, size, count)
        assert context.due(size) == 0
    assert whispered == said[: len(said) // size * size]
