"""The end of a lifetime (seed 004) or of a `ttl`: working memories and copies are erased, all else is archived. Pure.

A working memory of a significance of 0.8 and more goes to the archive too: what matters that much is never lost.
"""

from __future__ import annotations

from kingly_memory.lifecycle.lifetimes import PROTECTED_FROM, is_expired
from kingly_memory.lifecycle.strength import DAY_S
from kingly_memory.lifecycle.subject import Subject
from kingly_memory.lifecycle.verdicts import Archive, Expire, Keep
from kingly_memory.models import MemoryType, Standing


def decide(subject: Subject, now_s: float) -> Keep | Archive | Expire:
    """Working memories are erased only when every remote that should have them does."""
    lifetime = subject.lifetime
    if lifetime is None or lifetime.expires_at is None or not is_expired(lifetime, now_s):
        return Keep("its lifetime has not ended")
    figures = {"ended_s_ago": now_s - lifetime.expires_at}
    if subject.standing is Standing.CACHED:
        return Expire("a copy of what the remote holds, past its lifetime", figures)
    if subject.standing is not Standing.LIVE:
        return Keep(f"it is {subject.standing.value} already")
    if subject.pinned:
        return Keep("it is pinned", figures)
    if subject.memory.type is not MemoryType.WORKING or subject.memory.significance >= PROTECTED_FROM:
        if lifetime.sliding_s is None:
            return Archive("its ttl has ended", figures)
        return Archive(f"nobody has used it for {lifetime.sliding_s / DAY_S:g} days", figures)
    if subject.awaited:
        return Keep("it waits for the remote to acknowledge it", figures)
    return Expire("a working memory past its lifetime", figures)
