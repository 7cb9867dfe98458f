"""Nothing is overwritten: what a memory said before can be listed, read, compared and brought back."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from datetime import timedelta
from itertools import product
from pathlib import Path
from random import Random

import pytest

from kingly_memory import InvalidInput, KinglyMemoryError, MemoryRouter, RevisionConflict, Settings, SyncMemoryRouter
from kingly_memory.errors import RecordDamaged
from kingly_memory.models import Memory
from kingly_memory.settings import Pace
from kingly_memory.testing import FakeRemote, ManualClock
from kingly_memory.validation import Imported, draft
from tests.router_bench import PromptStore, router_over

QUICK = Settings(durability="process", pace=Pace(closing_s=0.0), revisions_kept=2)


@pytest.fixture
def remote(clock: ManualClock) -> FakeRemote:
    return FakeRemote(clock=clock)


@pytest.fixture
async def memory(store: PromptStore, clock: ManualClock, remote: FakeRemote) -> AsyncIterator[MemoryRouter]:
    async with router_over(store, remote, clock, settings=QUICK) as router:
        yield router


async def told(memory: MemoryRouter, *texts: str) -> None:
    for text in texts:
        await memory.store(text, key="deploy", significance=0.8, tags=["rule"])


@pytest.mark.requirement("N5", "D2")
async def test_storing_a_key_again_keeps_what_it_said_before(memory: MemoryRouter, clock: ManualClock) -> None:
    await told(memory, "one review")
    clock.jump(60)
    await told(memory, "two reviews")
    latest, first = await memory.history("deploy")
    assert (latest, latest.content, latest.revision) == (await memory.get("deploy"), "two reviews", 2)
    assert (first.content, first.revision) == ("one review", 1)
    assert latest.updated_at - first.updated_at == timedelta(seconds=60)
    assert await memory.get("deploy", revision=1) == first
    assert await memory.get(latest.id, revision=2) == latest
    assert [hit.memory.content for hit in await memory.search("review")] == ["two reviews"]


@pytest.mark.requirement("N5", "D2")
async def test_what_a_memory_never_said_is_an_error_that_names_it(memory: MemoryRouter) -> None:
    await told(memory, "one review")
    for asked in (memory.get("deploy", revision=7), memory.diff("deploy", 7), memory.restore("deploy", revision=7)):
        with pytest.raises(InvalidInput, match=r"revision: 'deploy' has no revision 7; `kingly-memory history` lists"):
            await asked
    with pytest.raises(InvalidInput, match="revision"):
        await memory.get("deploy", revision=0)
    assert await memory.history("nobody") == ()
    assert [await memory.get("nobody", 1), await memory.diff("nobody"), await memory.restore("nobody", 1)] == [None] * 3


@pytest.mark.requirement("N5", "D2")
async def test_two_revisions_are_compared_line_by_line(memory: MemoryRouter) -> None:
    await told(memory, "one\nreview", "two\nreviews", "two\nreviews\nplease")
    assert [line for line in str(await memory.diff("deploy")).splitlines() if line[0] in "+-"] == [
        "--- deploy revision 2\t2026-01-01T00:00:00+00:00",
        "+++ deploy revision 3\t2026-01-01T00:00:00+00:00",
        "+please",
    ]
    assert "-one\n" in str(await memory.diff("deploy", 1))
    assert "-two\n" in str(await memory.diff("deploy", 2, 1))
    assert await memory.diff("deploy", 3, 3) == ""


@pytest.mark.requirement("N5", "D2")
async def test_an_earlier_revision_is_said_again_as_a_new_one_that_is_delivered(
    memory: MemoryRouter, remote: FakeRemote
) -> None:
    await told(memory, "one review")
    await memory.sync()
    await memory.store("no reviews", key="deploy", significance=0.4, tags=[], title="Wrong", context_id="talk")
    restored = await memory.restore("deploy", revision=1)
    assert restored is not None
    assert (restored.content, restored.revision, restored.tags) == ("one review", 3, ("rule",))
    assert (restored.significance, restored.title, restored.scope.context_id) == (0.8, None, "talk")
    assert await memory.get("deploy") == restored
    assert [one.content for one in await memory.history("deploy")] == ["one review", "no reviews", "one review"]
    assert await memory.restore("deploy", revision=1) == restored  # it says that already
    await memory.sync()
    assert [one.content for one in remote.memories.values()] == ["one review"]
    assert remote.effects[-1].endswith(".3")


@pytest.mark.requirement("N5", "D2")
async def test_a_revision_goes_through_only_when_no_other_came_between(memory: MemoryRouter) -> None:
    first = await memory.store("one review", key="deploy", if_revision=0)
    await memory.store("two reviews", key="deploy", if_revision=first.revision)
    for change in (
        memory.store("three", key="deploy", if_revision=1),
        memory.store("three", key="deploy", if_revision=0),
        memory.update("deploy", title="three", if_revision=1),
    ):
        with pytest.raises(RevisionConflict, match=r"^'deploy' is at revision 2 and not at revision .; read it again"):
            await change
    with pytest.raises(RevisionConflict, match="'else' is not stored and not at revision 4"):
        await memory.store("three", key="else", if_revision=4)
    with pytest.raises(InvalidInput, match="if_revision: goes with the key"):
        await memory.store("three", if_revision=1)
    await memory.forget("deploy")
    await memory.store("new again", key="deploy", if_revision=0)
    assert [one.content for one in await memory.history("deploy")] == ["new again", "two reviews", "one review"]


@pytest.mark.requirement("N5", "D2")
async def test_another_agents_revision_has_its_own_author_and_inherits_no_tags_and_no_significance(
    store: PromptStore, clock: ManualClock
) -> None:
    async with (
        router_over(store, None, clock, settings=QUICK, agent="ann") as ann,
        router_over(store, None, clock, settings=QUICK, agent="bob") as bob,
    ):
        await ann.store("one review", key="deploy", significance=0.9, tags=["rule"], title="Deploys")
        await ann.store("two reviews", key="deploy")
        await bob.store("no reviews", key="deploy")
        history = await bob.history("deploy")
    assert [one.scope.agent for one in history] == ["bob", "ann", "ann"]
    assert [one.tags for one in history] == [(), ("rule",), ("rule",)]
    assert [one.significance for one in history] == [0.5, 0.9, 0.9]
    assert history[0].title == "Deploys"


@pytest.mark.requirement("N5", "D2")
async def test_an_update_changes_what_is_said_and_keeps_the_text_and_its_author(
    store: PromptStore, clock: ManualClock
) -> None:
    async with (
        router_over(store, None, clock, settings=QUICK, agent="ann") as ann,
        router_over(store, None, clock, settings=QUICK, agent="bob") as bob,
    ):
        stored = await ann.store("one review", key="deploy", significance=0.9, tags=["rule"], origin="web")
        changed = await bob.update("deploy", tags=["rule", "ci"], title="Deploys", ttl="7d")
        assert changed is not None
        assert (changed.id, changed.revision, changed.key) == (stored.id, 2, "deploy")
        assert changed.ends_at == clock.now() + timedelta(days=7)
        latest, _ = await bob.history("deploy")
        assert (latest.content, latest.scope.agent, latest.origin) == ("one review", "ann", "web")
        assert (latest.tags, latest.title, latest.significance) == (("rule", "ci"), "Deploys", 0.9)
        assert [hit.memory.id for hit in await ann.search("review", tags=["ci"])] == [stored.id]
        assert await bob.update("deploy", "two reviews", tags=[]) is not None
        latest = (await bob.history("deploy"))[0]
        assert (latest.content, latest.scope.agent, latest.tags) == ("two reviews", "bob", ())
        assert await bob.update("nobody", title="none") is None
        with pytest.raises(InvalidInput, match="significance"):
            await bob.update("deploy", significance=2.0)


@pytest.mark.requirement("N5", "D2", "D3")
async def test_a_forgotten_memory_has_no_history_until_it_is_restored(memory: MemoryRouter) -> None:
    await told(memory, "one review", "two reviews")
    await memory.forget("deploy")
    assert await memory.history("deploy") == ()
    assert await memory.get("deploy", revision=1) is None
    assert await memory.update("deploy", title="Deploys") is None
    restored = await memory.restore("deploy", revision=1)
    assert restored is not None
    assert [one.content for one in await memory.history("deploy")] == ["one review", "two reviews", "one review"]


@pytest.mark.requirement("N5", "D2")
async def test_a_sweep_lets_go_of_the_oldest_revisions(memory: MemoryRouter) -> None:
    await told(memory, *"abcde")
    assert (await memory.sweep(dry_run=True)).revisions == 2
    assert len(await memory.history("deploy")) == 5
    assert (await memory.sweep()).revisions == 2
    assert [one.content for one in await memory.history("deploy")] == ["e", "d", "c"]


@pytest.mark.requirement("D7")
def test_a_damaged_record_is_named_where_it_is_asked_for_and_its_history_is_told(tmp_path: Path) -> None:
    with SyncMemoryRouter.open(tmp_path, False, project="app", settings=QUICK) as memory:
        memory.store("the port is 6432", key="port")
        memory_id = memory.store("the port is 6433", key="port").id
        memory.store("the kettle whistles", key="kettle")
    with closing(sqlite3.connect(tmp_path / "store/cache.db")) as raw:
        raw.execute("UPDATE Cache SET value = replace(value, '6433', '6439') WHERE key = ?", (f"m:{memory_id}",))
        raw.commit()
    with SyncMemoryRouter.open(tmp_path, False, project="app", settings=QUICK) as memory:
        for name in ("port", memory_id):
            with pytest.raises(RecordDamaged, match=memory_id):
                memory.get(name)
            assert [one.content for one in memory.history(name)] == ["the port is 6432"]
        assert "6439" not in str(memory.search("port 6439").to_json())
        assert memory.get("kettle") is not None
        memory.store("the port is 6434", key="port")
        found: Memory | None = memory.get("port")
        assert found is not None
        assert found.content == "the port is 6434"


@pytest.mark.requirement("N10", "D3")
def test_a_purge_leaves_no_byte_of_an_earlier_revision(tmp_path: Path) -> None:
    words = ["quorblefex", "vexilomancy", "brillowhisp"]
    with SyncMemoryRouter.open(tmp_path / "home", False, project="app", settings=QUICK) as memory:
        stored = [memory.store(f"the {word} of the gate", key="gate") for word in words][-1]
        memory.store("what stays", key="gate 2")
        memory.purge("gate")
        assert memory.history(stored.id) == ()
        assert memory.restore(stored.id, revision=1) is None
    files = [one.read_bytes().lower() for one in tmp_path.rglob("*") if one.is_file()]
    assert files
    assert [word for word in words if any(word.encode() in one for one in files)] == []


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("seed", range(2))
def test_no_flipped_bit_shows_another_text_than_was_stored(tmp_path: Path, seed: int) -> None:
    home, told = tmp_path / "home", dict[str, list[str]]()
    with SyncMemoryRouter.open(home, False, project="app", settings=QUICK) as memory:
        for number, revision in product(range(30), range(2)):
            text = f"note {number} said {revision}: the port is {6_000 + 7 * number + revision} and the kettle whistles"
            memory.store(text, key=f"key {number}")
            told.setdefault(f"key {number}", []).append(text)
    whole, chance = (home / "store/cache.db").read_bytes(), Random(seed)
    for attempt in range(12):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        copied = tmp_path / str(attempt)
        shutil.copytree(home, copied)
        (copied / "store/cache.db").write_bytes(damaged)
        with suppress(KinglyMemoryError), SyncMemoryRouter.open(copied, False, project="app", settings=QUICK) as memory:
            for key, texts in told.items():
                with suppress(RecordDamaged):
                    found = memory.get(key)
                    assert found is None or found.content == texts[-1]
                assert {one.content for one in memory.history(key)} <= set(texts)
            for hit in memory.search("kettle port"):
                assert hit.memory.content == told[str(hit.memory.key)][-1]


@pytest.mark.requirement("D7")
def test_a_key_that_leads_to_another_memory_is_damaged_and_overwrites_nothing(tmp_path: Path) -> None:
    with SyncMemoryRouter.open(tmp_path, False, project="app", settings=QUICK) as memory:
        kettle = memory.store("the kettle whistles", key="kettle").id
        port = memory.store("the port is 6432", key="port").id
    with closing(sqlite3.connect(tmp_path / "store/cache.db")) as raw:
        raw.execute("UPDATE km_memory SET key = NULL WHERE id = ?", (port,))
        raw.execute("UPDATE km_memory SET key = 'port' WHERE id = ?", (kettle,))
        raw.commit()
    with SyncMemoryRouter.open(tmp_path, False, project="app", settings=QUICK) as memory:
        with pytest.raises(RecordDamaged):
            memory.get("port")
        assert memory.history("port") == ()
        memory.store("the port is 6433", key="port")
        assert [one.content for one in memory.history(kettle)] == ["the kettle whistles"]
        assert memory.get(port) is not None


@pytest.mark.requirement("D2")
async def test_what_a_file_says_of_the_past_comes_with_its_memory_or_not_at_all(
    memory: MemoryRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kingly_memory.api.memories.IMPORT_BATCH", 1)
    whole, orphan = (f"01977c00-0000-7000-8000-00000000000{number}" for number in range(2))

    def item(memory_id: str, text: str, revision: int, *, is_earlier: bool) -> Imported:
        said = draft(text)
        return Imported(said, memory_id, revision=revision, is_earlier=is_earlier)

    items = [item(whole, text, number, is_earlier=number < 3) for number, text in enumerate(["a", "b", "c"], 1)]
    taken = await memory.remember([*items, item(orphan, "d", 1, is_earlier=True)])
    assert (taken.stored, [one.content for one in await memory.history(whole)]) == (1, ["c", "b", "a"])
    assert await memory.history(orphan) == ()


async def test_what_says_the_same_is_no_new_revision(memory: MemoryRouter, clock: ManualClock) -> None:
    await told(memory, "A", "B")
    before = await memory.get("deploy")
    clock.jump(60)
    await told(memory, *["B"] * 10)
    same = await memory.update("deploy")
    receipt = await memory.store("B", key="deploy", significance=0.8, tags=["rule"])
    assert before is not None
    assert same is not None
    assert (same.id, receipt.id, await memory.get("deploy")) == (before.id, before.id, before)
    assert [one.content for one in await memory.history("deploy")] == ["B", "A"]
    await memory.update("deploy", tags=["law"])
    assert [one.tags for one in await memory.history("deploy")] == [("law",), ("rule",), ("rule",)]


def test_an_import_into_another_project_of_the_home_takes_the_history_along(tmp_path: Path) -> None:
    home, memory_id = tmp_path / "home", "01977c00-0000-7000-8000-000000000000"
    said = [draft(text) for text in ("a", "b", "c")]
    items = [
        Imported(one, memory_id, revision=number, is_earlier=number < 3, updated_at=None)
        for number, one in enumerate(said, 1)
    ]
    for project in ("one", "two"):
        with SyncMemoryRouter.open(home, False, project=project, settings=QUICK) as router:
            router.remember(items)
            [found] = router.list()
            assert [one.content for one in router.history(found.id)] == ["c", "b", "a"]
