"""An Ultimate server, in every manner that we know of, keeps the contract of remotes: the same tests as for the others.

Where it cannot, its own behaviour stands here under the same name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from kingly_memory.models import Memory
from kingly_memory.ports import Remote
from tests.adapters.remote.test_remote_contract import (  # noqa: F401  # its tests and fixtures run here over other servers
    MakeRemote,
    ends,
    memory,
    project,
    remote,
    test_a_later_revision_replaces_the_earlier,
    test_a_link_is_told_of_both_its_ends,
    test_a_remote_introduces_itself,
    test_a_repeated_link_is_one_link_and_a_later_change_gives_it_its_strength,
    test_a_repeated_store_has_one_effect_and_the_same_id,
    test_a_repeated_thought_has_one_effect_and_the_same_id,
    test_a_thought_is_forgotten_and_comes_back_like_a_memory,
    test_closing_twice_is_safe,
    test_content_comes_back_byte_for_byte,
    test_forgetting_twice_or_what_never_arrived_is_no_error,
    test_hits_come_best_first_within_limit_and_types,
    test_what_is_forgotten_is_not_found,
    test_what_was_forgotten_can_come_back,
    test_what_was_stored_is_found_with_our_id,
    test_working_memory_is_that_of_the_context,
    thought,
    thought_recorded,
)
from tests.ultimate.engine import Manners
from tests.ultimate.server import UltimateServer
from tests.ultimate_samples import ultimate_at

pytestmark = pytest.mark.requirement("KNG-071", "KNG-090")


@contextlib.contextmanager
def served(**options: Any) -> Iterator[MakeRemote]:
    manners = Manners(**options.pop("manners", {}))
    with UltimateServer(manners=manners, **options) as server:
        yield lambda project: ultimate_at(server.url, project=project)


SERVERS: dict[str, Callable[[], AbstractContextManager[MakeRemote]]] = {
    "current": served,
    "flat, in text, stateless": partial(served, flat=True, structured=False, sessions_only=False),
    "ignores keys": partial(served, manners={"honours_keys": False}),
    "lets go of what expired": partial(served, json_replies=True, manners={"updates_expired": False}),
    "older, without keys": partial(served, older=True, manners={"honours_keys": False, "locked_search": True}),
}


@pytest.fixture(scope="module", params=SERVERS)
def make_remote(request: pytest.FixtureRequest) -> Iterator[MakeRemote]:
    with SERVERS[request.param]() as make:
        yield make


@pytest.mark.requirement("KNG-082")
async def test_a_thought_is_found_like_a_memory_with_our_id(remote: Remote, thought: Memory) -> None:  # noqa: F811
    """Its place in the chain is not told: the record on this machine has it."""
    remote_id = await thought_recorded(remote, thought)
    hits = await remote.search(thought.content, limit=20, types=None, timeout_s=10)
    (hit,) = [hit for hit in hits if hit.memory_id == thought.id]
    assert (hit.remote_id, hit.content) == (remote_id, thought.content)
    assert hit.record["metadata"] == {"kind": "reasoning_step"}


async def test_two_projects_on_one_server_do_not_see_each_other(
    make_remote: MakeRemote,
    memory: Memory,  # noqa: F811
    project: str,  # noqa: F811
) -> None:
    mine, theirs = make_remote(project), make_remote(f"{project} of others")
    for one in (mine, theirs):
        await one.connect()
    await mine.store(memory, idempotency_key=memory.id, remote_id=None, repeated=False)
    assert await theirs.search(memory.content, limit=10, types=None, timeout_s=10) == []
    others = replace(memory, scope=replace(memory.scope, project=f"{project} of others"))
    assert await mine.forget(others, remote_id=None, idempotency_key="k") is None
    for one in (mine, theirs):
        await one.aclose()
