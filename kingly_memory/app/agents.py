"""The memories of single agents, in a router's store."""

from __future__ import annotations

from functools import cached_property

from kingly_memory import intake
from kingly_memory.app.learning import Learner
from kingly_memory.cognition.experience.cognitive import CognitiveMemory
from kingly_memory.cognition.experience.rules import SEEDS, ExperienceRules
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.models import Memory
from kingly_memory.observe import MemoryStored
from kingly_memory.router.minds.mind import Mind, Minds


class Agents(Learner):
    """The router with the minds of agents."""

    async def cognitive(self, agent_id: str | None = None, *, rules: ExperienceRules = SEEDS) -> Mind:
        """What an agent remembers, as far as it is in the store, and the way to have it remember more:
        docs/cognitive-memory.md. `agent_id` is the router's own agent unless another is named.

        Its verbs do not wait for the store; `await mind.saved()` does, and so does leaving `async with mind:`. Raises
        InvalidInput, StoreError.
        """
        return await self._minds.open(self._minded(agent_id), rules)

    async def cognitive_waiting(
        self, agent_id: str | None = None, *, rules: ExperienceRules = SEEDS
    ) -> CognitiveMemory:
        """The same for a thread that does not await: there a change is in the store when its verb returns, or the verb
        raises and has changed nothing."""
        return await self._minds.open_waiting(self._minded(agent_id), rules)

    async def forget(self, key_or_id: str) -> Memory | None:
        gone = await super().forget(key_or_id)
        if gone is not None:
            self._take_away(gone)
        return gone

    async def archive(self, key_or_id: str, reason: str | None = None) -> Memory:
        resting = await super().archive(key_or_id, reason)
        self._take_away(resting)
        return resting

    async def close(self) -> None:
        """See `Spine.close`; what agents experienced is stored first."""
        try:
            if "_minds" in self.__dict__:
                await self._minds.settle()
        finally:
            await super().close()

    @cached_property
    def _minds(self) -> Minds:
        return Minds(
            self._station.project,
            store=self._store,
            read=self._read,
            landing=self._landing,
            write_context=self._write_context,
            check_open=self._check_open,
            stored=self._after_experience,
            content_limit_bytes=self._settings.content_limit_bytes,
        )

    def _minded(self, agent_id: str | None) -> str:
        self._check_open()
        agent = intake.label("agent_id", agent_id) or self._agent
        if agent is None:
            raise InvalidInput("agent_id", "is missing; name an agent here, or when the memory is opened")
        return agent

    def _take_away(self, memory: Memory) -> None:
        """No mind that is open here remembers it any longer."""
        if "_minds" in self.__dict__:
            self._minds.take_away(memory)

    def _after_experience(self, new: Memory | None, changed: tuple[MemoryId, ...]) -> None:
        if new is not None:
            self._events.emit(MemoryStored(new.id, new.revision))
        self._wake(*changed)
