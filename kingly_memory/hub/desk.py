"""Every call in every dialect ends here: handed to the engine, and worded when something goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from kingly_memory import intake
from kingly_memory.errors import InvalidInput, StoreError
from kingly_memory.hub.access import Refusal
from kingly_memory.hub.engine import Engine, UnknownMemory, scope_name
from kingly_memory.hub.requests import UnknownMethod, parsed
from kingly_memory.models import JsonObject
from kingly_memory.observe import log

CALLER = "kingly.caller"
"""Where a request's scope says who calls, for whoever is handed the request."""
DEFAULT_PROJECT = "default"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: the namespace that the token opens, and what the headers say of project and idempotency key."""

    namespace: str
    project: str | None = None
    key: str | None = None

    @classmethod
    def of(cls, namespace: str, headers: Mapping[str, str]) -> Caller:
        """`headers` has lower-case names; their values are percent-encoded."""
        return cls(namespace, _decoded(headers.get("kingly-project")), _decoded(headers.get("idempotency-key")))


class Desk:
    """Blocks while the disk works; safe from any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def answer(self, caller: Caller, method: object, params: object) -> JsonObject:
        """Raises what `refusal` words."""
        request = parsed(method, params, caller.key)
        project = intake.label("Kingly-Project", caller.project) or DEFAULT_PROJECT
        return self._engine.answer(scope_name(caller.namespace, project), request)


def refusal(error: Exception) -> Refusal:
    """What a caller is told of a call that failed, without any detail that nobody foresaw."""
    match error:
        case UnknownMethod() | UnknownMemory():
            return Refusal(404, str(error))
        case InvalidInput():
            return Refusal(422, str(error), error.field)
        case StoreError():
            log.error("HubStoreFailed %s", type(error).__name__)
            return Refusal(503, "the hub's store cannot be used at the moment; nothing was changed")
    log.error("HubCallFailed %s", type(error).__name__)
    return Refusal(500, "internal error")


def _decoded(value: str | None) -> str | None:
    return None if value is None else unquote(value)
