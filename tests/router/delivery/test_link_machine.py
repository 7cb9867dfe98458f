"""The machine of test_delivery_machine, linking memories as well: whatever happens in whatever order, in the end the
remote holds every link of what it holds, in its newest form."""

from __future__ import annotations

from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from kingly_memory import MemoryRouter
from kingly_memory.errors import InvalidInput
from kingly_memory.models import REMOTE_ABOVE
from tests.router.delivery.test_delivery_machine import KEYS, MOST_ROUNDS, Deliveries
from tests.router_bench import PromptStore, router_over


class Linkings(Deliveries):
    """Two memories, the links between them, and the same troubles."""

    router: MemoryRouter

    def __init__(self) -> None:
        self.linked: dict[tuple[str, str], float] = {}
        super().__init__()

    def open(self) -> None:
        self.disk = PromptStore(Path(self.folder.name) / "home")
        self.router = router_over(self.disk, self.remote, self.clock)
        self.run(self.router.__aenter__())

    @rule(source=KEYS, strength=st.sampled_from([0.25, 0.75]))
    def link(self, source: str, strength: float) -> None:
        target = "b" if source == "a" else "a"
        try:
            self.run(self.router.link_memories(source, target, strength=strength))
        except InvalidInput:
            known = {key for key, one in self.expected.items() if not one.forgotten}
            assert not {source, target} <= known
        else:
            self.linked[source, target] = strength

    @invariant()
    def no_link_names_what_never_left(self) -> None:
        for call in self.remote.named("link"):
            assert all(self.expected[key].loud for key in ("a", "b")), call

    def deliver_everything(self) -> None:
        super().deliver_everything()
        for _ in range(MOST_ROUNDS):
            for (source, target), strength in self.linked.items():
                if not any(self.expected[key].forgotten for key in (source, target)):
                    self.run(self.router.link_memories(source, target, strength=strength))
            self.run(self.router.sync(timeout=60))
            if "links" not in self.router._engine.view.status():
                self.check_links()
                return
            self.run(self.clock.advance(301))
        raise AssertionError(f"the links never arrived: {self.router._engine.view.status()}")

    def check_links(self) -> None:
        there = {remote_id: memory.key for remote_id, memory in self.remote.memories.items()}
        told = {(there.get(one.source_id), there.get(one.target_id)): one.strength for one in self.remote.links}
        assert len(told) == len(self.remote.links)
        for (source, target), strength in self.linked.items():
            ends = [self.expected[key] for key in (source, target)]
            if all(one.significance > REMOTE_ABOVE and not one.forgotten for one in ends):
                assert told[source, target] == strength


Linkings.TestCase.settings = settings(stateful_step_count=30)
TestLinkings = Linkings.TestCase
