"""Which memories go to which remotes: the setting `remote_policy`, and what it means for homes, revisions and links."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.app import parts
from kingly_memory.errors import InvalidSetting
from kingly_memory.models import DeliveryState, Memory, MemoryType, Query, Standing
from kingly_memory.place import Place
from kingly_memory.router.routes import Policy, Route, Routes, policy
from kingly_memory.settings import Settings
from kingly_memory.testing import FakeRemote, ManualClock
from tests.federation_bench import Remotes, facet_at, federated
from tests.router_bench import PromptStore, held
from tests.settings_samples import own, trusted
from tests.store_samples import memory as sample

LABELS = ["team", "home", "lab"]
PRIVATE = "tag:private=home, *=team"
conditions = st.sampled_from(["*", *MemoryType, "task_cache", "tag:private", "tag:a", "project:app", "agent:me"])
targets = st.one_of(
    st.sampled_from(["none", "all", "first", "elsewhere"]),
    st.lists(st.sampled_from(LABELS), min_size=1, max_size=3).map("+".join),
)
rules = st.lists(st.tuples(conditions, targets).map("=".join), min_size=1, max_size=6).map(", ".join)
policies = st.one_of(st.sampled_from(["first", "all", ""]), rules)


@st.composite
def memories(draw: st.DrawFn) -> Memory:
    one = sample("said")
    return replace(
        one,
        type=draw(st.sampled_from(MemoryType)),
        tags=tuple(draw(st.sets(st.sampled_from(["private", "a", "b"])))),
        significance=draw(st.floats(0, 1)),
        scope=replace(one.scope, agent=draw(st.sampled_from([None, "me"]))),
    )


def routes(says: str, labels: list[str] = LABELS) -> Routes:
    return Routes(tuple(Route(label * 4, label, "fake") for label in labels), policy(says, labels))


@pytest.mark.requirement("KNG-090")
@given(policies, memories())
def test_a_policy_names_only_remotes_that_there_are_and_never_for_what_stays_here(says: str, one: Memory) -> None:
    named = {route.label for route in routes(says).of(one)}
    assert named <= set(LABELS)
    assert not named or one.significance > 0.3


@given(policies, memories())
def test_what_is_sent_is_what_a_judge_at_the_remote_would_take(says: str, one: Memory) -> None:
    there = routes(says)
    assert [route for route in there.known if there.is_for(route.name, one) and one.significance > 0.3] == list(
        there.of(one)
    )


@given(policies, memories())
def test_nobody_is_told_of_a_policy_that_sends_him_nothing(says: str, one: Memory) -> None:
    there = routes(says)
    for label in LABELS:
        if there.policy.about(label) == "":
            assert label not in there.policy.remotes_for(one)
        if there.policy.about(label) == "*":
            assert label in there.policy.remotes_for(one)


@given(rules, conditions, targets, memories())
def test_a_rule_behind_one_that_fits_changes_nothing(says: str, what: str, where: str, one: Memory) -> None:
    before, after = policy(f"{says}, *=none", LABELS), policy(f"{says}, *=none, {what}={where}", LABELS)
    assert before.remotes_for(one) == after.remotes_for(one)


@pytest.mark.parametrize(
    ("says", "tags", "kind", "there"),
    [
        ("first", [], "semantic", {"team"}),
        ("all", ["private"], "semantic", {"team", "home", "lab"}),
        ("semantic=team, tag:private=home, *=team", ["private"], "episodic", {"home"}),
        ("tag:private=home, *=team", ["private"], "semantic", {"home"}),
        ("tag:private=home, *=team", [], "semantic", {"team"}),
        ("tag:private=none, *=all", ["private"], "semantic", set()),
        ("conversation_context=home+lab", [], "episodic", {"home", "lab"}),
        ("conversation_context=home+lab", [], "semantic", set()),
        ("project:app=lab", [], "semantic", {"lab"}),
    ],
)
def test_the_first_rule_that_fits_decides(says: str, tags: list[str], kind: str, there: set[str]) -> None:
    one = replace(sample("said"), tags=tuple(tags), type=MemoryType(kind), significance=0.5)
    one = replace(one, scope=replace(one.scope, project="app"))
    assert policy(says, LABELS).remotes_for(one) == there


@pytest.mark.parametrize("says", ["team", "secret=team", "tag:=team", "*=", "=team", "tag:a=team, oops"])
def test_what_is_no_policy_is_refused_with_what_to_write(says: str) -> None:
    with pytest.raises(InvalidSetting, match=r"remote_policy: .*(write|choose)"):
        policy(says, LABELS)


def test_a_remote_that_is_not_in_use_gets_nothing_and_is_named(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    one = replace(sample("said"), significance=0.9)
    assert routes("*=taem").of(one) == ()
    remotes = [f"{label}=http://127.0.0.1:{number}" for number, label in enumerate(LABELS, 1)]
    place = Place.resolve(tmp_path, remotes, project="app")
    parts.station(place, Settings(remote_policy="*=taem"), parts.reached(place))
    assert "remote_policy names taem, and no remote is called so (there is team, home, lab)" in caplog.text


def test_a_policy_is_a_text() -> None:
    assert Settings.from_environment({"KINGLY_REMOTE_POLICY": "all"}).remote_policy == "all"
    with pytest.raises(InvalidSetting, match="3 is no text"):
        Settings(remote_policy=3)  # type: ignore[arg-type]


def test_a_settings_file_beside_the_home_may_say_the_policy(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(f'remote_policy = "{PRIVATE}"\n')
    trusted(tmp_path / "config.toml")
    assert Settings.from_environment(own(), tmp_path).remote_policy == PRIVATE


# --- on a disk ----------------------------------------------------------------------------------------------------


async def test_memories_go_where_the_policy_says_and_receipts_tell(here: Remotes) -> None:
    async with here.opened({"team": here.team, "home": here.home}, says=PRIVATE) as memory:
        ours = await memory.store("our deploys")
        mine = await memory.store("my doctor", tags=["private"])
        small = await memory.store("not worth it", significance=0.3)
        await memory.sync()
        assert (held(here.team), held(here.home)) == (["our deploys"], ["my doctor"])
    assert {label: at["delivery"] for label, at in ours.remotes.items()} == {"team": "pending", "home": "local_only"}
    assert mine.remotes["team"]["reason"] == "remote_policy names no remote for it"
    assert (small.delivery, small.reason) == (DeliveryState.LOCAL_ONLY, "significance 0.3 is not above 0.3")


async def test_who_stores_without_knowing_the_policy_has_it_kept_by_who_delivers(here: Remotes, tmp_path: Path) -> None:
    async with here.opened({"team": here.team, "home": here.home}, says=PRIVATE) as memory:
        await memory.store("our deploys")
        await memory.sync()
    async with here.opened({}) as ignorant:
        await ignorant.store("my doctor", tags=["private"])
    async with here.opened({"team": here.team, "home": here.home}, says=PRIVATE) as memory:
        await memory.sync()
        assert [entry.to_json() for entry in await memory.outbox()] == []
    assert (held(here.team), held(here.home)) == (["our deploys"], ["my doctor"])


@pytest.mark.requirement("N3")
@pytest.mark.parametrize(("is_earlier", "there"), [(True, ["two"]), (False, [])])
async def test_a_change_of_the_policy_brings_earlier_memories_only_where_that_was_said_and_takes_nothing_back(
    here: Remotes, is_earlier: bool, there: list[str]
) -> None:
    team, home = FakeRemote(clock=here.clock), FakeRemote(clock=here.clock)
    remotes = {"team": team, "home": home}
    async with here.opened(remotes, says="first") as memory:
        for content, tags in (("one", []), ("two", ["private"])):
            await memory.store(content, tags=tags)
        await memory.sync()
    assert (held(team), held(home)) == (["one", "two"], [])
    async with here.opened(remotes, says=PRIVATE, earlier=is_earlier) as memory:
        await here.clock.settle()
        await memory.sync()
    assert (held(team), held(home)) == (["one", "two"], there)


async def test_a_revision_the_policy_keeps_back_is_sent_when_it_says_otherwise(here: Remotes, tmp_path: Path) -> None:
    remotes = {"team": here.team, "home": here.home}
    async with here.opened(remotes, says=PRIVATE) as memory:
        await memory.store("draft", key="k")
        await memory.sync()
        receipt = await memory.store("about my health", key="k", tags=["private"])
        await memory.sync()
        assert (held(here.team), held(here.home)) == (["draft"], ["about my health"])
    assert receipt.remotes["team"]["delivery"] == "local_only"
    disk = PromptStore(tmp_path / "home")
    kept = facet_at(disk, "team", receipt.id)
    assert kept is not None
    assert kept.state is DeliveryState.LOCAL_ONLY
    async with here.opened(remotes, says="all") as memory:
        await here.clock.settle()
        await memory.sync()
    assert held(here.team) == ["about my health"]


async def test_what_was_kept_back_is_sent_under_a_key_of_its_own(here: Remotes) -> None:
    """Under the key of an earlier change a server would take it for a repeat of that one."""
    async with here.opened({"team": here.team}, says="tag:mine=none, *=team") as memory:
        for content, tags in (("one", []), ("two", []), ("three", ["mine"])):
            await memory.store(content, key="k", tags=tags)
            await memory.sync()
        assert held(here.team) == ["two"]
    async with here.opened({"team": here.team}, says="all") as memory:
        await here.clock.settle()
        await memory.sync()
    assert held(here.team) == ["three"]
    assert len(set(here.team.effects)) == 3


async def test_what_is_forgotten_is_forgotten_wherever_it_went_whatever_the_policy_says_now(here: Remotes) -> None:
    remotes = {"team": here.team, "home": here.home}
    async with here.opened(remotes, says="all") as memory:
        await memory.store("a secret", key="k")
        await memory.sync()
    async with here.opened(remotes, says="*=none") as memory:
        await memory.forget("k")
        await memory.sync()
    assert (held(here.team), held(here.home)) == ([], [])


async def test_links_and_thoughts_follow_their_memories(here: Remotes) -> None:
    async with here.opened({"team": here.team, "home": here.home}, says=PRIVATE) as memory:
        await memory.store("one", key="one")
        await memory.store("two", key="two")
        await memory.store("mine", key="mine", tags=["private"])
        await memory.link_memories("one", "two")
        await memory.link_memories("one", "mine")
        thought = await memory.record_thought("because it rained")
        await memory.sync()
        assert [(len(one.links), len(one.named("record_thought"))) for one in (here.team, here.home)] == [
            (1, 1),
            (0, 0),
        ]
    assert set(thought.receipt.remotes) == {"team", "home"}


class Guarded(FakeRemote):
    """Notes what reaches it although the policy of whoever sends it names another one."""

    def __init__(self, label: str, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.label = label
        self.policy: Policy = policy("first", ["team", "home"])
        self.astray: list[str] = []

    async def store(self, memory: Memory, *, idempotency_key: str, remote_id: str | None, repeated: bool) -> str:
        if self.label not in self.policy.remotes_for(memory) or memory.significance <= 0.3:
            self.astray.append(memory.content)
        return await super().store(memory, idempotency_key=idempotency_key, remote_id=remote_id, repeated=repeated)


said = st.tuples(
    st.sampled_from("abc"),
    st.sets(st.sampled_from(["private", "work"])),
    st.sampled_from(["semantic", "episodic"]),
    st.sampled_from([0.2, 0.5, 0.9]),
)
ways = st.sampled_from(
    [None, "first", "all", PRIVATE, "episodic=home, *=none", "tag:work=team+home, tag:private=none, *=home", "*=none"]
)
days = st.lists(st.tuples(ways, st.lists(said, max_size=3), st.sets(st.sampled_from(["team", "home"]))), max_size=4)


async def lived(folder: Path, lives: list[Any], last: str) -> list[Guarded]:
    """A home that is opened again and again, by who names no remote too, while remotes come and go."""
    clock = ManualClock()
    remotes = [Guarded("team", clock), Guarded("home", clock)]
    for number, (way, several, down) in enumerate([*lives, (last, [], set())]):
        for remote in remotes:
            remote.policy, remote.down = policy(way or "first", ["team", "home"]), remote.label in down
        named = {} if way is None else {remote.label: remote for remote in remotes}
        async with federated(PromptStore(folder), named, clock, says=way or "first", earlier=True) as memory:
            await clock.settle()
            for turn, (key, tags, kind, significance) in enumerate(several):
                text = f"{key} {number} {turn}"
                await memory.store(text, key=key, tags=sorted(tags), type=kind, significance=significance)
                clock.tick(0.01)
            await memory.sync()
            await memory.sync()
    return remotes


@pytest.mark.requirement("KNG-090")
@given(days, ways.filter(bool))
def test_whatever_happens_to_a_home_nothing_goes_astray_and_nothing_is_left_out(lives: list[Any], last: str) -> None:
    with TemporaryDirectory() as folder:
        remotes = asyncio.run(lived(Path(folder), lives, last))
        store = PromptStore(Path(folder))
        kept = [row.memory for row in store.reader.page(Query("", "app"), [Standing.LIVE], 100, None)]
        store.close()
    assert [remote.astray for remote in remotes] == [[], []]
    for remote in remotes:
        there = {memory.key: memory.content for memory in remote.memories.values()}
        due = [one for one in kept if one.significance > 0.3 and remote.label in remote.policy.remotes_for(one)]
        assert {one.key: one.content for one in due}.items() <= there.items()
