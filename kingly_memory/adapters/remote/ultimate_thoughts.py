"""Thoughts on older Ultimate MCP servers, which keep them apart from memories, in chains of their own."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial

from kingly_memory.adapters.remote import outcomes, ultimate_replies, ultimate_wire
from kingly_memory.adapters.remote.ultimate_calls import Calls, repeated_on_conflict
from kingly_memory.errors import RemoteRefused
from kingly_memory.models import JsonObject, Memory

MOST_CHAINS = 256
_PLACE = frozenset({"thought_chain_id", "parent_thought_id"})
_KIND = frozenset({"thought_type"})


class Thoughts:
    """Records thoughts where the server knows them."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._chains: OrderedDict[tuple[str, str], str] = OrderedDict()

    @property
    def are_known(self) -> bool:
        return self._calls.offers("record_thought")

    async def record(self, memory: Memory, key: str, parent_remote_id: str | None, workflow_id: str) -> str:
        """The remote's id of the thought. A parent or a chain that it does not know any more is left out, and so is a
        kind of thought that it does not know."""
        chain_remote_id = await self._chain(memory, workflow_id)
        arguments = ultimate_wire.thought_arguments(memory, key, parent_remote_id, chain_remote_id)

        async def write(told: JsonObject) -> object:
            told = {"workflow_id": workflow_id, **told}
            return await self._calls.write("record_thought", told, project=memory.scope.project)

        try:
            reply = await repeated_on_conflict(partial(write, arguments))
        except RemoteRefused as refused:
            unknown = _PLACE | (_KIND if refused.clear and not refused.unknown_method else frozenset())
            alone = {name: value for name, value in arguments.items() if name not in unknown}
            if refused.code == outcomes.NO_WORKFLOW or alone == arguments:
                raise
            self._chains.clear()
            reply = await repeated_on_conflict(partial(write, alone))
        return ultimate_replies.named(reply, "thought_id")

    def check_dropped(self, memory: Memory) -> None:
        """Raises RemoteRefused for a thought, which the server keeps although no memory has its id."""
        if self.are_known and memory.metadata.get("record") == "thought":
            raise RemoteRefused("it has no tool to drop a recorded thought with", clear=True)

    async def _chain(self, memory: Memory, workflow_id: str) -> str | None:
        """The remote's chain for ours, made once; None where it has no chains, so that the thought stands in its
        workflow."""
        chain_id = memory.metadata.get("chain_id")
        if not isinstance(chain_id, str) or not self._calls.offers("create_thought_chain"):
            return None
        if (workflow_id, chain_id) not in self._chains:
            arguments = {"workflow_id": workflow_id, "title": f"Kingly Memory: {chain_id}"}
            try:
                reply = await self._calls.write("create_thought_chain", arguments, project=memory.scope.project)
            except RemoteRefused as refused:
                if refused.code == outcomes.NO_WORKFLOW:
                    raise
                return None
            self._chains[workflow_id, chain_id] = ultimate_replies.named(reply, "thought_chain_id")
            while len(self._chains) > MOST_CHAINS:
                self._chains.popitem(last=False)
        return self._chains[workflow_id, chain_id]
