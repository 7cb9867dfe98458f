"""Remotes that a user adds to a home: what is sent there from then on, what is kept of that, and what a home cannot
say by itself."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from kingly_memory import MemoryRouter, SyncMemoryRouter
from kingly_memory.adapters.local import remote_record
from kingly_memory.adapters.local.folder import locked
from kingly_memory.home import remote_names
from kingly_memory.home.place import Place, added_remotes
from tests.cli_runner import Run, hurry, runner
from tests.scripted.remote import ScriptedRemote

NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    hurry(monkeypatch)
    monkeypatch.setenv("KINGLY_REMOTE_SEARCH_S", "5")
    return runner(capsys, monkeypatch)


@pytest.fixture
def server() -> Iterator[ScriptedRemote]:
    with ScriptedRemote() as remote:
        yield remote


def contents(server: ScriptedRemote) -> list[str]:
    return [json.loads(call.params["content"])["content"] for call in server.effects if call.method == "store_memory"]


# --- reading --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("N3")
def test_verbs_that_read_send_a_remote_nothing_but_the_question(run: Run, server: ScriptedRemote) -> None:
    for text in ("refunds take three days", "the vault has the key"):
        run("store", text, "--key", text[:3], "--context", "c", "--significance", "0.9")
    for argv in (
        ["search", "refunds"],
        ["search", "refunds", "--verify"],
        ["search", "refunds", "--mode", "similarity"],
        ["context", "c"],
        ["get", "ref", "--explain"],
        ["list"],
        ["status"],
        ["doctor"],
        ["stats"],
        ["threads", "list"],
        ["sweep", "--dry-run"],
        ["remotes"],
        ["outbox", "list"],
        ["confidence", "refund the customer"],
    ):
        assert run(*argv, "--remote", server.url).code == 0
    assert server.effects == []
    assert all("vault" not in json.dumps(call.params) for call in server.requests)
    assert run("remotes", "--json").json["remotes"] == []
    assert "elsewhere" not in run("status", "--json").json


@pytest.mark.requirement("N3")
def test_verbs_that_read_add_no_remote_of_the_environment_and_verbs_that_write_do(
    run: Run, server: ScriptedRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("store", "before")
    monkeypatch.setenv("KINGLY_REMOTE", server.url)
    run("search", "before")
    assert run("remotes", "--json").json["remotes"][0]["since"] is None
    run("store", "after", "--wait", "5")
    assert run("remotes", "--json").json["remotes"][0]["since"] is not None
    assert contents(server) == ["after"]


@pytest.mark.requirement("N3")
def test_a_wrong_address_leaves_nothing_waiting(run: Run) -> None:
    run("store", "mine")
    for argv, code in ((["search", "mine"], 0), (["sync"], 2), (["outbox", "list"], 0), (["get", "x"], 2)):
        assert (run(*argv, "--remote", NOBODY).code, argv) == (code, argv)
    assert run("status", "--json", "--remote", NOBODY).json["outbox"]["pending"] == 0
    assert run("remotes", "--json").json == {"remotes": []}


@pytest.mark.requirement("N3")
def test_a_home_that_is_removed_and_made_anew_has_no_remotes(run: Run, server: ScriptedRemote, tmp_path: Path) -> None:
    home = tmp_path / "again"
    for begun_by in ("store", "remotes"):
        run("remotes", "add", "team", NOBODY, "--offline", "--home", str(home))
        shutil.rmtree(home)
        if begun_by == "store":
            told = run("store", "mine", "--home", str(home), "--significance", "0.9").err
            assert "is a new one, without the remotes of the one before: team. If that one lies on a disk" in told
            assert run("remotes", "--home", str(home), "--json").json == {"remotes": []}
            assert run("status", "--home", str(home), "--json").json["outbox"]["pending"] == 0
            shutil.rmtree(home)
        assert run("remotes", "add", "team", server.url, "--home", str(home)).code == 0
    run("store", "ours", "--home", str(home), "--significance", "0.9", "--wait", "5")
    assert contents(server) == ["ours"]


@pytest.mark.requirement("N3")
def test_a_store_with_a_remote_sends_that_memory_alone_and_says_so(run: Run, server: ScriptedRemote) -> None:
    run("store", "before")
    told = run("store", "this", "--remote", server.url, "--wait", "5")
    assert told.out.splitlines()[1:] == [
        "  on this machine and on the remote",
        f"  later memories do not go to {server.url}; `kingly-memory remotes add NAME {server.url}` "
        "sends them there too",
    ]
    run("store", "after")
    assert run("sync", "--remote", server.url).code == 0
    assert contents(server) == ["this"]


@pytest.mark.requirement("N3")
def test_sync_names_the_way_to_add_a_remote(run: Run, server: ScriptedRemote) -> None:
    run("store", "mine")
    refused = run("sync", "--remote", server.url)
    assert (refused.code, refused.out, server.effects) == (2, "", [])
    add = f"`kingly-memory remotes add NAME {server.url}`"
    assert f"{server.url} is no remote of this project; {add} makes it one" in refused.err


@pytest.mark.requirement("N17")
def test_verbs_that_read_answer_where_nobody_can_write(run: Run, server: ScriptedRemote) -> None:
    for argv in (
        ["context", "c"],
        ["threads", "list"],
        ["get", "x", "--explain"],
        ["search", "x", "--remote", server.url],
        ["search", "x", "--verify"],
        ["status"],
        ["confidence", "x"],
    ):
        ran = run(*argv, "--home", "/proc/nope")
        assert "cannot be made" not in ran.err
        assert (ran.code, argv) == (2 if argv[0] == "get" else 0, argv)
    problem = "home: /proc/nope cannot be made (you may not write to /proc); name a folder that you may write to"
    for line in (
        "store x",
        "sweep",
        "sweep --dry-run",
        "sweep --undo",
        "compact",
        "embedder rebuild",
        "purge x --yes",
        "encrypt",
    ):
        refused = run(*line.split(), "--home", "/proc/nope")
        assert (refused.code, refused.out, refused.err.splitlines()[-1]) == (2, "", f"kingly-memory: {problem}")


# --- adding ---------------------------------------------------------------------------------------------------------


def test_a_remote_is_added_for_one_project_and_gets_what_that_keeps_for_every_project_too(
    run: Run, server: ScriptedRemote
) -> None:
    refused = run("remotes", "add", "team", server.url, "--everywhere")
    assert (refused.code, "is added for one project" in refused.err) == (2, True)
    assert run("remotes", "--json").json["remotes"] == []
    run("remotes", "add", "team", server.url)
    run("store", "for all", "--everywhere", "--wait", "5")
    assert contents(server) == ["for all"]


@pytest.mark.requirement("N3")
def test_what_is_stored_goes_to_an_added_remote_from_then_on(run: Run, server: ScriptedRemote) -> None:
    run("store", "before")
    added = run("remotes", "add", "team", server.url)
    assert added.out.splitlines() == [
        f"added team, {server.url} (scripted over json-call)",
        "  what project 'default' stores from now on above significance 0.3 goes there",
        "  what was stored before stays on this machine; the same with --with-earlier sends it too",
    ]
    assert run("store", "after", "--wait", "5").out.splitlines()[1] == "  on this machine and on team"
    run("store", "of no weight", "--significance", "0.3")
    assert contents(server) == ["after"]
    [listed] = run("remotes", "--json").json["remotes"]
    assert (listed["name"], listed["delivered"], listed["waiting"], listed["earlier"]) == ("team", 1, 0, False)
    assert listed["since"] is not None
    assert run("search", "after", "--remote", "team", "--json").json["source"] == "hybrid"


@pytest.mark.requirement("N3")
def test_earlier_memories_go_when_that_is_said_and_are_counted(run: Run, server: ScriptedRemote) -> None:
    for text in ("one", "two"):
        run("store", text)
    run("store", "of no weight", "--significance", "0.3")
    run("store", "of another project", "--project", "other")
    added = run("remotes", "add", "team", server.url, "--with-earlier", "--json")
    assert added.json["added"]["earlier"] == 2
    assert run("sync").out.startswith("2 memories delivered, 0 waiting")
    assert sorted(contents(server)) == ["one", "two"]
    again = run("remotes", "add", "team", server.url, "--with-earlier").out
    assert "nothing was stored before that is to go there" in again


@pytest.mark.requirement("N3")
def test_adding_a_remote_again_says_what_has_changed(run: Run, server: ScriptedRemote) -> None:
    def again(*options: str, stdin: bytes = b"") -> list[str]:
        return run("remotes", "add", "team", server.url, *options, stdin=stdin).out.splitlines()

    run("store", "before")
    known = f"team was added before, {server.url} (scripted over json-call); "
    assert again()[0].startswith("added team, ")
    assert again()[0] == f"{known}its token is as it was"
    assert again("--token-file", "-", stdin=b"first")[0] == f"{known}it is shown another token from now on"
    assert again("--with-earlier")[::2] == [
        f"{known}its token is as it was",
        "  1 earlier memory goes there too; `kingly-memory sync` sends them now",
    ]
    assert again()[2] == "  what was stored before goes there too"


@pytest.mark.requirement("N3")
def test_adding_a_remote_says_what_waits_for_that_server_already(
    run: Run, server: ScriptedRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINGLY_REMOTE", server.url)
    run("store", "sent", "--wait", "5")
    monkeypatch.delenv("KINGLY_REMOTE")
    run("store", "waiting")
    assert "1 memory waits for that server already, and will be sent" in run("remotes", "add", "team", server.url).out
    run("sync")
    assert contents(server) == ["sent", "waiting"]
    assert "waits for that server" not in run("remotes", "add", "team", server.url).out


@pytest.mark.requirement("N3")
def test_a_program_and_an_mcp_host_deliver_to_what_was_added(run: Run, server: ScriptedRemote) -> None:
    run("remotes", "add", "team", server.url)
    with SyncMemoryRouter.open() as memory:
        receipt = memory.store("from a program", wait=5)
    assert receipt.layers == ("local", "team")
    with SyncMemoryRouter.open(remote=False) as memory:
        memory.store("stays for now")
    assert contents(server) == ["from a program"]
    assert run("remotes", "--json").json["remotes"][0]["waiting"] == 1


@pytest.mark.requirement("N3")
@pytest.mark.parametrize(
    ("address", "says"),
    [(NOBODY, "Connection refused"), ("localhost:8000", "an address begins with http"), ("lab", "begins with http")],
)
def test_a_wrong_address_is_not_added(run: Run, address: str, says: str) -> None:
    refused = run("remotes", "add", "team", address)
    assert (refused.code != 0, refused.out, refused.err.count("\n"), says in refused.err) == (True, "", 1, True)
    assert not added_remotes().exists()
    assert run("remotes", "--json").json == {"remotes": []}


def test_a_remote_that_is_away_is_added_when_that_is_said(run: Run) -> None:
    assert run("remotes", "add", "team", NOBODY, "--offline").code == 0
    assert "team gets it later" in run("store", "waits").out


def test_a_server_that_offers_no_memory_is_not_added(run: Run) -> None:
    with ScriptedRemote() as server:
        server.script(*["status=404"] * 9)
        refused = run("remotes", "add", "team", server.url)
    assert (refused.code, refused.err.startswith("kingly-memory: team was not added: ")) == (1, True)


def test_a_name_stands_for_one_address_in_a_home(run: Run) -> None:
    run("remotes", "add", "team", NOBODY, "--offline")
    refused = run("remotes", "add", "team", "http://127.0.0.1:10", "--offline")
    assert (refused.code, "is another address in this home" in refused.err) == (2, True)
    refused = run("remotes", "add", "local", NOBODY, "--offline")
    assert (refused.code, "cannot be a remote's name" in refused.err) == (2, True)
    unknown = run("search", "x", "--remote", "lab")
    assert (unknown.code, "`kingly-memory remotes add lab URL` adds it" in unknown.err) == (2, True)


@pytest.mark.requirement("N9")
def test_the_remotes_of_a_project_that_is_renamed_are_those_of_the_new_name(run: Run, server: ScriptedRemote) -> None:
    run("remotes", "add", "team", server.url, "--project", "old")
    run("remotes", "add", "away", NOBODY, "--offline", "--project", "old")
    run("remotes", "add", "away", NOBODY, "--offline", "--project", "other")
    run("remotes", "add", "far", NOBODY, "--offline", "--project", "new")
    run("store", "refunds take three days", "--project", "old")

    assert run("projects", "rename", "old", "new").code == 0

    assert "on team" in run("store", "mail goes out on Mondays", "--project", "new", "--wait", "5").out
    added = [(one.name, one.project) for one in remote_names.added(added_remotes(), Place.resolve().home)]
    assert sorted(added) == [("away", "other"), ("far", "new"), ("team", "new")]


@pytest.mark.requirement("N9")
def test_what_a_project_is_merged_into_stays_on_this_machine(run: Run) -> None:
    run("remotes", "add", "team", NOBODY, "--offline", "--project", "work")
    run("store", "refunds take three days", "--project", "work")
    run("store", "the tooth aches again", "--project", "diary")
    assert run("projects", "merge", "work", "diary").code == 0
    for said in (("store", "--key", "tooth", "the tooth is out"), ("update", "tooth", "the tooth is gone")):
        assert "a remote that is not named here" in run(*said, "--project", "diary").out
    [kept] = remote_names.added(added_remotes(), Place.resolve().home)
    assert kept.project == "work"


@pytest.mark.requirement("N9")
def test_a_user_who_moves_memories_alone_takes_no_remote_from_the_others(run: Run) -> None:
    run("remotes", "add", "team", NOBODY, "--offline", "--project", "old")
    run("store", "ann is seasick", "--project", "old", "--user", "ann")
    assert run("projects", "rename", "old", "mine", "--user", "ann").code == 0
    [kept] = remote_names.added(added_remotes(), Place.resolve().home)
    assert kept.project == "old"


# --- tokens ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["variable", "standard input", "file"])
def test_the_token_of_an_added_remote_is_kept_in_a_file_for_its_user_alone(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str
) -> None:
    with ScriptedRemote(token="of-the-team") as server:
        refused = "HTTP 401: it wants a token, and none was shown. Mend the address or the token (--token-file FILE)"
        assert refused in run("remotes", "add", "team", server.url).err
        if way == "variable":
            monkeypatch.setenv("KINGLY_TOKEN", "of-the-team")
            added = run("remotes", "add", "team", server.url)
            monkeypatch.delenv("KINGLY_TOKEN")
        elif way == "file":
            path = tmp_path / "token"
            path.write_text("of-the-team")
            path.chmod(0o600)
            added = run("remotes", "add", "team", server.url, "--token-file", str(path))
        else:
            added = run("remotes", "add", "team", server.url, "--token-file", "-", stdin=b"of-the-team\n")
        assert (added.code, "of-the-team" in added.out) == (0, False)
        assert run("store", "hello", "--require-remote").code == 0
        assert run("remotes", "add", "team", server.url, "--offline").code == 0  # as it was, with its token
        assert run("remotes", "add", "team", server.url, "--with-earlier").code == 0
        assert run("store", "again", "--require-remote").code == 0
    for kept in added_remotes().parent.rglob("*"):
        if kept.is_file() and "memory" not in kept.parts:
            assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "of-the-team" not in added_remotes().read_text()
    run("remotes", "forget", "team")
    assert not list((added_remotes().parent / "tokens").glob("*"))


def test_each_project_has_a_token_of_its_own_and_another_token_takes_the_place_of_the_first(run: Run) -> None:
    folder = added_remotes().parent / "tokens"
    with ScriptedRemote() as server:
        for project, token in (("one", "first"), ("one", "second"), ("two", "third")):
            added = run(
                "remotes", "add", "team", server.url, "--project", project, "--token-file", "-", stdin=token.encode()
            )
            assert added.code == 0, added.err
    assert sorted(path.read_text() for path in folder.iterdir()) == ["second\n", "third\n"]
    assert run("remotes", "forget", "team").code == 0
    assert not list(folder.iterdir())


def test_a_token_for_no_remote_by_name_is_not_shown_to_an_added_one(
    run: Run, server: ScriptedRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("remotes", "add", "team", server.url)
    monkeypatch.setenv("KINGLY_TOKEN", "of-somebody-else")
    run("store", "hello", "--wait", "5")
    assert contents(server) == ["hello"]
    assert all("authorization" not in call.headers for call in server.requests)


# --- forgetting -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["team", NOBODY, "127.0.0.1:9"])
def test_an_added_remote_is_forgotten_by_its_name_or_address(run: Run, named: str) -> None:
    run("remotes", "add", "team", NOBODY, "--offline")
    run("store", "waits")
    assert "1 memory waited for it" in run("remotes", "forget", named).out
    assert run("remotes", "--json").json == {"remotes": []}
    assert run("store", "stays").out.splitlines()[1] == "  on this machine only: no remote is named"


def test_the_remote_of_a_home_that_is_gone_can_be_forgotten_and_its_token_goes_with_the_next_home(run: Run) -> None:
    def kept() -> list[Path]:
        return list((added_remotes().parent / "tokens").iterdir())

    run("remotes", "add", "team", NOBODY, "--offline", "--token-file", "-", stdin=b"secret token of the team")
    shutil.rmtree(Place.resolve().home)
    assert (run("remotes", "forget", "team").code, kept()) == (0, [])
    run("remotes", "add", "team", NOBODY, "--offline", "--token-file", "-", stdin=b"secret token of the team")
    assert len(kept()) == 1
    shutil.rmtree(Place.resolve().home)
    run("store", "mine")
    assert kept() == []


def test_an_added_remote_that_its_home_knows_no_more_can_be_forgotten(run: Run, tmp_path: Path) -> None:
    run("remotes", "add", "team", NOBODY, "--offline")
    run("store", "elsewhere", "--home", str(tmp_path / "other"))
    shutil.rmtree(Place.resolve().home)
    (tmp_path / "other").rename(Place.resolve().home)
    assert run("remotes", "forget", "team").out == "team is forgotten; nothing waited for it\n"
    assert Place.resolve().remotes == ()


@pytest.fixture
def just_before(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Have something happen in the last moment before the next change of the record, as another process may do it."""

    def arrange(act: Callable[[], object]) -> None:
        def late(path: Path, wait_s: float) -> AbstractContextManager[None]:
            monkeypatch.setattr(remote_record, "locked", locked)
            act()
            return locked(path, wait_s)

        monkeypatch.setattr(remote_record, "locked", late)

    return arrange


@pytest.mark.requirement("N3")
def test_forgetting_a_remote_keeps_one_that_is_added_meanwhile(
    run: Run, just_before: Callable[[Callable[[], object]], None]
) -> None:
    run("remotes", "add", "team", NOBODY, "--offline")
    just_before(lambda: run("remotes", "add", "home", "http://127.0.0.1:10", "--offline"))
    assert run("remotes", "forget", "team").code == 0
    assert [one.label for one in Place.resolve().remotes] == ["home"]


@pytest.mark.requirement("N3")
def test_a_name_that_is_given_meanwhile_is_not_given_twice(
    run: Run, just_before: Callable[[Callable[[], object]], None]
) -> None:
    just_before(lambda: run("remotes", "add", "team", "http://127.0.0.1:10", "--offline"))
    refused = run("remotes", "add", "team", NOBODY, "--offline")
    assert (refused.code, "is another address in this home" in refused.err) == (2, True)
    assert [one.address for one in Place.resolve().remotes] == ["http://127.0.0.1:10"]


# --- a home that is moved -------------------------------------------------------------------------------------------


def labels(home: Path, project: str = "shop") -> list[str]:
    return [one.label for one in Place.resolve(home, project=project).remotes]


@pytest.fixture
def shop(run: Run, tmp_path: Path) -> Path:
    """The home of a project, which has a remote with a token."""
    home = tmp_path / "code" / "shop" / ".kingly" / "memory"
    token = ("--token-file", "-")
    run("remotes", "add", "team", NOBODY, "--offline", "--home", str(home), *token, stdin=b"of the shop's team\n")
    assert labels(home) == ["team"]
    return home


@pytest.mark.requirement("N3")
def test_a_project_folder_that_is_moved_and_renamed_keeps_its_remotes(
    run: Run, server: ScriptedRemote, tmp_path: Path
) -> None:
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    home = tmp_path / "shop" / ".kingly" / "memory"
    run("remotes", "add", "team", server.url, "--home", str(home))
    run("store", "mail goes out on Mondays", "--home", str(home), "--wait", "5")
    (tmp_path / "shop").rename(tmp_path / "store")
    home = tmp_path / "store" / ".kingly" / "memory"
    assert run("projects", "rename", "shop", "store", "--home", str(home)).code == 0
    assert "on team" in run("store", "refunds take three days", "--home", str(home), "--wait", "5").out
    assert contents(server) == ["mail goes out on Mondays", "refunds take three days"]
    assert run("remotes", "forget", "team", "--home", str(home)).code == 0
    assert json.loads(added_remotes().read_text()) == {}


@pytest.mark.requirement("N3")
def test_a_home_that_was_used_where_it_was_moved_to_shares_nothing_with_one_made_in_its_old_place(
    run: Run, shop: Path
) -> None:
    moved = shop.parent / "moved"
    shop.rename(moved)
    assert labels(moved) == ["team"]
    run("store", "refunds take three days", "--home", str(moved), "--project", "shop")
    token = ("--token-file", "-")
    added = run("remotes", "add", "team", NOBODY, "--offline", "--home", str(shop), *token, stdin=b"of another team\n")
    assert (added.code, "without the remotes of the one before" in added.err) == (0, False)
    for home, held in ((moved, "of the shop's team\n"), (shop, "of another team\n")):
        [remote] = Place.resolve(home, project="shop").remotes
        assert remote.token_file is not None
        assert remote.token_file.read_text() == held
    run("remotes", "forget", "team", "--home", str(shop))
    assert (labels(moved), labels(shop)) == (["team"], [])


@pytest.mark.requirement("N3")
def test_a_home_that_is_moved_to_where_another_one_was_has_its_own_remotes(run: Run, shop: Path) -> None:
    other = shop.parent / "other"
    run("remotes", "add", "lab", NOBODY, "--offline", "--home", str(other), "--project", "shop")
    shutil.rmtree(other)
    shop.rename(other)
    assert labels(other) == ["team"]


@pytest.mark.requirement("N3")
def test_a_home_whose_old_place_leads_to_the_new_one_keeps_its_remotes(shop: Path) -> None:
    moved = shop.parents[2] / "moved"
    shop.parents[1].rename(moved)
    shop.parents[1].symlink_to(moved)
    assert labels(moved / ".kingly" / "memory") == labels(shop) == ["team"]


@pytest.mark.requirement("N3")
@pytest.mark.parametrize("original", ["lies there", "is gone"])
def test_a_copy_has_no_remotes_whether_or_not_the_original_is_there(run: Run, shop: Path, original: str) -> None:
    """Gone: its disk may only not be mounted."""
    copied = shop.parent / "copied"
    shutil.copytree(shop, copied)  # with the times of its files
    if original == "is gone":
        shutil.rmtree(shop)
    assert labels(copied) == []
    stored = run("store", "mine", "--home", str(copied), "--project", "shop", "--significance", "0.9").out
    assert "team" not in stored
    assert labels(copied) == []
    assert list(json.loads(added_remotes().read_text())) == [str(shop)]


@pytest.mark.requirement("N3")
def test_what_shows_a_home_a_second_time_has_none_of_its_remotes(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the snapshot of a disk does, with the same numbers and times."""
    snapshot = shop.parent / "snapshot"
    shutil.copytree(shop, snapshot)
    mark = remote_names.mark_of(shop)
    for module in (remote_names, remote_record):
        monkeypatch.setattr(module, "mark_of", lambda _: mark)
    run("store", "mine", "--home", str(snapshot), "--project", "shop")
    assert (labels(snapshot), labels(shop)) == ([], ["team"])


@pytest.mark.requirement("N3")
def test_a_home_of_a_record_without_marks_gets_one_when_it_is_opened(run: Run, shop: Path) -> None:
    record = json.loads(added_remotes().read_text())
    for remote in record[str(shop)]:
        del remote["mark"]
    added_remotes().write_text(json.dumps(record))
    run("store", "refunds take three days", "--home", str(shop))
    shop.rename(shop.parent / "moved")
    assert labels(shop.parent / "moved") == ["team"]


# --- what a home cannot say -----------------------------------------------------------------------------------------


@pytest.mark.requirement("N3")
def test_a_home_that_comes_from_somebody_else_sends_nothing_anywhere(
    run: Run, server: ScriptedRemote, tmp_path: Path
) -> None:
    """All that a home may hold of a remote, its address, its projects and what waits for it, is of no effect
    elsewhere."""
    run("remotes", "add", "team", server.url, "--offline")
    run("store", "of the author", "--wait", "5")
    before = len(server.requests)
    cloned = tmp_path / "cloned"
    shutil.copytree(Place.resolve().home, cloned)
    here = ("--home", str(cloned), "--project", "default")
    run("store", "mine", *here)
    run("search", "mine", *here)
    with SyncMemoryRouter.open(cloned, project="default") as memory:
        memory.store("mine too", wait=0.1)
    assert len(server.requests) == before


@pytest.mark.requirement("N3")
def test_a_record_that_others_may_write_is_not_obeyed(run: Run, server: ScriptedRemote) -> None:
    run("remotes", "add", "team", server.url)
    added_remotes().chmod(0o666)
    stored = run("store", "hello")
    assert (stored.code, stored.err.count("\n"), "run `chmod 600` on it" in stored.err) == (0, 1, True)
    assert "  on this machine" in stored.out
    assert run("search", "hello").code == 0
    assert server.effects == []


@pytest.mark.requirement("N3")
async def test_a_damaged_record_keeps_nobody_from_storing_and_says_what_to_do(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run("remotes", "add", "team", NOBODY, "--offline")
    added_remotes().write_text("[]")
    says = "is damaged; move it away and add the remotes again; until then this machine alone is used"
    for named in ("", "team"):
        monkeypatch.setenv("KINGLY_REMOTE", named)
        stored = run("store", "hello")
        assert (stored.code, stored.err.count("\n"), says in stored.err) == (0, 1, True)
        async with MemoryRouter.open() as memory:
            assert (await memory.store("works")).layers == ("local",)
        assert says in caplog.text
        caplog.clear()
    async with MemoryRouter.open(remote={"team": NOBODY}) as memory:
        assert "team" in (await memory.status())["remotes"]


@pytest.mark.requirement("N3")
@pytest.mark.parametrize(
    "argv",
    [
        ["remotes"],
        ["remotes", "add", "lab", NOBODY, "--offline"],
        ["remotes", "forget", "team"],
        ["sync"],
        ["outbox", "list"],
        ["store", "hello", "--remote", "team"],
    ],
)
def test_what_needs_a_damaged_record_is_refused(run: Run, argv: list[str]) -> None:
    run("remotes", "add", "team", NOBODY, "--offline")
    added_remotes().write_text("[]")
    refused = run(*argv)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert "is damaged; move it away and add the remotes again" in refused.err
    assert run("doctor").code == 1


# --- what the remote calls a memory ---------------------------------------------------------------------------------


@pytest.mark.requirement("L2")
@pytest.mark.requirement("KNG-009")
def test_reading_tells_the_remotes_id_after_a_delivery(run: Run, server: ScriptedRemote, tmp_path: Path) -> None:
    run("store", "stays", "--significance", "0.3", "--key", "here")
    run("remotes", "add", "team", server.url)
    remote_id = run("store", "goes", "--wait", "5", "--key", "there", "--json").json["remote_id"]
    assert remote_id
    assert run("get", "there", "--json").json["remote_id"] == remote_id
    assert f"remote id     {remote_id}" in run("get", "there").out
    assert run("get", "here", "--json").json["remote_id"] is None
    assert [one["remote_id"] for one in run("list", "--json").json["memories"]] == [remote_id, None]
    assert f"delivered, {server.url}, which calls it {remote_id}" in run("get", "there", "--explain").out
    run("export", str(tmp_path / "views"), "--layout", "kingly")
    cached = json.loads((tmp_path / "views" / "quick_cache.json").read_text())["memories"]
    assert {one["key"]: one["mcp_id"] for one in cached} == {"here": None, "there": remote_id}
