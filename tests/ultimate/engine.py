"""What an Ultimate MCP server does with memories, its oddities included, over SQLite in memory."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import validate_call

from kingly_memory.models import JsonObject
from kingly_memory.testing.semantic import Unable, words

Tool = Callable[..., tuple[JsonObject, bool]]
"""Answers with its reply, and whether anything changed."""
LEVELS = ("working", "episodic", "semantic", "procedural")
KINDS = frozenset(
    "observation action_log tool_output artifact_creation reasoning_step fact insight plan question summary reflection "
    "skill procedure pattern code json url user_input text".split()
)
LINK_TYPES = frozenset(
    "related causal sequential hierarchical contradicts supports generalizes specializes follows precedes task "
    "references elaborates question_of consequence_of".split()
)
MOST_IMPORTANT = 10.0
CONTEXT_DATA_LIMIT_BYTES = 64_000
_LIFETIMES_S = {"working": 1_800, "episodic": 604_800}
_KEYED = frozenset({"create_workflow", "store_memory"})
_SAME_WORDS = 0.1
"""The least similarity that the semantic half finds."""
_TRACE = (
    'Traceback (most recent call last):\n  File "/opt/ultimate/tools/unified_memory_system.py", line 1207, in _run\n'
    '    return await func(*args)\n  File "/opt/ultimate/.venv/lib/python3.13/site-packages/aiosqlite/core.py"\n'
)


@dataclass(slots=True)
class Manners:
    """How this server differs from a stock one of today. All of it may be changed while it runs.

    With `repeats_workflows` off it refuses a key of `create_workflow` that it knows; with `re_embeds` off an update
    keeps the embedding of the old words, and says so. `slow_s` is how long it takes to create a workflow, to record a
    thought and to make an embedding; with the embedder down it takes as long and gives none.
    """

    honours_keys: bool = True
    embedder: bool = True
    locked_search: bool = False
    repeats_workflows: bool = True
    re_embeds: bool = True
    updates_expired: bool = True
    replaces_links: bool = True
    slow_s: float = 0.0
    kinds: frozenset[str] = KINDS


@dataclass(slots=True)
class Row:
    """One memory there. `ttl_s` counts from `created_at`; 0 is for ever."""

    memory_id: str
    workflow_id: str
    content: str
    memory_type: str
    memory_level: str
    importance: float
    confidence: float
    description: str | None
    source: str | None
    tags: list[str]
    ttl_s: int
    context: Any
    key: str | None
    created_at: float
    embedded: str | None = None
    embedding_id: str | None = None

    def to_json(self) -> JsonObject:
        """As a search tells it: without what is in `context`."""
        return {
            "memory_id": self.memory_id,
            "workflow_id": self.workflow_id,
            "memory_level": self.memory_level,
            "memory_type": self.memory_type,
            "importance": self.importance,
            "confidence": self.confidence,
            "content": self.content,
            "description": self.description,
            "tags": self.tags,
            "created_at": int(self.created_at),
        }


@dataclass(slots=True)
class _Database:
    """What a wipe takes away."""

    workflows: dict[str, JsonObject] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    links: list[JsonObject] = field(default_factory=list)
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    index: sqlite3.Connection = field(
        default_factory=lambda: sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    )

    def __post_init__(self) -> None:
        self.index.execute(
            "CREATE VIRTUAL TABLE memory_fts USING fts5(memory_id UNINDEXED, content, description, tags)"
        )


class UltimateEngine:
    """The tools that the adapter calls, with the arguments that it may send. A call answers with its reply and whether
    anything changed; `Unable` is layer four."""

    def __init__(self, manners: Manners | None = None) -> None:
        self.manners = manners or Manners()
        self.data = _Database()
        self.ahead_s = 0.0
        self._tools: dict[str, Tool] = {}
        self._count = 0
        self._lock = threading.Lock()

    def wipe(self) -> None:
        """As if its database file had been deleted."""
        self.data.index.close()
        self.data = _Database()

    def advance(self, seconds: float) -> None:
        """Let its clock run on."""
        self.ahead_s += seconds

    def call(self, tool: str, arguments: JsonObject) -> tuple[JsonObject, bool]:
        if tool in _KEYED and (hit := self._known(tool, arguments)) is not None:
            return hit, False
        if _takes_time(tool, arguments):
            time.sleep(self.manners.slow_s)
        with self._lock:
            return self._run(tool, arguments)

    def tool(self, name: str) -> Tool:
        """What does the work of a tool. Raises ValidationError for arguments that it does not take."""
        if name not in self._tools:
            self._tools[name] = validate_call(getattr(self, f"_{name}"))
        return self._tools[name]

    def live(self) -> list[Row]:
        """The memories that have not expired."""
        return [row for row in self.data.rows.values() if not self._is_expired(row)]

    def _run(self, tool: str, arguments: JsonObject) -> tuple[JsonObject, bool]:
        try:
            return self.tool(tool)(**arguments)
        except sqlite3.Error as error:
            raise Unable("EXECUTION_ERROR", f"Error executing {tool}: {error}\n{_TRACE}") from None

    def _known(self, tool: str, arguments: JsonObject) -> JsonObject | None:
        """What the call made when it was made before."""
        key = arguments.get("idempotency_key")
        if key is None or not self.manners.honours_keys:
            return None
        made = self.data.keys.get((tool, key))
        if made is None:
            return None
        if tool == "create_workflow" and not self.manners.repeats_workflows:
            raise Unable("TOOL_ERROR", f"Error creating workflow.\n{_TRACE}")
        if tool == "store_memory":
            return {"memory_id": made, "embedding_id": self.data.rows[made].embedding_id, "idempotency_hit": True}
        return {"workflow_id": made, "idempotency_hit": True}

    def _keyed(self, tool: str, key: str | None, kind: str) -> str:
        """A new id, under its key. Nothing is counted for a key that is there already: it was made meanwhile."""
        if key is None or not self.manners.honours_keys:
            return self._new(kind)
        if (tool, key) in self.data.keys:
            table = "memories" if tool == "store_memory" else "workflows"
            raise sqlite3.IntegrityError(f"UNIQUE constraint failed: {table}.idempotency_key")
        made = self.data.keys[tool, key] = self._new(kind)
        return made

    def _hit_field(self) -> JsonObject:
        return {"idempotency_hit": False} if self.manners.honours_keys else {}

    def _create_workflow(
        self,
        *,
        title: str,
        description: str | None = None,
        tags: list[str] | None = None,
        idempotency_key: str | None = None,
    ) -> tuple[JsonObject, bool]:
        workflow_id = self._keyed("create_workflow", idempotency_key, "wf")
        self.data.workflows[workflow_id] = {"title": title, "description": description, "tags": tags}
        return {"workflow_id": workflow_id, "title": title, **self._hit_field()}, True

    def _store_memory(
        self,
        *,
        workflow_id: str,
        content: str,
        memory_type: str,
        memory_level: str = "episodic",
        importance: float = 5.0,
        confidence: float = 1.0,
        description: str | None = None,
        source: str | None = None,
        tags: list[str] | None = None,
        ttl: int | None = None,
        context_data: JsonObject | None = None,
        generate_embedding: bool = True,
        suggest_links: bool = True,
        idempotency_key: str | None = None,
    ) -> tuple[JsonObject, bool]:
        self._check_workflow(workflow_id)
        self._check_choice("memory_type", memory_type, self.manners.kinds)
        self._check_choice("memory_level", memory_level, LEVELS)
        self._check_figures(importance, confidence)
        if not content:
            raise Unable("INVALID_PARAMETER", "content cannot be empty")
        memory_id = self._keyed("store_memory", idempotency_key, "mem")
        row = Row(
            memory_id,
            workflow_id,
            content,
            memory_type,
            memory_level,
            importance,
            confidence,
            description,
            source,
            _lowered(tags),
            _LIFETIMES_S.get(memory_level, 0) if ttl is None else ttl,
            _bounded(context_data),
            idempotency_key,
            self._now(),
        )
        self.data.rows[memory_id] = row
        if generate_embedding:
            self._embed(row)
        self._index(row)
        related = [{"target_memory_id": one.memory_id} for one in self.live()[-3:-1]] if suggest_links else []
        return {
            "memory_id": memory_id,
            "workflow_id": workflow_id,
            "memory_level": memory_level,
            "embedding_id": row.embedding_id,
            "suggested_links": related,
            **self._hit_field(),
        }, True

    def _update_memory(
        self,
        *,
        memory_id: str,
        content: str | None = None,
        importance: float | None = None,
        confidence: float | None = None,
        tags: list[str] | None = None,
        ttl: int | None = None,
        memory_level: str | None = None,
        regenerate_embedding: bool = False,
    ) -> tuple[JsonObject, bool]:
        row = self._row(memory_id, expired_too=self.manners.updates_expired)
        self._check_figures(importance, confidence)
        row.content = row.content if content is None else content
        row.importance = row.importance if importance is None else importance
        row.confidence = row.confidence if confidence is None else confidence
        row.tags = row.tags if tags is None else _lowered(tags)
        row.ttl_s = row.ttl_s if ttl is None else ttl
        row.memory_level = row.memory_level if memory_level is None else memory_level
        is_embedded = regenerate_embedding and self.manners.re_embeds
        if is_embedded:
            self._embed(row)
        self._index(row)
        return {"memory_id": memory_id, "updated_fields": [], "embedding_regenerated": is_embedded}, True

    def _hybrid_search_memories(
        self,
        *,
        query: str,
        workflow_id: str | None = None,
        limit: int = 10,
        semantic_weight: float = 0.6,
        keyword_weight: float = 0.4,
        memory_level: str | None = None,
        tags: list[str] | None = None,
        include_content: bool = True,
    ) -> tuple[JsonObject, bool]:
        """Every filter reaches the keyword half; only workflow and level reach the other."""
        rows = [row for row in self.live() if _fits(row, workflow_id, memory_level)]
        semantic = self._semantic(query, rows) if semantic_weight > 0 else {}
        strict = [row for row in rows if _is_tagged(row, tags)]
        keyword = self._keyword(query, strict) if keyword_weight > 0 else {}
        found = []
        for row in rows:
            if row.memory_id in semantic or row.memory_id in keyword:
                meaning, wording = semantic.get(row.memory_id, 0.0), keyword.get(row.memory_id, 0.0)
                score = semantic_weight * meaning + keyword_weight * wording
                scores = {"hybrid_score": score, "semantic_score": meaning, "keyword_relevance_score": wording}
                found.append({**_shown(row, include_content), **scores})
        found.sort(key=lambda one: -one["hybrid_score"])
        return {"memories": found[:limit], "total_candidates_considered": len(rows)}, False

    def _search_semantic_memories(
        self,
        *,
        query: str,
        workflow_id: str | None = None,
        limit: int = 5,
        threshold: float = 0.75,
        memory_level: str | None = None,
        include_content: bool = True,
    ) -> tuple[JsonObject, bool]:
        rows = [row for row in self.live() if _fits(row, workflow_id, memory_level)]
        scores = {one: score for one, score in self._semantic(query, rows).items() if score >= threshold}
        if scores and self.manners.locked_search:
            raise sqlite3.OperationalError("database table is locked: memories")
        found = [
            {**_shown(row, include_content), "similarity": scores[row.memory_id]}
            for row in rows
            if row.memory_id in scores
        ]
        found.sort(key=lambda one: -one["similarity"])
        return {"memories": found[:limit], "query": query}, False

    def _query_memories(
        self,
        *,
        workflow_id: str | None = None,
        memory_level: str | None = None,
        tags: list[str] | None = None,
        sort_by: str = "created_at",
        sort_order: str = "DESC",
        limit: int = 10,
    ) -> tuple[JsonObject, bool]:
        rows = [row for row in self.live() if _fits(row, workflow_id, memory_level) and _is_tagged(row, tags)]
        rows.sort(key=lambda row: getattr(row, sort_by), reverse=sort_order.upper() == "DESC")
        shown = [row.to_json() for row in rows[:limit]]
        return {"memories": shown, "total_matching_count": len(rows)}, False

    def _create_memory_link(
        self,
        source_memory_id: str,
        target_memory_id: str,
        link_type: str,
        strength: float = 1.0,
        description: str | None = None,
    ) -> tuple[JsonObject, bool]:
        self._row(source_memory_id)
        self._row(target_memory_id)
        self._check_choice("link_type", link_type, LINK_TYPES)
        ends = (source_memory_id, target_memory_id, link_type)
        earlier = [one for one in self.data.links if _ends(one) == ends]
        if earlier and not self.manners.replaces_links:
            raise sqlite3.IntegrityError("UNIQUE constraint failed: memory_links.source_memory_id")
        link: JsonObject = {
            "link_id": self._new("link"),
            "source_memory_id": source_memory_id,
            "target_memory_id": target_memory_id,
            "link_type": link_type,
            "strength": strength,
            "description": description,
        }
        self.data.links = [*(one for one in self.data.links if _ends(one) != ends), link]
        return link, True

    def _get_linked_memories(self, memory_id: str, direction: str = "both", limit: int = 10) -> tuple[JsonObject, bool]:
        self._row(memory_id)
        links = {
            side: [one for one in self.data.links if one[end] == memory_id and direction in ("both", side)][:limit]
            for side, end in (("outgoing", "source_memory_id"), ("incoming", "target_memory_id"))
        }
        return {"memory_id": memory_id, "links": links}, False

    def _initialize_memory_system(self) -> tuple[JsonObject, bool]:
        return {"message": "Unified Memory System initialized successfully.", "db_path": "/opt/ultimate/um.db"}, False

    def _semantic(self, query: str, rows: list[Row]) -> dict[str, float]:
        """What has no embedding is not found."""
        wanted = words(query)
        if not wanted:
            return {}
        scores = {row.memory_id: len(wanted & words(row.embedded)) / len(wanted) for row in rows if row.embedded}
        return {memory_id: score for memory_id, score in scores.items() if score >= _SAME_WORDS}

    def _keyword(self, query: str, rows: list[Row]) -> dict[str, float]:
        """The query is FTS5's own language, whoever wrote it."""
        among = {row.memory_id for row in rows}
        statement = "SELECT memory_id FROM memory_fts WHERE memory_fts MATCH ? ORDER BY rank"
        found = [memory_id for (memory_id,) in self.data.index.execute(statement, (query,)) if memory_id in among]
        return {memory_id: 1.0 / (1.0 + 0.1 * place) for place, memory_id in enumerate(found)}

    def _index(self, row: Row) -> None:
        self.data.index.execute("DELETE FROM memory_fts WHERE memory_id = ?", (row.memory_id,))
        said = (row.memory_id, row.content, row.description or "", " ".join(row.tags))
        self.data.index.execute("INSERT INTO memory_fts VALUES (?, ?, ?, ?)", said)

    def _embed(self, row: Row) -> None:
        if self.manners.embedder:
            row.embedded, row.embedding_id = row.content, f"emb_of_{row.memory_id}"

    def _row(self, memory_id: str, *, expired_too: bool = False) -> Row:
        row = self.data.rows.get(memory_id)
        if row is None or (self._is_expired(row) and not expired_too):
            raise Unable("TOOL_ERROR", f"Memory {memory_id} not found or expired.\n{_TRACE}")
        return row

    def _is_expired(self, row: Row) -> bool:
        return row.ttl_s > 0 and row.created_at + row.ttl_s < self._now()

    def _check_workflow(self, workflow_id: str) -> None:
        if workflow_id not in self.data.workflows:
            raise Unable("TOOL_ERROR", f"Workflow {workflow_id} not found.\n{_TRACE}")

    def _check_choice(self, name: str, value: str, choices: frozenset[str] | tuple[str, ...]) -> None:
        if value not in choices:
            raise Unable("INVALID_PARAMETER", f"Invalid {name} '{value}'. Must be one of: {', '.join(sorted(choices))}")

    def _check_figures(self, importance: float | None, confidence: float | None) -> None:
        if importance is not None and not 1.0 <= importance <= MOST_IMPORTANT:
            raise Unable("INVALID_PARAMETER", f"importance must be between 1.0 and 10.0, got {importance}")
        if confidence is not None and not 0.0 <= confidence <= 1.0:
            raise Unable("INVALID_PARAMETER", f"confidence must be between 0.0 and 1.0, got {confidence}")

    def _new(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self._count:08x}"

    def _now(self) -> float:
        return time.time() + self.ahead_s


def _takes_time(tool: str, arguments: JsonObject) -> bool:
    if tool == "update_memory":
        return bool(arguments.get("regenerate_embedding"))
    return tool in _KEYED and bool(arguments.get("generate_embedding", True))


def _lowered(tags: list[str] | None) -> list[str]:
    return sorted({tag.strip().lower() for tag in tags or [] if tag.strip()})


def _bounded(context_data: JsonObject | None) -> Any:
    """Above the limit it keeps an error object instead, and says nothing."""
    if context_data is None or len(json.dumps(context_data).encode()) <= CONTEXT_DATA_LIMIT_BYTES:
        return context_data
    return {"error": "Serialized content exceeds maximum length.", "original_type": "dict"}


def _fits(row: Row, workflow_id: str | None, memory_level: str | None) -> bool:
    """Without a workflow, every one of them."""
    return workflow_id in (None, row.workflow_id) and memory_level in (None, row.memory_level)


def _is_tagged(row: Row, tags: list[str] | None) -> bool:
    return set(_lowered(tags)) <= set(row.tags)


def _shown(row: Row, include_content: bool) -> JsonObject:
    shown = row.to_json()
    return shown if include_content else {name: value for name, value in shown.items() if name != "content"}


def _ends(link: JsonObject) -> tuple[Any, ...]:
    return link["source_memory_id"], link["target_memory_id"], link["link_type"]
