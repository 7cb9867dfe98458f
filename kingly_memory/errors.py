"""The error tree. Errors take facts and word themselves: what happened, then what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Any


class KinglyMemoryError(Exception):
    """Root of every error this library raises on purpose."""


class InvalidInput(KinglyMemoryError, ValueError):
    """An argument cannot be accepted; nothing was stored."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class RevisionConflict(KinglyMemoryError):
    """Another change came between reading a memory and writing it; nothing was stored. `current` is the revision that
    the memory has by now, 0 when there is none."""

    def __init__(self, name: str, expected: int, current: int) -> None:
        now = f"is at revision {current}" if current else "is not stored"
        super().__init__(f"{name!r} {now} and not at revision {expected}; read it again before you change it")
        self.current = current


class NoSuchRevision(InvalidInput):
    """A memory has no revision of that number, or none any more."""

    def __init__(self, name: str, revision: int) -> None:
        super().__init__("revision", f"{name[:200]!r} has no revision {revision}; `kingly-memory history` lists them")


class NothingUnder(InvalidInput):
    """Nothing in the project, or in the namespace of it, has that key or id."""

    def __init__(
        self, name: object, what: str = "is stored", field: str = "key_or_id", namespace: str | None = None
    ) -> None:
        where = "this project" if namespace is None else f"the namespace {namespace[:200]!r}"
        super().__init__(field, f"nothing {what} under {str(name)[:40]!r} in {where}")


class KeptForEveryProject(InvalidInput):
    """A memory is kept for every project: a single one reads it, and does not change it."""

    def __init__(self, name: str, field: str = "key_or_id") -> None:
        how = "say --everywhere, in Python `scoped(project=None)`"
        super().__init__(field, f"{name[:200]!r} is kept for every project, so it is not changed from this one; {how}")


class RecordDamaged(KinglyMemoryError):
    """The record of a memory is not as it was written, so nothing of it is shown."""

    def __init__(self, memory_id: str, earlier: int | None) -> None:
        """`earlier` is the latest revision before it that is kept."""
        advice = f"nothing that it said before is kept; `kingly-memory forget {memory_id}` takes it away"
        if earlier is not None:
            shown = f"`kingly-memory history {memory_id}` shows what it said before"
            advice = f"{shown}, `kingly-memory restore {memory_id} --revision {earlier}` has it say that again"
        super().__init__(f"memory {memory_id} is damaged on disk and is not shown; {advice}")
        self.memory_id = memory_id


class InvalidSetting(KinglyMemoryError, ValueError):
    """A setting or environment variable has a value that cannot be used."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"setting {name}: {problem}")
        self.field, self.problem = name, problem


class ExtraMissing(KinglyMemoryError):
    """What was asked for needs an optional part of the installation."""

    def __init__(self, what: str, extra: str, but: str = "") -> None:
        """`extra` is the name to install it by; `but` says what there is of it."""
        how = f"install kingly-memory[{extra}] (in its folder: `pip install '.[{extra}]'`)"
        super().__init__(f"{what} needs the extra `{extra}`{but and ', but '}{but}; {how}")


class StoreError(KinglyMemoryError):
    """The local store could not do what was asked; what was acknowledged before is untouched."""


class StoreBusy(StoreError):
    """Another process held the store's lock for longer than we wait."""

    def __init__(self, waited_s: float) -> None:
        super().__init__(
            f"the memory store stayed locked by another process for {waited_s:.1f} s; nothing was stored. "
            "Try again, and look for a stopped process that uses the same home"
        )


TOO_MANY_FILES = os.strerror(errno.EMFILE)
HAVE_MORE_FILES = "Close files in this process, or let it open more (ulimit -n)"


class StoreUnwritable(StoreError):
    """The disk or the system refused a write: full, read-only, or failing, or too many files are open."""

    def __init__(self, path: str, cause: str, to_do: str | None = None) -> None:
        has_too_many = TOO_MANY_FILES in cause
        usual = HAVE_MORE_FILES if has_too_many else "Free some space, or make the folder writable and the files in it"
        super().__init__(
            f"the memory store in {path} cannot be written ({cause}); nothing was stored. "
            f"{to_do or usual}, then try again: no restart is needed"
        )


class StoreUntrusted(StoreError):
    """The store folder could have been prepared by somebody else, so it is not opened."""

    def __init__(
        self, path: str, problem: str, to_do: str = "If it is yours, mend that; otherwise name another --home"
    ) -> None:
        super().__init__(f"the memory store in {path} is not opened: {problem}. {to_do}")


class StoreDamaged(StoreError):
    """The store file is missing or unreadable although this home has held memories."""

    def __init__(
        self,
        path: str,
        problem: str,
        to_do: str = "Restore the folder from a backup, or move it aside to begin with an empty one",
    ) -> None:
        super().__init__(f"the memory store in {path} is damaged: {problem}. {to_do}")


class StoreLocked(StoreError):
    """The store is encrypted, and its key is not here."""

    def __init__(self, path: str, key_name: str, others: Sequence[str]) -> None:
        """`others` says what is wrong with the keys that are here."""
        found = f" ({'; '.join(others)})" if others else ""
        super().__init__(
            f"{path} is encrypted, and its key {key_name} is not here{found}; nothing was changed. "
            "Set KINGLY_KEY to it, or KINGLY_KEY_FILE to the file that holds it"
        )


class StoreUnreadable(StoreError):
    """The operating system or the disk refused a read."""

    def __init__(self, path: str, cause: str, to_do: str) -> None:
        super().__init__(f"the memory store in {path} cannot be read ({cause}); nothing in it was changed. {to_do}")


class StoreTooNew(StoreError):
    """A newer version has written this store; this one may read it but must not write."""

    def __init__(self, path: str, found: int, known: int) -> None:
        super().__init__(
            f"the memory store in {path} has layout {found}, this version knows {known}; nothing was stored. "
            "Upgrade kingly-memory to write to it"
        )


class StoreTooOld(StoreError):
    """An earlier version has written this store, in a layout that this one does not read."""

    def __init__(self, path: str, found: int, known: int) -> None:
        super().__init__(
            f"the memory store in {path} has layout {found}, and this version reads layout {known}. "
            "Move the folder aside and bring its memories in: `kingly-memory import FOLDER`"
        )


class SweepUnderWay(StoreError):
    """Somebody is sweeping the same home: another process, or another task of this one."""

    def __init__(self) -> None:
        super().__init__("this home is being swept already; nothing was changed. Try again when that is finished")


class RouterClosed(KinglyMemoryError):
    """A method was called after the router was closed, or where it was not opened: in `elsewhere`, "process" or "event
    loop"."""

    def __init__(self, elsewhere: str | None = None) -> None:
        was = "was closed" if elsewhere is None else f"was opened in another {elsewhere}"
        here = "" if elsewhere is None else " here"
        super().__init__(
            f"this memory router {was}; open one{here} with MemoryRouter.open(...) or SyncMemoryRouter.open(...)"
        )


class CalledWithin(KinglyMemoryError):
    """An observer or a model called back into the `SyncMemoryRouter` that called it, whose thread would wait for
    itself."""

    def __init__(self) -> None:
        super().__init__(
            "an observer or a model of a SyncMemoryRouter cannot call one on the thread that it is called on; "
            "have another thread do that"
        )


class NoEventLoop(KinglyMemoryError):
    """A `MemoryRouter` was used where no event loop of asyncio runs."""

    def __init__(self) -> None:
        super().__init__("MemoryRouter needs asyncio, whose event loop does not run here; SyncMemoryRouter needs none")


class RemoteError(KinglyMemoryError):
    """The remote did not do what was asked. Local work is never affected.

    `reason` says why, where it is known which remote it was.
    """

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = message if reason is None else reason


class RemoteUnavailable(RemoteError):
    """Network trouble, a deadline, 408, 425, 429, 5xx or a reply that makes no sense: worth trying again.

    `reached` says that some answer came, `timed_out` that the deadline ended the call. `retry_after_s` is the server's
    own wish (0-300 s) or None. `receipt` is set when `store(require_remote=True)` raised this: the memory is safe
    locally and will be delivered later.
    """

    def __init__(
        self,
        reason: str,
        *,
        retry_after_s: float | None = None,
        reached: bool = False,
        timed_out: bool = False,
        receipt: Any = None,
    ) -> None:
        safe = "" if receipt is None else f"; the memory is safe on this machine as {receipt.key or receipt.id}"
        super().__init__(f"the remote memory server is unavailable: {reason}{safe}", reason)
        self.retry_after_s = retry_after_s
        self.reached = reached
        self.timed_out = timed_out
        self.receipt = receipt


class NotConnectedYet(RemoteUnavailable):
    """Connecting has taken so much of a call's time that being late at it says nothing of the remote yet."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, timed_out=True)


OVERTAKEN = "it holds another text than it was sent, or nothing any more"
"""The `code` of a RemoteRefused, and its reason."""


class RemoteRefused(RemoteError):
    """The remote understood the call and will not do it. `clear` means that repeating it cannot help.

    `code` says in a word of ours what its error text was about, where that is known: the text itself may hold anything.
    `remote_id` is what it calls the memory, where it answered with another text under that id.
    """

    def __init__(
        self,
        reason: str,
        *,
        clear: bool,
        unknown_method: bool = False,
        code: str | None = None,
        remote_id: str | None = None,
    ) -> None:
        super().__init__(f"the remote memory server refused: {reason}", reason)
        self.clear = clear
        self.unknown_method = unknown_method
        self.code = code
        self.remote_id = remote_id


class RemoteUnauthorised(RemoteError):
    """401 or 403, or a file without a token that can be shown (`status` None): delivery pauses, nothing is dropped, and
    the user has to look at the token."""

    def __init__(self, status: int | None, reason: str = "the token was not accepted") -> None:
        happened = f"was not asked: {reason}" if status is None else f"answered HTTP {status}"
        super().__init__(
            f"the remote memory server {happened}; delivery is paused and nothing is lost. "
            "Check its token (KINGLY_TOKEN or its file; of a remote with a name, KINGLY_TOKEN_<NAME>), "
            "then run `kingly-memory sync`",
            reason if status is None else f"HTTP {status}: {reason}",
        )
        self.status = status


class EmbedderFailed(KinglyMemoryError):
    """What makes vectors made none; memories are found by their words meanwhile."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the embedder gave no vectors: {reason}. Check the setting embedder")
        self.reason = reason


class LanguageModelError(KinglyMemoryError):
    """A language model gave no answer; what was asked of it is left undecided."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the language model gave no answer: {reason}. Check KINGLY_LLM_URL, KINGLY_LLM_MODEL and KINGLY_LLM_TOKEN"
        )
        self.reason = reason
