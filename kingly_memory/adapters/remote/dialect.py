"""What a dialect is: how calls and answers lie on the wire. What the calls are named is the server's matter."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from kingly_memory.models import JsonObject


class Offer(NamedTuple):
    """What a server said of itself when it was connected to.

    `tools` are the names of those it lists, None where the dialect has no such list; `told` is its reply to the
    greeting, as JSON. `arguments` names what each tool takes, as far as the list says so. `protocol` is the version
    that was agreed on, `server` what the server calls itself, where the dialect has such things.
    """

    dialect: str
    tools: frozenset[str] | None
    told: Any
    arguments: Mapping[str, frozenset[str]] = MappingProxyType({})
    protocol: str = ""
    server: str = ""


class Dialect(Protocol):
    """One way to call the tools of one server. Every call raises RemoteUnavailable, RemoteRefused or
    RemoteUnauthorised, nothing else, and ends at its deadline whatever the server does."""

    @property
    def address(self) -> str:
        """Where the calls go, without secrets."""
        ...

    async def connect(self) -> Offer:
        """Greet the server and learn what it offers. One try. Calls may be made without it."""
        ...

    async def call(
        self,
        tool: str,
        params: JsonObject,
        *,
        project: str | None = None,
        key: str | None = None,
        timeout_s: float | None = None,
        reads: bool = False,
    ) -> Any:
        """The tool's own result, as JSON. One try; where it only `reads`, one more when its connection may have been a
        kept one that had ended.

        `project` is the one the call is for, the router's own where it is None; `key` is the idempotency key, for a
        dialect that says it beside the parameters too; `timeout_s` is the deadline of the whole, None for the usual.
        """
        ...

    async def aclose(self) -> None: ...
