"""Users and projects are apart in every verb: nobody sees, finds or changes what belongs to another."""

from __future__ import annotations

import gc
import inspect
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import InvalidInput, MemoryRouter
from kingly_memory.api.declared import VERBS
from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.declare import Verb
from kingly_memory.errors import KeptForEveryProject, KinglyMemoryError, RouterClosed
from kingly_memory.home.place import Place
from kingly_memory.models import Scope
from kingly_memory.plain import plain
from kingly_memory.settings import Pace, Settings
from tests.hub.machines import Team, texts

QUICK = Settings(durability="process", pace=Pace(closing_s=0.0), embedder="none")
MARK = "Xylothrumbus"
WORDS = "the espresso machine in the harbour office"


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[MemoryRouter]:
    async with MemoryRouter.open(tmp_path / "home", False, project="app", settings=QUICK) as opened:
        yield opened


async def furnished(memory: MemoryRouter) -> dict[str, list[Any]]:
    """Something of every kind, and by the names of parameters what leads there."""
    said = f"{WORDS} belongs to {MARK}"
    first = await memory.store(said, key="machine", tags=["coffee"], context_id="talk", type="episodic")
    await memory.store(f"{said}, and is red", key="machine")
    second = await memory.store(f"{WORDS}: descale it, says {MARK}", context_id="talk", type="working")
    gone = await memory.store(f"{WORDS} was green, says {MARK}", key="gone")
    await memory.forget("gone")
    away = await memory.store(f"{WORDS} was blue, says {MARK}", key="away")
    await memory.archive("away")
    await memory.link_memories("machine", second.id, description=f"{MARK} cleans it")
    thought = await memory.record_thought(f"{WORDS} is broken, thinks {MARK}", context_id="talk")
    await memory.record_task_outcome(f"{WORDS}, {MARK}", status="failed", reason=MARK, context_id="talk")
    await memory.attention.pin(f"{WORDS} stays, says {MARK}", title=MARK)
    await memory.attention.focus(f"espresso {MARK}")
    await memory.threads.rename("talk", f"espresso {MARK}")
    await memory.documents.put(("notes",), "machine", {"of": MARK})
    await memory.log("chat").append([{"text": MARK}])
    (await memory.cognitive("planner")).add_experience(f"{WORDS}: {MARK}", 0.9, 1)
    names = ["machine", first.id, second.id, gone.id, away.id, "gone", "away", "talk"]
    return {
        **dict.fromkeys(("key_or_id", "source", "target", "thread_id", "thread_a", "thread_b", "chain_id"), names),
        **{key: [WORDS] for key in ("query", "prompt", "topic", "task", "description", "content")},
        **{key: [names] for key in ("keys_or_ids", "ids")},
        "chain_id": [thought.chain_id, *names],
        "namespace": [["notes"]],
        "prefix": [["notes"]],
        "key": ["machine"],
        "session": ["chat"],
        "agent_id": ["planner"],
        "context": [WORDS],
        "context_id": ["talk"],
        "candidates": [["planner"]],
        "items": [['{"text": "mine"}']],
        "value": ['{"of": "me"}'],
        "title": ["mine"],
        "useful": [True],
        "address": ["http://127.0.0.1:1"],
        "old": ["app"],
        "new": ["another"],
        "into": ["another"],
        "name": ["app"],
    }


async def everything(memory: MemoryRouter) -> str:
    """What there is of the project's own."""
    listed = await memory.list(limit=1_000, include_archived=True)
    own = [one for one in listed.memories if one.scope.project == memory.project]
    logs = await memory.log("chat").last(100)
    told = (own, await memory.threads.list(), await memory.documents.list(), logs, await memory.links("machine"))
    history = [await memory.history(one.id) for one in own]
    return json.dumps(plain((told, history)), default=str, sort_keys=True)


def calls(verb: Verb, known: dict[str, list[Any]], target: Path) -> list[dict[str, Any]]:
    """Every way to point the verb's required parameters at what belongs to somebody else, and with all others."""
    required = [one.name for one in verb.parameters if one.default is ...]
    optional = [one.name for one in verb.parameters if one.default is not ... and one.name in ("context_id", "context")]
    if "file" in required:
        return [{"file": str(target)}]
    most = max((len(known[name]) for name in required), default=1)
    said = [{name: known[name][at % len(known[name])] for name in required} for at in range(most)]
    return [*said, *({**one, **{name: known[name][0] for name in optional}} for one in said[:1] if optional)]


@pytest.mark.parametrize("whose", [{"user": "ann"}, {"project": "other"}, {"user": None}, {"project": None}])
@pytest.mark.requirement("ALM-078")
async def test_no_verb_shows_or_changes_what_belongs_to_another(
    memory: MemoryRouter, whose: dict[str, Any], tmp_path: Path
) -> None:
    theirs = memory.scoped(user="bob")
    known = await furnished(theirs)
    before = await everything(theirs)
    assert MARK in before
    mine = theirs.scoped(**whose)
    await mine.store("mine alone", key="mine")
    for verb in VERBS:
        for number, said in enumerate(calls(verb, known, tmp_path / f"{verb.name}.backup")):
            if verb.calls == "backup" or (mine.user in (None, "bob") and verb.calls.startswith("projects.")):
                continue  # they are of the whole home, or of all that is the user's
            try:
                answer = verb.call(mine, said)
                answer = await answer if inspect.isawaitable(answer) else answer
            except KinglyMemoryError as error:
                answer = str(error)
            assert MARK not in json.dumps(plain(answer), default=str), (verb.calls, number, said)
    assert await everything(theirs) == before


async def test_what_is_kept_for_every_project_is_read_from_each_and_their_own_comes_first(
    memory: MemoryRouter,
) -> None:
    ann = memory.scoped(user="ann")
    everywhere = ann.scoped(project=None)
    await everywhere.store("answers are to be short", key="style")
    await everywhere.store("indent with four spaces", key="indent")
    await ann.store("indent with two spaces", key="indent")
    other = ann.scoped(project="other")
    for one in (ann, other):
        found = await one.get("style")
        assert found is not None
        assert found.scope == Scope(None, "ann")
    assert [hit.memory.content for hit in await ann.search("how do we indent")] == ["indent with two spaces"]
    assert [hit.memory.content for hit in await ann.search("indent")] == ["indent with two spaces"]
    assert [hit.memory.content for hit in await other.search("how do we indent")] == ["indent with four spaces"]
    assert {one.content for one in (await ann.list()).memories} == {"answers are to be short", "indent with two spaces"}
    assert len((await everywhere.list()).memories) == 2
    for stranger in (memory, memory.scoped(project=None), memory.scoped(user="bob")):
        assert await stranger.get("style") is None
        assert not await stranger.search("how do we indent")
    await ann.forget("indent")
    found = await ann.get("indent")
    assert found is not None, "what the project said of it no longer counts"
    assert found.content == "indent with four spaces"
    assert [hit.memory.content for hit in await ann.search("indent")] == ["indent with four spaces"]


async def test_a_view_says_who_stores_and_where(memory: MemoryRouter) -> None:
    view = memory.scoped(user="ann", agent="scout", context_id="trip")
    assert (view.user, view.project, view.agent) == ("ann", "app", "scout")
    receipt = await view.store("the ferry leaves at nine")
    stored = await view.get(receipt.id)
    assert stored is not None
    assert stored.scope == Scope("app", "ann", "scout", "trip")
    assert [one.id for one in (await view.working_context()).items] == [receipt.id]
    again = view.scoped(user=None)
    assert (again.user, again.agent, (await again.list()).memories) == (None, "scout", ())
    status = await view.status()
    assert (status["project"], status["user"]) == ("app", "ann")


async def test_closing_or_dropping_a_view_closes_nothing_else_and_keeps_its_uses(memory: MemoryRouter) -> None:
    view = memory.scoped(user="ann")
    receipt = await view.store("the ferry leaves at nine")
    await view.search("ferry")
    await view.close()
    with pytest.raises(RouterClosed):
        await view.search("ferry")
    del view
    again = memory.scoped(user="ann")
    assert len(await again.search("ferry")) == 1
    await memory._engine.flush()
    facet = memory._engine.reader.facets("usage", [receipt.id])[receipt.id]
    assert facet["accesses"] == 2
    await memory.close()
    with pytest.raises(RouterClosed):
        await again.search("ferry")


@pytest.mark.parametrize("bad", ["", "  ", "x" * 10_000, "two\nlines", 7])
@pytest.mark.parametrize("field", ["user", "project", "agent", "context_id"])
async def test_a_name_that_cannot_be_one_is_refused_by_its_field(memory: MemoryRouter, field: str, bad: Any) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: "):
        memory.scoped(**{field: bad})


def test_code_that_does_not_await_has_views_too_and_the_environment_names_a_user(tmp_path: Path) -> None:
    with SyncMemoryRouter.open(tmp_path / "home", False, project="app", user="ann", settings=QUICK) as memory:
        memory.store("tea, please", key="drink")
        bob = memory.scoped(user="bob")
        assert bob.get("drink") is None
        bob.close()
        with pytest.raises(RouterClosed):
            bob.get("drink")
        with pytest.raises(RouterClosed):
            list(bob.export())
        assert memory.get("drink") is not None
    assert Place.resolve(tmp_path, environment={"KINGLY_USER": "ann"}, start=tmp_path).user == "ann"


async def test_a_hub_keeps_users_apart_and_a_user_finds_what_was_said_on_another_machine(tmp_path: Path) -> None:
    team = Team(tmp_path)
    async with team.machine("desk") as desk:
        await desk.scoped(user="ann").store("the ferry leaves at nine", significance=0.9)
        await desk.scoped(user="ann", project=None).store("the ferry is never late", significance=0.9)
        assert (await desk.sync(timeout=5)).pending == 0
    async with team.machine("laptop") as laptop:
        ann = laptop.scoped(user="ann")
        assert await texts(ann, "ferry") == ["the ferry leaves at nine"]
        assert await texts(ann.scoped(project=None), "ferry") == ["the ferry is never late"]
        for stranger in (laptop, laptop.scoped(user="bob"), laptop.scoped(project=None), ann.scoped(project="other")):
            assert "the ferry leaves at nine" not in await texts(stranger, "ferry")
    team.store.close()


async def test_views_that_nobody_refers_to_are_gone(memory: MemoryRouter) -> None:
    for number in range(50):
        await memory.scoped(user=f"user {number}").store(f"note {number}")
    runtime = memory._engine.runtime
    await runtime.flush()
    await runtime.flush()  # what had something to write is kept until that is done
    gc.collect()
    assert (len(runtime._spaces), len(runtime.unwritten)) == (1, 0)


async def test_a_project_reads_what_is_kept_for_every_project_and_does_not_change_it(memory: MemoryRouter) -> None:
    everywhere = memory.scoped(project=None)
    await everywhere.store("english", key="lang")
    await memory.store("deploys need two reviews", key="deploy")
    refused = (
        memory.forget("lang"),
        memory.forget_many(["deploy", "lang"]),
        memory.update("lang", "french"),
        memory.store("french", key="lang", if_revision=1),
        memory.restore("lang"),
        memory.archive("lang"),
        memory.purge("lang"),
        memory.reinforce("lang"),
        memory.link_memories("deploy", "lang"),
    )
    for call in refused:
        with pytest.raises(KeptForEveryProject, match="'lang' is kept for every project"):
            await call
    assert await memory.get("deploy") is not None
    [newest] = await memory.history("lang")
    explained = await memory.explain("lang")
    assert (newest.content, (explained or {})["status"], await memory.links("lang")) == ("english", "live", ())
    await everywhere.forget("lang")
    assert (await memory.forget("lang"), await memory.history("lang"), await memory.explain("lang")) == (None, (), None)
    with pytest.raises(KeptForEveryProject):
        await memory.restore("lang")
    assert (await memory.store("french", key="lang", if_revision=0)).revision == 1


def test_a_lone_surrogate_in_a_name_is_replaced_wherever_it_is_named(tmp_path: Path) -> None:
    half, mended = "a\ud800", "a\ufffd"
    with SyncMemoryRouter.open(tmp_path / "home", False, project=half, user=half, agent=half, settings=QUICK) as memory:
        view = memory.scoped(project=half, user=half, agent=half)
        for one in (memory, view):
            assert (one.project, one.user, one.agent) == (mended, mended, mended)
        assert view.get(memory.store("the ferry leaves at nine").id) is not None
