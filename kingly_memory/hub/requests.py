"""What may be asked of the hub: one model per method. Unknown parameters are ignored, wrong ones named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from kingly_memory.errors import InvalidInput, KinglyMemoryError
from kingly_memory.intake import mended
from kingly_memory.models import JsonObject

Text = Annotated[str, AfterValidator(mended)]
"""JSON can hold lone surrogates and the store cannot."""


FAINT = 0.1
"""Similarity below which a memory only shares letters with the question; a caller may set another `threshold`."""


class UnknownMethod(KinglyMemoryError):
    """The hub has no method of that name."""

    def __init__(self, method: str) -> None:
        super().__init__(f"Unknown method: {method}")


class Request(BaseModel):
    """Strict, because a number that arrives as text is the sender's mistake and is better named than guessed."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class InitializeMemorySystem(Request):
    pass


class StoreMemory(Request):
    """`content` is plain text or a JSON object with the text under `content` and the whole record under `metadata`."""

    content: Text
    memory_type: Text | None = None
    metadata: JsonObject | None = None
    idempotency_key: Text | None = None


class UpdateMemory(StoreMemory):
    """Replaces what was stored; type and metadata stay as they are when they are left out."""

    memory_id: Text


class ForgetMemory(Request):
    """`store_key` is the idempotency key of the store, for a sender who never learnt the memory's id."""

    memory_id: Text | None = None
    store_key: Text | None = None
    idempotency_key: Text | None = None


class SearchSemanticMemories(Request):
    query: Text
    limit: int = 10
    threshold: float = FAINT
    memory_types: list[Text] | Text | None = None


class GetWorkingMemory(Request):
    """`context_filter` is a context id; without it every working memory is meant."""

    context_filter: Text | None = None


class GetLinkedMemories(Request):
    memory_ids: list[Text]


class RecordThought(Request):
    """`record` is the whole record of the thought, so that answers can echo it like that of a stored memory."""

    content: Text
    thought_type: Text = "inference"
    chain_id: Text | None = None
    parent_thought_id: Text | None = None
    context_id: Text | None = None
    metadata: JsonObject | None = None
    record: JsonObject | None = None
    idempotency_key: Text | None = None


class CreateMemoryLink(Request):
    source_memory_id: Text
    target_memory_id: Text
    link_type: Text = "related"
    strength: float = 1.0
    description: Text | None = None
    idempotency_key: Text | None = None


METHODS: Mapping[str, type[Request]] = {
    "initialize_memory_system": InitializeMemorySystem,
    "store_memory": StoreMemory,
    "update_memory": UpdateMemory,
    "forget_memory": ForgetMemory,
    "search_semantic_memories": SearchSemanticMemories,
    "get_working_memory": GetWorkingMemory,
    "get_linked_memories": GetLinkedMemories,
    "record_thought": RecordThought,
    "create_memory_link": CreateMemoryLink,
}


def parsed(method: object, params: object, idempotency_key: str | None = None) -> Request:
    """The request that a call makes. The header's idempotency key counts when the parameters hold none.

    Raises UnknownMethod, or InvalidInput with the field and without the value that was sent.
    """
    if not isinstance(method, str):
        raise InvalidInput("method", "expected the name of a method")
    model = METHODS.get(method)
    if model is None:
        raise UnknownMethod(mended(method[:80]))
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise InvalidInput("params", "expected a JSON object")
    if params.get("idempotency_key") is None and idempotency_key is not None:
        params = {**params, "idempotency_key": idempotency_key}
    return _checked(model, params)


def _checked(model: type[Request], params: Mapping[str, Any]) -> Request:
    try:
        return model.model_validate(params)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = str(first["loc"][0]) if first["loc"] else "params"
        raise InvalidInput(field, first["msg"]) from None
