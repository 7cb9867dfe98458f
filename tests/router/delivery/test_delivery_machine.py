"""A machine that stores, revises, lowers, forgets, loses replies, refuses, crashes and lets time pass, in any order.

In the end, once the remote works and the outbox is empty, the remote must hold exactly what it should.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kingly_memory import MemoryRouter
from kingly_memory.errors import RemoteError, RemoteRefused, RemoteUnauthorised, RemoteUnavailable
from kingly_memory.models import REMOTE_ABOVE, MemoryStatus
from kingly_memory.ports import RemoteInfo
from kingly_memory.testing import FakeRemote, Lost, ManualClock
from tests.router_bench import CALM, PromptStore, router_over

T = TypeVar("T")

TROUBLES: dict[str, RemoteError | Lost] = {
    "loses the reply": Lost(RemoteUnavailable("connection reset")),
    "loses the reply, connected": Lost(RemoteUnavailable("half a reply", reached=True)),
    "is busy": RemoteUnavailable("HTTP 503", reached=True),
    "says later": RemoteUnavailable("HTTP 429", retry_after_s=7, reached=True),
    "is gone": RemoteUnavailable("connection refused"),
    "refuses": RemoteRefused("HTTP 422", clear=True),
    "refuses unclearly": RemoteRefused("HTTP 409", clear=False),
    "wants another token": RemoteUnauthorised(401),
}
KEYS = st.sampled_from(["a", "b"])
MOST_ROUNDS = 200


@dataclass
class Expected:
    """What the user did with one key: the newest content, and every content that was ever above the threshold."""

    content: str = ""
    significance: float = 0.0
    forgotten: bool = False
    loud: set[str] = field(default_factory=set)


class Doorman(FakeRemote):
    """Says hello at once unless it is down; every other call waits until it is told how to end."""

    async def connect(self) -> RemoteInfo:
        if self.down:
            raise RemoteUnavailable("connection refused")
        return RemoteInfo(server="doorman", honours_keys=True)


class Deliveries(RuleBasedStateMachine):
    """The real router over a real disk; the remote answers only when a rule says how."""

    disk: PromptStore
    router: MemoryRouter

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.remote = Doorman(clock=self.clock, call_timeout_s=60)
        self.expected: dict[str, Expected] = {}
        self.count = 0
        self.remote.hang()
        self.open()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        async def and_settle() -> T:
            result = await work
            await self.clock.settle()
            return result

        return self.loop.run_until_complete(and_settle())

    def open(self) -> None:
        self.disk = PromptStore(Path(self.folder.name) / "home")
        self.router = router_over(self.disk, self.remote, self.clock)
        self.run(self.router.__aenter__())

    @rule(key=KEYS, significance=st.sampled_from([0.9, 0.31]))
    def store(self, key: str, significance: float) -> None:
        self.count += 1
        content = f"{key} {self.count}"
        self.run(self.router.store(content, key=key, significance=significance))
        expected = self.expected.setdefault(key, Expected())
        expected.content, expected.significance, expected.forgotten = content, significance, False
        if significance > REMOTE_ABOVE:
            expected.loud.add(content)

    @rule(key=KEYS, significance=st.sampled_from([REMOTE_ABOVE, 0.1]))
    def store_quietly(self, key: str, significance: float) -> None:
        self.store(key, significance)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        if self.run(self.router.forget(key)) is not None:
            self.expected[key].forgotten = True

    @rule(key=KEYS)
    def restore(self, key: str) -> None:
        if self.run(self.router.restore(key)) is not None:
            self.expected[key].forgotten = False

    @rule()
    def answer(self) -> None:
        """Let one call end well, if there is anything to be sent at all."""
        self.come_back()
        self.remote.go_on()
        self.remote.hang()
        self.run(self.clock.settle())

    @rule()
    def answer_everything(self) -> None:
        self.come_back()
        self.remote.go_on()
        self.run(self.clock.advance(1))
        self.remote.hang()

    @rule(trouble=st.sampled_from(sorted(TROUBLES)))
    def fail(self, trouble: str) -> None:
        self.remote.script(TROUBLES[trouble])
        self.answer()

    def come_back(self) -> None:
        self.remote.down = False
        self.run(self.router.sync(timeout=0))
        self.run(self.clock.advance(CALM.pace.poll_s + 1))

    @precondition(lambda self: not self.remote.down)
    @rule()
    def go_down(self) -> None:
        self.remote.down = True

    @rule(seconds=st.sampled_from([1.0, 20.0, 301.0]), jump=st.sampled_from([0.0, -3_600.0, 3_600.0]))
    def let_time_pass(self, seconds: float, jump: float) -> None:
        self.clock.jump(jump)
        self.run(self.clock.advance(seconds))

    @rule(crashing=st.booleans())
    def reopen(self, crashing: bool) -> None:
        if crashing:
            self.disk.die()
        self.run(self.router.close())
        self.open()

    @rule()
    def retry_the_dead(self) -> None:
        self.run(self.router.outbox_retry())

    @invariant()
    def nothing_at_or_below_the_threshold_leaves(self) -> None:
        assert all(call.arguments["memory"].significance > REMOTE_ABOVE for call in self.remote.named("store"))

    @invariant()
    def every_change_has_one_effect_and_every_memory_one_copy(self) -> None:
        assert len(set(self.remote.effects)) == len(self.remote.effects)
        copies = [memory.id for memory in self.remote.memories.values()]
        assert len(set(copies)) == len(copies)

    def teardown(self) -> None:
        try:
            self.remote.down = False
            self.remote.go_on()
            self.deliver_everything()
            for key, expected in self.expected.items():
                self.check(key, expected)
            self.run(self.router.close())
        finally:
            self.loop.close()
            self.folder.cleanup()

    def deliver_everything(self) -> None:
        for _ in range(MOST_ROUNDS):
            self.run(self.router.outbox_retry())
            self.run(self.router.sync(timeout=60))
            if not any(self.router._engine.view.status()["outbox"][state] for state in ("pending", "leased", "dead")):
                return
            self.run(self.clock.advance(301))
        raise AssertionError(f"the outbox never became empty: {self.router._engine.view.status()}")

    def check(self, key: str, expected: Expected) -> None:
        memory_id = self.disk.reader.id_of_key("app", key)
        row = None if memory_id is None else self.disk.reader.row(memory_id)
        assert row is not None
        assert row.memory.content == expected.content
        assert row.status is (MemoryStatus.FORGOTTEN if expected.forgotten else MemoryStatus.LIVE)
        there = [memory.content for memory in self.remote.memories.values() if memory.id == memory_id]
        if expected.forgotten:
            assert there == []
        elif expected.significance > REMOTE_ABOVE:
            assert there == [expected.content]
        else:
            assert set(there) <= expected.loud


Deliveries.TestCase.settings = settings(stateful_step_count=30)
TestDeliveries = Deliveries.TestCase
