"""A name is one name, however it is spelled and wherever it is said."""

from __future__ import annotations

import os
from pathlib import Path
from pwd import getpwuid
from unicodedata import normalize

import pytest

from kingly_memory import InvalidInput, MemoryRouter, Settings
from kingly_memory.adapters.local.folder import Folder
from kingly_memory.adapters.local.trusted import is_trusted
from kingly_memory.graph import Entity, Relation
from kingly_memory.home.own_files import named_path
from kingly_memory.home.place import Place, user_data_folder
from tests.cli_runner import Run, runner

TYPED, OF_A_FILE = (normalize(form, "Büro") for form in ("NFC", "NFD"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(capsys, monkeypatch)


@pytest.mark.requirement("N9")
@pytest.mark.parametrize("name", [OF_A_FILE.encode(), b"b\xfcro"], ids=["accents apart", "not UTF-8"])
def test_a_folder_of_any_name_is_a_project_that_finds_what_it_stored(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: bytes
) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    assert run("store", "tea at four", "--key", "tea").code == 0
    assert run("get", "tea", "--json").json["content"] == "tea at four"
    assert is_trusted(Folder(Place.resolve().home))
    [project] = run("projects", "list", "--json").json["list"]
    assert run("get", "tea", "--json", "--project", normalize("NFC", project["name"])).json["content"] == "tea at four"


async def test_keys_tags_and_users_are_found_however_they_are_typed(tmp_path: Path) -> None:
    async with MemoryRouter.open(tmp_path / "home", False, settings=Settings(durability="process")) as memory:
        await memory.scoped(user=TYPED).store("tea at four", key=TYPED, tags=[TYPED])
        theirs = memory.scoped(user=OF_A_FILE)
        assert (await theirs.store("tea at five", key=OF_A_FILE)).revision == 2
        found = await theirs.list(tags=[OF_A_FILE])
        assert [one.content for one in found] == ["tea at five"]
        assert [hit.scores for hit in await theirs.search(OF_A_FILE)] == [{"key": 1.0}]
        assert await theirs.forget(OF_A_FILE) is not None


async def test_a_name_that_is_no_text_is_refused_though_it_prints_accents(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="expected text, not list"):
        MemoryRouter.open(tmp_path / "home", False, project=[TYPED])  # type: ignore[arg-type]
    async with MemoryRouter.open(tmp_path / "home", False) as memory:
        with pytest.raises(InvalidInput, match="expected text, not list"):
            await memory.graph.create_entities([Entity([TYPED], "room")])  # type: ignore[arg-type]


async def test_an_entity_of_the_graph_is_one_however_its_name_is_typed(tmp_path: Path) -> None:
    async with MemoryRouter.open(tmp_path / "home", False, settings=Settings(durability="process")) as memory:
        await memory.graph.create_entities([Entity(OF_A_FILE, "room", ("has a door",))])
        assert await memory.graph.create_entities([Entity(TYPED, "room")]) == ()
        await memory.graph.add_observations([(OF_A_FILE, ["has a window"])])
        await memory.graph.create_relations([Relation(OF_A_FILE, "house", "is in")])
        assert await memory.graph.create_relations([Relation(TYPED, "house", "is in")]) == ()
        found = await memory.graph.open_nodes([OF_A_FILE])
        assert found.entities == (Entity(TYPED, "room", ("has a door", "has a window")),)
        await memory.graph.delete_entities([OF_A_FILE])
        assert await memory.graph.read() == ((), ())


def test_an_empty_home_variable_does_not_put_memories_into_the_root_of_the_file_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = Path(getpwuid(os.getuid()).pw_dir)
    assert user_data_folder({"HOME": ""}) == own / ".local" / "share" / "kingly"
    monkeypatch.setenv("HOME", "")
    assert named_path("home", "~/m") == own / "m"
    assert Place.resolve(environment={"KINGLY_HOME": "~/m"}).home == own / "m"
