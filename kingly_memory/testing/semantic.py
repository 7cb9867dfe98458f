"""The smallest semantic memory server: what the scripted remote does when it is allowed to work."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kingly_memory.models import JsonObject

_WORD = re.compile(r"\w+")


class Unable(Exception):
    """The call failed on the server; `code` is its error_code."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class SemanticServer:
    """Memories, links and thoughts by method name, as the json-call dialect has them.

    `call` answers with the reply and whether anything changed. `without` names methods it does not know.
    """

    def __init__(self, *, honours_keys: bool = True, without: tuple[str, ...] = ()) -> None:
        self.memories: dict[str, JsonObject] = {}
        self.links: list[JsonObject] = []
        self.thoughts: list[JsonObject] = []
        self._honours_keys = honours_keys
        self._known_keys: dict[str, str] = {}
        self._stored_under: dict[str, str | None] = {}
        self._count = 0
        methods: dict[str, Callable[[JsonObject], tuple[JsonObject, bool]]] = {
            "initialize_memory_system": self._initialize,
            "store_memory": self._store,
            "update_memory": self._update,
            "forget_memory": self._forget,
            "search_semantic_memories": self._search,
            "get_working_memory": self._working,
            "get_linked_memories": self._linked,
            "create_memory_link": self._link,
            "record_thought": self._think,
        }
        self._methods = {name: method for name, method in methods.items() if name not in without}

    @property
    def names(self) -> tuple[str, ...]:
        """Of every method it knows."""
        return tuple(self._methods)

    def knows(self, method: str) -> bool:
        return method in self._methods

    def call(self, method: str, params: JsonObject) -> tuple[JsonObject, bool]:
        """Raises KeyError for a method it does not know and Unable when the call fails."""
        return self._methods[method](params)

    def _initialize(self, _params: JsonObject) -> tuple[JsonObject, bool]:
        features = ["idempotency_keys"] if self._honours_keys else []
        return {"success": True, "server": "scripted", "features": features}, False

    def _store(self, params: JsonObject) -> tuple[JsonObject, bool]:
        if not isinstance(params.get("content"), str):
            raise Unable("INVALID_PARAMETER", "content is missing")
        known = self._known(params)
        if known is not None:
            return {"memory_id": known, "idempotency_hit": True}, False
        remote_id = self._new_id(params)
        self.memories[remote_id] = params
        self._stored_under[remote_id] = params.get("idempotency_key")
        return {"memory_id": remote_id, "idempotency_hit": False}, True

    def _update(self, params: JsonObject) -> tuple[JsonObject, bool]:
        remote_id = params.get("memory_id")
        if not isinstance(remote_id, str) or remote_id not in self._stored_under:
            raise Unable("TOOL_ERROR", "no such memory")
        if self._known(params) is not None:
            return {"memory_id": remote_id, "idempotency_hit": True}, False
        self._remember(params, remote_id)
        self.memories[remote_id] = {**params, "idempotency_key": self._stored_under[remote_id]}
        return {"memory_id": remote_id}, True

    def _forget(self, params: JsonObject) -> tuple[JsonObject, bool]:
        """The key stays known, so that a store which arrives late brings nothing back; an update does."""
        remote_id = params.get("memory_id") or self._known_keys.get(params.get("store_key", ""))
        forgotten = self.memories.pop(remote_id, None) if remote_id else None
        reply = {"success": True, "memory_id": remote_id, "forgotten": forgotten is not None}
        return reply, forgotten is not None

    def _search(self, params: JsonObject) -> tuple[JsonObject, bool]:
        wanted = words(params.get("query"))
        types = params.get("memory_types")
        found = [
            {"memory_id": remote_id, **memory, "relevance": len(wanted & words(memory["content"])) / len(wanted)}
            for remote_id, memory in self.memories.items()
            if wanted & words(memory["content"]) and (types is None or memory.get("memory_type") in types)
        ]
        found.sort(key=lambda entry: -entry["relevance"])
        return {"memories": found[: params.get("limit", 10)]}, False

    def _working(self, params: JsonObject) -> tuple[JsonObject, bool]:
        context = params.get("context_filter")
        working = [
            {"memory_id": remote_id, **memory}
            for remote_id, memory in self.memories.items()
            if memory.get("memory_type") == "working"
            and (context is None or memory.get("metadata", {}).get("context_id") == context)
        ]
        return {"context_id": context, "working_memories": working}, False

    def _linked(self, params: JsonObject) -> tuple[JsonObject, bool]:
        ids = params.get("memory_ids", [])
        outgoing = [link for link in self.links if link["source_memory_id"] in ids]
        incoming = [link for link in self.links if link["target_memory_id"] in ids]
        return {"links": {"outgoing": outgoing, "incoming": incoming}}, False

    def _link(self, params: JsonObject) -> tuple[JsonObject, bool]:
        known = self._known(params)
        if known is not None:
            return {"link_id": known, "idempotency_hit": True}, False
        self.links.append(params)
        return {"link_id": self._new_id(params)}, True

    def _think(self, params: JsonObject) -> tuple[JsonObject, bool]:
        """A thought is a memory here too, and is found like one."""
        reply, changed = self._store({**params, "memory_type": "semantic"})
        if changed:
            self.thoughts.append(params)
        return {"thought_id": reply["memory_id"], **reply}, changed

    def _known(self, params: Mapping[str, Any]) -> str | None:
        return self._known_keys.get(params.get("idempotency_key", "")) if self._honours_keys else None

    def _remember(self, params: Mapping[str, Any], remote_id: str) -> None:
        if "idempotency_key" in params:
            self._known_keys[params["idempotency_key"]] = remote_id

    def _new_id(self, params: Mapping[str, Any]) -> str:
        self._count += 1
        remote_id = f"remote-{self._count}"
        self._remember(params, remote_id)
        return remote_id


def words(text: object) -> set[str]:
    """What a text is found by."""
    return set(_WORD.findall(text.casefold())) if isinstance(text, str) else set()
