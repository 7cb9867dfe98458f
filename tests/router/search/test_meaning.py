"""Finding memories by meaning: vectors behind the store, one list out of words and vectors, nobody else's memories."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from hashlib import sha256
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.adapters.embed import wordllama
from kingly_memory.adapters.embed.wordllama import WordLlamaEmbedder
from kingly_memory.adapters.local.reader import Reader
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.app.opening import MemoryRouter
from kingly_memory.errors import InvalidSetting
from kingly_memory.ids import MemoryId
from kingly_memory.models import Memory, MemoryStatus, Query, Results
from kingly_memory.ports import Embedder, Row, Vector
from kingly_memory.router.search.local import LocalAnswer, LocalSearch
from kingly_memory.router.search.meaning import LEAST_OF_WORDS, Near, VectorSearch, blended, levels
from kingly_memory.settings import Settings
from kingly_memory.testing import ManualClock
from kingly_memory.text.passages import MEANT
from tests.cli_runner import Run
from tests.router_bench import CALM, PromptStore, router_over
from tests.store_samples import behind, memory, put, soon

ROOT = Path(__file__).parents[3]
SUBJECTS = ({"cat", "kitten", "feline"}, {"ship", "vessel", "boat"}, {"invoice", "bill"}, {"rain", "drizzle"})
PATIENT = replace(CALM, local_search_s=30.0)
"""A busy machine finds the same."""
BRIEF = replace(PATIENT, lifetimes=replace(PATIENT.lifetimes, semantic=60.0, working=20.0))

shares = st.floats(0, 1)
lists = st.dictionaries(st.sampled_from("abcdefgh"), shares)


class SubjectEmbedder(Embedder):
    """Knows a few subjects: words of one mean the same, and others nothing."""

    name = "subjects"
    dimensions = len(SUBJECTS)

    def __init__(self) -> None:
        self.embedded: list[str] = []
        self.go = threading.Event()
        self.go.set()

    def embed(self, texts: Sequence[str], *, is_question: bool = False) -> list[list[float]]:
        self.go.wait()
        self.embedded += texts
        return [self._vector({word.strip(".?").lower() for word in text.split()}) for text in texts]

    def _vector(self, words: set[str]) -> list[float]:
        hits = [float(bool(words & subject)) for subject in SUBJECTS]
        length = sum(hits) ** 0.5 or 1.0
        return [hit / length for hit in hits]


@asynccontextmanager
async def opened(
    home: Path,
    meaning: Callable[[], Embedder] | None = SubjectEmbedder,
    *,
    project: str = "app",
    settings: Settings = PATIENT,
    clock: ManualClock | None = None,
) -> AsyncIterator[MemoryRouter]:
    made = router_over(
        PromptStore(home), None, clock or ManualClock(), settings=settings, project=project, meaning=meaning
    )
    async with made:
        yield made


def keys(results: Results) -> list[str | None]:
    return [hit.memory.key for hit in results]


async def fill(memory: MemoryRouter) -> None:
    """Enough of other subjects that no mean hides one of them."""
    for number in range(6):
        await memory.store(f"The {min(SUBJECTS[2 + number % 2])} of day {number}", key=f"other{number}")


async def test_a_memory_is_found_by_what_it_means_when_no_word_is_shared(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await fill(memory)
        await memory.store("The kitten sleeps upstairs", key="kitten")
        assert await memory.await_vectors()
        [hit] = await memory.search("feline")
        assert hit.memory.key == "kitten"
        assert hit.scores.keys() == {"vectors"}
        assert 0 < hit.relevance <= 1 - CALM.words_weight * LEAST_OF_WORDS


@pytest.mark.requirement("N4")
async def test_a_long_text_is_found_and_shown_by_the_passage_that_means_what_was_asked(tmp_path: Path) -> None:
    """At 64 kB, where the mean of the whole text would say nothing of one sentence."""
    rain, ships = "It began to drizzle again. " * 600, "The boat was painted once more. " * 600
    async with opened(tmp_path) as memory:
        await fill(memory)
        await memory.store(f"{rain}\n\nThe kitten sleeps upstairs.\n\n{ships}{rain}", key="diary", significance=0.2)
        assert await memory.await_vectors()
        found = await memory.search("feline", detail="passages")
    [hit] = found
    assert hit.memory.key == "diary"
    assert "The kitten sleeps upstairs." in (found.shown[hit.memory.id].text or "")


@pytest.mark.requirement("N4")
async def test_one_of_several_facts_in_a_text_is_found_by_its_meaning_and_the_text_is_shown_whole(
    tmp_path: Path,
) -> None:
    """A vector of all of them would be half as near."""
    rain, ships = "It began to drizzle again. " * 15, "The boat was painted once more. " * 12
    embedder = SubjectEmbedder()
    async with opened(tmp_path, lambda: embedder) as memory:
        await fill(memory)
        await memory.store(f"{rain}\n\nThe kitten sleeps upstairs.\n\n{ships}", key="diary", significance=0.2)
        assert await memory.await_vectors()
        assert max(map(len, embedder.embedded)) <= MEANT
        [hit] = await memory.search("feline")
    assert hit.memory.key == "diary"
    assert hit.scores.keys() == {"vectors"}


@pytest.mark.requirement("ARG-047")
async def test_terms_and_acronyms_that_vectors_know_nothing_of_are_found_first(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await fill(memory)
        await memory.store("SLA breach on the vessel queue", key="sla")
        await memory.store("Every boat was late", key="boat")
        await memory.await_vectors()
        found = await memory.search("SLA breach of a ship")
        assert keys(found) == ["sla", "boat"]
        assert {"words", "vectors", "bm25"} <= found[0].scores.keys()
        assert found[1].scores.keys() == {"vectors"}


async def test_a_store_waits_for_no_vector_and_is_found_by_its_words_at_once(tmp_path: Path) -> None:
    embedder = SubjectEmbedder()
    async with opened(tmp_path, lambda: embedder) as memory:
        embedder.go.clear()
        await memory.store("The kitten sleeps", key="kitten")
        assert keys(await memory.search("kitten")) == ["kitten"]
        embedder.go.set()


async def test_what_was_stored_without_vectors_gets_them_later_and_once(tmp_path: Path) -> None:
    async with opened(tmp_path, None) as memory:
        assert not await memory.await_vectors()
        assert "vectors" not in (await memory.status())
        await fill(memory)
        await memory.store("The kitten sleeps", key="kitten")
        assert not await memory.search("feline")
    async with opened(tmp_path) as memory:
        await memory.await_vectors()
        assert keys(await memory.search("feline")) == ["kitten"]
        assert (await memory.status())["vectors"] == {"embedder": "subjects", "read": 7, "waiting": 0}
    embedder = SubjectEmbedder()
    async with opened(tmp_path, lambda: embedder) as memory:
        await memory.await_vectors()
        assert keys(await memory.search("feline")) == ["kitten"]
    assert embedder.embedded == ["feline"]


async def test_a_revised_memory_is_found_by_its_new_meaning_only(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await fill(memory)
        await memory.store("The kitten sleeps", key="note")
        await memory.await_vectors()
        await memory.store("The vessel sails", key="note")
        assert not await memory.search("feline")
        await memory.await_vectors()
        assert not await memory.search("feline")
        assert keys(await memory.search("boat")) == ["note"]


@pytest.mark.parametrize("by_words", [True, False])
async def test_a_memory_revised_by_a_process_without_vectors_is_never_shown_for_what_it_was(
    tmp_path: Path, by_words: bool
) -> None:
    async with opened(tmp_path) as memory:
        await fill(memory)
        await memory.store("The kitten sleeps", key="note")
        await memory.await_vectors()
        async with opened(tmp_path, None) as other:
            await other.store("The vessel sails", key="note")
        if by_words:
            assert keys(await memory.search("sails")) == ["note"]
        assert not await memory.search("feline")
        await memory.await_vectors()
        assert keys(await memory.search("boat")) == ["note"]


async def test_what_another_process_has_revised_is_seen_by_who_had_read_the_vector_before(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory, opened(tmp_path) as other:
        await fill(memory)
        await memory.store("The kitten sleeps", key="note")  # its vector is the last row of the store
        await memory.await_vectors()
        await other.await_vectors()
        assert keys(await other.search("feline")) == ["note"]
        await memory.store("The vessel sails", key="note")
        await memory.await_vectors()
        assert keys(await other.search("boat")) == ["note"]
        assert not await other.search("feline")


async def test_forgotten_memories_are_not_found_by_meaning_and_ended_ones_behind_others(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock=clock, settings=BRIEF) as memory:
        await fill(memory)
        await memory.store("The kitten sleeps", key="kept", ttl=60)
        await memory.store("The feline purrs", key="forgotten")
        await memory.store("The cat hides", key="expired", type="working")
        await memory.await_vectors()
        assert set(keys(await memory.search("kittens cat"))) == {"kept", "forgotten", "expired"}
        await memory.forget("forgotten")
        await clock.advance(40)
        assert keys(await memory.search("cat")) == ["kept"]
        await clock.advance(40)
        for _ in range(2):
            assert [(hit.memory.key, hit.archived) for hit in await memory.search("cat")] == [("kept", True)]
            await memory.sweep()
        assert keys(await memory.search("cat", include_archived=True)) == ["kept"]


async def test_filters_hold_for_what_vectors_find(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await fill(memory)
        await memory.store("The kitten sleeps", key="tagged", tags=["pets"], type="episodic")
        await memory.store("The cat hides", key="plain")
        await memory.await_vectors()
        assert keys(await memory.search("feline", tags=["pets"])) == ["tagged"]
        assert keys(await memory.search("feline", types=["semantic"])) == ["plain"]


@pytest.mark.parametrize("reads_first", [True, False])
async def test_memories_of_another_project_are_never_shown(tmp_path: Path, reads_first: bool) -> None:
    async with opened(tmp_path, project="theirs") as theirs, opened(tmp_path) as ours:
        if reads_first:
            await ours.await_vectors()
        await fill(theirs)
        await theirs.store("The kitten sleeps", key="kitten")
        await theirs.await_vectors()
        await ours.store("A rain of bills", key="ours")
        await ours.await_vectors()
        assert keys(await theirs.search("feline")) == ["kitten"]
        assert not await ours.search("feline")
        assert (await ours.status())["vectors"]["read"] == 1


@pytest.mark.parametrize("odd", ["levels = NULL", "levels = 'text'", "levels = x'00'", "revision = 'x'"])
async def test_a_row_that_is_no_vector_of_ours_is_passed_over(tmp_path: Path, odd: str) -> None:
    store = DiskStore(tmp_path, durability="process")
    strange = memory("The cat hides", "app")
    vector = levels(SubjectEmbedder().embed([strange.content])[0])
    store.write(lambda transaction: transaction.set_vector("subjects", strange, vector)).result()
    with behind(tmp_path) as connection:
        connection.execute(f"UPDATE km_vector SET {odd}")  # noqa: S608
    store.close()
    async with opened(tmp_path) as router:
        await fill(router)
        await router.store("The kitten sleeps", key="kitten")
        await router.await_vectors()
        assert keys(await router.search("feline")) == ["kitten"]


async def test_an_embedder_that_fails_leaves_the_words_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, asked = ManualClock(), list[int]()

    def broken() -> Embedder:
        asked.append(1)
        raise InvalidSetting("embedder", "the table is gone")

    async with opened(tmp_path, broken, clock=clock) as memory, asyncio.timeout(60):
        await memory.store("The kitten sleeps", key="kitten")
        while len(asked) < 4:  # when it opens, and in three rounds, of which the first two are over
            await clock.advance(6)
        assert keys(await memory.search("kitten")) == ["kitten"]
    assert sum("the table is gone" in one.message for one in caplog.records) == 1


async def test_without_any_vector_the_answer_is_that_of_the_words(tmp_path: Path) -> None:
    async with opened(tmp_path, None) as plain:
        await fill(plain)
        for text in ("The kitten sleeps", "A kitten plays", "Rain on the vessel"):
            await plain.store(text)
        expected = [hit.to_json() for hit in await plain.search("kitten in the rain")]
    embedder = SubjectEmbedder()
    embedder.go.clear()
    async with opened(tmp_path, lambda: embedder) as memory:
        assert [hit.to_json() for hit in await memory.search("kitten in the rain")] == expected
        embedder.go.set()


@pytest.mark.requirement("ARG-014")
async def test_a_least_similarity_leaves_out_what_only_the_vectors_found(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await fill(memory)
        await memory.store("The kitten and the vessel and the bill", key="mixed")
        await memory.store("The kitten sleeps", key="kitten")
        await memory.await_vectors()
        assert set(keys(await memory.search("feline"))) == {"mixed", "kitten"}
        found = await memory.search("feline", mode="similarity", min_similarity=0.9)
        assert keys(found) == ["kitten"]
        assert found.excluded == {"low_similarity": 1}


@given(lists, lists, st.sets(st.sampled_from("abcdefgh")), shares)
def test_blending_drops_no_candidate_and_stays_within_0_and_1(
    worded: dict[str, float], near: dict[str, float], missing: set[str], weight: float
) -> None:
    without = frozenset(missing & worded.keys())
    known = {one: similarity for one, similarity in near.items() if one not in without}
    worth = blended(worded, known, without, words_weight=weight, floor=Embedder.floor)
    assert worth.keys() == worded.keys() | {one for one, similarity in known.items() if similarity >= Embedder.floor}
    assert all(0 <= relevance <= 1 for relevance in worth.values())
    again = blended(
        dict(reversed(worded.items())),
        dict(reversed(known.items())),
        without,
        words_weight=weight,
        floor=Embedder.floor,
    )
    assert again == worth


@given(lists, lists, st.sampled_from("abcdefgh"), shares)
def test_more_words_or_a_nearer_meaning_never_cost_relevance(
    worded: dict[str, float], near: dict[str, float], one: str, more: float
) -> None:
    before = blended(worded, near, frozenset(), words_weight=0.7, floor=Embedder.floor).get(one, 0.0)
    by_words = {**worded, one: max(worded.get(one, 0.0), more)}
    by_meaning = {**near, one: max(near.get(one, 0.0), more)}
    assert blended(by_words, near, frozenset(), words_weight=0.7, floor=Embedder.floor)[one] >= before
    assert blended(worded, by_meaning, frozenset(), words_weight=0.7, floor=Embedder.floor).get(one, 0.0) >= before


@pytest.mark.requirement("N13")
def test_the_less_of_a_question_words_hold_the_more_meaning_counts() -> None:
    def worth(held: float) -> dict[str, float]:
        return blended({"by chance": held}, {"meant": 0.6, "by chance": 0.0}, frozenset(), words_weight=0.7, floor=0.15)

    chance, half = worth(0.2), worth(0.5)
    assert chance["meant"] > chance["by chance"]
    assert half["by chance"] > half["meant"]
    assert half["by chance"] == pytest.approx(0.7 * 0.5)
    assert worth(0.0)["meant"] == pytest.approx((1 - 0.7 * 0.4) * 0.6)


# --- wordllama --------------------------------------------------------------------------------------------------------


def in_another_process(script: str, **environment: str) -> str:
    told = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    run = subprocess.run([sys.executable, "-c", script], env=told, capture_output=True, text=True, check=True)
    return run.stdout.strip()


@pytest.mark.requirement("UNI-007")
def test_vectors_are_the_same_in_processes_with_different_hash_seeds() -> None:
    texts = ["The deploy was rolled back", "naïve façade", "x" * 9_000 + " words", "\ud800 lone", ""]
    script = (
        "from kingly_memory.adapters.embed.wordllama import WordLlamaEmbedder\n"
        f"print([[one.hex() for one in vector] for vector in WordLlamaEmbedder().embed({texts!r})])"
    )
    assert in_another_process(script, PYTHONHASHSEED="1") == in_another_process(script, PYTHONHASHSEED="2")


def test_a_text_keeps_the_vector_that_the_name_of_the_embedder_stands_for() -> None:
    texts = ["The deployment was rolled back", "naïve façade, 42 % off", "undoing <s>failed</s> rollouts\n"]
    texts += ["\ud800 lone words", "部署 and data", "x" * 9_000 + " words", "zxqv"]
    kept = b"".join(map(levels, table().embed(texts)))
    assert table().name == "wordllama1-256"
    assert sha256(kept).hexdigest() == "86da025b29a3ec2677414ca5ee305343d800ba1665983b590559947f25ba5c7a"


def test_the_package_is_read_and_not_imported_so_that_a_hosts_logging_stays() -> None:
    script = (
        "import logging, sys\n"
        "from kingly_memory.adapters.embed.wordllama import WordLlamaEmbedder\n"
        "WordLlamaEmbedder().embed(['the deploy'])\n"
        "print(logging.getLogger().handlers, logging.getLogger().level, 'wordllama' in sys.modules)"
    )
    assert in_another_process(script) == f"[] {logging.WARNING} False"


@given(st.lists(st.text(st.characters(codec=None), max_size=40), max_size=3))
def test_every_text_has_a_vector_of_unit_length_or_of_nothing(texts: list[str]) -> None:
    embedder = table()
    vectors = embedder.embed(texts)
    assert [len(vector) for vector in vectors] == [embedder.dimensions] * len(texts)
    assert all(not any(vector) or math.isclose(math.hypot(*vector), 1.0) for vector in vectors)
    assert vectors == [embedder.embed([text])[0] for text in texts]


@pytest.mark.parametrize("text", ["", "zxqv blorpt", "?!", "12345", "部署回滚", "the of and", "e3b0c44298fc1c14"])
def test_a_text_without_a_known_word_means_nothing(text: str) -> None:
    assert not any(table().embed([text])[0])


@pytest.mark.parametrize(
    ("question", "near", "far"),
    [
        ("undo the release", "the deployment was rolled back", "lunch was a cheese sandwich"),
        ("the physician was ill", "our doctor got sick", "the build server ran out of disk"),
    ],
)
def test_what_means_alike_is_nearer_than_other_subjects(question: str, near: str, far: str) -> None:
    asked, one, other = table().embed([question, near, far])

    def cosine(vector: list[float]) -> float:
        return sum(a * b for a, b in zip(asked, vector, strict=True))

    assert cosine(one) > cosine(other) + 0.1


_TABLES: list[WordLlamaEmbedder] = []


def table() -> WordLlamaEmbedder:
    """Loaded once."""
    if not _TABLES:
        _TABLES.append(WordLlamaEmbedder())
    return _TABLES[0]


def test_an_embedder_that_is_named_and_not_installed_is_said_at_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wordllama, "PACKAGE", "no_such_package_here")
    named = replace(CALM, embedder="wordllama")
    with pytest.raises(InvalidSetting, match=r"install kingly-memory\[semantic\]"):
        MemoryRouter.open(tmp_path, settings=named)


def test_doctor_says_that_the_embedder_that_is_named_is_missing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:

    def said() -> tuple[str, str | None]:
        [one] = [one for one in run("doctor", "--json").json["findings"] if one["about"] == "vectors"]
        return one["level"], one["what"]

    assert said() == ("ok", "memories are found by their words alone, as KINGLY_EMBEDDER says")
    monkeypatch.setenv("KINGLY_EMBEDDER", "wordllama")
    assert said() == ("ok", "routers and `search` find memories by meaning too, with wordllama; hooks by words")
    monkeypatch.setattr(wordllama, "PACKAGE", "no_such_package_here")
    level, what = said()
    assert level == "problem"
    assert what is not None
    assert "install kingly-memory[semantic]" in what


@pytest.mark.parametrize(("installed", "embedder"), [(True, "none"), (False, "auto")])
async def test_without_an_embedder_words_alone_are_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool, embedder: str
) -> None:
    if not installed:
        monkeypatch.setattr(wordllama, "PACKAGE", "no_such_package_here")
    async with MemoryRouter.open(tmp_path, settings=replace(CALM, embedder=embedder)) as memory:
        assert not await memory.await_vectors()


async def test_memories_that_another_process_stores_are_found_by_meaning_here(tmp_path: Path) -> None:
    settings = replace(PATIENT, embedder="auto")
    async with MemoryRouter.open(tmp_path, False, project="app", settings=settings) as memory:
        await memory.store("Lunch was a cheese sandwich", key="lunch")
        await memory.await_vectors()
        script = (
            "from kingly_memory import SyncMemoryRouter\n"
            f"with SyncMemoryRouter.open({str(tmp_path)!r}, False, project='app') as memory:\n"
            "    memory.store('The deployment was rolled back', key='theirs')\n"
            "    assert memory.await_vectors()\n"
        )
        in_another_process(script, KINGLY_EMBEDDER="auto")
        found = await memory.search("undo releases")
        assert keys(found) == ["theirs"]
        assert not await memory.search("zxqv blorpt")


async def test_closing_while_vectors_are_made_leaves_the_rest_for_later(tmp_path: Path) -> None:
    async with opened(tmp_path, None) as memory:
        for number in range(100):
            await memory.store(f"The kitten of day {number}")
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    class SlowStart(SubjectEmbedder):
        def embed(self, texts: Sequence[str], *, is_question: bool = False) -> list[list[float]]:
            loop.call_soon_threadsafe(started.set)
            return super().embed(texts)

    clock = ManualClock()
    async with opened(tmp_path, SlowStart, clock=clock) as memory:
        await clock.advance(1)
        await started.wait()
    embedder = SubjectEmbedder()
    async with opened(tmp_path, lambda: embedder) as memory:
        await memory.await_vectors()
        assert (await memory.status())["vectors"] == {"embedder": "subjects", "read": 100, "waiting": 0}
    assert len(embedder.embedded) < 100


# --- reading on -------------------------------------------------------------------------------------------------------


def stored(store: DiskStore, text: str) -> Memory:
    """A memory with its vector."""
    one = memory(text, "app")
    vector = levels(SubjectEmbedder().embed([text])[0])
    put(store, one)
    store.write(lambda transaction: transaction.set_vector("subjects", one, vector)).result()
    return one


def test_a_look_behind_the_deadline_finds_nothing_and_says_so(tmp_path: Path) -> None:
    with closing(DiskStore(tmp_path, durability="process")) as store:
        stored(store, "The bill of that day")
        vectors = store.reader.vectors
        assert vectors.made("subjects", "app", 0, 10_000, deadline_s=0.0) is None
        assert vectors.lacking("subjects", "app", 0, 10, deadline_s=0.0) is None
        assert vectors.lacking_count("subjects", "app", deadline_s=0.0) is None
        assert vectors.lacking("subjects", "app", 0, 10) == []


def test_a_vector_that_is_made_after_others_are_gone_is_read(tmp_path: Path) -> None:
    with closing(DiskStore(tmp_path, durability="process")) as store:
        vectors = VectorSearch("app", SubjectEmbedder, store.reader.vectors)
        stored(store, "A boat")
        assert vectors.load()
        bills = [stored(store, f"The bill of day {number}") for number in range(3)]
        assert vectors.load()
        for one in reversed(bills):
            store.write(methodcaller("erase", one.id)).result()
        kittens = [stored(store, f"The kitten of day {number}") for number in range(3)]
        assert vectors.load()
        found = vectors.near(vectors.asked("feline"), 10, (), time.monotonic() + 60)
        assert isinstance(found, Near)
        assert {one.id for one in kittens} <= found.similarities.keys()


async def test_what_another_process_revises_gets_a_new_vector_at_the_next_look(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory, opened(tmp_path, None) as other:
        stored = await memory.store("The cat hides", key="k")
        await memory.await_vectors()
        await other.update("k", content="The boat sails")
        embedding = memory._engine.embedding
        assert embedding is not None
        await embedding._catch_up()
        assert memory._engine.reader.vectors.made_of("subjects", [stored.id]) == {stored.id: 2}


async def test_in_a_store_that_was_put_together_anew_all_vectors_are_made_and_read_anew(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await fill(memory)
        for number in range(3):  # each of these vectors gets a place of its own
            await memory.store(f"The bill of day {number}", key="revised")
            await memory.await_vectors()
        with behind(tmp_path) as connection:
            connection.execute("DELETE FROM km_vector")
            connection.execute("DELETE FROM sqlite_sequence WHERE name = 'km_vector'")
            connection.execute("UPDATE km_facet SET value = '{}' WHERE name = 'home'")
        embedding = memory._engine.embedding
        assert embedding is not None
        await embedding._catch_up()
        await memory.store("The kitten sleeps", key="kitten")
        await embedding._catch_up()
        assert keys(await memory.search("feline")) == ["kitten"]


def test_a_newer_vector_that_was_read_meanwhile_is_not_dropped(tmp_path: Path) -> None:
    store = DiskStore(tmp_path, durability="process")
    vectors = VectorSearch("app", SubjectEmbedder, store.reader.vectors)
    [row] = [Row(1, replace(memory("The kitten sleeps", "app"), revision=2), MemoryStatus.LIVE)]
    vectors.add([row])
    vectors.drop({row.memory.id: 1, "unknown": 1})
    assert len(vectors) == 1
    vectors.drop({row.memory.id: 2})
    assert len(vectors) == 0
    store.close()


class Pages:
    """Vectors that were made in that many changes, and how often they were read."""

    def __init__(self) -> None:
        self.last, self.reads = 1, 0

    def made(self, embedder: str, space: str, after: int, limit: int, deadline_s: float) -> list[Vector]:
        self.reads += 1
        return [
            Vector(at, MemoryId(f"memory {at}"), 1, levels([1.0] * len(SUBJECTS)))
            for at in range(after + 1, self.last + 1)
        ]


def test_new_vectors_are_read_where_the_project_has_changed_since() -> None:
    pages: Any = Pages()
    vectors = VectorSearch("app", SubjectEmbedder, pages)

    def near(last_change: int | None) -> int:
        found = vectors.near(vectors.asked("cat"), 10, (), soon(), last_change)
        assert isinstance(found, Near)
        return len(vectors)

    assert (near(1), near(1), pages.reads) == (1, 1, 1)
    pages.last = 2
    assert (near(2), near(2), pages.reads) == (2, 2, 2)
    assert (near(None), pages.reads) == (2, 3)
    vectors.begin_anew()
    pages.last = 1
    assert (near(1), pages.reads) == (2, 4)


# --- what is erased leaves nothing behind -----------------------------------------------------------------------------


async def test_whoever_erases_a_memory_erases_its_vectors_too_in_the_same_transaction(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock=clock, settings=BRIEF) as router:
        receipt = await router.store("The cat hides", type="working")
        await router.await_vectors()
    store = DiskStore(tmp_path, durability="process")
    older = memory("The cat hides", "app", id=receipt.id)
    store.write(lambda transaction: transaction.set_vector("older", older, b"")).result()
    assert store.reader.vectors.made_of("subjects", [receipt.id]) == {receipt.id: 1}
    store.close()
    async with opened(tmp_path, None, clock=clock, settings=BRIEF) as without:
        await clock.advance(40)
        assert (await without.sweep()).erased == 1
    store = DiskStore(tmp_path, durability="process")
    for embedder in ("subjects", "older"):
        assert store.reader.vectors.made_of(embedder, [receipt.id]) == {}
    store.close()


# --- the start --------------------------------------------------------------------------------------------------------


async def test_the_first_search_waits_for_the_vectors_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words_are_done = threading.Event()
    search = LocalSearch.search

    def searched(words: LocalSearch, query: Query, **how: Any) -> LocalAnswer:
        found = search(words, query, **how)
        words_are_done.set()
        return found

    def late() -> Embedder:
        words_are_done.wait()
        return SubjectEmbedder()

    async with opened(tmp_path) as memory:
        await fill(memory)
        await memory.store("The kitten sleeps", key="kitten")
        await memory.await_vectors()
    monkeypatch.setattr(LocalSearch, "search", searched)
    async with opened(tmp_path, late) as memory:
        found = await memory.search("feline")
        assert keys(found) == ["kitten"]
        assert found.failures == {}


async def test_a_search_that_had_to_go_without_vectors_says_so(tmp_path: Path) -> None:
    go = threading.Event()

    def slow() -> Embedder:
        go.wait()
        return SubjectEmbedder()

    async with opened(tmp_path) as memory:
        await fill(memory)
        await memory.store("The kitten sleeps", key="kitten")
        await memory.await_vectors()
    async with opened(tmp_path, slow, settings=replace(CALM, local_search_s=0.01)) as memory:
        found = await memory.search("kitten", mode="similarity")
        assert keys(found) == ["kitten"]
        assert "still being read" in found.to_json()["failures"]["vectors"]
        go.set()


async def test_a_search_says_why_there_are_no_vectors_at_all(tmp_path: Path) -> None:
    def broken() -> Embedder:
        raise InvalidSetting("embedder", "the table is gone")

    async with opened(tmp_path, broken) as memory:
        await memory.store("The kitten sleeps", key="kitten")
        found = await memory.search("kitten")
        assert keys(found) == ["kitten"]
        assert "the table is gone" in found.failures["vectors"]


async def test_status_says_what_it_does_not_know_yet(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await memory.store("The kitten sleeps")
        assert (await memory.status())["vectors"] == {"embedder": "subjects", "read": 0, "waiting": None}
        await memory.await_vectors()
        assert (await memory.status())["vectors"] == {"embedder": "subjects", "read": 1, "waiting": 0}
        await memory.store("The cat hides")
        await memory.await_vectors()
        assert (await memory.status())["vectors"] == {"embedder": "subjects", "read": 2, "waiting": 0}


async def test_waiting_for_vectors_ends_with_the_patience_for_it(tmp_path: Path) -> None:
    embedder = SubjectEmbedder()
    async with opened(tmp_path, lambda: embedder) as memory:
        embedder.go.clear()
        await memory.store("The kitten sleeps")
        assert not await memory.await_vectors(timeout=0.01)
        embedder.go.set()
        assert await memory.await_vectors(timeout=30)


# --- what is asked ----------------------------------------------------------------------------------------------------


async def test_vectors_are_asked_what_was_meant_and_not_what_was_mistyped(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await fill(memory)
        await memory.store("The kitten sleeps", key="kitten")
        await memory.store("The cat hides", key="cat")
        await memory.await_vectors()
        found = await memory.search("kiten")
        assert found.repaired == {"kiten": "kitten"}
        assert set(keys(found)) == {"kitten", "cat"}


async def test_what_cannot_come_among_the_hits_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    read = Reader.rows

    def counted(reader: Reader, memory_ids: Sequence[str], deadline_s: float) -> dict[str, Row | None]:
        asked.extend(memory_ids)
        return read(reader, memory_ids, deadline_s)

    monkeypatch.setattr(Reader, "rows", counted)
    async with opened(tmp_path) as memory:
        await fill(memory)
        for number in range(30):
            await memory.store(f"The kitten of day {number}")
            await memory.store(f"A cat of night {number}")
        await memory.await_vectors()
        assert len(await memory.search("kitten", limit=20)) == 20
        assert asked == []
        assert len(await memory.search("feline", limit=20)) == 20
        assert 20 <= len(asked) < 30


async def test_a_confidence_is_the_same_whether_vectors_are_there_or_not(tmp_path: Path) -> None:
    async def assessed(home: Path, meaning: Callable[[], Embedder] | None) -> float:
        async with opened(home, meaning) as memory:
            await memory.record_task_outcome("load the vessel", status="failed", reason="it was raining")
            await memory.record_task_outcome("load the boat in the harbour", status="completed")
            await memory.record_task_outcome("feed the cat", status="completed")
            await memory.await_vectors()
            return (await memory.assess_confidence("load the ship in the harbour")).confidence

    assert await assessed(tmp_path / "with", SubjectEmbedder) == await assessed(tmp_path / "without", None)


@pytest.mark.parametrize("how", [(), ("--no-semantic",), ("--mode", "similarity")])
def test_the_command_search_finds_by_meaning_what_no_router_has_made_vectors_of(
    run: Run, monkeypatch: pytest.MonkeyPatch, how: tuple[str, ...]
) -> None:
    monkeypatch.setenv("KINGLY_LOCAL_SEARCH_S", "30")
    monkeypatch.setattr("kingly_memory.app.meaning.PATIENCE_S", 30.0)
    monkeypatch.setattr("kingly_memory.cli.place.VECTORS_WAIT_S", 30.0)
    run("store", "The deployment was rolled back")
    run("store", "Lunch was a cheese sandwich")
    assert run("search", "undo releases", "--json").json["hits"] == []
    monkeypatch.setenv("KINGLY_EMBEDDER", "auto")
    [hit] = run("search", "undo releases", "--json", *how).json["hits"]
    assert hit["content"] == "The deployment was rolled back"
    assert run("search", "undo releases", "--json", "--prefer-speed").json["hits"] == []


def test_a_command_that_has_no_time_for_all_vectors_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("store", "The deployment was rolled back")
    monkeypatch.setenv("KINGLY_EMBEDDER", "auto")
    monkeypatch.setattr("kingly_memory.app.meaning.PATIENCE_S", 0.0)
    ran = run("search", "deployment incident postmortem")
    assert "rolled back" in ran.out
    assert "vectors did not answer" in ran.out


def test_a_command_whose_question_is_answered_by_words_loads_no_model(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("store", "The deployment was rolled back")
    monkeypatch.setenv("KINGLY_EMBEDDER", "auto")
    monkeypatch.setattr("kingly_memory.app.meaning.by_meaning", None)
    [hit] = run("search", "who rolled the deploymnet back", "--json").json["hits"]
    assert hit["content"] == "The deployment was rolled back"


def test_the_command_status_says_how_many_memories_have_no_vector_yet(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("store", "The deployment was rolled back")
    assert "vectors" not in run("status", "--json").json
    monkeypatch.setenv("KINGLY_EMBEDDER", "auto")
    monkeypatch.setattr("kingly_memory.app.meaning.COUNTING_S", 30.0)
    assert run("status", "--json").json["vectors"] == {"embedder": wordllama.NAME, "waiting": 1}
    assert "1 memory without one" in run("status").out
    monkeypatch.setattr("kingly_memory.app.meaning.COUNTING_S", 0.0)
    assert run("status", "--json").json["vectors"]["waiting"] is None


async def test_what_makes_vectors_is_loaded_when_a_router_is_opened_and_not_during_its_first_search(
    tmp_path: Path,
) -> None:
    made: list[Embedder] = []

    def embedder() -> Embedder:
        made.append(SubjectEmbedder())
        return made[-1]

    async with opened(tmp_path, embedder):
        assert len(made) == 1


@pytest.mark.requirement("N30")
async def test_a_second_router_finds_a_hit_as_relevant_as_the_first(tmp_path: Path) -> None:
    async with opened(tmp_path) as first:
        await fill(first)
        await first.store("The kitten sleeps upstairs", key="kitten")
        await first.await_vectors()
        async with opened(tmp_path) as second:
            await second.await_vectors()
            for question in ("kitten", "where does the kitten sleep", "feline"):
                hits = [(await memory.search(question))[0] for memory in (first, second)]
                assert hits[0].relevance == hits[1].relevance
                assert hits[0].scores.keys() == hits[1].scores.keys()
