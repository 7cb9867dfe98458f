"""The agents' views of a router's memories: their streams, what their debates came to, and the tiers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from kingly_memory import intake
from kingly_memory.app.agents import Agents
from kingly_memory.cognition.consensus import ConsensusMemory
from kingly_memory.cognition.stream import MemoryStream
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Query, Receipt, Results
from kingly_memory.ports import Transaction
from kingly_memory.router.minds.bell import Bell
from kingly_memory.router.minds.continuum import ContinuumMemory, Seeker
from kingly_memory.router.minds.shelf import DebateShelf
from kingly_memory.router.minds.timeline import AgentTimeline
from kingly_memory.router.write import Stored


class Views(Agents):
    """The router with views on its record and store."""

    @cached_property
    def _bell(self) -> Bell:
        return Bell()

    async def close(self) -> None:
        """See `Spine.close`; who waits for new memories is told that none will come."""
        self._bell.end()
        await super().close()

    def stream(self, agent_id: str | None = None) -> MemoryStream:
        """What an agent lived through, in the order of time: docs/stream.md. `agent_id` is the router's own agent
        unless another is named. Raises InvalidInput, RouterClosed."""
        self._check_open()
        agent = intake.label("agent_id", agent_id) or self._agent
        if agent is None:
            raise InvalidInput("agent_id", "is missing; name an agent here, or when the memory is opened")
        project, settings = self._station.project, self._settings
        return MemoryStream(
            agent,
            project=project,
            searcher=self,
            writer=self,
            timeline=AgentTimeline(
                project, agent, access=self._access, clock=self._clock, poll_s=settings.poll_s, bell=self._bell
            ),
            content_limit_bytes=settings.content_limit_bytes,
            gist=_gist,
        )

    @cached_property
    def consensus(self) -> ConsensusMemory:
        """What the project's debates came to, and who would not agree: docs/consensus.md."""
        project = self._station.project
        return ConsensusMemory(
            project=project,
            searcher=self,
            writer=self,
            shelf=DebateShelf(project, access=self._access, keep=self._keep),
            content_limit_bytes=self._settings.content_limit_bytes,
        )

    @cached_property
    def continuum(self) -> ContinuumMemory:
        """The project's memories by how near at hand they are: docs/continuum.md."""
        return ContinuumMemory(
            self._station.project,
            verbs=self,
            seeker=Seeker(self._look, self._note_found, self.search),
            access=self._access,
            keep=self._keep,
            usage=self._usage,
            content_limit_bytes=self._settings.content_limit_bytes,
            rules=self._rules.tiers,
        )

    async def _look(self, query: Query) -> Results:
        """What a search finds, before anybody counts it as used."""
        await self._opened()
        return await self._gatherer.search(query, prefer_speed=False, include_semantic=True)

    async def _keep(self, change: Callable[[Transaction], Stored]) -> Receipt:
        """Run a change that stores a memory, with what comes after a store."""
        stored = await self._write(change)
        await self._follow(stored)
        return stored.receipt

    def _wake(self, *memory_ids: str) -> None:
        super()._wake(*memory_ids)
        self._bell.ring()


def _gist(text: str) -> str:
    from kingly_memory.lifecycle.compression.levels import CompressionLevel
    from kingly_memory.lifecycle.compression.rules import compress

    return compress(text, CompressionLevel.AGGRESSIVE).summary
