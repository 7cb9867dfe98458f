"""Searches and lists let through what has the tags, the origin, the time and the fields that were asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.errors import InvalidInput
from kingly_memory.testing import ManualClock
from tests.cli_runner import Run


@pytest.fixture
async def memory(memory: MemoryRouter, clock: ManualClock) -> MemoryRouter:
    for key, tags, origin, metadata in (
        ("a", ["ops", "api"], "user", {"status": "open", "score": 3}),
        ("b", ["ops"], "agent", {"status": "open", "score": 5, "at": {"host": "x"}}),
        ("c", ["web"], "tool", {"status": "done"}),
        ("d", [], "agent", None),
    ):
        await memory.store(f"the deploy of {key}", key=key, tags=tags, origin=origin, metadata=metadata)
        clock.jump(86_400)
    return memory


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ({"any_tags": ["api", "web"]}, "ac"),
        ({"any_tags": ["ops"], "tags": ["api"]}, "a"),
        ({"any_tags": ["nobody"]}, ""),
        ({"origin": "agent"}, "bd"),
        ({"origin": ["user", "tool"]}, "ac"),
        ({"filter": {"status": "open"}}, "ab"),
        ({"filter": {"status": "open", "score": {"$gt": 3}}}, "b"),
        ({"filter": {"at": {"host": "x"}}}, "b"),
        ({"filter": {"status": {"$in": ["done", None]}}}, "cd"),
        ({"filter": {}}, "abcd"),
        ({"since": "2026-01-02", "until": "2026-01-03"}, "bc"),
    ],
)
async def test_search_and_list_let_through_the_same(memory: MemoryRouter, how: dict[str, Any], found: str) -> None:
    assert sorted(str(hit.memory.key) for hit in await memory.search("deploy", **how)) == list(found)
    assert sorted(str(one.key) for one in (await memory.list(**how)).memories) == list(found)


async def test_what_is_filtered_out_hides_nothing_behind_it(memory: MemoryRouter) -> None:
    await memory.store_many([f"the deploy of a deploy of deploys {number}" for number in range(300)])
    found = await memory.search("deploy of a deploy", limit=2, filter={"score": {"$gte": 3}})
    assert sorted(str(hit.memory.key) for hit in found) == ["a", "b"]


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ({"filter": {"a": {"$near": 1}}}, "filter: '[$]near' is unknown"),
        ({"filter": {"a": {"$gt": [1]}}}, "compares numbers with numbers"),
        ({"filter": {"a": {"$gt": 1, "$lt": "b"}}}, "is compared with a number and with a text"),
        ({"filter": {"a": {}}}, "a is compared with an empty object; name the fields"),
        ({"filter": {"a": {"$in": []}}}, "[$]in of a has no values"),
        ({"filter": ["a"]}, "expected field names"),
        ({"origin": "nobody"}, "origin: 'nobody' is unknown; choose one of"),
        ({"any_tags": [3]}, "any_tags: expected text"),
        ({"since": "soon"}, "since: 'soon' is not an ISO 8601"),
    ],
)
async def test_filters_that_make_no_sense_are_refused(memory: MemoryRouter, how: dict[str, Any], problem: str) -> None:
    for verb in (lambda **said: memory.search("deploy", **said), memory.list):
        with pytest.raises(InvalidInput, match=problem):
            await verb(**how)


@pytest.mark.requirement("N18")
def test_the_commands_take_the_same_filters(run: Run, tmp_path: Path) -> None:
    place = ("--home", str(tmp_path / "home"), "--project", "app", "--json")
    run("store", "the deploy of a", "--key", "a", "--tag", "ops", "--metadata", '{"score": 3}', *place)
    run("store", "the deploy of b", "--key", "b", "--tag", "web", "--origin", "tool", *place)
    for how, found in (
        (("--filter", '{"score": {"$gt": 2}}'), ["a"]),
        (("--any-tag", "web"), ["b"]),
        (("--origin", "tool"), ["b"]),
        (("--since", "yesterday"), ["a", "b"]),
        (("--until", "7d"), []),
    ):
        hits = run("search", "deploy", *how, *place).json["hits"]
        assert sorted(one["key"] for one in hits) == found
    for command in (["search", "deploy"], ["list"]):
        told = run(*command, "--filter", '{"nobody": "has this"}', *place[:-1]).out
        assert "a field that is not there counts as null, and a number is never compared with a text" in told
        assert sorted(one["key"] for one in run("list", *how, *place).json["memories"]) == found
