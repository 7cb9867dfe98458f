"""What the adapters have in common: a router of either kind, names that a framework gives as labels, turns that are
told again and again, and what is found for a prompt. Imports no framework."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote, unquote

from kingly_memory.app.portal import Portal
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Hit, MemoryType, Origin
from kingly_memory.router.write import is_kept
from kingly_memory.validation import MOST_TOGETHER, batches

if TYPE_CHECKING:
    from kingly_memory.app.opening import MemoryRouter
    from kingly_memory.blocking import SyncMemoryRouter
    from kingly_memory.documents import Put, Remove
    from kingly_memory.ports import DocumentReader, DocumentRows

Router: TypeAlias = "MemoryRouter | SyncMemoryRouter"
T = TypeVar("T")

FEW = 16
"""Turns that are looked at in the transaction: a look on a thread that reads costs as much as that of so many."""


class Turn(NamedTuple):
    """A message of a session. `name` is its id in the session: the same turn may come several times."""

    session: str
    name: str
    text: str
    speaker: str
    metadata: dict[str, Any]


def either(memory: Router) -> Router:
    """The router, or a view of one, that an adapter was given. Raises InvalidInput for anything else."""
    if not isinstance(memory, Portal) and not hasattr(memory, "_engine"):
        raise InvalidInput("memory", "is neither a MemoryRouter nor a SyncMemoryRouter")
    return memory


def is_blank(query: object) -> bool:
    """Whether there is nothing to ask for. Raises InvalidInput for what is no text."""
    if not isinstance(query, str):
        raise InvalidInput("query", f"expected text, not {type(query).__name__}")
    return not query.strip()


_NO_LABEL = re.compile("[%\x00-\x1f\x7f\ud800-\udfff]")
_EMPTY = "%"


def as_label(field: str, name: object) -> str:
    """The name itself; what no label may hold is spelled as in web addresses, a line break as `%0A`. No two names
    become one label. Raises InvalidInput, which names the field."""
    if not isinstance(name, str):
        raise InvalidInput(field, f"expected text, not {type(name).__name__}")
    if not name.strip():
        return quote(name, safe="") or _EMPTY
    return _NO_LABEL.sub(lambda found: quote(found[0], safe="", errors="surrogatepass"), name)


def as_name(label: str) -> str:
    """The name that became this label."""
    if _EMPTY not in label:
        return label
    return "" if label == _EMPTY else unquote(label, errors="surrogatepass")


async def asked(router: Router, verb: Callable[[MemoryRouter], Coroutine[Any, Any, T]]) -> T:
    """What a verb answers, wherever the router's event loop is."""
    return await (router.elsewhere(verb) if isinstance(router, Portal) else verb(router))


async def looked(router: Router, look: Callable[[DocumentReader, str], T]) -> T:
    """What one look at the documents of a space finds, on a thread that reads."""

    def read(memory: MemoryRouter) -> Coroutine[Any, Any, T]:
        engine = memory._engine  # noqa: SLF001
        return engine.read(lambda: look(engine.reader.documents, engine.space))

    return await asked(router, read)


async def decided(router: Router, decide: Callable[[DocumentRows, str], Iterable[Put | Remove]]) -> None:
    """Write documents as is decided in the transaction in which that looks."""
    await asked(router, lambda memory: memory.documents._decided(decide))  # noqa: SLF001


async def found(memory: MemoryRouter, query: str, limit: int) -> list[Hit]:
    """The memories that fit a prompt, best first; what chance words may have found is left out."""
    if is_blank(query):
        return []
    return [hit for hit in await memory.search(query, limit=limit) if not hit.is_weak]


async def keep(memory: MemoryRouter, turns: Iterable[Turn]) -> None:
    """Store turns, each once however often it comes; empty ones are not stored, and what was forgotten stays so.

    The transaction that stores them looks at each. Of many, most were kept before and are left out by a look that keeps
    no writer waiting.
    """
    new = {_key(turn): turn for turn in turns if turn.text.strip()}
    engine, now_s = memory._engine, memory._engine.now_s()  # noqa: SLF001

    def is_new(key: str, turn: Turn) -> bool:
        return not is_kept(engine.reader, engine.space, key, turn.text, now_s)

    if len(new) > FEW:
        new = await engine.read(lambda: {key: turn for key, turn in new.items() if is_new(key, turn)})
    for some in batches(new.items(), MOST_TOGETHER):
        drafts = [memory._draft_of(place, _draft(*one)) for place, one in enumerate(some)]  # noqa: SLF001
        await engine.put_all(drafts, once=True)


def _draft(key: str, turn: Turn) -> dict[str, Any]:
    return {
        "content": turn.text,
        "key": key,
        "type": MemoryType.EPISODIC,
        "context_id": as_label("session", turn.session),
        "origin": Origin.USER if turn.speaker == "user" else Origin.AGENT,
        "metadata": turn.metadata,
    }


def _key(turn: Turn) -> str:
    as_label("session", turn.session)  # says what is wrong with one that is no text
    return "/".join(
        quote(part, safe="", errors="surrogatepass") for part in (turn.session, turn.name or f"\n{turn.text}")
    )
