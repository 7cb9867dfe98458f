"""Questions with the memories that answer them, to measure a search by: LoCoMo files, and JSONL of both.

In JSONL a line with `content` is a memory, as `import` takes it, and a line with `query` a question:
`{"query": …, "relevant": [id or key, …], "category"?: …}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.eval import locomo
from kingly_memory.adapters.files import jsonl
from kingly_memory.adapters.files.detect import FIRST_LINE_BYTES, JSONL_SUFFIXES
from kingly_memory.adapters.files.reading import Problem, document, json_value, lines, opened
from kingly_memory.errors import InvalidInput
from kingly_memory.validation import CONTENT_LIMIT_BYTES, METADATA_LIMIT_BYTES, Imported, mended, shown

UNANSWERABLE = 5
"""LoCoMo's category of questions that no turn answers."""

_DIALOGUE_ID = re.compile(r"D:?(\d+):(\d+)")
"""A few are written `D:11:26`, or several in one text."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and the names (see `name_of`) of the memories that answer it, at least one."""

    text: str
    relevant: frozenset[str]
    category: str | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """Memories that belong together, and what is asked of them."""

    name: str
    memories: tuple[Imported, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """What a file holds. `problems` are parts that could not be used."""

    conversations: tuple[Conversation, ...]
    problems: tuple[Problem, ...] = ()


def name_of(key: str | None, memory_id: str | None) -> str:
    """What a memory is known by here: its key if it has one, else its id."""
    return key or memory_id or ""


def read(path: Path) -> QuestionFile:
    """The conversations of a LoCoMo file, or the one that the lines of a JSONL file make.

    Raises InvalidInput when the file
    cannot be read, asks nothing, or names a memory that is not there.
    """
    if path.name.lower().endswith(JSONL_SUFFIXES) or _begins_with_a_line(path):
        found = _from_lines(path)
    else:
        found = _from_samples(document(path), path)
    if not any(one.questions for one in found.conversations):
        raise InvalidInput("file", f"{path} holds no question that one of its memories answers")
    return found


# --- LoCoMo -----------------------------------------------------------------------------------------------------------


def _from_samples(content: Any, path: Path) -> QuestionFile:
    if not locomo.looks_like(content):
        raise InvalidInput("file", f"{path} is neither a LoCoMo file nor JSONL of memories and questions")
    entries = list(locomo.entries(content, path))
    turns: dict[str, list[Imported]] = {}
    for entry in entries:
        if isinstance(entry, Imported):
            turns.setdefault(entry.draft.context_id or "", []).append(entry)
    conversations = []
    for sample in content if isinstance(content, list) else [content]:
        name = sample.get("sample_id") if isinstance(sample, Mapping) else None
        memories = turns.pop(f"locomo:{name}", []) if isinstance(name, str) else []
        if isinstance(name, str) and memories:
            conversations.append(Conversation(name, tuple(memories), tuple(_asked_of(sample.get("qa"), memories))))
    return QuestionFile(tuple(conversations), tuple(one for one in entries if isinstance(one, Problem)))


def _asked_of(asked: object, memories: Sequence[Imported]) -> Iterator[Question]:
    """The questions that can be answered. Evidence that is no turn of the conversation is left out."""
    names = {memory.draft.metadata["dia_id"]: name_of(memory.draft.key, memory.id) for memory in memories}
    for item in asked if isinstance(asked, list) else []:
        if not isinstance(item, Mapping) or not isinstance(item.get("question"), str):
            continue
        evidence = item.get("evidence")
        written = " ".join(map(str, evidence)) if isinstance(evidence, list) else ""
        turns = [f"D{session}:{turn}" for session, turn in _DIALOGUE_ID.findall(written)]
        relevant = frozenset(names[turn] for turn in turns if turn in names)
        if relevant and item.get("category") != UNANSWERABLE:
            yield Question(item["question"], relevant, str(item.get("category")))


# --- JSONL ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Lines:
    """What was read so far. `names` leads from what the file calls a memory to what the store will."""

    memories: list[Imported] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def know(self, memory: Imported, called: object) -> None:
        name = name_of(memory.draft.key, memory.id)
        for label in {name, called if isinstance(called, str) else name}:
            if self.names.setdefault(label, name) != name:
                raise InvalidInput("id", f"{shown(label)!r} stands for two memories")
        self.memories.append(memory)


def _begins_with_a_line(path: Path) -> bool:
    with opened(path) as file:
        first = next(lines(file, FIRST_LINE_BYTES), None)
    try:
        data = json_value(first or b"")
    except InvalidInput:
        return False
    return isinstance(data, Mapping) and ("query" in data or isinstance(data.get("content"), str))


def _from_lines(path: Path) -> QuestionFile:
    found = _read_lines(path)
    questions = []
    for place, data in found.asked:
        with _blamed_on(path, place):
            questions.append(_question(data, found.names))
    return QuestionFile((Conversation(path.stem, tuple(found.memories), tuple(questions)),))


def _read_lines(path: Path) -> _Lines:
    found = _Lines()
    longest = 6 * CONTENT_LIMIT_BYTES + 2 * METADATA_LIMIT_BYTES  # as an import reads them
    with opened(path) as file:
        for number, text in enumerate(lines(file, longest), start=1):
            place = f"line {number}"
            with _blamed_on(path, place):
                if text is None:
                    raise InvalidInput("line", f"has more than {longest:,} bytes")
                if text.strip(b" \t\xef\xbb\xbf"):
                    _take(json_value(text), place, found)
    return found


def _take(data: object, place: str, found: _Lines) -> None:
    if not isinstance(data, Mapping) or not {"content", "query"} & data.keys():
        raise InvalidInput("line", "is neither a memory with `content` nor a question with `query` and `relevant`")
    if "content" in data:
        found.know(jsonl.imported(data), data.get("id"))
    else:
        found.asked.append((place, data))


def _question(data: Mapping[str, Any], names: Mapping[str, str]) -> Question:
    text, relevant, category = data["query"], data.get("relevant"), data.get("category")
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("query", "is not a text")
    if not isinstance(relevant, list) or not relevant or not all(isinstance(name, str) for name in relevant):
        raise InvalidInput("relevant", "is not a list of ids or keys of memories")
    for name in relevant:
        if name not in names:
            raise InvalidInput("relevant", f"names {shown(name)!r}, and no memory that is searched has that id or key")
    return Question(text, frozenset(names[name] for name in relevant), None if category is None else shown(category))


@contextmanager
def _blamed_on(path: Path, place: str) -> Iterator[None]:
    """Say of what is wrong where it stands."""
    try:
        yield
    except InvalidInput as error:
        problem = error.problem if error.field == "line" else str(error)
        raise InvalidInput("file", mended(f"{path}, {place}: {problem}")) from None
