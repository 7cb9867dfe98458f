"""What is purged is nowhere any more: not in any file of the home or the data folder, and not on a remote."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import InvalidInput
from kingly_memory.adapters.audit import AuditFiles
from kingly_memory.app.auditing import audit_folder
from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.errors import StoreBusy, StoreError
from kingly_memory.lifecycle.summaries import gist, summary
from kingly_memory.models import MemoryStatus, Query
from kingly_memory.settings import Pace, Settings
from kingly_memory.validation import Imported, draft
from tests.hub.machines import Team, texts
from tests.router.test_summaries import of

WORD = "Xylothrumbus"
SECRET = f"The {WORD} account of Ünal is 7394-5531"
QUICK = Settings(durability="process", pace=Pace(closing_s=0.0), embedder="none")


def left(folder: Path, *needles: str) -> list[str]:
    """The files in which any of the texts stands, in whatever case or encoding of JSON."""
    wanted = [one.lower().encode() for one in needles] + [json.dumps(one)[1:-1].lower().encode() for one in needles]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sorted({path.name for path in files for one in wanted if one in path.read_bytes().lower()})


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SyncMemoryRouter]:
    with SyncMemoryRouter.open(tmp_path / "home", False, project="app", settings=QUICK) as opened:
        for number in range(200):  # the text index has parts, and pages are used again
            opened.store(f"note {number} about deploys and reviews")
        yield opened


@pytest.mark.requirement("D3")
def test_no_log_of_prompts_names_what_was_purged(memory: SyncMemoryRouter, tmp_path: Path) -> None:
    secret = memory.store(f"The account of Ünal is called {WORD}", origin="user", context_id="Quorblefex")
    assert WORD in memory.inject(f"what is the account of Ünal, {WORD}?", session="Quorblefex").text
    assert WORD in memory.inject(f"what is the account of Ünal, {WORD}?", session="another").text
    told = tmp_path / "home" / "injected"
    assert len(left(told, secret.id)) == 2
    memory.purge(secret.id)
    assert left(told, secret.id, "Quorblefex") == []
    assert [one.session for one in memory.attention.prompts()] == ["another"]


@pytest.mark.requirement("N10")
@pytest.mark.parametrize("verb", ["purge", "projects remove", "sweep"])
def test_what_an_interrupted_purge_has_erased_leaves_the_files_with_the_next_one_or_a_sweep(
    memory: SyncMemoryRouter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    def interrupted(*_: object) -> None:
        raise StoreBusy(1.0)

    memory.store(SECRET, tags=["private"])
    with monkeypatch.context() as patch:
        patch.setattr("kingly_memory.adapters.local.scrubbing.scrub", interrupted)
        with pytest.raises(StoreBusy):
            memory.purge(tags=["private"])
    assert left(tmp_path / "home", WORD)
    if verb == "sweep":
        memory.sweep()
    elif verb == "projects remove":
        with pytest.raises(InvalidInput, match="this home has no project 'theirs'"):
            memory.projects.remove("theirs")
    else:
        with pytest.raises(InvalidInput, match="no memory of this project has the tag 'private'"):
            memory.purge(tags=["private"])
    assert left(tmp_path / "home", WORD) == []
    with monkeypatch.context() as patch:
        patch.setattr("kingly_memory.adapters.local.scrubbing.scrub", interrupted)
        memory.sweep()  # once is enough


@pytest.mark.requirement("N10")
def test_documents_that_an_interrupted_purge_has_erased_leave_the_files_with_a_sweep(
    memory: SyncMemoryRouter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise StoreBusy(1.0)

    theirs = memory.scoped(project="theirs")
    theirs.documents.put("notes", "account", SECRET)
    with monkeypatch.context() as patch:
        patch.setattr("kingly_memory.adapters.local.scrubbing.scrub", interrupted)
        with pytest.raises(StoreBusy):
            theirs.purge(whole_project=True)
    assert left(tmp_path / "home", WORD)
    put_aside = tmp_path / "home" / "store.corrupt-1"
    put_aside.mkdir()
    (put_aside / "cache.db").write_text("theirs")
    memory.sweep()
    assert left(tmp_path / "home", WORD) == []
    assert put_aside.exists()  # the project's name alone is no memory of it
    with monkeypatch.context() as patch:
        patch.setattr("kingly_memory.adapters.local.scrubbing.scrub", interrupted)
        memory.sweep()  # once is enough


@pytest.mark.requirement("N10")
def test_a_purge_that_could_not_clear_the_audit_has_purged_nothing_and_can_be_repeated(
    memory: SyncMemoryRouter, tmp_path: Path
) -> None:
    memory.store(SECRET, key="secret.key")
    audit = AuditFiles(audit_folder(tmp_path / "home"))
    audit.append("memory_updates", {"content": SECRET, "agent_id": "a"})
    in_the_way = audit.folder / "no_file.jsonl"
    in_the_way.mkdir()
    with pytest.raises(StoreError):
        memory.purge("secret.key")
    in_the_way.rmdir()
    assert len(memory.purge("secret.key").ids) == 1
    assert left(tmp_path, WORD) == []


@pytest.mark.requirement("N10")
@pytest.mark.requirement("D3")
def test_no_byte_of_what_was_purged_is_left_in_any_file(memory: SyncMemoryRouter, tmp_path: Path) -> None:
    home = tmp_path / "home"
    paragraphs = "\n\n".join(f"Paragraph {number} tells of {WORD}{number:03} at length." for number in range(400))
    memory.store("the first text said " + SECRET, key="secret.key", tags=["Zanzibarium"], title="Quorblefex")
    memory.store(SECRET, key="secret.key", metadata={"who": "Vexilomancy"})
    long = memory.store(paragraphs)
    memory.store("the garden gate is green", key="gate")
    memory.link_memories("gate", "secret.key", description="opens the Brillowhisp")
    memory.search(WORD.lower())
    memory.forget(long.id)
    audit = AuditFiles(audit_folder(home))
    audit.append("memory_updates", {"content": SECRET, "agent_id": "a"})
    audit.append("memory_updates", {"content": "the garden gate is green", "agent_id": "a"})
    aside = home / "store.corrupt-20260101T000000"
    aside.mkdir()
    (aside / "cache.db").write_bytes(b"m:" + long.id.encode() + SECRET.encode())
    other = home / "store.corrupt-20260102T000000"
    other.mkdir()
    (other / "cache.db").write_bytes(b"of others")
    said = (WORD, "7394-5531", "Zanzibarium", "Quorblefex", "Vexilomancy", "Brillowhisp", "secret.key")
    assert "cache.db" in left(tmp_path, WORD)
    first = memory.purge("secret.key")
    second = memory.purge(long.id)
    assert (len(first.ids), first.log_lines, second.ids, first.is_complete) == (1, 1, (long.id,), True)
    assert left(tmp_path, *said, "Ünal") == []
    assert (aside.exists(), other.exists()) == (False, True)
    assert SECRET not in json.dumps(first.to_json())
    assert [hit.memory.key for hit in memory.search("garden gate", limit=1)] == ["gate"]
    assert memory.links("gate") == ()
    memory.close()
    assert left(tmp_path, *said) == []


@pytest.mark.requirement("N10")
def test_nothing_brings_it_back(memory: SyncMemoryRouter, tmp_path: Path) -> None:
    stored = memory.store(SECRET, key="secret")
    [(exported, _)] = [pair for pair in memory.export() if pair[0].id == stored.id]
    memory.purge("secret")
    assert (memory.get(stored.id), memory.restore(stored.id), memory.restore("secret")) == (None, None, None)
    taken = memory.remember([Imported(draft(exported.content, key="secret"), id=stored.id)])
    assert (taken.stays_away, memory.get("secret")) == (1, None)
    again = memory.store("the key is free again", key="secret")
    assert again.id != stored.id
    once_more = Imported(draft(SECRET, key="secret"), id=stored.id)
    assert memory.remember([once_more]).stays_away == 1
    assert memory.search(WORD).hits == ()
    [row] = [one for one in rows(memory) if not one.memory.content]
    assert (row.memory.id, row.memory.key, row.memory.tags, row.status) == (stored.id, None, (), MemoryStatus.FORGOTTEN)


def rows(memory: SyncMemoryRouter) -> list[Any]:
    reader = memory._awaiting._engine.reader
    return reader.page(Query("", "app"), list(MemoryStatus), 1_000, None)


@pytest.mark.requirement("N10")
@pytest.mark.parametrize(
    ("said", "purged"),
    [
        ({"tags": ["private"]}, {"one", "two"}),
        ({"context_id": "call"}, {"two", "three"}),
        ({"by_agent": "cleo"}, {"four"}),
        ({"whole_project": True}, {"one", "two", "three", "four", "five", "gone"}),
    ],
)
def test_a_tag_a_context_an_agent_or_a_project_is_purged_whole(
    tmp_path: Path, said: dict[str, Any], purged: set[str]
) -> None:
    home = tmp_path / "home"
    with SyncMemoryRouter.open(home, False, project="app", agent="cleo", settings=QUICK) as cleo:
        cleo.store("four by cleo", key="four")
    with SyncMemoryRouter.open(home, False, project="other", settings=QUICK) as other:
        other.store("of another project", key="six", tags=["private"], context_id="call")
    with SyncMemoryRouter.open(home, False, project="app", settings=QUICK) as memory:
        memory.store("one is private", key="one", tags=["private"])
        memory.store("two is private", key="two", tags=["private"], context_id="call")
        memory.store("three was said", key="three", context_id="call")
        memory.archive("three")
        memory.store("five stays", key="five")
        memory.store("gone before", key="gone")
        memory.forget("gone")
        planned = memory.purge(**said, dry_run=True)
        assert (set(planned.names), len(planned.ids), memory.get("one") is None) == (purged, len(purged), False)
        assert set(memory.purge(**said).ids) == set(planned.ids)
        kept = {memory.key for memory, _ in memory.export()}
        assert kept == {"one", "two", "three", "four", "five"} - purged
        if "whole_project" not in said:
            with pytest.raises(InvalidInput, match="no memory of this project"):
                memory.purge(**said)
    with SyncMemoryRouter.open(home, False, project="other", settings=QUICK) as other:
        assert other.get("six") is not None


@pytest.mark.requirement("N10")
def test_what_a_context_was_called_goes_with_its_last_memory(memory: SyncMemoryRouter, tmp_path: Path) -> None:
    cleo = memory.scoped(agent="cleo")
    first = memory.store("was said first", context_id=WORD)
    second = cleo.store("was said then", context_id=WORD)
    memory.purge(second.id)
    assert memory.working_context().context_id == WORD
    memory.purge(first.id)
    assert left(tmp_path, WORD) == []


@pytest.mark.requirement("N10")
def test_documents_logs_and_what_is_in_focus_go_with_their_project_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for project in ("app", "other"):
        with SyncMemoryRouter.open(home, False, project=project, settings=QUICK) as memory:
            memory.documents.put("notes", "secret", {"text": f"{WORD} of {project}"})
            memory.log("session").append([f"{WORD} was said in {project}"])
            for view in (memory, memory.scoped(agent="scout")):
                view.attention.focus(f"{WORD} to find in {project}")
                view.store("a note", context_id=f"{WORD} talk in {project}")
    with SyncMemoryRouter.open(home, False, project="app", settings=QUICK) as memory:
        assert memory.purge(whole_project=True, dry_run=True).documents == 2
        assert memory.purge(whole_project=True).documents == 2
        assert memory.documents.get("notes", "secret") is None
    assert left(tmp_path, *(f"{WORD} {said} app" for said in ("of", "was said in", "to find in", "talk in"))) == []
    assert left(tmp_path, f"{WORD} of other") == ["cache.db"]


@pytest.mark.requirement("N10")
def test_what_is_pinned_is_purged_only_by_force_and_nothing_is_half_done(memory: SyncMemoryRouter) -> None:
    memory.store("private alone", key="alone", tags=["private"])
    memory.attention.pin("pinned and private", topics=["private"])
    with pytest.raises(InvalidInput, match="1 memory is pinned, and nothing was purged; unpin first"):
        memory.purge(tags=["private"])
    assert memory.get("alone") is not None
    assert len(memory.purge(tags=["private"], force=True).ids) == 2


@pytest.mark.parametrize("said", [{}, {"key_or_id": "a", "tags": ["b"]}, {"tags": ["b"], "whole_project": True}])
def test_a_purge_names_exactly_what_it_means(memory: SyncMemoryRouter, said: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="name one memory, or a tag"):
        memory.purge(**said)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"key_or_id": "nobody"}, "nothing is stored under 'nobody' in this project"),
        ({"tags": ["nobody"]}, "no memory of this project has the tag 'nobody'"),
        ({"by_agent": "nobody"}, "no memory of this project is of the agent 'nobody'"),
    ],
)
def test_what_is_not_there_is_said_in_one_sentence(memory: SyncMemoryRouter, said: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        memory.purge(**said)


@pytest.mark.requirement("N10")
async def test_what_was_forgotten_at_a_remote_before_is_purged_there_too(tmp_path: Path) -> None:
    team = Team(tmp_path)
    async with team.machine("ours") as ours:
        stored = await ours.store(SECRET, significance=0.9, wait=5)
        await ours.forget(stored.id)
        await ours.sync(timeout=5)
        assert "cache.db" in "".join(left(tmp_path / "hub", "7394-5531"))  # in its log, as deleted pages
        await ours.purge(stored.id)
        await ours.sync(timeout=5)
        assert left(tmp_path, WORD, "7394-5531") == []
    team.store.close()


@pytest.mark.requirement("N10")
async def test_a_learned_text_and_its_summary_are_purged_together_also_once_forgotten(tmp_path: Path) -> None:
    team = Team(tmp_path)
    async with team.machine("ours") as ours:
        text = f"We deployed twice and {WORD} failed. A review was missing. " * 20
        for is_forgotten in (False, True):
            learned = await ours.compress_and_learn(text, "outcome")
            whole = learned.to_json()["original_id"]
            if is_forgotten:
                await ours.forget(whole)
            assert len((await ours.purge(whole)).ids) == 2
            await ours.sync(timeout=5)
            assert left(tmp_path, WORD) == []
    team.store.close()


@pytest.mark.requirement("N10")
def test_a_summary_that_told_of_it_goes_on_without_it_and_without_its_own_history(
    memory: SyncMemoryRouter, tmp_path: Path
) -> None:
    one, two = memory.store(SECRET), memory.store("It rained on Tuesday.")
    told = [row.memory for row in rows(memory) if row.memory.id in (one.id, two.id)]
    memory.remember([Imported(summary(of(*told), [gist(each) for each in told]))])
    [telling] = [row.memory for row in rows(memory) if "summarises" in row.memory.metadata]
    assert WORD in telling.content
    memory.purge(one.id)
    after = memory.get(telling.id)
    assert after is not None
    assert (WORD in after.content, memory.history(telling.id)[1:]) == (False, ())
    assert left(tmp_path, WORD) == []


@pytest.mark.requirement("N10")
def test_a_replaced_store_is_named_and_stays_and_what_an_attempt_left_goes(
    memory: SyncMemoryRouter, tmp_path: Path
) -> None:
    home, beyond = tmp_path / "home", tmp_path / "beyond"
    gone, stays = memory.store(SECRET), memory.store("another text", key="another")
    names = ["store.replaced-1", "store.replaced-2", "store.restored", "store.salvaged"]
    for name, held in zip(names, (gone.id, stays.id, gone.id, gone.id), strict=True):
        (home / name).mkdir()
        (home / name / "cache.db").write_text(f"m:{held}")
    beyond.mkdir()
    (beyond / "cache.db").write_text(gone.id)
    (home / "store.corrupt-1").symlink_to(beyond)
    (home / "store.replaced-3").symlink_to(beyond)
    assert memory.purge(gone.id).left_in == (str(home / "store.replaced-1"),)
    assert sorted(one.name for one in home.glob("store.*")) == ["store.corrupt-1", *names[:2], "store.replaced-3"]
    assert (beyond / "cache.db").exists()
    (home / "store.replaced-2" / "cache.db").write_text('{"scope":{"project":"app","agent":null}}')
    assert memory.purge(whole_project=True, force=True).left_in == tuple(str(home / name) for name in names[:2])


@pytest.mark.requirement("N10")
def test_a_purge_whose_scrub_failed_is_repeated_by_the_id(
    memory: SyncMemoryRouter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stored, aside = memory.store(SECRET, key="secret"), tmp_path / "home" / "store.corrupt-1"
    aside.mkdir()
    (aside / "cache.db").write_text(stored.id)

    def busy(*_: object) -> None:
        raise StoreBusy(1.0)

    with monkeypatch.context() as patched:
        patched.setattr("kingly_memory.adapters.local.scrubbing.scrub", busy)
        with pytest.raises(StoreBusy):
            memory.purge("secret")
    again = memory.purge(stored.id)
    assert (again.ids, again.is_complete, aside.exists()) == ((), True, False)


@pytest.mark.requirement("N10")
def test_a_reader_of_the_log_is_said_to_keep_it(tmp_path: Path) -> None:
    impatient = Settings(durability="process", pace=Pace(closing_s=0.0, lock_wait_s=0.2), embedder="none")
    with SyncMemoryRouter.open(tmp_path / "home", False, project="app", settings=impatient) as memory:
        memory.store(SECRET, key="secret")
        with closing(sqlite3.connect(tmp_path / "home" / "store" / "cache.db")) as reading:
            reading.execute("BEGIN")
            reading.execute("SELECT count(*) FROM Cache").fetchone()
            assert memory.purge("secret").is_complete is False


@pytest.mark.requirement("N10")
@pytest.mark.requirement("D3")
async def test_a_purge_reaches_the_hub_and_the_copies_of_other_machines(tmp_path: Path) -> None:
    team = Team(tmp_path)
    async with team.machine("ours") as ours, team.machine("theirs") as theirs:
        stored = await ours.store(SECRET, key="secret", significance=0.9, wait=5)
        assert await texts(theirs, WORD) == [SECRET]
        await theirs._engine.flush()
        told = (await ours.purge(stored.id)).remotes
        await ours.sync(timeout=5)
        await theirs.sync(timeout=5)
        assert told == {"fake": 1}
        assert await texts(theirs, WORD) == []
        assert left(tmp_path / "hub", WORD, "7394-5531") == []
        assert left(tmp_path / "ours", WORD, "7394-5531") == []
        await ours.sync(timeout=5)
        assert (await ours.status())["outbox"]["pending"] == 0
    team.store.close()


def test_a_purged_word_is_learned_again_by_another_process(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with (
        SyncMemoryRouter.open(home, False, project="app", settings=QUICK) as one,
        SyncMemoryRouter.open(home, False, project="app", settings=QUICK) as other,
    ):
        other.store("the Zanzibarium is closed", key="first")
        one.purge("first")
        other.store("the Zanzibarium is open", key="second")
        assert [hit.memory.key for hit in one.search("Zanzibraium")] == ["second"]
