"""Projects are listed, renamed, merged and removed, and nothing of them is lost on the way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kingly_memory import InvalidInput, MemoryRouter
from kingly_memory.errors import RemoteUnavailable
from kingly_memory.home.place import HUB_LOCK
from kingly_memory.models import Scope
from kingly_memory.router import projects
from kingly_memory.settings import Pace, Settings
from tests.cli_runner import Run
from tests.hub.machines import Team, synced, texts

QUICK = Settings(durability="process", pace=Pace(closing_s=0.0), embedder="none")


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[MemoryRouter]:
    async with MemoryRouter.open(tmp_path / "home", False, project="old", settings=QUICK) as opened:
        yield opened


@pytest.mark.requirement("N9")
async def test_a_renamed_project_has_all_that_it_had(memory: MemoryRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projects, "AT_ONCE", 2)
    first = await memory.store("the ferry leaves at eight", key="ferry", context_id="trip", tags=["sea"])
    await memory.store("the ferry leaves at nine", key="ferry")
    second = await memory.store("bring the tickets", key="tickets", context_id="trip")
    await memory.store("the old timetable", key="gone")
    await memory.forget("gone")
    await memory.archive((await memory.store("the winter timetable", key="winter")).id)
    await memory.link_memories("ferry", "tickets")
    await memory.threads.rename("trip", "Summer trip")
    await memory.documents.put("notes", "packing", {"towel": True})
    await memory.log("chat").append(["hello"])
    ann = memory.scoped(user="ann")
    await ann.store("ann is seasick", key="health")
    changes = len(memory._engine.reader.changes(0, 1_000))

    moved = await memory.projects.rename("old", "new")

    assert (moved.into, moved.memories, moved.documents, moved.merged) == ("new", 5, 2, 0)
    new = memory.scoped(project="new")
    found = await new.get("ferry")
    assert found is not None
    assert (found.id, found.content, found.revision, found.scope) == (
        first.id, "the ferry leaves at nine", 2, Scope("new", context_id="trip"),
    )  # fmt: skip
    assert [one.scope.project for one in await new.history("ferry")] == ["new", "new"]
    assert len(await new.links("ferry")) == 1
    assert [one.title for one in await new.threads.list()] == ["Summer trip"]
    assert [hit.memory.key for hit in await new.search("tickets")] == ["tickets"]
    assert (await new.restore("gone")) is not None
    assert (await new.restore("winter")) is not None
    assert (await new.documents.get("notes", "packing")) is not None
    assert await new.log("chat").last(5) == ["hello"]
    assert [one.content for one in (await new.scoped(user="ann").list()).memories] == ["ann is seasick"]
    told = memory._engine.reader.changes(0, 1_000)[changes:]
    assert {one.memory_id for one in told if one.what == "moved"} >= {first.id, second.id}
    assert (await memory.list()).memories == ()
    assert [(one.name, one.memories, one.users) for one in await memory.projects.list()] == [("new", 5, ("ann",))]
    assert memory._engine.view.damaged() == []


async def test_of_two_memories_with_one_key_the_later_is_the_latest_and_the_other_its_history(
    memory: MemoryRouter,
) -> None:
    into = memory.scoped(project="into")
    await into.store("said first", key="a")
    await memory.store("said second", key="a")
    await memory.store("said third", key="a")
    await memory.store("said fourth", key="b")
    await into.store("said fifth", key="b")
    await memory.documents.put("notes", "x", "earlier")
    await into.documents.put("notes", "x", "later")
    await into.log("chat").append(["a", "b"])
    await memory.log("chat").append(["c"])
    moved = await memory.projects.merge("old", "into")
    assert (moved.memories, moved.merged) == (2, 2)
    assert [one.content for one in await into.history("a")] == ["said third", "said second", "said first"]
    latest, *earlier = [one.content for one in await into.history("b")]
    assert (latest, "said fourth" in earlier) == ("said fifth", True)
    documents = {one.key: one.value for one in await into.documents.list("notes")}
    assert documents == {"x": "later", "x (old)": "earlier"}
    assert await into.log("chat").last(5) == ["a", "b", "c"]
    assert len((await into.list()).memories) == 2


async def test_two_memories_that_become_one_end_when_the_later_would(memory: MemoryRouter) -> None:
    into = memory.scoped(project="into")
    await into.store("for an hour", key="a", ttl=3600)
    await memory.store("for ever", key="a")
    await memory.projects.merge("old", "into")
    found = await into.get("a")
    assert found is not None
    assert (found.content, found.ends_at) == ("for ever", None)


async def test_what_a_hub_has_of_a_renamed_project_is_there_under_the_new_name_alone(tmp_path: Path) -> None:
    team = Team(tmp_path)
    async with team.machine("desk", "old") as desk:
        await desk.store("the ferry leaves at nine", significance=0.9, key="ferry")
        await desk.sync(timeout=5)
        await desk.projects.rename("old", "new")
        assert (await desk.sync(timeout=5)).pending == 0
    async with team.machine("laptop", "new") as laptop:
        assert await texts(laptop, "ferry") == ["the ferry leaves at nine"]
    async with team.machine("phone", "old") as phone:
        assert await texts(phone, "ferry") == []
    team.store.close()


@pytest.mark.requirement("N7", "N9", "N10")
@pytest.mark.parametrize("is_purged", [False, True])
async def test_who_renames_a_project_erases_elsewhere_only_what_was_purged(tmp_path: Path, is_purged: bool) -> None:
    team = Team(tmp_path)
    async with team.machine("desk", "old") as desk, team.machine("laptop", "old") as laptop:
        await laptop.store("the ferry leaves at nine", significance=0.9, key="ferry")
        await laptop.sync(timeout=5)
        await desk.sync(timeout=5)
        if is_purged:  # while the hub cannot hear of it
            team.wires["desk"].is_down = True
            await desk.purge("ferry")
        await desk.projects.rename("old", "new")
        team.wires["desk"].is_down = False
        await desk.sync(timeout=5)
        await laptop.sync(timeout=5)
        assert await laptop.get("ferry") is None
        restored = await laptop.restore("ferry")
        assert (restored and restored.content) == (None if is_purged else "the ferry leaves at nine")
    team.store.close()


@pytest.mark.requirement("N7", "N9")
async def test_a_rename_takes_away_what_another_machine_forgot_and_restored(tmp_path: Path) -> None:
    team = Team(tmp_path)
    async with team.machine("desk", "old") as desk, team.machine("laptop", "old") as laptop:
        await laptop.store("the ferry leaves at nine", significance=0.9, key="ferry")
        await synced(laptop, desk)
        team.clock.jump(60)
        await laptop.forget("ferry")
        await laptop.sync(timeout=5)
        team.clock.jump(60)
        await laptop.restore("ferry")
        await synced(laptop, desk)
        await desk.projects.rename("old", "new")
        await synced(desk, laptop)
        assert await laptop.get("ferry") is None
    team.store.close()


@pytest.mark.requirement("N9")
async def test_what_was_stored_in_the_millisecond_in_which_a_remote_was_added_goes_there_under_the_new_name_too(
    tmp_path: Path,
) -> None:
    team = Team(tmp_path)
    team.clock.jump(0.0004)
    async with team.machine("desk", "old") as desk:
        await desk.store("the ferry leaves at nine", significance=0.9, key="ferry")
        await desk.projects.rename("old", "new")
        assert (await desk.sync(timeout=5)).pending == 0
    async with team.machine("laptop", "new") as laptop:
        assert await texts(laptop, "ferry") == ["the ferry leaves at nine"]
    team.store.close()


async def test_what_a_hub_took_without_an_answer_is_forgotten_under_the_old_name(tmp_path: Path) -> None:
    team = Team(tmp_path)
    async with team.machine("desk", "old") as desk:
        team.wires["desk"].fail(RemoteUnavailable("no answer"), "store_memory", is_answered=True)
        await desk.store("the ferry leaves at nine", significance=0.9, key="ferry")
        await desk.sync(timeout=5)
        team.wires["desk"].fail(None)
        await desk.projects.rename("old", "new")
        team.clock.jump(600)
        assert (await desk.sync(timeout=5)).pending == 0
    async with team.machine("phone", "old") as phone:
        assert await texts(phone, "ferry") == []
    async with team.machine("laptop", "new") as laptop:
        assert await texts(laptop, "ferry") == ["the ferry leaves at nine"]
    team.store.close()


async def test_a_user_renames_and_removes_only_what_is_his(memory: MemoryRouter) -> None:
    ann = memory.scoped(user="ann")
    await memory.store("nobody's", key="k")
    await ann.store("ann's", key="k")
    assert [(one.name, one.memories) for one in await ann.projects.list()] == [("old", 1)]
    await ann.projects.rename("old", "mine")
    assert [one.name for one in await memory.projects.list()] == ["mine", "old"]
    assert len((await ann.projects.remove("mine")).ids) == 1
    assert (await memory.get("k")) is not None
    with pytest.raises(InvalidInput, match=r"^name: this home has no project 'old'; there is none"):
        await ann.projects.remove("old")


async def test_a_user_is_purged_from_every_project(memory: MemoryRouter) -> None:
    ann, bob = memory.scoped(user="ann"), memory.scoped(user="bob")
    for one in (ann, ann.scoped(project="other"), ann.scoped(project=None), bob):
        await one.store("likes the ferry", key="k")
    await ann.documents.put("notes", "x", 1)
    planned = await memory.purge(user="ann", dry_run=True)
    assert (len(planned.ids), planned.documents) == (3, 1)
    assert len((await memory.purge(user="ann")).ids) == 3
    assert (await bob.get("k")) is not None
    with pytest.raises(InvalidInput, match=r"^user: this home holds nothing of a user 'ann'"):
        await memory.purge(user="ann")
    with pytest.raises(InvalidInput, match=r"^user: "):
        await bob.purge(user="ann")


@pytest.mark.requirement("N10")
async def test_a_whole_project_is_that_of_its_users_too(memory: MemoryRouter) -> None:
    ann, bob = memory.scoped(user="ann"), memory.scoped(user="bob")
    for one in (memory, ann, bob, ann.scoped(project="other")):
        await one.store("likes the ferry", key="k")
    await bob.store("rode it once", key="gone")
    await bob.forget("gone")
    assert len((await ann.purge(whole_project=True)).ids) == 1
    planned = await memory.purge(whole_project=True, dry_run=True)
    assert (len(planned.ids), planned.users) == (3, ("bob",))
    assert len((await memory.purge(whole_project=True)).ids) == 3
    assert [one.name for one in await memory.projects.list()] == ["other"]


@pytest.mark.requirement("N10")
async def test_what_a_user_has_merely_forgotten_is_purged_with_him(memory: MemoryRouter) -> None:
    ann = memory.scoped(user="ann")
    await ann.store("likes the ferry", key="k")
    await ann.forget("k")
    assert len((await memory.purge(user="ann")).ids) == 1


@pytest.mark.parametrize(
    ("verb", "names", "says"),
    [
        ("rename", ("nix", "new"), "old: this home has no project 'nix'; there is 'old'"),
        ("rename", ("old", "old"), "new: there is a project 'old'; merge them, or take another name"),
        ("rename", ("old", " "), "new: is empty"),
        ("merge", ("old", "old"), "source: 'old' cannot become part of itself; name another project"),
        ("merge", ("old", "two\nlines"), "into: contains control characters"),
    ],
)
async def test_a_project_that_cannot_be_meant_is_one_sentence(
    memory: MemoryRouter, verb: str, names: tuple[str, str], says: str
) -> None:
    await memory.store("the ferry leaves at nine")
    with pytest.raises(InvalidInput) as caught:
        await getattr(memory.projects, verb)(*names)
    assert str(caught.value) == says


@pytest.fixture
def renamed(run: Run, tmp_path: Path) -> str:
    """The home of a folder that was `old` when a user stored in it, and is `new` now."""
    (tmp_path / "old").mkdir()
    run(
        "store",
        "the ferry leaves at nine",
        "--key",
        "k",
        "--user",
        "ann",
        "--home",
        str(tmp_path / "old/.kingly/memory"),
    )
    (tmp_path / "old").rename(tmp_path / "new")
    return str(tmp_path / "new/.kingly/memory")


@pytest.mark.requirement("N9")
@pytest.mark.parametrize(
    "line", ["store a", "search ferry", "list", "status", "get k", "tag k +x", "history k", "inject a"]
)
def test_a_home_whose_memories_lie_under_the_former_name_of_its_folder_says_so(
    run: Run, renamed: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = [*line.split(), "--home", renamed]
    told = "this home holds 1 memory under 'old'; if its folder was called old before: `kingly-memory projects rename "
    assert told in run(*here).err
    assert "holds" not in run(*here, "--project", "another").err
    monkeypatch.setenv("KINGLY_PROJECT", "another")
    assert "holds" not in run(*here).err


def test_a_home_of_a_hub_is_no_renamed_folder(run: Run, renamed: str) -> None:
    Path(renamed, HUB_LOCK).touch()
    how = f"it is a hub's: `kingly-memory list --home {renamed} --project old` shows what is there"
    assert how in run("list", "--home", renamed).err


@pytest.mark.requirement("N9")
def test_status_and_doctor_go_on_saying_what_lies_under_other_names(run: Run, renamed: str) -> None:
    here = ("--home", renamed)
    found = run("doctor", *here, "--json").json
    assert [one["level"] for one in found["findings"] if one["about"] == "projects"] == ["problem"]
    run("store", "a text", *here)
    told = "this home holds 1 memory under 'old'; if its folder was called old before: `kingly-memory projects merge "
    assert told in run("status", *here).err
    assert "holds" not in run("list", *here).err
    assert "note     projects: this home holds 1 memory under 'old'\n" in run("doctor", *here).out
    run("store", "a text", "--project", "third", *here)
    assert "holds 2 memories of 2 other projects (`kingly-memory projects list" in run("status", *here).err
    assert "holds" not in run("status", *here, "--user", "bob").err


def test_a_home_that_projects_share_is_not_said_to_be_renamed(run: Run, tmp_path: Path) -> None:
    run("store", "a text", "--home", str(tmp_path / "shared"), "--project", "other")
    run("store", "a text", "--home", str(tmp_path / "shared"), "--project", "work")
    (tmp_path / "work" / ".git").mkdir()
    assert "holds" not in run("status", "--home", str(tmp_path / "shared")).err


def test_projects_are_listed_renamed_and_removed_from_the_shell(run: Run) -> None:
    run("store", "the ferry leaves at nine", "--key", "k", "--project", "old", "--user", "ann")
    assert run("projects", "rename", "old", "new").out == "1 memory moved from old to new\n"
    [listed] = run("projects", "list", "--json").json["list"]
    assert (listed["name"], listed["memories"], listed["users"]) == ("new", 1, ["ann"])
    assert run("projects", "remove", "new").code == 2
    for plan in (("purge", "--whole-project", "--project", "new"), ("projects", "remove", "new")):
        assert run(*plan, "--dry-run").out.splitlines()[0] == "would purge 1 memory, those of ann among them"
    assert run("purge", "--user", "ann", "--dry-run").out.splitlines() == ["would purge 1 memory", "  k"]
    assert run("projects", "remove", "new", "--yes").out == "purged 1 memory; nothing restores them\n"
    assert run("projects").out == run("projects", "list").out == "this home holds nothing yet\n"
