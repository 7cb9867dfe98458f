"""What may be asked of the hub: one class per method, with its parameters, and what a host's model reads. The class
`StoreMemory` is called `store_memory` on the wire.

Unknown parameters are ignored, so that a newer client works with an older hub; wrong ones are named.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic_core import PydanticCustomError

from kingly_memory.attention.ratings import KEPT
from kingly_memory.cognition.links import LinkType
from kingly_memory.errors import InvalidInput, KinglyMemoryError
from kingly_memory.models import DEEP_KINDS, KINDS, QUICK_KINDS, JsonObject, MemoryType
from kingly_memory.validation import RESULTS_LIMIT, mended, mended_tree

MOST_AT_ONCE = 500
"""Memories in one `store_many`, or documents in one `put_documents`."""

PARTS = 512
"""Of a document: twice 16 MiB, with room for what others cut shorter."""

_KIND = {"type": "string", "enum": [*MemoryType, *KINDS, *QUICK_KINDS, *DEEP_KINDS]}
_A_KIND = {"anyOf": [_KIND, {"type": "null"}]}
_SOME_KINDS = {"anyOf": [{"type": "array", "items": _KIND}, _KIND, {"type": "null"}]}

Kind = Annotated[
    str | None,
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
    str | None, Field(description="Names this change: sent again, it has no second effect and gets the first answer")
]
Content = Annotated[
    str,
    Field(description="The text; or a JSON object with the text under `content` and its record under `metadata`"),
]


def _id(value: str) -> str:
    """No text of PostgreSQL holds NUL, and none could be asked for."""
    if "\0" in value:
        raise PydanticCustomError("nul", "contains a NUL character, which no id has")
    return value


Id = Annotated[str, AfterValidator(_id)]
MemoryRef = Annotated[Id, Field(description="The id that storing it returned")]


METHODS: dict[str, type[Request]] = {}
"""Every method, by its name on the wire."""


def wire_name(name: str) -> str:
    """What the method whose class has that name is called on the wire."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()


class UnknownMethod(KinglyMemoryError):
    """The hub has no method of that name."""

    def __init__(self, method: str) -> None:
        near = get_close_matches(method, METHODS, n=1)
        super().__init__(f"Unknown method: {method}" + (f"; did you mean {near[0]!r}?" if near else ""))


class Request(BaseModel):
    """Strict, because a number that arrives as text is the sender's mistake and is better named than guessed."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    title: ClassVar[str]
    says: ClassVar[str]
    """What a host's model reads of the method."""
    reads: ClassVar[bool] = False
    destroys: ClassVar[bool] = False
    repeatable: ClassVar[bool] = False
    """The same call again changes nothing more, even without an idempotency key."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        METHODS[wire_name(cls.__name__)] = cls


class InitializeMemorySystem(Request):
    title = "Say hello"
    says = "Learn what this server is and can do. Nothing depends on it."
    reads = True


class StoreMemory(Request):
    title = "Store a memory"
    says = "Store one memory. It is on disk when this returns."

    content: Content
    memory_type: Kind = None
    metadata: Facts = None
    idempotency_key: Key = None


class StoreMany(Request):
    title = "Store several memories"
    says = "Store several memories at once. Each is on disk or refused by itself when this returns; the results tell."

    memories: Annotated[
        list[JsonObject],
        Field(max_length=MOST_AT_ONCE, description="What `store_memory` takes, for each memory"),
    ]


class UpdateMemory(Request):
    title = "Replace a memory"
    says = "Replace the content of a memory, or bring a forgotten one back. Type and metadata stay when left out."
    destroys = True

    content: Content
    memory_type: Kind = None
    metadata: Facts = None
    idempotency_key: Key = None
    memory_id: MemoryRef


class ForgetMemory(Request):
    """`store_key` is the idempotency key of the store, for a sender who never learnt the memory's id."""

    title = "Forget a memory"
    says = "Empty a memory and take it out of every answer, by its id or by the key it was stored with."
    destroys = repeatable = True

    memory_id: Annotated[Id | None, Field(description="The id that storing it returned")] = None
    store_key: Annotated[str | None, Field(description="The idempotency key it was stored with")] = None
    purge: Annotated[bool, Field(description="Leave no byte of it in the server's files either")] = False
    forgotten_at: Annotated[
        str | None, Field(description="When, in ISO 8601: a text that was said later stays; left out: now")
    ] = None
    idempotency_key: Key = None


class ListChanges(Request):
    title = "List changes"
    says = (
        "List memories that were stored, revised, linked, marked or forgotten since an earlier answer, as they are now."
    )
    reads = True

    since: Annotated[str | None, Field(description="`until` of an earlier answer; left out: from the first on")] = None
    documents: Annotated[bool, Field(description="The documents of the project instead of its memories")] = False
    limit: Annotated[int, Field(ge=1, le=1000, description="How many at most")] = 500


class SearchSemanticMemories(Request):
    title = "Search memories"
    says = "Find the memories that answer a question, best first."
    reads = True

    query: Annotated[str, Field(description="What to look for, in plain words")]
    limit: Annotated[int, Field(ge=1, le=RESULTS_LIMIT, description="How many at most")] = 10
    threshold: Annotated[float, Field(ge=-1, le=1, description="Least similarity of a result")] = 0.0
    memory_types: Annotated[
        list[str] | str | None, Field(description="Only these types", json_schema_extra=_SOME_KINDS)
    ] = None


class GetWorkingMemory(Request):
    title = "Read working memory"
    says = "Read the memories of type working, of one context or of all, the latest first."
    reads = True

    context_filter: Annotated[str | None, Field(description="A context id; left out, every context")] = None


class GetLinkedMemories(Request):
    title = "Read linked memories"
    says = "Read the links of some memories, and the memories at their other ends."
    reads = True

    memory_ids: Annotated[list[Id], Field(description="Ids of memories")]


class RecordThought(Request):
    """`record` is the whole record of the thought, so that answers can echo it like that of a stored memory."""

    title = "Record a thought"
    says = "Store a step of reasoning, where it is found like any other memory."

    content: Annotated[str, Field(description="The thought")]
    thought_type: Annotated[str, Field(description="What kind of thought it is")] = "inference"
    chain_id: Annotated[str | None, Field(description="The chain it belongs to")] = None
    parent_thought_id: Annotated[str | None, Field(description="The thought it follows from")] = None
    context_id: Annotated[str | None, Field(description="The conversation or task it belongs to")] = None
    metadata: Facts = None
    record: Annotated[JsonObject | None, Field(description="The whole record, for answers to echo")] = None
    idempotency_key: Key = None


class CreateMemoryLink(Request):
    title = "Link two memories"
    says = "Link two memories; the same ends and type again are the same link."
    repeatable = True

    source_memory_id: MemoryRef
    target_memory_id: MemoryRef
    link_type: Annotated[
        str, Field(description="What the source is to the target", json_schema_extra={"enum": [*LinkType]})
    ] = LinkType.RELATED.value
    strength: Annotated[float, Field(ge=0, le=1, description="How strong the link is")] = 1.0
    description: Annotated[str | None, Field(description="What the link means")] = None
    idempotency_key: Key = None


class MarkMemory(Request):
    title = "Pin or rate a memory"
    says = (
        "Say whether a memory is pinned, and how it was rated. What was said later counts; ratings are kept together."
    )
    repeatable = True

    memory_id: MemoryRef
    pin: Annotated[JsonObject | None, Field(description="`pinned`, `weight`, and `at` in Unix seconds")] = None
    ratings: Annotated[
        list[JsonObject], Field(max_length=KEPT, description="`useful`, `timestamp` and `reason` of each")
    ] = []


class PutDocument(Request):
    """`content` comes in parts where it is long, and counts with the last one. Without `document` it is removed."""

    title = "Write or remove a document"
    says = (
        "Write a document under its name, in parts where it is long, or remove it. Of two that were written without "
        "knowledge of each other the later one counts, and the earlier one is kept beside it for 30 days."
    )
    destroys = repeatable = True

    name: Annotated[
        str, Field(pattern="^[0-9a-f]{32}$", description="Half of the SHA-256 of its namespace and key, as a JSON list")
    ]
    at: Annotated[str, Field(description="When it was written or removed, in ISO 8601")]
    document: Annotated[
        JsonObject | None,
        Field(description="`place` (its namespace and key in one list), `created_at`, `expires_at`, `ttl_s`"),
    ] = None
    content: Annotated[str, Field(description="A JSON object with its `value`, or a part of that text")] = ""
    digest: Annotated[
        str, Field(pattern="^([0-9a-f]{32})?$", description="Half of the SHA-256 of the whole `content`")
    ] = ""
    part: Annotated[int, Field(ge=0, lt=PARTS, description="Which part this is, from 0 on")] = 0
    parts: Annotated[int, Field(ge=1, le=PARTS, description="How many parts there are")] = 1
    based_on: Annotated[
        str | None, Field(description="The `state` that was replaced; empty: by time alone; left out: there was none")
    ] = None
    purge: Annotated[bool, Field(description="Leave no byte of it in the server's files either")] = False
    ended: Annotated[bool, Field(description="It ended by itself: let go of it, where it is `based_on` still")] = False


class PutDocuments(Request):
    title = "Write or remove several documents"
    says = "Write or remove several documents at once, all or none of them. The results tell of each."
    destroys = repeatable = True

    documents: Annotated[
        list[PutDocument],
        Field(max_length=MOST_AT_ONCE),
        WithJsonSchema(
            {
                "type": "array",
                "items": {"type": "object"},
                "maxItems": MOST_AT_ONCE,
                "description": "What `put_document` takes, for each document",
            }
        ),
    ]


class GetDocument(Request):
    title = "Read a part of a document"
    says = "Read a part of the content of a document, as `list_changes` has named it."
    reads = True

    memory_id: Annotated[Id, Field(description="Its id in `list_changes`")]
    digest: Annotated[str, Field(pattern="^[0-9a-f]{32}$", description="Its `digest` there")]
    part: Annotated[int, Field(ge=0, lt=PARTS, description="Which part, from 0 on")] = 0


Storing = StoreMemory | StoreMany | RecordThought
"""What makes memories."""
R = TypeVar("R", bound=Request)


def parsed(method: object, params: object, idempotency_key: str | None = None) -> Request:
    """The request that a call makes. The header's idempotency key counts when the parameters hold none.

    Raises UnknownMethod and InvalidInput.
    """
    if not isinstance(method, str):
        raise InvalidInput("method", "expected the name of a method")
    model = METHODS.get(method)
    if model is None:
        raise UnknownMethod(mended(method[:80]))
    given: Any = {} if params is None else params
    if not isinstance(given, dict):
        raise InvalidInput("params", "expected a JSON object")
    if given.get("idempotency_key") is None and idempotency_key is not None:
        given = {**given, "idempotency_key": idempotency_key}
    try:
        return checked(model, mended_tree(given))  # JSON can hold lone surrogates and the store cannot
    except RecursionError:
        raise InvalidInput("params", "is nested too deeply") from None


def checked(model: type[R], given: JsonObject) -> R:
    """Raises InvalidInput with the field and without the value that was sent."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise InvalidInput(str(first["loc"][0]) if first["loc"] else "params", first["msg"]) from None
