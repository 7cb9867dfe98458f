"""Values at and beyond the limits: each is refused by its name, none takes anything else down with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from operator import methodcaller
from pathlib import Path

import pytest

import kingly_memory
from kingly_memory import validation
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.cli.main import main
from kingly_memory.errors import InvalidInput, InvalidSetting, RemoteUnavailable
from kingly_memory.home.place import hub_token
from kingly_memory.router.delivery import known_remotes, outbox
from kingly_memory.router.delivery import moves as delivery
from kingly_memory.settings import Pace, Settings, unknown_variables
from tests.remote_samples import remote_at, stored
from tests.store_samples import NOON_S, REMOTE, behind, memory, put

HUGE = 10**5_000
"""Python refuses to write it out."""


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("significance", lambda: validation.draft("x", significance=10**400)),
        ("significance", lambda: validation.draft("x", significance=-HUGE)),
        ("type", lambda: validation.draft("x", type=HUGE)),
        ("metadata", lambda: validation.draft("x", metadata={"deep": [HUGE]})),
        ("limit", lambda: validation.query("x", space="p", limit=HUGE)),
        ("wait", lambda: validation.seconds("wait", 10**400)),
        ("wait", lambda: validation.seconds("wait", HUGE)),
        ("since", lambda: validation.query("x", space="p", since="0001-01-01T00:00:00+05:00")),
        ("until", lambda: validation.query("x", space="p", until="9999-12-31T23:59:59-05:00")),
        (
            "created_at",
            lambda: validation.draft(
                "x",
                created_at=datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
            ),
        ),
    ],
)
def test_a_value_too_large_to_handle_is_refused_by_its_name(field: str, said: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput) as caught:
        said()
    assert caught.value.field == field
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("edge", [datetime.min, datetime.max])  # noqa: DTZ901  # the limits themselves
def test_the_first_and_the_last_moment_are_moments(edge: datetime) -> None:
    assert validation.moment("since", edge) == edge.replace(tzinfo=UTC)


async def test_a_host_that_cannot_be_decoded_is_an_unavailable_remote() -> None:
    remote = remote_at("http://xn--.com")
    with pytest.raises(RemoteUnavailable, match="the address cannot be used"):
        await stored(remote)
    await remote.aclose()


# --- settings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["offline_after", "lease_size", "send_tries"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3", pytest.param(HUGE, id="huge")])
def test_a_count_is_a_whole_number_of_one_or_more(name: str, value: object) -> None:
    with pytest.raises(InvalidSetting, match=f"setting pace.{name}: .* is not a whole number of 1 or more"):
        Pace(**{name: value})  # type: ignore[arg-type]  # wrong on purpose
    Pace(**{name: 1})


@pytest.mark.parametrize(
    "name",
    [
        "lease_s",
        "poll_s",
        "probe_interval_s",
        "usage_flush_s",
        "call_timeout_s",
        "remote_search_s",
        "local_search_s",
        "longest_wait_s",
    ],
)
@pytest.mark.parametrize("value", [0, 0.0, -1.0, float("nan"), float("inf"), pytest.param(HUGE, id="huge")])
def test_a_time_that_would_spin_at_nothing_is_above_nothing(name: str, value: float) -> None:
    table = Pace if name in {one.name for one in fields(Pace)} else Settings
    with pytest.raises(InvalidSetting, match=rf"setting (pace\.)?{name}: .* is not a number above 0"):
        table(**{name: value})  # type: ignore[arg-type]  # the type checker cannot see the name
    table(**{name: 0.001})  # type: ignore[arg-type]


def test_a_share_is_at_most_one() -> None:
    assert Settings(local_weight=1).local_weight == 1
    with pytest.raises(InvalidSetting, match=r"setting local_weight: 1\.01 is not a number from 0 to 1"):
        Settings(local_weight=1.01)


def test_a_pause_may_be_none_at_all() -> None:
    assert Pace(send_pause_s=0.0, closing_s=0.0, lock_wait_s=0.0).send_pause_s == 0


def test_the_environment_is_read_in_one_place() -> None:
    package = Path(kingly_memory.__file__).parent
    readers = [path for path in package.rglob("*.py") if re.search(r"os\.(environ|getenv)", path.read_text("utf-8"))]
    read = [
        "settings.py",
        "home/place.py",
        "home/own_files.py",  # whose folder `~` is
        "hub/process.py",
        "cli/output.py",
    ]  # and, of the reference server, its file:
    assert sorted(readers) == sorted(package / one for one in (*read, "server/graph.py"))


def test_each_variable_that_is_read_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    place = (Path(kingly_memory.__file__).parent / "home" / "place.py").read_text("utf-8")
    for name in re.findall(r'"(KINGLY_[A-Z_]+)"', place):
        monkeypatch.setenv(name, "x")
    assert unknown_variables() == []


def test_the_hubs_token_comes_from_the_environment() -> None:
    assert hub_token({"KINGLY_HUB_TOKEN": "t0ken"}) == ("t0ken", None)
    assert hub_token({"KINGLY_HUB_TOKEN": ""}) == (None, None)
    assert hub_token({"KINGLY_TOKEN": "for another"}) == (None, None)


def test_a_token_in_the_arguments_of_a_hub_is_refused_unread(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hub", "--token", "t0ken", "--port", "70000"]) == 2
    said = capsys.readouterr().err
    assert ("--token is no option of hub" in said, "t0ken" in said) == (True, False)


# --- the outbox ---------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DiskStore]:
    store = DiskStore(tmp_path / "home", durability="process")
    yield store
    store.close()


def test_backlog_is_read_once_however_many_batches_it_takes(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_remotes, "AT_ONCE", 2)
    notes = [memory(f"note {number}") for number in range(5)]
    put(store, *notes)
    store.write(known_remotes.add(REMOTE, "fake", "alpha", NOON_S, earlier=True)).result()
    places: list[str | None] = [""]
    while (after := places[-1]) is not None:
        places.append(store.write(known_remotes.backfill(REMOTE, "alpha", NOON_S, after)).result().last)
    ids = [one.id for one in notes]
    assert places == ["", ids[1], ids[3], ids[4], None]
    assert store.reader.outbox_counts(REMOTE)["pending"] == 5


def test_backlog_goes_on_after_a_kill_with_what_was_left(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_remotes, "AT_ONCE", 2)
    put(store, *(memory(f"note {number}") for number in range(4)))
    assert store.write(known_remotes.add(REMOTE, "fake", "alpha", NOON_S, earlier=True)).result()
    store.write(known_remotes.backfill(REMOTE, "alpha", NOON_S, "")).result()
    assert store.write(known_remotes.add(REMOTE, "fake", "alpha", NOON_S)).result()
    after: str | None = ""
    while after is not None:
        after = store.write(known_remotes.backfill(REMOTE, "alpha", NOON_S, after)).result().last
    assert store.reader.outbox_counts(REMOTE)["pending"] == 4
    assert not store.write(known_remotes.add(REMOTE, "fake", "alpha", NOON_S)).result()


@pytest.mark.parametrize(
    "odd", ["attempts = 'many'", "wanted = NULL", "owner = x'07'", "remote_id = x'00'", "due_s = 'soon'"]
)
def test_delivery_that_cannot_be_read_is_dead_and_holds_up_no_other(
    tmp_path: Path, store: DiskStore, caplog: pytest.LogCaptureFixture, odd: str
) -> None:
    first, second = memory("first"), memory("second")
    put(store, first, second)
    for one in (first, second):
        store.write(methodcaller("set_delivery", REMOTE, one.id, delivery.wanted(None, 1, NOON_S))).result()
    with behind(tmp_path / "home") as connection:
        connection.execute(f"UPDATE km_delivery SET {odd} WHERE item = ?", (first.id,))  # noqa: S608
    claim = outbox.Claim(REMOTE, "me", NOON_S + 1, 60).lease(REMOTE, 10)
    assert [item.subject for item in store.write(claim).result()] == [second]
    assert store.write(claim).result() == []
    assert [record.getMessage() for record in caplog.records if first.id in record.getMessage()] == [
        f"the delivery of memory {first.id} is dead: what was noted of its delivery cannot be read"
    ]
    assert store.write(outbox.retry(REMOTE, [first.id], NOON_S, "alpha")).result() == 1
    assert [item.subject for item in store.write(claim).result()] == [first]


def test_a_lease_takes_no_more_text_than_fits_in_memory_and_the_next_one_the_rest(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "LEASED_CHARACTERS", 100)
    several = [memory(f"{number}" * 60) for number in range(3)]
    put(store, *several)
    for one in several:
        store.write(methodcaller("set_delivery", REMOTE, one.id, delivery.wanted(None, 1, NOON_S))).result()
    claim = outbox.Claim(REMOTE, "me", NOON_S + 1, 60).lease(REMOTE, 10)
    assert [len(store.write(claim).result()) for _ in range(3)] == [2, 1, 0]
