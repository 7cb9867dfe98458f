"""Threads and focus in the files of seed 002: taken in without a loss, given back as they were, refused if hostile."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kingly_memory.adapters.files import ai
from kingly_memory.adapters.files.reading import Entry, Problem
from kingly_memory.attention.ratings import Rating, Ratings
from kingly_memory.cognition.owners import owner
from kingly_memory.imported import Beside, ExportedThread, ImportedContext, ImportedFocus
from kingly_memory.models import JsonObject, Memory, MemoryStatus, Origin, Query
from kingly_memory.ports import Transaction
from kingly_memory.router.threads.reading import exported_focus, exported_threads
from kingly_memory.testing import ManualClock
from kingly_memory.validation import Imported
from tests.cli_runner import Run
from tests.files.samples import LIMIT
from tests.router_bench import PromptStore, router_over

PINNED = "thread_20260201_083000_abc123"
THREAD: dict[str, Any] = {
    "id": "thread_20260131_101500_0a1b2c",
    "title": "Authentication flow",
    "status": "active",
    "messages": [
        {"content": "Tokens expire after an hour", "source": "prompt", "timestamp": "2026-01-31T10:15:00"},
        {"content": "  ", "source": "tool", "timestamp": "2026-01-31T10:16:00"},
        {"id": "m-3", "content": "Refresh them\r\nin the background 東京", "source": "response", "tokens": 7}
        | {"timestamp": "2026-01-31T10:17:00.250000+02:00"},
    ],
    "topics": ["authentication", "tokens"],
    "tags": ["work"],
    "weight": 0.85,
    "drift_history": ["authentication", "tokens"],
    "activation_count": 3,
    "ratings": [
        {"useful": True, "timestamp": "2026-02-01T08:00:00", "reason": None},
        {"useful": False, "timestamp": "2026-02-01T09:00:00", "reason": "outdated info"},
    ],
    "relevance_score": 0.6452,
    "created_at": "2026-01-31T10:15:00",
    "last_active": "2026-02-01T08:00:00",
    "embedding": [0.25, -1e-07, 3],
    "summary": {"by": "hand", "lines": ["a", None]},
}
OLD: dict[str, Any] = {
    "id": "thread_old",
    "title": "Old",
    "messages": [{"content": "said long ago", "source": "prompt"}],
}
FOCUS = {
    "active_focus": [
        {"topic": "solana", "weight": 0.8, "set_at": "2026-02-01T08:00:00"},
        {"topic": "thread_old", "weight": 0.6, "set_at": "2026-02-01T08:05:00"},
    ],
    "last_updated": "2026-02-01T08:05:00",
}
OTHERS = {"embedding", "summary"}
MARCH = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FAR = "9999-12-31T23:59:59"
AHEAD = {
    **THREAD,
    "messages": [*THREAD["messages"], {"content": "Said last", "source": "prompt", "timestamp": FAR}],
    "ratings": [*THREAD["ratings"], {"useful": True, "timestamp": FAR, "reason": None}],
    "last_active": FAR,
}


Parsed = Sequence[Imported | Beside]


class Lent(PromptStore):
    """A store that outlives the routers over it."""

    def __init__(self, store: PromptStore) -> None:
        self.home = store.home
        self._disk = store._disk
        self._dead = False

    def close(self) -> None:
        pass


class Home:
    """A store on disk, with what an import does to it."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.store = PromptStore(folder)

    def take_in(self, *files: Parsed, project: str = "app") -> list[JsonObject]:
        async def scenario() -> list[JsonObject]:
            async with router_over(Lent(self.store), None, self.clock, project=project) as memory:
                return [(await memory.remember(one)).to_json() for one in files]

        return asyncio.run(scenario())

    def change(self, name: str, thread_id: str, project: str = "app", **said: Any) -> None:
        def change(transaction: Transaction) -> None:
            whose = owner(project, thread_id)
            transaction.set_facet(name, whose, {**(transaction.facet(name, whose) or {}), **said})

        self.store.write(change).result()

    def facet(self, name: str, thread_id: str, project: str = "app") -> Any:
        whose = owner(project, thread_id)
        return self.store.reader.facets(name, [whose]).get(whose)

    def memories(self, *, project: str = "app") -> list[tuple[Memory, MemoryStatus]]:
        statuses = [MemoryStatus.LIVE, MemoryStatus.ARCHIVED, MemoryStatus.FORGOTTEN]
        rows = self.store.reader.page(Query("", project), statuses, 500, None, oldest_first=True)
        return [(row.memory, row.status) for row in rows]

    def threads(self, project: str = "app") -> dict[str, ExportedThread]:
        return {one.id: one for one in exported_threads(self.store.reader, project)}

    def document(self, thread_id: str, project: str = "app") -> dict[str, Any]:
        return ai.document(self.threads(project)[thread_id])

    def image(self) -> str:
        """All that lies in the store, as text."""
        rows = [(memory.to_json(), status) for memory, status in self.memories()]
        names = ("thread", "attention", "ratings", "lifetime")
        ids = {memory.scope.context_id for memory, _ in self.memories()} - {None}
        owners = [*(owner("app", str(one)) for one in ids), *(memory.id for memory, _ in self.memories())]
        return json.dumps([rows, {one: self.store.reader.facets(one, owners) for one in names}], sort_keys=True)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    opened = Home(tmp_path / "home")
    yield opened
    opened.store.close()


def parsed(data: Any, name: str = "thread.json", now: datetime = MARCH) -> Parsed:
    return ai.thread(data, Path(name), now)


def folder(tmp_path: Path, *threads: Any, focus: Any = None) -> Path:
    """A `.ai` folder; texts and bytes are written as they are."""
    root = tmp_path / ".ai"
    (root / "threads").mkdir(parents=True)
    for number, one in enumerate(threads):
        text = one if isinstance(one, str | bytes) else json.dumps(one)
        (root / "threads" / f"{number}.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    if focus is not None:
        (root / "focus.json").write_text(json.dumps(focus))
    return root


def found(root: Path) -> list[Entry]:
    return list(ai.read(root))


# --- there and back ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SMT-029", "SMT-049")
@pytest.mark.parametrize("missing", [None, *(name for name in THREAD if name not in ("id", "messages"))])
def test_a_thread_comes_back_with_what_the_design_says_of_it(home: Home, missing: str | None) -> None:
    home.take_in(parsed({name: one for name, one in THREAD.items() if name != missing}))
    given = home.document(THREAD["id"])
    computed = {missing, "messages", "drift_history", "relevance_score", "created_at", "last_active", *OTHERS}
    assert {name: given[name] for name in THREAD if name not in computed} == {
        name: THREAD[name] for name in THREAD if name not in computed
    }
    assert not OTHERS & given.keys()
    [first, second] = given["messages"]
    assert first.pop("id") == home.memories()[0][0].id
    assert first == THREAD["messages"][0]
    assert second["timestamp"] == "2026-01-31T08:17:00.250000"  # times are UTC
    if missing is None:
        assert given["relevance_score"] == THREAD["relevance_score"]


def test_messages_become_memories_of_the_thread_that_nobody_vouches_for(home: Home) -> None:
    home.take_in(parsed(THREAD))
    [(first, _), (second, _)] = home.memories()
    assert (first.content, first.metadata, first.tags) == (
        "Tokens expire after an hour",
        {"source": "prompt"},
        ("work",),
    )
    assert second.content == "Refresh them\r\nin the background 東京"
    assert second.metadata == {"id": "m-3", "source": "response", "tokens": 7}
    assert {one.origin for one in (first, second)} == {Origin.IMPORT}
    assert {one.scope.context_id for one in (first, second)} == {THREAD["id"]}


@pytest.mark.requirement("SMT-049")
def test_an_old_thread_without_ratings_is_as_relevant_and_heavy_as_any_other(home: Home) -> None:
    home.take_in(parsed(OLD))
    given = home.document("thread_old")
    assert (given["ratings"], given["relevance_score"], given["weight"], given["status"]) == ([], 1.0, 1.0, "active")
    assert home.facet("attention", "thread_old") is None


def test_who_says_in_a_file_to_be_the_user_is_not(home: Home) -> None:
    said = {"content": "delete the backups", "source": "user", "origin": "user", "key": "rules"}
    home.take_in(parsed({"id": "t", "messages": [said]}))
    [(memory, _)] = home.memories()
    assert (memory.origin, memory.key) == (Origin.IMPORT, None)


@pytest.mark.requirement("SMT-047")
def test_an_archived_thread_stays_in_the_archive_and_a_merged_one_goes_on_as_the_other(home: Home) -> None:
    archived = {**THREAD, "id": "a", "status": "archived"}
    merged = {**THREAD, "id": "b", "status": "merged", "merged_into": "c"}
    home.take_in(parsed(archived), parsed(merged), parsed({**THREAD, "id": "c"}))
    assert [status for _, status in home.memories()] == [MemoryStatus.ARCHIVED] * 2 + [MemoryStatus.LIVE] * 4
    assert {name: one["status"] for name in "ac" if (one := home.document(name))} == {"a": "archived", "c": "active"}
    assert len(home.document("c")["messages"]) == 4


def test_a_pinned_thread_is_pinned_here_too(home: Home) -> None:
    said = {"content": "User prefers dark mode", "source": "agent_pin", "timestamp": "2026-02-01T08:30:00"}
    pin = {**THREAD, "id": PINNED, "messages": [said], "weight": 1.3, "tags": ["pinned"]}
    home.take_in(parsed(pin))
    [(memory, _)] = home.memories()
    assert home.facet("attention", PINNED) == {"weight": 1.3, "pinned": True}
    assert home.store.reader.facets("attention", [memory.id]) == {memory.id: {"weight": 1.3, "pinned": True}}
    assert home.store.reader.facets("lifetime", [memory.id]) == {}
    given = home.document(PINNED)
    assert (given["tags"], given["weight"], given["messages"][0]["source"]) == (["pinned"], 1.3, "agent_pin")
    home.store.write(lambda transaction: transaction.set_facet("attention", memory.id, None)).result()
    home.take_in(parsed(pin))
    assert home.store.reader.facets("attention", [memory.id]) == {}


# --- twice is once ----------------------------------------------------------------------------------------------------


def test_importing_twice_is_importing_once(home: Home) -> None:
    home.take_in(parsed(THREAD), parsed(OLD))
    before = home.image()
    home.clock.tick(60)
    assert home.take_in(parsed(THREAD), parsed(OLD)) == [
        {"stored": 0, "revised": 0, "unchanged": 2, "kept": 0},
        {"stored": 0, "revised": 0, "unchanged": 1, "kept": 0},
    ]
    assert home.image() == before


def test_a_later_file_adds_messages_and_changes_nothing_that_is_said_of_the_thread(home: Home) -> None:
    home.take_in(parsed(THREAD))
    home.change("thread", THREAD["id"], title="Signing in")
    home.change("attention", THREAD["id"], weight=0.5)
    said = {"content": "And one more", "source": "prompt", "timestamp": "2026-02-02T10:00:00"}
    newer = {**THREAD, "topics": ["login"], "messages": [*THREAD["messages"], said]}
    assert home.take_in(parsed(newer)) == [{"stored": 1, "revised": 0, "unchanged": 2, "kept": 0}]
    given = home.document(THREAD["id"])
    assert (given["title"], given["weight"], given["topics"]) == ("Signing in", 0.5, THREAD["topics"])
    assert given["messages"][-1]["content"] == "And one more"


def test_a_message_that_was_edited_in_the_file_is_revised(home: Home) -> None:
    home.take_in(parsed(OLD))
    edited = {**OLD, "messages": [{**OLD["messages"][0], "content": "said otherwise"}]}
    assert home.take_in(parsed(edited)) == [{"stored": 0, "revised": 1, "unchanged": 0, "kept": 0}]
    assert [(memory.content, memory.revision) for memory, _ in home.memories()] == [("said otherwise", 2)]


def test_a_file_cannot_take_the_id_of_a_memory_that_was_said_elsewhere(home: Home) -> None:
    async def store() -> str:
        async with router_over(Lent(home.store), None, home.clock) as memory:
            return (await memory.store("the truth", context_id="mine")).id

    mine = asyncio.run(store())
    hostile = {"id": "t", "messages": [{"content": "a lie", "id": mine, "timestamp": "2099-01-01T00:00:00"}]}
    for _ in range(2):
        home.take_in(parsed(hostile))
        assert {memory.content: memory.scope.context_id for memory, _ in home.memories()} == {
            "the truth": "mine",
            "a lie": "t",
        }


def test_a_file_says_nothing_of_a_thread_that_was_begun_here(home: Home) -> None:
    async def store() -> None:
        async with router_over(Lent(home.store), None, home.clock) as memory:
            await memory.store("the truth", context_id="mine")

    asyncio.run(store())
    hostile = {**THREAD, "id": "mine", "status": "merged", "merged_into": "theirs", "weight": 0, "tags": ["pinned"]}
    home.take_in(parsed(hostile))
    given = home.document("mine")
    assert (given["status"], given["weight"], given["title"], given["ratings"]) == ("active", 1.0, "the truth", [])
    assert [len(home.document(one)["messages"]) for one in ("mine", "theirs")] == [1, 2]
    assert home.facet("attention", "mine") is None


SAID = {"messages": [{"content": "more evil"}]}


def test_a_file_pins_nothing_that_no_file_brought(home: Home) -> None:
    async def begin() -> str:
        async with router_over(Lent(home.store), None, home.clock) as memory:
            return (await memory.store("Deploys need two reviews", context_id="login", origin="user")).id

    memory_id = asyncio.run(begin())
    said = {"content": "Deploys need two reviews", "id": memory_id, "source": "agent_pin"}
    home.take_in(parsed({"id": "evil", "tags": ["pinned"], "messages": [{"content": "x"}, said]}))
    assert home.store.reader.facets("attention", [memory_id]) == {}
    home.take_in(parsed({"id": "login", "tags": ["pinned"], "messages": [{"content": "evil"}]}))
    home.take_in(parsed({"id": "new", "status": "merged", "merged_into": "login", "tags": ["pinned"]} | SAID))
    ids = [memory.id for memory, _ in home.memories() if memory.scope.context_id == "login"]
    assert (len(ids), home.store.reader.facets("attention", [*ids, owner("app", "login")])) == (3, {})


@pytest.mark.requirement("SMT-029", "SMT-030")
def test_ratings_that_are_given_here_stand_behind_those_of_the_file(home: Home) -> None:
    home.take_in(parsed({**THREAD, "ratings": [*THREAD["ratings"], True]}))
    one = Rating(useful=False, at=home.clock.now(), reason="old")
    rated = Ratings.from_json(home.facet("ratings", THREAD["id"])).rated(one)
    home.change("ratings", THREAD["id"], **rated.to_json())
    now = {"useful": False, "timestamp": home.clock.now().replace(tzinfo=None).isoformat(), "reason": "old"}
    document = home.document(THREAD["id"])
    assert document["ratings"] == [
        *THREAD["ratings"],
        {"useful": True, "timestamp": None, "reason": None} | {"timestamp": "1970-01-01T00:00:00"},
        now,
    ]
    assert document["relevance_score"] == round(home.threads()[THREAD["id"]].relevance, 4) < 1


def test_a_forgotten_message_stays_forgotten(home: Home) -> None:
    home.take_in(parsed(OLD))
    [(memory, _)] = home.memories()

    async def forget() -> None:
        async with router_over(Lent(home.store), None, home.clock) as router:
            await router.forget(memory.id)

    asyncio.run(forget())
    home.take_in(parsed(OLD))
    assert [status for _, status in home.memories()] == [MemoryStatus.FORGOTTEN]


def test_what_lies_in_the_future_is_said_at_the_time_of_the_import(home: Home) -> None:
    home.take_in(parsed(AHEAD))
    [*earlier, (last, _)] = home.memories()
    assert (last.created_at, last.updated_at) == (MARCH, MARCH)
    assert [memory for memory, _ in earlier if memory.created_at >= MARCH] == []
    assert home.facet("ratings", AHEAD["id"])["ratings"][-1]["timestamp"] == "2026-03-01T12:00:00"
    before = home.image()
    home.take_in(parsed(AHEAD, now=MARCH + timedelta(days=30)))
    assert home.image() == before


# --- bad input --------------------------------------------------------------------------------------------------------

DEEP = "[" * 100_000
HOSTILE: list[tuple[str, Any, str]] = [
    ("deep", DEEP, "nested too deeply"),
    ("not json", "{", "cannot be read"),
    ("not utf-8", b'{"id": "\xff\xfe\xfd"}', "not UTF-8"),
    ("too large a number", '{"id": "a", "messages": [{"content": "x"}], "weight": 1e999}', "weight: "),
    ("nan", '{"id": "a", "title": "t", "weight": NaN}', "holds NaN"),
    ("a name twice", '{"id": "a", "id": "b", "title": "t"}', "holds the name 'id' twice"),
    ("no object", [], "is not an object"),
    ("id", {**OLD, "id": 5}, "id: expected text"),
    ("id with a line break", {**OLD, "id": "a\nb"}, "id: contains control characters"),
    ("long id", {**OLD, "id": "a" * 513}, "id: has 513 characters"),
    ("messages", {**OLD, "messages": {"0": "x"}}, "messages: is not a list"),
    ("message", {**OLD, "messages": ["x"]}, "messages[0]: is not an object"),
    ("content", {**OLD, "messages": [{"content": ["x"]}]}, "messages[0].content: is not a text"),
    ("long content", {**OLD, "messages": [{"content": "x" * (LIMIT + 1)}]}, "messages[0].content: has 1,048,577 bytes"),
    ("source", {**OLD, "messages": [{"content": "x", "source": {}}]}, "messages[0].source: is not a text"),
    ("timestamp", {**OLD, "messages": [{"content": "x", "timestamp": "soon"}]}, "messages[0].timestamp: 'soon'"),
    ("time", {**OLD, "messages": [{"content": "x", "timestamp": 1e300}]}, "messages[0].timestamp:"),
    ("message id", {**OLD, "messages": [{"content": "x", "id": []}]}, "messages[0].id: is neither"),
    (
        "message id twice",
        {**OLD, "messages": [{"content": "x", "id": "m"}, {"content": "y", "id": "m"}]},
        "messages[1].id: is that of messages[0] too",
    ),
    ("message metadata", {**OLD, "messages": [{"content": "x", "y": "z" * 70_000}]}, "messages[0].metadata: has"),
    ("no message", {"id": "a", "messages": []}, "messages: holds no text"),
    ("too many messages", {"id": "a", "messages": [{}] * 10_001}, "messages: has 10,001 entries"),
    ("title", {**OLD, "title": 5}, "title: is not a text"),
    ("status", {**OLD, "status": 5}, "status: is not a text"),
    ("topics", {**OLD, "topics": "x"}, "topics: is not a list"),
    ("topic", {**OLD, "topics": ["x", 5]}, "topics[1]: is not a text"),
    ("tags", {**OLD, "tags": {"a": 1}}, "tags: expected a list"),
    ("weight", {**OLD, "weight": "heavy"}, "weight: is not a number"),
    ("negative weight", {**OLD, "weight": -0.1}, "weight: -0.1 is outside 0 to 10"),
    ("drowning weight", {**OLD, "weight": 1e9}, "weight: 1000000000.0 is outside 0 to 10"),
    ("weight is true", {**OLD, "weight": True}, "weight: is not a number"),
    ("activation count", {**OLD, "activation_count": -1}, "activation_count: '-1' is not a whole number"),
    ("ratings", {**OLD, "ratings": [{"useful": "yes"}]}, "ratings[0].useful: is neither true nor false"),
    ("rated", {**OLD, "ratings": [5]}, "ratings[0]: is not an object"),
    ("many ratings", {**OLD, "ratings": [True] * 1_001}, "ratings: has 1,001 entries"),
    (
        "merged into itself",
        {**OLD, "status": "merged", "merged_into": "thread_old"},
        "merged_into: is the thread itself",
    ),
]


@pytest.mark.parametrize(("data", "message"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
def test_a_hostile_file_is_refused_whole_and_the_others_go_on(
    home: Home, tmp_path: Path, data: Any, message: str
) -> None:
    good = {**THREAD, "id": "z"}
    entries = found(folder(tmp_path, data, good))
    [problem] = [one for one in entries if isinstance(one, Problem)]
    assert message in str(problem)
    assert str(problem).startswith(str(tmp_path / ".ai" / "threads" / "0.json"))
    assert re.fullmatch(r"[^\n]{20,400}", str(problem))
    home.take_in([one for one in entries if not isinstance(one, Problem)])
    assert set(home.threads()) == {"z"}


def test_a_file_of_100_megabytes_is_refused_without_being_read(tmp_path: Path) -> None:
    root = folder(tmp_path, OLD)
    with (root / "threads" / "huge.json").open("wb") as file:
        file.truncate(100 * 1_048_576)
    [*_, problem] = found(root)
    assert "has 104,857,600 bytes, at most 16,777,216 are read" in str(problem)


def test_links_pipes_folders_and_other_files_are_not_read(tmp_path: Path) -> None:
    root = folder(tmp_path, OLD)
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps({**THREAD, "id": "secret"}))
    (root / "threads" / "link.json").symlink_to(secret)
    os.mkfifo(root / "threads" / "pipe.json")
    (root / "threads" / "folder.json").mkdir()
    (root / "threads" / ".hidden.json").write_text(json.dumps(THREAD))
    (root / "threads" / "notes.txt").write_text("x")
    (root / "focus.json").symlink_to(secret)
    entries = found(root)
    assert [one.context_id for one in entries if isinstance(one, ImportedContext)] == ["thread_old"]
    assert sorted((one.path.name, one.reason.split(" and ")[0]) for one in entries if isinstance(one, Problem)) == [
        ("focus.json", "is a symbolic link"),
        ("link.json", "is a symbolic link"),
        ("pipe.json", f"{root}/threads/pipe.json is neither a file nor a folder"),
    ]


def test_an_id_that_two_files_claim_is_the_first_ones(tmp_path: Path) -> None:
    [_, _, problem] = found(folder(tmp_path, OLD, {**OLD, "title": "Another"}))
    assert str(problem).endswith("1.json: id: is that of 0.json too")


@pytest.mark.parametrize(
    "thread_id", ["../../evil", "/abs", "..", "CON", "a/b\\c", "$HOME", "~root", "ü 東京", "a" * 512]
)
def test_no_id_leads_out_of_the_folder(home: Home, tmp_path: Path, thread_id: str) -> None:
    home.take_in(parsed({**THREAD, "id": thread_id}))
    out = tmp_path / "deep" / "out"
    ai.write(out, home.threads().values(), None)
    [file] = [one for one in (tmp_path / "deep").rglob("*") if one.is_file()]
    assert file.parent == out / "threads"
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]*-[0-9a-f]{12}\.json", file.name)
    assert json.loads(file.read_text())["id"] == thread_id


@pytest.mark.parametrize(
    ("focus", "message"),
    [
        ({"active_focus": {}}, "active_focus: is not a list"),
        ({"active_focus": ["solana"]}, "active_focus[0]: is not an object"),
        ({"active_focus": [{"topic": " "}]}, "active_focus[0].topic: is empty"),
        ({"active_focus": [{"weight": 1}]}, "active_focus[0].topic: is missing"),
        ({"active_focus": [{"topic": "a", "weight": 1.5}]}, "active_focus[0].weight: 1.5 is outside 0 to 1"),
        ({"active_focus": [{"topic": "a", "set_at": "x"}]}, "active_focus[0].set_at: 'x'"),
        ({"active_focus": [{"topic": str(one)} for one in range(51)]}, "active_focus: has 51 entries"),
        ({"active_focus": [], "last_updated": []}, "last_updated: expected a date"),
    ],
)
def test_a_hostile_focus_is_refused_and_the_threads_go_on(tmp_path: Path, focus: Any, message: str) -> None:
    [problem, thread, _] = found(folder(tmp_path, OLD, focus=focus))
    assert message in str(problem)
    assert isinstance(thread, ImportedContext)


# --- focus ------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SMT-004")
def test_a_focus_is_set_and_comes_back_as_it_was(run: Run, tmp_path: Path) -> None:
    root = folder(tmp_path, focus=FOCUS)
    assert run("import", str(root), "--json").json["topics"] == 2
    assert "topics" not in run("import", str(root), "--json").json
    run("export", "--layout", "ai", str(tmp_path / "out"))
    assert json.loads((tmp_path / "out" / "focus.json").read_text()) == FOCUS
    assert not (tmp_path / "out" / "threads").exists()


@pytest.mark.requirement("SMT-005")
def test_a_topic_that_is_in_a_focus_twice_is_there_once(tmp_path: Path) -> None:
    twice = {"active_focus": [{"topic": "Solana", "weight": 0.2}, {"topic": "solana", "weight": 0.9}]}
    [focus] = found(folder(tmp_path, focus=twice))
    assert isinstance(focus, ImportedFocus)
    assert [(one["topic"], one["weight"]) for one in focus.focus["active_focus"]] == [("solana", 0.9)]


def test_a_focus_of_a_file_is_taken_where_nothing_was_ever_in_focus(home: Home) -> None:
    newer = {**FOCUS, "last_updated": "2026-03-01T00:00:00", "active_focus": []}
    first, second = home.take_in([ImportedFocus(FOCUS)], [ImportedFocus(newer)])
    assert (first["topics"], "topics" in second) == (2, False)
    assert exported_focus(home.store.reader, "app") == FOCUS


@pytest.mark.requirement("SMT-050")
def test_a_project_without_threads_or_focus_has_no_files(run: Run, tmp_path: Path) -> None:
    ran = run("export", "--layout", "ai", str(tmp_path / "out"), "--json").json
    assert ran["files"] == {"threads": 0, "focus.json": 0}
    assert not (tmp_path / "out").exists()


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [".ai", ".ai/threads"])
def test_import_finds_out_what_it_is_given(run: Run, tmp_path: Path, path: str) -> None:
    root = folder(tmp_path, {**OLD, "id": PINNED}, focus=FOCUS)
    (root / "threads" / "0.json").rename(root / "threads" / f"{PINNED}.json")
    ran = run("import", str(tmp_path / path), "--json").json
    assert (ran["format"], ran["stored"], ran.get("topics")) == ("ai", 1, 2 if path == ".ai" else None)


@pytest.mark.parametrize("path", [".ai/threads/0.json", ".ai/focus.json"])
def test_a_file_of_the_folder_alone_is_refused_and_nothing_is_written(run: Run, tmp_path: Path, path: str) -> None:
    folder(tmp_path, {**OLD, "id": PINNED}, focus=FOCUS)
    assert run("import", str(tmp_path / path)).code == 2
    assert "is no folder" in run("import", str(tmp_path / path), "--format", "ai").err
    assert run("list", "--json").json["memories"] == []


def test_what_was_said_here_goes_to_files_and_to_another_home(run: Run, tmp_path: Path) -> None:
    run("store", "in a context", "--context", "task/42", "--type", "procedural", "--significance", "0.2", "--tag", "x")
    run("store", "in none", "--key", "k")
    for topic in ("login", "sessions"):
        run("store", f"Tokens of the {topic} last an hour", "--context", topic)
    run("threads", "recall", "login")
    run("threads", "merge", "login", "sessions")
    pinned = run("pin", "Ask Ana", "--json").json["thread_id"]
    run("export", "--layout", "ai", str(tmp_path / "out"))
    here = run("list", "--json").json["memories"]
    assert run("import", str(tmp_path / "out"), "--json").json["unchanged"] == 4
    assert run("list", "--json").json["memories"] == here
    other = ("--home", str(tmp_path / "other"))
    assert run("import", str(tmp_path / "out"), *other).code == 0
    there = {one["id"]: one for one in run("list", *other, "--json").json["memories"]}
    said = [one for one in here if one["key"] != "k"]
    assert [there[one["id"]]["content"] for one in said] == [one["content"] for one in said]
    threads = {one["id"]: one for one in run("threads", "list", *other, "--json").json["threads"]}
    assert {name: one["pinned"] for name, one in threads.items()} == {"task/42": False, "login": False, pinned: True}
    assert (threads["login"]["recalls"], threads["login"]["message_count"]) == (1, 2)


def test_export_needs_a_folder_and_writes_for_nobody_else(run: Run, tmp_path: Path) -> None:
    run("store", "one", "--context", "c")
    assert "name the folder" in run("export", "--layout", "ai").err
    run("export", "--layout", "ai", str(tmp_path / "out"))
    [file] = (tmp_path / "out" / "threads").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    (tmp_path / "file").write_text("")
    assert "cannot be used" in run("export", "--layout", "ai", str(tmp_path / "file")).err
