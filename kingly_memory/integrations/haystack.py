"""The MemoryStore of Haystack's experimental package: `store = KinglyMemoryStore()`."""

from __future__ import annotations

from typing import Any, Self

from kingly_memory import validation
from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.errors import InvalidInput
from kingly_memory.integrations.needed import needed
from kingly_memory.integrations.recall import as_label, as_name, is_blank
from kingly_memory.models import Memory, Origin
from kingly_memory.validation import RESULTS_LIMIT

with needed("the memory store for Haystack", "haystack"):
    from haystack import default_from_dict, default_to_dict
    from haystack.dataclasses import ChatMessage
    from haystack.errors import FilterError

TAG = "haystack"
_OPERATORS = {"==": "$eq", "!=": "$ne", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte", "in": "$in"}


class KinglyMemoryStore:
    """Messages of users as memories, found by words and meaning. A user sees nothing of another one. It opens the home
    that is named, or takes a router that is open, which `to_dict` leaves out: the pipeline that is read again opens the
    `home` and `project` named here. Raises FilterError, InvalidInput, StoreError, RouterClosed; then nothing was
    stored."""

    def __init__(
        self, memory: SyncMemoryRouter | None = None, *, home: str | None = None, project: str | None = None
    ) -> None:
        self._memory = SyncMemoryRouter.open(home, project=project) if memory is None else memory
        if not isinstance(self._memory, SyncMemoryRouter):
            raise InvalidInput("memory", "is no SyncMemoryRouter, and Haystack's stores do not await")
        self._home, self._project = home, project

    def to_dict(self) -> dict[str, Any]:
        return dict(default_to_dict(self, home=self._home, project=self._project))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        made: Self = default_from_dict(cls, data)
        return made

    def add_memories(self, *, messages: list[ChatMessage], user_id: str | None = None, **_: Any) -> None:
        """Keep the texts of messages; the same text of the same role is the same memory."""
        self._of(user_id).store_many(
            {
                "content": message.text,
                "tags": [TAG],
                "origin": Origin.USER if message.role.value == "user" else Origin.AGENT,
                "metadata": {**message.meta, "role": message.role.value},
            }
            for message in messages
            if message.text and message.text.strip() and message.role.value in ("user", "assistant")
        )

    def search_memories(
        self,
        *,
        query: str | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int = 5,
        user_id: str | None = None,
        **_: Any,
    ) -> list[ChatMessage]:
        """The memories that fit, best first; without a query the latest. `filters` compare fields of `meta`."""
        view, wanted = self._of(user_id), None if filters is None else _filter(filters)
        if query is None or is_blank(query):
            return [_message(memory, user_id) for memory in view.list(top_k, filter=wanted)]
        return [
            _message(hit.memory, user_id) for hit in view.search(query, limit=top_k, filter=wanted) if not hit.is_weak
        ]

    def delete_all_memories(self, *, user_id: str | None = None, **_: Any) -> None:
        """Forget what was added here of a user. Raises InvalidInput without one."""
        if user_id is None:
            raise InvalidInput("user_id", "is missing; say whose memories are to be deleted")
        view = self._of(user_id)
        while page := view.list(RESULTS_LIMIT, tags=[TAG], include_archived=True).memories:
            view.forget_many([memory.id for memory in page])

    def delete_memory(self, memory_id: str, **_: Any) -> None:
        """Forget the memory that `meta["memory_id"]` of a found message names."""
        user, name = validation.required("memory_id", memory_id).rpartition("/")[::2]
        self._of(as_name(user) if user else None).forget(name)

    def _of(self, user_id: str | None) -> SyncMemoryRouter:
        return self._memory if user_id is None else self._memory.scoped(user=as_label("user_id", user_id))


def _message(memory: Memory, user_id: str | None) -> ChatMessage:
    name = memory.id if user_id is None else f"{as_label('user_id', user_id)}/{memory.id}"
    return ChatMessage.from_system(memory.content, meta={**memory.metadata, "memory_id": name})


def _filter(filters: dict[str, Any]) -> dict[str, Any]:
    """Haystack's comparisons, all of which must hold, as ours."""
    if filters.get("operator") == "AND":
        wanted: dict[str, Any] = {}
        for condition in filters.get("conditions", ()):
            for field, compared in _filter(condition).items():
                wanted.setdefault(field, {}).update(compared)
        return wanted
    try:
        operator, field = _OPERATORS[filters["operator"]], filters["field"].removeprefix("meta.")
        return {field: {operator: filters["value"]}}
    except (KeyError, AttributeError):
        operators = ", ".join(_OPERATORS)
        raise FilterError(
            f"{filters!r} cannot be asked; compare fields by {operators}, and join comparisons by AND"
        ) from None
