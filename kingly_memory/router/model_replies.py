"""Asking a language model, and keeping what its reply said: the same question costs one call.

Kept is only what was read of a reply: numbers, sorts, other wordings of a question. It lies in the store under a digest
of model and question, the last 200 of each space, and every purge takes all of it away. It is read as a reply is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from kingly_memory.cognition.owners import latest_owner
from kingly_memory.digests import sha256
from kingly_memory.errors import KinglyMemoryError, LanguageModelError
from kingly_memory.model_calls import answer
from kingly_memory.models import JsonObject
from kingly_memory.ports import LanguageModel, Transaction, in_transaction
from kingly_memory.router.access import Access
from kingly_memory.validation import mended

FACET = "model_replies"
KEPT = 200
NONE = "none"
"""How a model says that nothing fits, and how that is kept."""

log = logging.getLogger("kingly_memory.models")


async def ask(
    access: Access,
    model: LanguageModel,
    prompt: str,
    read: Callable[[str], Sequence[str]],
    *,
    timeout_s: float,
    about: str | None = None,
    reread: Callable[[str], Sequence[str]] | None = None,
) -> Sequence[str]:
    """What `read` finds in the model's reply, as lines; nothing only where the reply says `none`. They are kept if the
    model has a `name`: under what the question is `about`, where that may be put in several ways, and `reread` reads
    them. Raises LanguageModelError."""
    name, owner = getattr(model, "name", None), latest_owner(access.space)
    mark = sha256(f"{name}\0{about or prompt}".encode(errors="replace")).hexdigest()[:32]

    def known() -> str | None:
        found = _replies(access.reader.facet(FACET, owner)).get(mark)
        return found if isinstance(found, str) else None

    kept = None if name is None else await access.read(known)
    if kept is not None and (lines := _lines(kept, reread or read)) is not None:
        return lines
    if timeout_s <= 0:
        raise LanguageModelError("the time was over")
    lines = _lines(mended(await answer(model, prompt, timeout_s)), read)
    if lines is None:
        raise LanguageModelError("its reply holds nothing that it was asked for")
    if name is not None:
        try:
            await access.write(_keep(owner, mark, "\n".join(lines) or NONE))
        except KinglyMemoryError as error:  # a disk that takes nothing costs the next call, not this answer
            log.warning("a model's reply is not kept: %s", error)
    return lines


def _lines(reply: str, read: Callable[[str], Sequence[str]]) -> Sequence[str] | None:
    """None where a reply says neither what it was asked for nor `none`."""
    lines = read(reply)
    return lines if lines or reply.strip(" \n\t.\"'`*").casefold() == NONE else None


@in_transaction
def _keep(transaction: Transaction, owner: str, mark: str, reply: str) -> None:
    replies = {**_replies(transaction.facet(FACET, owner)), mark: reply}
    transaction.set_facet(FACET, owner, {"replies": dict([*replies.items()][-KEPT:])})


def _replies(facet: JsonObject | None) -> JsonObject:
    replies = (facet or {}).get("replies")
    return replies if isinstance(replies, dict) else {}


def drop(transaction: Transaction) -> None:
    """Of every space: a question may quote what was purged."""
    while owners := transaction.owners(FACET):
        for owner in owners:
            transaction.set_facet(FACET, owner, None)
