"""What every remote must do, whichever it is: the adapter in front of real servers, and the fake in their place.

A new server is one more function in `SERVERS`. Where one cannot, its own behaviour is said in the test.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kingly_memory.hub.process import HubProcess
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Memory, MemoryType, Scope
from kingly_memory.ports import Remote, RemoteLink
from kingly_memory.testing import FakeRemote, ScriptedRemote
from tests.remote_samples import LIGHTHOUSE, chosen_at, remote_at, revised, ultimate_at
from tests.scripted import remote as full
from tests.scripted.mcp_frames import McpStyle
from tests.sdk_process import SdkProcess, python_with_sdk_1
from tests.ultimate.engine import Manners
from tests.ultimate.server import UltimateServer

MakeRemote = Callable[[str], Remote]
"""A remote for a project that nobody used before."""

_numbers = itertools.count(1)


@contextlib.contextmanager
def scripted(_folder: Path) -> Iterator[MakeRemote]:
    with ScriptedRemote() as server:
        yield lambda project: remote_at(server.url, project=project)


@contextlib.contextmanager
def scripted_without_keys(_folder: Path) -> Iterator[MakeRemote]:
    with ScriptedRemote(honours_keys=False) as server:
        yield lambda project: remote_at(server.url, project=project)


@contextlib.contextmanager
def hub(folder: Path) -> Iterator[MakeRemote]:
    with HubProcess(folder / "hub") as process:
        yield lambda project: remote_at(process.url, project=project)


@contextlib.contextmanager
def scripted_over_mcp(_folder: Path) -> Iterator[MakeRemote]:
    with full.ScriptedRemote(mcp=McpStyle(events=True)) as server:
        yield lambda project: chosen_at(server.url, project=project)


@contextlib.contextmanager
def sdk(*options: str) -> Iterator[MakeRemote]:
    with SdkProcess(*options) as process:
        yield lambda project: chosen_at(process.url, project=project)


@contextlib.contextmanager
def sdk_1(folder: Path) -> Iterator[MakeRemote]:
    """The line before, in an environment of its own."""
    with SdkProcess(python=python_with_sdk_1(folder / "sdk-1")) as process:
        yield lambda project: chosen_at(process.url, project=project)


@contextlib.contextmanager
def hub_over_mcp(folder: Path) -> Iterator[MakeRemote]:
    with HubProcess(folder / "hub") as process:
        yield lambda project: chosen_at(f"{process.url}/mcp", project=project)


@contextlib.contextmanager
def ultimate(_folder: Path, manners: Manners | None = None, **options: Any) -> Iterator[MakeRemote]:
    with UltimateServer(manners=manners, **options) as server:
        yield lambda project: ultimate_at(server.url, project=project)


@contextlib.contextmanager
def fake(_folder: Path) -> Iterator[MakeRemote]:
    yield lambda _project: FakeRemote()


SERVERS: dict[str, Callable[[Path], AbstractContextManager[MakeRemote]]] = {
    "scripted": scripted,
    "scripted without keys": scripted_without_keys,
    "hub": hub,
    "hub over mcp": hub_over_mcp,
    "scripted over mcp": scripted_over_mcp,
    "sdk": lambda _folder: sdk(),
    "sdk with sessions and event streams": lambda _folder: sdk("--older"),
    "fake": fake,
}
ULTIMATE: dict[str, Callable[[Path], AbstractContextManager[MakeRemote]]] = {
    "ultimate": ultimate,
    "ultimate, flat, in text, stateless": partial(ultimate, flat=True, structured=False, stateless=True),
    "ultimate, ignores keys": partial(ultimate, manners=Manners(honours_keys=False)),
    "ultimate, older, without keys": partial(
        ultimate, older=True, manners=Manners(honours_keys=False, locked_search=True)
    ),
}
"""An Ultimate server in the manners that we know of."""
LONG: dict[str, Callable[[Path], AbstractContextManager[MakeRemote]]] = {
    "sdk with sessions and JSON in texts": lambda _folder: sdk("--older", "--json", "--text"),
    "sdk with older protocols and no sessions": lambda _folder: sdk("--older", "--stateless"),
    "sdk 1": sdk_1,
    "ultimate, lets go of what expired": partial(ultimate, json_replies=True, manners=Manners(updates_expired=False)),
}
"""For `make faults`: test_mcp_call and test_ultimate_* meet the same frames and manners elsewhere."""

pytestmark = pytest.mark.requirement("KNG-071", "KNG-090")


@pytest.fixture(
    scope="module", params=[*SERVERS, *ULTIMATE, *(pytest.param(name, marks=pytest.mark.faults) for name in LONG)]
)
def server(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def make_remote(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeRemote]:
    with {**SERVERS, **ULTIMATE, **LONG}[server](tmp_path_factory.mktemp("server")) as make:
        yield make


@pytest.fixture
def project() -> str:
    return f"Küste {next(_numbers)}"


@pytest.fixture
async def remote(make_remote: MakeRemote, project: str) -> AsyncIterator[Remote]:
    remote = make_remote(project)
    await remote.connect()
    yield remote
    await remote.aclose()


@pytest.fixture
def memory(project: str) -> Memory:
    number = next(_numbers)
    return replace(LIGHTHOUSE, id=MemoryId(f"memory-{number}"), key=f"key-{number}", scope=Scope(project))


async def first_delivery(remote: Remote, memory: Memory, *, repeated: bool = False) -> str:
    return await remote.store(memory, idempotency_key=memory.id, remote_id=None, repeated=repeated)


async def found(remote: Remote, memory: Memory, text: str | None = None) -> list[str]:
    """The contents under which the remote knows a memory."""
    hits = await remote.search(text or memory.content, space=memory.scope.space, limit=20, types=None, timeout_s=10)
    return [hit.content for hit in hits if hit.memory_id == memory.id]


async def test_a_remote_introduces_itself(remote: Remote) -> None:
    assert (await remote.connect()).server


async def test_what_was_stored_is_found_with_our_id(remote: Remote, memory: Memory) -> None:
    remote_id = await first_delivery(remote, memory)
    hits = await remote.search("lighthouse keeper", space=memory.scope.space, limit=20, types=None, timeout_s=10)
    (hit,) = [hit for hit in hits if hit.memory_id == memory.id]
    assert hit.remote_id == remote_id
    assert hit.content == memory.content
    assert hit.record["revision"] == memory.revision
    assert 0.0 < hit.relevance <= 1.0


async def test_a_repeated_store_has_one_effect_and_the_same_id(remote: Remote, memory: Memory) -> None:
    first = await first_delivery(remote, memory)
    assert await first_delivery(remote, memory, repeated=True) == first
    assert await found(remote, memory) == [memory.content]


async def test_a_later_revision_replaces_the_earlier(remote: Remote, memory: Memory) -> None:
    remote_id = await first_delivery(remote, memory)
    second = revised(memory)
    for repeated in (False, True):
        key = f"{memory.id}.2"
        assert await remote.store(second, idempotency_key=key, remote_id=remote_id, repeated=repeated) == remote_id
    assert await found(remote, second) == [second.content]


@pytest.mark.parametrize("known", [True, False])
async def test_what_is_forgotten_is_not_found(remote: Remote, memory: Memory, known: bool) -> None:
    remote_id = await first_delivery(remote, memory)
    await remote.forget(memory, remote_id=remote_id if known else None, idempotency_key=f"{memory.id}.2")
    assert await found(remote, memory) == []


async def test_forgetting_twice_or_what_never_arrived_is_no_error(remote: Remote, memory: Memory) -> None:
    for _ in range(2):
        await remote.forget(memory, remote_id=None, idempotency_key=f"{memory.id}.2")
    assert await found(remote, memory) == []


async def test_what_was_forgotten_can_come_back(remote: Remote, memory: Memory) -> None:
    remote_id = await first_delivery(remote, memory)
    await remote.forget(memory, remote_id=remote_id, idempotency_key=f"{memory.id}.2")
    again = revised(memory)
    await remote.store(again, idempotency_key=f"{memory.id}.3", remote_id=remote_id, repeated=False)
    assert await found(remote, again) == [again.content]


async def test_hits_come_best_first_within_limit_and_types(remote: Remote, memory: Memory, project: str) -> None:
    for number in range(6):
        one = replace(
            memory,
            id=MemoryId(f"{memory.id}-{number}"),
            key=None,
            content=f"heron {'by the quiet pond ' * number}",
            type=MemoryType.SEMANTIC if number % 2 else MemoryType.PROCEDURAL,
        )
        await first_delivery(remote, one)
    hits = await remote.search("heron pond", space=project, limit=4, types=None, timeout_s=10)
    assert len(hits) == 4
    assert [hit.relevance for hit in hits] == sorted((hit.relevance for hit in hits), reverse=True)
    semantic = await remote.search("heron pond", space=project, limit=10, types=[MemoryType.SEMANTIC], timeout_s=10)
    assert {hit.memory_id for hit in semantic} == {f"{memory.id}-{number}" for number in (1, 3, 5)}


STRANGE = {
    "tab trailing": "CRLF\r\nCR\rLF\n tab\t trailing  ",
    "emoji": "emoji 👩\u200d🚀 separators \u2028\u2029 right-to-left \u202eabc\u202c combining e\u0301",
    "bell": "NUL \x00 and bell \x07",
    "content metadata": '{"key": "k", "content": "not me", "metadata": 1}',
    "word": "日本語の文章も残る word",
}


async def test_content_comes_back_byte_for_byte(remote: Remote, memory: Memory) -> None:
    for number, (query, content) in enumerate(STRANGE.items()):
        strange = replace(memory, id=MemoryId(f"{memory.id}-{number}"), key=None, content=content)
        await first_delivery(remote, strange)
        assert await found(remote, strange, query) == [content]


@pytest.fixture
def thought(memory: Memory) -> Memory:
    said = {"record": "thought", "thought_type": "inference", "chain_id": "c", "parent_id": None, "position": 1}
    content = f"So {memory.id} was out of sight because of the fog."
    return replace(memory, key=None, content=content, type=MemoryType.SEMANTIC, metadata=said)


async def thought_recorded(remote: Remote, thought: Memory, *, repeated: bool = False) -> str:
    return await remote.record_thought(thought, parent_remote_id=None, idempotency_key=thought.id, repeated=repeated)


@pytest.mark.requirement("KNG-082")
async def test_a_thought_is_found_like_a_memory_with_our_id(remote: Remote, thought: Memory, server: str) -> None:
    """An Ultimate server is not told its place in the chain: the record on this machine has it."""
    remote_id = await thought_recorded(remote, thought)
    hits = await remote.search(thought.content, space=thought.scope.space, limit=20, types=None, timeout_s=10)
    (hit,) = [hit for hit in hits if hit.memory_id == thought.id]
    assert (hit.remote_id, hit.content) == (remote_id, thought.content)
    assert hit.record["metadata"] == ({"kind": "reasoning_step"} if server.startswith("ultimate") else thought.metadata)


async def test_a_repeated_thought_has_one_effect_and_the_same_id(remote: Remote, thought: Memory) -> None:
    first = await thought_recorded(remote, thought)
    assert await thought_recorded(remote, thought, repeated=True) == first
    assert await found(remote, thought) == [thought.content]


async def test_a_thought_is_forgotten_and_comes_back_like_a_memory(remote: Remote, thought: Memory) -> None:
    remote_id = await thought_recorded(remote, thought)
    await remote.forget(thought, remote_id=remote_id, idempotency_key=f"{thought.id}.2")
    assert await found(remote, thought) == []
    await remote.store(thought, idempotency_key=f"{thought.id}.3", remote_id=remote_id, repeated=False)
    assert await found(remote, thought) == [thought.content]


@pytest.fixture
async def ends(remote: Remote, memory: Memory) -> tuple[str, str]:
    """The remote ids of two memories."""
    other = replace(memory, id=MemoryId(f"{memory.id}-other"), key=None, content="The fog came from the west.")
    return await first_delivery(remote, memory), await first_delivery(remote, other)


def linking(ends: tuple[str, str], project: str, strength: float = 0.5) -> RemoteLink:
    return RemoteLink(*ends, "causal", strength, "it led to it", project)


async def links_of(remote: Remote, project: str, *remote_ids: str) -> list[JsonObject]:
    return await remote.linked(remote_ids, space=project, timeout_s=10)


async def test_a_link_is_told_of_both_its_ends(remote: Remote, ends: tuple[str, str], project: str) -> None:
    assert await links_of(remote, project, *ends) == []
    await remote.link(linking(ends, project), idempotency_key=f"link of {ends}", repeated=False)
    told = {"link_type": "causal", "source_memory_id": ends[0], "target_memory_id": ends[1], "strength": 0.5}
    for asked in (ends[:1], ends[1:], ends):
        assert await links_of(remote, project, *asked) == [told]


async def test_a_repeated_link_is_one_link_and_a_later_change_gives_it_its_strength(
    remote: Remote, ends: tuple[str, str], project: str
) -> None:
    for repeated in (False, True):
        await remote.link(linking(ends, project), idempotency_key=f"link of {ends}", repeated=repeated)
    assert [link["strength"] for link in await links_of(remote, project, *ends)] == [0.5]
    for repeated in (False, True):
        await remote.link(linking(ends, project, 0.75), idempotency_key=f"link of {ends}.2", repeated=repeated)
    assert [link["strength"] for link in await links_of(remote, project, *ends)] == [0.75]


@pytest.mark.requirement("KNG-071")
async def test_working_memory_is_that_of_the_context(remote: Remote, memory: Memory, project: str) -> None:
    for number, (kind, context_id) in enumerate([("working", "c1"), ("working", "c2"), ("semantic", "c1")]):
        scope = Scope(project, context_id=context_id)
        one = replace(memory, id=MemoryId(f"{memory.id}-{number}"), key=None, type=MemoryType(kind), scope=scope)
        await first_delivery(remote, one)
    held = await remote.working_memory("c1", space=memory.scope.space, timeout_s=10)
    assert [hit.memory_id for hit in held if hit.memory_id and hit.memory_id.startswith(memory.id)] == [
        f"{memory.id}-0"
    ]


@pytest.mark.parametrize("server", ["hub", *ULTIMATE], indirect=True)
async def test_two_projects_on_one_server_do_not_see_each_other(
    make_remote: MakeRemote, memory: Memory, project: str
) -> None:
    mine, theirs = make_remote(project), make_remote(f"{project} of others")
    for one in (mine, theirs):
        await one.connect()
    await first_delivery(mine, memory)
    assert await theirs.search(memory.content, space=f"{project} of others", limit=10, types=None, timeout_s=10) == []
    others = replace(memory, scope=replace(memory.scope, project=f"{project} of others"))
    await mine.forget(others, remote_id=None, idempotency_key="k")
    assert await found(mine, memory) == [memory.content]
    for one in (mine, theirs):
        await one.aclose()


async def test_closing_twice_is_safe(make_remote: MakeRemote, project: str) -> None:
    remote = make_remote(project)
    await remote.aclose()
    await remote.aclose()
    assert (await remote.connect()).server  # and it may be used again
    await remote.aclose()
