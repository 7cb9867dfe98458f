"""Ratings of threads in the store: the facet `ratings:<owner>`, as a change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kingly_memory.attention.ratings import Rating, Ratings, relevance, unused_together
from kingly_memory.models import JsonObject
from kingly_memory.ports import StoreReader, Transaction

FACET, INJECTED = "ratings", "injected"
AT_ONCE = 500
PLACES = 4


class Rated(NamedTuple):
    """A thread's relevance before and after a rating, the seed's mean (`raw`), and how many ratings there are.
    `replaced`: it took the place of the one before, since nothing has been put in that was not rated."""

    thread_id: str
    useful: bool
    before: float
    after: float
    raw: float
    ratings: int
    reason: str | None = None
    replaced: bool = False

    @property
    def message(self) -> str:
        """In the words of the seed."""
        how = "useful" if self.useful else "not useful"
        instead = " (in place of the last rating: nothing was put in since)" if self.replaced else ""
        return f"Rated {self.thread_id} as {how}. Relevance score: {self.before:.2f} → {self.after:.2f}{instead}"

    def to_json(self) -> JsonObject:
        return {
            "message": self.message,
            "thread_id": self.thread_id,
            "useful": self.useful,
            "relevance_before": round(self.before, PLACES),
            "relevance_score": round(self.after, PLACES),
            "raw_score": round(self.raw, PLACES),
            "ratings": self.ratings,
            "reason": self.reason,
            "replaced": self.replaced,
        }


def read(reader: StoreReader, owners: Sequence[str]) -> dict[str, Ratings]:
    """The ratings of those threads that have any, by the owner of their facets."""
    found: dict[str, JsonObject] = {}
    for first in range(0, len(owners), AT_ONCE):
        found |= reader.facets(FACET, owners[first : first + AT_ONCE])
    return {owner: Ratings.from_json(facet) for owner, facet in found.items()}


def unused(facets: Iterable[Mapping[str, object]]) -> int:
    """For how many sessions in a row nothing of a thread was used, by what `injected:<memory id>` says of it."""
    counts = (facet.get("unused") for facet in facets)
    return unused_together(one for one in counts if isinstance(one, int) and not isinstance(one, bool))


def rate(
    thread_id: str, owner: str, one: Rating, injected: Sequence[str], showings: Sequence[float]
) -> Callable[[Transaction], Rated]:
    """Rate what was shown at those times: each session can be rated once, and again instead. What was `useful` was
    used, so that no session counts against those memories of it any more."""

    def change(transaction: Transaction) -> Rated:
        before = Ratings.from_json(transaction.facet(FACET, owner))
        replaced = bool(before) and before.are_of_all(showings)
        after = (before.without_last() if replaced else before).rated(one)
        transaction.set_facet(FACET, owner, after.to_json())
        facets = {name: transaction.facet(INJECTED, name) or {} for name in injected}
        was_unused = unused(facets.values())
        for name, facet in facets.items() if one.useful else ():
            if facet.get("unused"):
                transaction.set_facet(INJECTED, name, {**facet, "unused": 0})
        return Rated(
            thread_id,
            one.useful,
            relevance(before, was_unused),
            relevance(after, 0 if one.useful else was_unused),
            after.raw,
            len(after),
            one.reason,
            replaced,
        )

    return change
