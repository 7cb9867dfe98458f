"""What import and export hand over: values that the files and the router both know."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from kingly_memory.dataclass import dataclass, field
from kingly_memory.digests import sha256
from kingly_memory.documents import Document
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Memory, Standing
from kingly_memory.validation import Imported

FROM_FILE = ("thread", "attention", "ratings")
"""The facets that a thread's file speaks of."""
CARRIED = (*FROM_FILE, "usage", "note")
"""The facets of a memory that an export carries."""


@dataclass(frozen=True, slots=True)
class ImportedLink:
    """A link between two memories that were imported before it, by their ids in the file; made just now where the file
    does not say when."""

    source: str
    target: str
    link_type: str
    strength: float
    description: str | None
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ImportedContext:
    """What was said of a context as a thread: facets of FROM_FILE."""

    context_id: str
    beside: Mapping[str, JsonObject]


@dataclass(frozen=True, slots=True)
class ImportedDocument:
    """A document of another home. Searches find it by that text; None stands for all texts in it."""

    document: Document
    found_by: str | None = None


@dataclass(frozen=True, slots=True)
class ImportedItem:
    """The item that stands at that place in the log of a session, counted from 1."""

    session: str
    place: int
    item: Any
    at: datetime | None = None


Beside = ImportedLink | ImportedContext | ImportedDocument | ImportedItem
"""What an export holds beside memories, and behind them."""


@dataclass(frozen=True, slots=True)
class ImportedThread:
    """A thread as its file has it. `facets` are what the file says of FROM_FILE; each memory has an id, and those whose
    ids are in `pinned` are never to be swept away. `into` names the thread that it was merged into. `is_alone`: it is
    one memory that belongs to no context, and has its id."""

    path: Path
    id: str
    memories: tuple[Imported, ...]
    facets: Mapping[str, JsonObject] = field(default_factory=dict)
    pinned: frozenset[str] = frozenset()
    into: str | None = None
    is_alone: bool = False


@dataclass(frozen=True, slots=True)
class ImportedFocus:
    """What a focus.json says is in focus, in its own form."""

    path: Path
    focus: JsonObject


@dataclass(frozen=True, slots=True)
class ExportedMemory:
    """A memory with what it said before, the earliest first, and the facets that an export carries."""

    memory: Memory
    standing: Standing
    earlier: tuple[Memory, ...]
    beside: Mapping[str, JsonObject]


@dataclass(frozen=True, slots=True)
class ExportedThread:
    """A thread as the store has it: its memories in the order they were first stored, archived ones too, and its facets
    of FROM_FILE as far as they exist. `title` and `topics` are what it is about where nobody has said. `is_active` is
    False for one that lies in the archive."""

    id: str
    memories: tuple[tuple[Memory, Standing], ...]
    facets: Mapping[str, JsonObject]
    title: str
    topics: tuple[str, ...]
    drift_history: tuple[str, ...]
    relevance: float
    is_active: bool
    is_alone: bool = False


def message_id(thread_id: str, name: str | int) -> MemoryId:
    """The id of a message that has none of our own: the same on every import. `name` is the message's own id, or its
    place in the thread."""
    digest = sha256(json.dumps([thread_id, name]).encode()).hexdigest()
    return MemoryId(f"{digest[:8]}-{digest[8:12]}-8{digest[12:15]}-8{digest[15:18]}-{digest[18:30]}")
