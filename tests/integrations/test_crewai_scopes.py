"""Which records of CrewAI a scope and other filters name."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from kingly_memory.integrations.crewai_scopes import children, fitting


def record(name: str, scope: str, **told: Any) -> Any:
    usual = {"categories": ["a"], "metadata": {"n": 1}, "created_at": datetime(2026, 1, 2)}  # noqa: DTZ001  # as CrewAI's
    return SimpleNamespace(id=name, scope=scope, **{**usual, **told})


RECORDS = [record("1", "/"), record("2", "/shop"), record("3", "/shop/old/", categories=[]), record("4", "/shopping")]


def those(**told: Any) -> str:
    return "".join(one.id for one in RECORDS if fitting(**told)(one))


def test_a_scope_is_that_path_and_what_lies_below_it_in_whole_names() -> None:
    assert [those(scope_prefix=one) for one in (None, "/", "", "/shop", "shop/", "/sh")] == [
        "1234", "1234", "1234", "23", "23", ""
    ]  # fmt: skip
    assert children("/", RECORDS) == ["/shop", "/shopping"]
    assert children("/shop", RECORDS[1:3]) == ["/shop/old"]


def test_all_that_is_said_must_hold_and_times_without_a_zone_are_utc() -> None:
    assert those(categories=["a", "b"], record_ids=["1", "3"]) == "1"
    assert those(metadata_filter={"n": 2}) == those(record_ids=[]) == ""
    for older in (datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 2)):  # noqa: DTZ001  # as CrewAI's
        assert those(older_than=older) == ""
    assert those(older_than=datetime(2026, 1, 2, 1, tzinfo=UTC)) == "1234"
