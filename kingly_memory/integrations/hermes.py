"""Hermes: a memory provider. `$HERMES_HOME/plugins/kingly/__init__.py` says
`from kingly_memory.integrations.hermes import register  # register_memory_provider`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.errors import KinglyMemoryError
from kingly_memory.integrations.needed import needed
from kingly_memory.integrations.recall import as_label

with needed("the provider for Hermes", "hermes"):
    from agent.memory_provider import MemoryProvider

_TEXT = {"type": "string"}
_TOOLS = {
    "kingly_search": ("Search what is remembered of earlier sessions, in plain words.", "query"),
    "kingly_store": ("Remember one fact, decision, preference or lesson, understandable on its own.", "content"),
}


class KinglyMemoryProvider(MemoryProvider):
    """Puts what fits before each turn, and keeps what turns state, by rules and without a model call. The home lies in
    the profile, so that `hermes backup` has it; users of a gateway see nothing of each other. Agents that work for
    another one, or by the clock, write nothing."""

    name = "kingly"

    def __init__(self) -> None:
        self._router: SyncMemoryRouter | None = None
        self._session_id, self._writes = "", False

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        user, home = kwargs.get("user_id"), Path(kwargs["hermes_home"]) / "kingly"
        self._router = SyncMemoryRouter.open(home, project="hermes", user=as_label("user_id", user) if user else None)
        self._session_id = session_id
        self._writes = kwargs.get("agent_context", "primary") == "primary"

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        return self._router.inject(query).text if self._router and query and query.strip() else ""

    def sync_turn(
        self, user_content: str, assistant_content: str, *, session_id: str = "", messages: list[Any] | None = None
    ) -> None:
        turns = [{"role": "user", "content": user_content}, {"role": "assistant", "content": assistant_content}]
        self._keep(turns, session_id)

    def on_pre_compress(self, messages: list[dict[str, Any]]) -> str:
        """What is about to be shortened is kept before."""
        self._keep(messages, "")
        return ""

    def on_session_switch(self, new_session_id: str, **_: Any) -> None:
        self._session_id = new_session_id

    def on_memory_write(self, action: str, target: str, content: str, metadata: dict[str, Any] | None = None) -> None:
        """What Hermes' own memory notes is noted here too; what it takes out there stays."""
        if action != "remove" and content and content.strip() and self._router and self._writes:
            self._router.store(content, origin="user" if target == "user" else "agent", tags=["hermes"])

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return [
            {
                "name": name,
                "description": words,
                "parameters": {"type": "object", "properties": {argument: _TEXT}, "required": [argument]},
            }
            for name, (words, argument) in _TOOLS.items()
        ]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **_: Any) -> str:
        """The result as JSON. The model gets an error as one sentence."""
        if tool_name not in _TOOLS:
            return json.dumps({"error": f"there is no tool {tool_name}; there are {', '.join(_TOOLS)}"})
        text = str((args or {}).get(_TOOLS[tool_name][1]) or "")
        try:
            if self._router is None:
                return json.dumps({"error": "the memory is not open"})
            if tool_name == "kingly_store":
                return json.dumps({"id": self._router.store(text).id})
            hits = self._router.search(text, limit=5)
            return json.dumps({"memories": [one.memory.content for one in hits]}, ensure_ascii=False)
        except KinglyMemoryError as error:
            return json.dumps({"error": str(error)}, ensure_ascii=False)

    def shutdown(self) -> None:
        if self._router is not None:
            self._router.close()

    def _keep(self, turns: list[dict[str, Any]], session_id: str) -> None:
        if self._router and self._writes:
            session = session_id or self._session_id
            self._router.capture(turns, context_id=as_label("session_id", session) if session else None)


def register(ctx: Any) -> None:
    """What Hermes calls when it loads the plugin."""
    ctx.register_memory_provider(KinglyMemoryProvider())
