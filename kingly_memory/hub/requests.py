"""What may be asked of the hub: one model per method. Unknown parameters are ignored, wrong ones named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from kingly_memory.cognition.links import LinkType
from kingly_memory.errors import InvalidInput, KinglyMemoryError
from kingly_memory.intake import RESULTS_LIMIT, mended
from kingly_memory.models import DEEP_KINDS, KINDS, QUICK_KINDS, JsonObject, MemoryType

Text = Annotated[str, AfterValidator(mended)]
"""JSON can hold lone surrogates and the store cannot."""

FAINT = 0.1
"""Similarity below which a memory only shares letters with the question; a caller may set another `threshold`."""

_KIND_NAMES = [*MemoryType, *KINDS, *QUICK_KINDS, *DEEP_KINDS]
_A_KIND = {"anyOf": [{"type": "string", "enum": _KIND_NAMES}, {"type": "null"}]}
_SOME_KINDS = {
    "anyOf": [
        {"type": "array", "items": {"type": "string", "enum": _KIND_NAMES}},
        {"type": "string", "enum": _KIND_NAMES},
        {"type": "null"},
    ]
}

Content = Annotated[
    Text, Field(description="The text; or a JSON object with the text under `content` and its record under `metadata`")
]
Kind = Annotated[
    Text | None,
    Field(
        description="semantic for facts, procedural for how things are done, episodic for what happened, working for "
        "what only one task needs; semantic when it is left out",
        json_schema_extra=_A_KIND,
    ),
]
Facts = Annotated[
    JsonObject | None,
    Field(description="Further facts, returned as they are; `significance`, `confidence` and `context_id` are used"),
]
Key = Annotated[
    Text | None, Field(description="Names this change: sent again, it has no second effect and gets the first answer")
]
MemoryRef = Annotated[Text, Field(description="The id that storing it returned")]
Context = Annotated[Text | None, Field(description="The conversation or task it belongs to")]


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

    content: Content
    memory_type: Kind = None
    metadata: Facts = None
    idempotency_key: Key = None


class UpdateMemory(StoreMemory):
    """Replaces what was stored; type and metadata stay as they are when they are left out."""

    memory_id: MemoryRef


class ForgetMemory(Request):
    """`store_key` is the idempotency key of the store, for a sender who never learnt the memory's id."""

    memory_id: Annotated[Text | None, Field(description="The id that storing it returned")] = None
    store_key: Annotated[Text | None, Field(description="The idempotency key it was stored with")] = None
    idempotency_key: Key = None


class SearchSemanticMemories(Request):
    query: Annotated[Text, Field(description="What to look for, in plain words")]
    limit: Annotated[int, Field(ge=1, le=RESULTS_LIMIT, description="How many at most")] = 10
    threshold: Annotated[float, Field(ge=-1, le=1, description="Least similarity of a result")] = FAINT
    memory_types: Annotated[
        list[Text] | Text | None, Field(description="Only these types", json_schema_extra=_SOME_KINDS)
    ] = None


class GetWorkingMemory(Request):
    context_filter: Annotated[Text | None, Field(description="A context id; left out, every context")] = None


class GetLinkedMemories(Request):
    memory_ids: Annotated[list[Text], Field(description="Ids of memories")]


class RecordThought(Request):
    """`record` is the whole record of the thought, so that answers can echo it like that of a stored memory."""

    content: Annotated[Text, Field(description="The thought")]
    thought_type: Annotated[Text, Field(description="What kind of thought it is")] = "inference"
    chain_id: Annotated[Text | None, Field(description="The chain it belongs to")] = None
    parent_thought_id: Annotated[Text | None, Field(description="The thought it follows from")] = None
    context_id: Context = None
    metadata: Facts = None
    record: Annotated[JsonObject | None, Field(description="The whole record, for answers to echo")] = None
    idempotency_key: Key = None


class CreateMemoryLink(Request):
    source_memory_id: MemoryRef
    target_memory_id: MemoryRef
    link_type: Annotated[
        Text, Field(description="What the source is to the target", json_schema_extra={"enum": [*LinkType]})
    ] = LinkType.RELATED.value
    strength: Annotated[float, Field(ge=0, le=1, description="How strong the link is")] = 1.0
    description: Annotated[Text | None, Field(description="What the link means")] = None
    idempotency_key: Key = None


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
