"""Memories as resources, which a person attaches to a conversation: one by its key, or what is at hand in a context. A
host asks us to complete both names."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from mcp_types import Completion, Resource, ResourceTemplate, TextResourceContents

from kingly_memory.errors import InvalidInput
from kingly_memory.server.answers import answer
from kingly_memory.server.tools import compact, read, tool_verbs
from kingly_memory.server.wording import NOBODYS
from kingly_memory.validation import mended

if TYPE_CHECKING:
    from kingly_memory.app.opening import MemoryRouter

OFFERED = 100
"""Names at once; the protocol allows no more."""
LOOKED_AT = 1_000
"""The latest memories, whose keys and contexts are offered."""
_ADDRESSES = {"key": "memory://key/", "context_id": "memory://context/"}
TEMPLATES = [
    ResourceTemplate(
        uri_template="memory://key/{key}", name="memory", title="Memory", description="A memory, by its key",
        mime_type="text/plain",
    ),
    ResourceTemplate(
        uri_template="memory://context/{context_id}", name="context", title="Working context",
        description="The latest memories of a conversation or task", mime_type="application/json",
    ),
]  # fmt: skip


async def keys(memory: MemoryRouter) -> list[Resource]:
    """The latest memories that have a key."""
    return [
        Resource(uri=_ADDRESSES["key"] + quote(key, safe=""), name=key, mime_type="text/plain")
        for key in (await _names(memory, "key"))[:OFFERED]
    ]


async def contents(memory: MemoryRouter, uri: str, *, shared: bool = False) -> TextResourceContents:
    """The text of a memory, or what a tool answers for a context. `shared`: several clients ask. Raises InvalidInput,
    StoreError."""
    for what, address in _ADDRESSES.items():
        name = unquote(uri.removeprefix(address))
        if uri.startswith(address) and what == "key" and (stored := await memory.get(name)) is not None:
            return TextResourceContents(uri=uri, mime_type="text/plain", text=mended(stored.content))
        if uri.startswith(address) and what == "context_id":
            if shared and name == "current":
                raise InvalidInput(what, NOBODYS)
            verb = tool_verbs()["memory_get_working_context"]
            text = compact(await answer(verb, memory, read(verb, {what: name})))
            return TextResourceContents(uri=uri, mime_type="application/json", text=mended(text))
    raise InvalidInput("uri", "nothing is stored there; ask for memory://key/KEY or memory://context/CONTEXT_ID")


async def completed(memory: MemoryRouter, name: str, value: str) -> Completion:
    """What the argument of a template may become, the latest first: what begins so, then what has it within."""
    names = [] if name not in _ADDRESSES else await _names(memory, name)
    fitting = [one for one in names if value.casefold() in one.casefold()]
    fitting.sort(key=lambda one: not one.casefold().startswith(value.casefold()))
    return Completion(values=fitting[:OFFERED], total=len(fitting), has_more=len(fitting) > OFFERED)


async def _names(memory: MemoryRouter, what: str) -> list[str]:
    page = await memory.list(limit=LOOKED_AT)
    return [
        *dict.fromkeys(mended(name) for one in page if (name := one.key if what == "key" else one.scope.context_id))
    ]
