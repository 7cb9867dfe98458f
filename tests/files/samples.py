"""What the tests of the file formats share: memories of every shape, and the two halves of what a reader yields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import strategies as st

from kingly_memory.adapters.files.reading import Problem
from kingly_memory.ids import new_id
from kingly_memory.models import Memory, MemoryType, Origin, Scope
from kingly_memory.validation import Draft, Imported

LIMIT = 1_048_576
NOON = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)

_labels = st.none() | st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(str.strip)
_names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_shares = st.floats(0, 1)
_metadata = st.dictionaries(
    _names,
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | _names,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)

memories = st.builds(
    Memory,
    id=st.builds(lambda: new_id(NOON)),
    key=_labels,
    content=st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip),
    type=st.sampled_from(MemoryType),
    significance=_shares,
    confidence=_shares,
    tags=st.lists(_labels.filter(lambda tag: tag is not None), unique=True, max_size=3).map(tuple),
    title=_labels,
    scope=st.builds(Scope, project=st.just("p"), agent=_labels, context_id=_labels),
    origin=st.sampled_from(Origin),
    created_at=st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    updated_at=st.just(NOON),
    revision=st.integers(1, 9),
    metadata=_metadata,
)
"""Memories that the door would have let in."""


def as_draft(memory: Memory) -> Draft:
    """What of a memory an import has to bring back."""
    return Draft(
        content=memory.content,
        key=memory.key,
        type=memory.type,
        significance=memory.significance,
        confidence=memory.confidence,
        tags=memory.tags,
        title=memory.title,
        context_id=memory.scope.context_id,
        agent=memory.scope.agent,
        origin=memory.origin,
        metadata=memory.metadata,
        created_at=memory.created_at,
    )


def from_a_file(said: Draft) -> Draft:
    """What a file says in the name of the user or of an agent is an import, and never put before a model by itself."""
    vouched = said.origin in (Origin.USER, Origin.AGENT, Origin.DERIVED)
    return replace(said, origin=Origin.IMPORT) if vouched else said


def parted(entries: Iterable[object]) -> tuple[list[Imported], list[str]]:
    """The items that a reader made, and what it said about the others."""
    found = list(entries)
    return (
        [one for one in found if isinstance(one, Imported)],
        [f"{one.place}: {one.reason}" for one in found if isinstance(one, Problem)],
    )
