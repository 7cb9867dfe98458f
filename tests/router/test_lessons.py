"""Learning a text: a summary that is found, the whole text kept, and nothing in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.errors import InvalidInput
from kingly_memory.testing import FakeRemote, ManualClock, ScriptedLanguageModel
from tests.chat_server import chatting, reply, said
from tests.router_bench import PromptStore, delivered, router_over

TEXT = (
    "We deployed the api on Friday evening. It was sunny and the coffee was cold. The migration has 3 steps. "
    "We must run the migrations before the deploy. Somebody told a joke about ducks. The rollback took 12 minutes."
)


@pytest.mark.requirement("ALM-074", "ALM-075")
async def test_the_summary_is_remembered_with_what_it_says(memory: MemoryRouter) -> None:
    lesson = await memory.compress_and_learn(TEXT, key="friday", tags=["deploy"], metadata={"ticket": 7})
    kept = await memory.get("friday")
    assert kept is not None
    assert (kept.id, kept.content, kept.type) == (lesson.memory_id, lesson.compressed.summary, "episodic")
    assert len(kept.content) < len(TEXT)
    assert kept.metadata["compression_ratio"] == round(len(kept.content) / len(TEXT), 4)
    assert kept.metadata["original_length"] == len(TEXT)
    assert "We must run the migrations before the deploy." in kept.metadata["constraints"]
    assert (kept.metadata["ticket"], kept.tags) == (7, ("deploy",))


async def test_the_whole_text_is_kept_and_searches_do_not_return_both(memory: MemoryRouter) -> None:
    lesson = await memory.compress_and_learn(TEXT)
    assert lesson.original_id is not None
    assert [hit.memory.id for hit in await memory.search("deploy migration rollback")] == [lesson.memory_id]
    assert len(await memory.search("joke about ducks", include_archived=True)) >= 1
    [link] = await memory.links(lesson.memory_id)
    assert (link.source, link.target, link.link_type) == (lesson.memory_id, lesson.original_id, "references")
    [entry] = (await memory.archived()).entries
    assert entry.memory.content == TEXT
    assert entry.why is not None
    assert (entry.why.policy, entry.why.summary) == ("compression", lesson.memory_id)
    restored = await memory.restore(lesson.original_id)
    assert restored is not None
    assert restored.content == TEXT


async def test_the_whole_text_never_leaves_this_machine(tmp_path: Path) -> None:
    clock, remote = ManualClock(), FakeRemote()
    async with router_over(PromptStore(tmp_path / "home"), remote, clock) as memory:
        lesson = await memory.compress_and_learn(TEXT, significance=0.9)
        await memory.sync()
        assert lesson.original_id is not None
        await memory.restore(lesson.original_id)
        await memory.sync()
        assert delivered(remote) == [lesson.compressed.summary]
        assert (await memory.status())["outbox"]["pending"] == 0
        assert "links" not in (await memory.status())


async def test_a_model_summarises_what_may_be_shown_to_it(memory: MemoryRouter) -> None:
    model = ScriptedLanguageModel("SUMMARY: Migrate before you deploy.\nKEY_FACTS:\n- The rollback took 12 minutes.")
    lesson = await memory.compress_and_learn(TEXT, "heuristic", language_model=model)
    assert (lesson.compressed.summary, lesson.to_json()["summary_by"]) == ("Migrate before you deploy.", "model")
    assert lesson.to_json()["key_facts"] == ["The rollback took 12 minutes."]
    private = await memory.compress_and_learn(TEXT, significance=0.3, language_model=model)
    assert len(model.prompts) == 1
    assert private.to_json()["summary_by"] == "rules"


async def test_the_model_of_the_environment_is_asked(memory: MemoryRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    with chatting(always=reply(said("SUMMARY: Migrate first."))) as server:
        monkeypatch.setenv("KINGLY_LLM_URL", server.url)
        monkeypatch.setenv("KINGLY_LLM_MODEL", "small")
        lesson = await memory.compress_and_learn(TEXT)
    assert lesson.compressed.summary == "Migrate first."


@pytest.mark.parametrize(
    ("said_of", "field"),
    [
        ({"content": ""}, "content"),
        ({"content": 7}, "content"),
        ({"memory_type": "gossip"}, "memory_type"),
        ({"memory_type": None}, "memory_type"),
        ({"level": "tiny"}, "level"),
        ({"significance": 2}, "significance"),
        ({"metadata": ["x"]}, "metadata"),
        ({"key": "x" * 600}, "key"),
    ],
)
async def test_what_cannot_be_learned_is_refused_before_a_model_is_asked(
    memory: MemoryRouter, said_of: dict[str, Any], field: str
) -> None:
    model = ScriptedLanguageModel()
    with pytest.raises(InvalidInput) as raised:
        await memory.compress_and_learn(**{"content": TEXT, "language_model": model, **said_of})
    assert raised.value.field == field
    assert (model.prompts, (await memory.status())["memories"]["total"], (await memory.archived()).entries) == (
        [],
        0,
        (),
    )
