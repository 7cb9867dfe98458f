"""Under which names the facets of contexts lie: apart from `working`, since a hook needs no more than this of it."""

from __future__ import annotations

import json
from functools import lru_cache

from kingly_memory.digests import sha256

_KEPT = 16_384
"""Names that are worked out once, some 300 bytes each: looking over all threads asks for each of theirs."""


def owner(space: str, context_id: str) -> str:
    """Which facet a context has: a context belongs to a project, whichever agent works in it."""
    return digest(space, context_id)


def current_owner(space: str, agent: str | None) -> str:
    """Which facets are about an agent of a project: what it last worked in, and which memories it holds."""
    return digest(space, agent)


def whose_focus(space: str) -> str:
    """Which facet says what a project has in focus: guided by any agent of it, or by a server that speaks for none."""
    return current_owner(space, None)


def latest_owner(space: str) -> str:
    """Which facets are about a project as a whole, such as what anybody of it last worked in."""
    return digest(space)


@lru_cache(_KEPT)
def digest(*parts: str | None) -> str:
    """32 hex digits that no other parts have."""
    return sha256(json.dumps(parts).encode()).hexdigest()[:32]
