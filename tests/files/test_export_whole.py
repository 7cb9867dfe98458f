"""An export that is imported elsewhere brings links, documents and logs along, and again nothing more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kingly_memory import SyncMemoryRouter
from kingly_memory.documents import DEEPEST, MOST_BYTES
from kingly_memory.validation import Imported, draft
from tests.cli_runner import Run
from tests.hub.machines import Team, texts


@pytest.mark.requirement("N6")
def test_links_documents_and_logs_come_along_and_a_repeat_changes_nothing(run: Run, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with SyncMemoryRouter.open(first, False, project="app") as memory:
        memory.store("Deploys need two reviews", key="deploy")
        memory.store("The reviewers are Ann and Bo", key="who")
        memory.link_memories("deploy", "who", "supports", 0.7, "names them")
        memory.forget(memory.store("gone").id)
        memory.link_memories("deploy", memory.store("will go", key="x").id, "related")
        memory.forget("x")
        memory.documents.put(("users", "a/b"), "profile", {"city": "Oslo", "né": [1, None, 2.5]})
        memory.documents.put("users", "brief", "soon over", ttl="7d")
        memory.log("chat").append(["a", {"b": 1}, "c"])
        memory.log("chat").pop()
    file = str(tmp_path / "all.jsonl")
    written = run("export", file, "--home", str(first), "--project", "app").out.splitlines()
    assert written == [f"2 memories written to {file}", "1 link", "4 documents and log items"]
    place = ("--home", str(second), "--project", "other", "--json")
    told = run("import", file, *place).json
    assert (told["stored"], told["links"], told["documents"], told["items"]) == (2, 1, 2, 2)
    again = run("import", file, *place).json
    assert again["stored"] == again["revised"] == 0
    assert not {"documents", "items"} & again.keys()
    with SyncMemoryRouter.open(second, False, project="other") as memory:
        [link] = memory.links("deploy")
        assert (link.link_type, link.strength, link.description) == ("supports", 0.7, "names them")
        assert memory.documents.get(("users", "a/b"), "profile").value == {"city": "Oslo", "né": [1, None, 2.5]}  # type: ignore[union-attr]
        assert memory.documents.get("users", "brief").expires_at is not None  # type: ignore[union-attr]
        assert memory.log("chat").last() == ["a", {"b": 1}]


@pytest.mark.requirement("N6")
def test_an_export_holds_all_users_of_the_project_and_an_import_gives_each_his_own(run: Run, tmp_path: Path) -> None:
    home, file = tmp_path / "home", str(tmp_path / "all.jsonl")
    with SyncMemoryRouter.open(home, False, project="app") as memory:
        memory.store("tea is served at four", key="k")
        memory.scoped(project="other", user="ann").store("is of another project")
        for user, likes in (("ann", "soup"), ("bob", "fish")):
            mine = memory.scoped(user=user)
            mine.store(f"likes {likes}", key="k", context_id="menu")
            mine.store(f"likes {likes} most", key="k")
            mine.store("asks for the bill early", key="bill")
            mine.store("asks for the bill early", context_id="lunch")
            mine.store("asks for the bill early", context_id="lunch")
            mine.link_memories("k", "bill")
            mine.documents.put("table", "number", likes)
            mine.log("chat").append([likes])
    here, there = ("--home", str(home), "--project", "app"), ("--home", str(tmp_path / "new"), "--project", "inn")
    assert run("export", file, *here, "--json").json["memories"] == 7
    run("import", file, *there, "--trust")
    told = run("import", file, *there, "--trust", "--json").json
    assert (told["unchanged"], told["users"], told["problems"]) == (7, ["ann", "bob"], [])
    run("export", str(tmp_path / "again.jsonl"), *there)
    assert (tmp_path / "again.jsonl").read_text() == (tmp_path / "all.jsonl").read_text().replace('"app"', '"inn"')
    with SyncMemoryRouter.open(tmp_path / "new", False, project="inn") as memory:
        assert [one.memory.content for one in memory.search("tea soup fish").hits] == ["tea is served at four"]
        for user, likes in (("ann", "soup"), ("bob", "fish")):
            mine = memory.scoped(user=user)
            assert [one.content for one in mine.history("k")] == [f"likes {likes} most", f"likes {likes}"]
            assert (len(mine.links("k")), mine.documents.get("table", "number").value) == (1, likes)  # type: ignore[union-attr]
            assert mine.log("chat").last() == [likes]
            assert max(one.sightings for one in mine.list()) == 2


async def test_what_is_imported_for_a_user_is_at_the_hub_for_that_user_alone(tmp_path: Path) -> None:
    team = Team(tmp_path)
    async with team.machine("laptop") as laptop:
        said = draft("Ann takes the ferry", significance=0.9)
        await laptop.remember([Imported(said, user="ann")])
        await laptop.sync(timeout=5)
    async with team.machine("phone") as phone:
        assert await texts(phone, "ferry") == []
        assert await texts(phone.scoped(user="ann"), "ferry") == ["Ann takes the ferry"]
    team.store.close()


@pytest.mark.requirement("N6")
def test_a_named_user_exports_what_is_his_and_imports_everything_as_his(run: Run, tmp_path: Path) -> None:
    file = str(tmp_path / "all.jsonl")
    run("store", "nobody's", "--key", "a")
    run("store", "Ann's", "--key", "b", "--user", "ann")
    assert run("export", file, "--user", "ann", "--json").json["memories"] == 1
    run("export", file := str(tmp_path / "whole.jsonl"))
    run("import", file, "--user", "bob", "--home", str(tmp_path / "new"))
    listed = run("list", "--user", "bob", "--home", str(tmp_path / "new"), "--json").json["memories"]
    assert sorted(one["key"] for one in listed) == ["a", "b"]
    told = run("export", str(tmp_path / "folder"), "--layout", "ai").err
    assert told == "kingly-memory: without 1 memory of 1 user; --user NAME writes those of one\n"


@pytest.mark.requirement("N10")
def test_what_was_purged_here_stays_away_and_its_links_are_left_out(run: Run, tmp_path: Path) -> None:
    file = str(tmp_path / "all.jsonl")
    for key in ("safe", "door", "gate"):
        run("store", f"the {key} is green", "--key", key)
    run("link", "door", "safe")
    run("link", "door", "gate")
    run("export", file)
    run("purge", "safe", "--yes")
    run("forget", "gate")
    told = run("import", file)
    assert (told.code, told.err) == (0, "")
    assert told.out.splitlines()[1:] == [
        "2 memories were forgotten or purged here before, and not brought back; `list --forgotten` shows which",
        "2 links left out: an end was forgotten or purged here",
    ]


def test_lines_that_make_no_link_document_or_item_are_named_and_passed(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    lines = (
        {"link": {"source": "a"}},
        {"link": {"source": "a", "target": "b", "link_type": "related"}},
        {"document": {"namespace": [], "key": "k", "value": 1}},
        {"document": {"namespace": ["n"], "value": 1}},
        {"log": "chat", "id": "1", "item": 1},
        {"log": "chat", "id": "1795741620123456.9f3a1c2e", "item": 1},
    )
    file.write_text("".join(json.dumps(one) + "\n" for one in lines))
    told = run("import", str(file), "--home", str(tmp_path / "home"), "--project", "app", "--json")
    assert told.code == 1
    assert told.json["items"] == 1
    assert len(told.json["problems"]) == 5


@pytest.mark.requirement("N6")
def test_the_largest_and_the_deepest_documents_and_items_come_along(run: Run, tmp_path: Path) -> None:
    """What is told beside a value is not counted against its limit; a line break in one takes three times as much."""
    deep: list[object] = []
    for _ in range(DEEPEST - 1):
        deep = [deep]
    broken = "\x85" * (MOST_BYTES // 2 - 1)
    home, file = tmp_path / "home", tmp_path / "all.jsonl"
    with SyncMemoryRouter.open(home, False, project="app") as memory:
        memory.documents.put("large", "broken", broken, index=False)
        memory.documents.put("large", "deep", deep)
        memory.log("chat").append([deep, "x" * (MOST_BYTES - 2)])
    assert run("export", str(file), "--home", str(home), "--project", "app").code == 0
    run("import", str(file), "--home", str(tmp_path / "new"), "--project", "app")
    with SyncMemoryRouter.open(tmp_path / "new", False, project="app") as memory:
        assert memory.documents.get("large", "broken").value == broken  # type: ignore[union-attr]
        assert memory.documents.get("large", "deep").value == deep  # type: ignore[union-attr]
        assert memory.log("chat").last() == [deep, "x" * (MOST_BYTES - 2)]
