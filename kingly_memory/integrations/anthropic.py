"""Anthropic's memory tool: `client.beta.messages.run_tools(…, tools=[KinglyMemoryTool(memory)])`.

The model's files are documents: `/memories/trips/oslo.md` is the key `oslo.md` under the namespace `memories/trips`.
What the tool answers is what the SDK's own one answers, which models are used to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any
from unicodedata import category, normalize
from urllib.parse import unquote

from kingly_memory import validation
from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.documents import Document, Namespace, Put, Remove, VersionConflict, as_json
from kingly_memory.errors import InvalidInput, KinglyMemoryError
from kingly_memory.integrations.needed import needed
from kingly_memory.integrations.recall import Router, asked

with needed("the memory tool", "anthropic"):
    from anthropic.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError

if TYPE_CHECKING:
    from kingly_memory.app.opening import MemoryRouter
    from kingly_memory.ports import DocumentReader

ROOT, EARLIER = "memories", "memories-earlier"
KEPT = "30d"
"""How long what a file said before can be had back."""
MOST_LINES = 999_999
_LINES_NAMED = 20
_PAGE = 100
_VERSION_DIGITS = 16


def _command(name: str) -> Callable[..., Any]:
    return lambda tool, command: tool._done(name, command)  # noqa: SLF001


class _Verbs:
    """The blocking tool answers, the other one is awaited."""

    view, create, str_replace, insert, delete, rename = map(
        _command, ("view", "create", "str_replace", "insert", "delete", "rename")
    )

    def clear_all_memory(self) -> Any:
        """Remove all files, and what they said before, for good."""
        return self._done("clear_all_memory")

    def history(self, path: str) -> Any:
        """What a file said before it was edited or deleted within 30 days: documents, the latest first, whose `key` is
        the version."""
        return self._done("history", path)

    def restore(self, path: str, version: int | str) -> Any:
        """Have a file say again what it said in that version."""
        return self._done("restore", path, version)

    def _done(self, verb: str, *arguments: Any) -> Any:
        raise NotImplementedError


class KinglyMemoryTool(_Verbs, BetaAbstractMemoryTool):
    """The memory tool for `Anthropic`, over a blocking router. Raises ToolError, which the model gets to read; then
    nothing was changed."""

    def __init__(self, memory: SyncMemoryRouter, *, cache_control: Any = None) -> None:
        if not isinstance(memory, SyncMemoryRouter):
            raise InvalidInput("memory", "is no SyncMemoryRouter; AsyncKinglyMemoryTool takes a MemoryRouter")
        super().__init__(cache_control=cache_control)
        self._memory = memory

    def _done(self, verb: str, *arguments: Any) -> Any:
        awaiting = self._memory._awaiting  # noqa: SLF001  # all steps of a verb in one call of the portal
        try:
            return self._memory._call(lambda: _answered(awaiting, verb, *arguments))  # noqa: SLF001
        except KinglyMemoryError as error:
            raise ToolError(str(error)) from error


class AsyncKinglyMemoryTool(_Verbs, BetaAsyncAbstractMemoryTool):
    """The same for `AsyncAnthropic`, over a router of either kind."""

    def __init__(self, memory: Router, *, cache_control: Any = None) -> None:
        super().__init__(cache_control=cache_control)
        self._memory = memory

    async def _done(self, verb: str, *arguments: Any) -> Any:
        try:
            return await asked(self._memory, lambda memory: _answered(memory, verb, *arguments))
        except KinglyMemoryError as error:
            raise ToolError(str(error)) from error


async def _answered(memory: MemoryRouter, verb: str, *arguments: Any) -> Any:
    while True:
        try:
            return await getattr(_Files(memory), verb)(*arguments)
        except VersionConflict:  # somebody else was quicker: what the file says now counts
            continue


class _Files:
    """What the verbs do. A place is the labels of a path below `/memories`."""

    def __init__(self, memory: MemoryRouter) -> None:
        self._documents = memory.documents
        self._engine = memory._engine  # noqa: SLF001  # to look at several places at once

    async def view(self, command: Any) -> str:
        labels = _place(_argument(command, "path"))
        file = await self._file(labels)
        if file is not None:
            return _shown(_path(labels), _text(file).split("\n"), getattr(command, "view_range", None))
        below = await self._below(ROOT, *labels)
        if labels and not below:
            raise ToolError(f"The path {_path(labels)} does not exist. Please provide a valid path.")
        return _listed(labels, below)

    async def create(self, command: Any) -> str:
        labels, text = _place(_argument(command, "path")), _argument(command, "file_text")

        def decide(rows: DocumentReader, _: str) -> list[Put]:
            if not labels or self._is_taken(rows, labels):
                raise ToolError(f"File {_path(labels)} already exists")
            return [_put(labels, text, None)]

        await self._documents._decided(decide)  # noqa: SLF001  # one transaction
        return f"File created successfully at: {_path(labels)}"

    async def str_replace(self, command: Any) -> str:
        labels, old, new = (
            _place(_argument(command, "path")),
            _argument(command, "old_str"),
            _argument(command, "new_str"),
        )
        file = await self._existing(labels)
        text = _text(file)
        lines = list(islice(_lines_with(text, old), _LINES_NAMED))
        if not lines:
            raise ToolError(
                f"No replacement was performed, old_str `{old}` did not appear verbatim in {_path(labels)}."
            )
        if text.count(old) > 1:
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
                f"{', '.join(map(str, lines))}. Please ensure it is unique"
            )
        changed = text.replace(old, new)
        await self._documents.write([_kept(file), _put(labels, changed, file)])
        snippet = _numbered(changed.split("\n"), max(0, lines[0] - 3), lines[0] + 2)
        return (
            f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{snippet}"
        )

    async def insert(self, command: Any) -> str:
        labels, added = _place(_argument(command, "path")), _argument(command, "insert_text")
        line = _argument(command, "insert_line", int)
        file = await self._existing(labels)
        lines = text.removesuffix("\n").split("\n") if (text := _text(file)) else []
        if not 0 <= line <= len(lines):
            raise ToolError(
                f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {len(lines)}]."
            )
        lines.insert(line, added.rstrip("\n"))
        await self._documents.write([_kept(file), _put(labels, "\n".join(lines).removesuffix("\n") + "\n", file)])
        return f"The file {_path(labels)} has been edited."

    async def delete(self, command: Any) -> str:
        labels = _place(_argument(command, "path"))
        if not labels:
            raise ToolError("Cannot delete the /memories directory itself")
        files = await self._all_at(labels)
        await self._documents.write([change for one in files for change in (_kept(one), _gone(one))])
        return f"Successfully deleted {_path(labels)}"

    async def rename(self, command: Any) -> str:
        old, new = (_place(_argument(command, name)) for name in ("old_path", "new_path"))
        if not old:
            raise ToolError("Cannot rename the /memories directory itself")
        files = await self._all_at(old)
        if not new or await self._engine.read(lambda: self._is_taken(self._engine.reader.documents, new)):
            raise ToolError(f"The destination {_path(new)} already exists")
        if new[: len(old)] == old:
            raise ToolError(f"The destination {_path(new)} lies inside {_path(old)}")
        moved = [_put((*new, *_place_of(one)[len(old) :]), one.value, None) for one in files]
        await self._documents.write([*map(_gone, files), *moved])
        return f"Successfully renamed {_path(old)} to {_path(new)}"

    async def clear_all_memory(self) -> str:
        for root in (ROOT, EARLIER):
            while page := await self._documents.list((root,), limit=_PAGE):
                await self._documents.write([Remove(document.namespace, document.key) for document in page])
        return "All memory cleared"

    async def history(self, path: str) -> tuple[Document, ...]:
        namespace = (EARLIER, *_place(path))
        return tuple(
            document for document in reversed(await self._below(*namespace)) if document.namespace == namespace
        )

    async def restore(self, path: str, version: int | str) -> str:
        labels = _place(path)
        kept = {document.key: document for document in await self.history(path)}.get(
            str(version).zfill(_VERSION_DIGITS)
        )
        if kept is None:
            raise ToolError(f"No version {version} of {_path(labels)} is kept; `history` tells which are")
        file = await self._file(labels)
        if file is None and await self._engine.read(lambda: self._is_taken(self._engine.reader.documents, labels)):
            raise ToolError(f"The destination {_path(labels)} already exists")
        await self._documents.write([*([] if file is None else [_kept(file)]), _put(labels, kept.value, file)])
        return f"The file {_path(labels)} has been edited."

    async def _file(self, labels: Namespace) -> Document | None:
        return await self._documents.get((ROOT, *labels[:-1]), labels[-1]) if labels else None

    async def _existing(self, labels: Namespace) -> Document:
        file = await self._file(labels)
        if file is None:
            is_directory = not labels or await self._documents.list((ROOT, *labels), limit=1)
            problem = "is not a file." if is_directory else "does not exist. Please provide a valid path."
            raise ToolError(f"The path {_path(labels)} {problem}")
        return file

    def _is_taken(self, reader: DocumentReader, labels: Namespace) -> bool:
        """Whether a file or a directory is there. Raises ToolError where a file is in the way."""
        space, now_s = self._engine.space, self._engine.now_s()
        files = [reader.document(space, (ROOT, *labels[:depth]), name) for depth, name in enumerate(labels)]
        for file in filter(None, files[:-1]):
            raise ToolError(f"The path {_path(_place_of(file))} is not a directory.")
        return files[-1] is not None or bool(reader.documents(space, (ROOT, *labels), now_s, 1, None))

    async def _all_at(self, labels: Namespace) -> list[Document]:
        found = [*filter(None, [await self._file(labels)]), *await self._below(ROOT, *labels)]
        if not found:
            raise ToolError(f"The path {_path(labels)} does not exist")
        return found

    async def _below(self, *prefix: str) -> list[Document]:
        found: list[Document] = []
        while page := await self._documents.list(prefix, limit=_PAGE, after=found[-1] if found else None):
            found += page
        return found


def _argument(command: Any, name: str, kind: type = str) -> Any:
    """What the model gave, which nothing has checked."""
    value = getattr(command, name, None)
    if not isinstance(value, kind):
        raise ToolError(f"Invalid `{name}` parameter: it is missing, or of another type.")
    if isinstance(value, str) and validation.mended(value) != value:
        raise ToolError(f"Invalid `{name}` parameter: it holds half of a surrogate pair, which no file can hold.")
    return value


def _place(path: str) -> Namespace:
    first, root, *parts = [*normalize("NFC", path).split("/"), ""]
    if first or root != ROOT:
        raise ToolError(f"Path must start with /memories, got: {path}")
    labels: list[str] = []
    for part in parts:
        if part == ".." and labels:
            labels.pop()
        elif (plain := unquote(part)) == ".." or any(character in plain for character in "/\\\0"):
            raise ToolError(f"Path {path} would escape /memories directory")
        elif not part.isprintable() and any(category(character) in {"Cc", "Cf"} for character in part):
            raise ToolError(f"Path {path!r} holds a character that cannot be seen")
        elif part not in {"", "."}:
            labels.append(part)
    return tuple(labels)


def _path(labels: Namespace) -> str:
    return "/".join(("", ROOT, *labels))


def _place_of(file: Document) -> Namespace:
    return (*file.namespace[1:], file.key)


def _text(file: Document) -> str:
    """Somebody may have put JSON where the model's files are."""
    return file.value if isinstance(file.value, str) else as_json(file.value)


def _put(labels: Namespace, text: Any, over: Document | None) -> Put:
    return Put((ROOT, *labels[:-1]), labels[-1], text, if_version=0 if over is None else over.version)


def _gone(file: Document) -> Remove:
    return Remove(file.namespace, file.key, if_version=file.version)


def _kept(file: Document) -> Put:
    """Beside the file, under a key by which versions are in order."""
    return Put((EARLIER, *_place_of(file)), str(file.version).zfill(_VERSION_DIGITS), file.value, ttl=KEPT, index=False)


def _lines_with(text: str, wanted: str) -> Iterator[int]:
    """The number of each line in which the wanted text begins."""
    at = text.find(wanted) if wanted else -1
    while at >= 0:
        yield text.count("\n", 0, at) + 1
        at = text.find(wanted, at + 1)


def _numbered(lines: Sequence[str], first: int, end: int) -> str:
    return "\n".join([f"{number:>6}\t{line}" for number, line in enumerate(lines[first:end], start=first + 1)])


def _shown(path: str, lines: Sequence[str], view_range: Any) -> str:
    if len(lines) > MOST_LINES:
        raise ToolError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    if view_range is None:
        view_range = [1, -1]
    if not isinstance(view_range, list) or [type(bound) for bound in view_range] != [int, int]:
        raise ToolError("Invalid `view_range` parameter: it should be two line numbers, such as [1, 20].")
    first, last = max(1, view_range[0]), len(lines) if view_range[1] == -1 else max(0, view_range[1])
    return f"Here's the content of {path} with line numbers:\n{_numbered(lines, first - 1, last)}"


def _listed(labels: Namespace, files: Sequence[Document]) -> str:
    sizes: Counter[Namespace] = Counter({(): 0})
    for file in files:
        inner, size = _place_of(file)[len(labels) :], len(_text(file).encode(errors="replace"))
        if not any(part.startswith(".") for part in inner):
            seen = [(), *((*inner[:depth], "") for depth in range(1, len(inner))), inner]
            sizes.update({inner: size for inner in seen if len([*filter(None, inner)]) <= 2})  # noqa: PLR2004  # levels
    lines = [f"{_size(size)}\t{'/'.join((_path(labels), *inner))}" for inner, size in sorted(sizes.items())]
    header = f"Here're the files and directories up to 2 levels deep in {_path(labels)}, excluding hidden items:"
    return "\n".join((header, *lines))


def _size(size: int) -> str:
    power = min(max(size.bit_length() - 1, 0) // 10, 3)
    return f"{size / 1024**power:.1f}".removesuffix(".0") + "BKMG"[power]
