"""What the adapters have in common that recall memories: a router of either kind, turns that are told again and again,
and what is found for a prompt. Imports no framework."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

from kingly_memory.app.portal import Portal
from kingly_memory.integrations.labels import as_label
from kingly_memory.models import Hit, MemoryType, Origin
from kingly_memory.validation import MOST_TOGETHER, RESULTS_LIMIT

if TYPE_CHECKING:
    from kingly_memory.app.opening import MemoryRouter
    from kingly_memory.blocking import SyncMemoryRouter

    Router: TypeAlias = MemoryRouter | SyncMemoryRouter

T = TypeVar("T")


class Turn(NamedTuple):
    """What somebody said in a session. `name` tells it from the others of the session, however often it is told."""

    session: str
    name: str
    text: str
    speaker: str
    metadata: dict[str, Any]


async def asked(router: Router, verb: Callable[[MemoryRouter], Coroutine[Any, Any, T]]) -> T:
    """What a verb answers, wherever the router's event loop is."""
    return await (router.elsewhere(verb) if isinstance(router, Portal) else verb(router))


async def found(memory: MemoryRouter, query: str, limit: int) -> list[Hit]:
    """The memories that fit a prompt, best first; what chance words may have found is left out."""
    if not query.strip():
        return []
    return [one for one in await memory.search(query, limit=limit) if not one.is_weak]


async def keep(memory: MemoryRouter, turns: Iterable[Turn]) -> None:
    """Store turns, each once however often it is told; empty ones are not stored, and what was forgotten stays so."""
    told = {_key(one): one for one in turns if one.text.strip()}
    away = {one for session in {one.session for one in told.values()} for one in await _forgotten(memory, session)}
    drafts = [
        {
            "content": one.text,
            "key": key,
            "type": MemoryType.EPISODIC,
            "context_id": as_label("session", one.session),
            "origin": Origin.USER if one.speaker == "user" else Origin.AGENT,
            "metadata": one.metadata,
        }
        for key, one in told.items()
        if key not in away
    ]
    for first in range(0, len(drafts), MOST_TOGETHER):
        await memory.store_many(drafts[first : first + MOST_TOGETHER])


def _key(turn: Turn) -> str:
    return "/".join(
        quote(one, safe="", errors="surrogatepass") for one in (turn.session, turn.name or f"\n{turn.text}")
    )


async def _forgotten(memory: MemoryRouter, session: str) -> set[str | None]:
    keys: set[str | None] = set()
    before: int | None = None
    while True:
        page = await memory.list(RESULTS_LIMIT, before, context_id=as_label("session", session), forgotten=True)
        keys |= {one.key for one in page}
        before = page.next_before
        if before is None:
            return keys
