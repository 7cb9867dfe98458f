"""What is made of the hits of a search before they are answered: repeats folded, and as much shown as was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

from kingly_memory import intake
from kingly_memory.models import Detail, Hit, Results
from kingly_memory.router.searching.local_search import LocalAnswer

BEYOND_BUDGET = "beyond_budget"
"""Why a hit is left out for which not even a title has room."""
SHOWING_SHARE = 0.3
"""Of the time for the local side: what looking for passages may take after the hits are found."""

_RANKED = 3
"""Candidates of each ranking per hit wanted, where ranks are fused."""
_LEAST_POOL = 10
"""As many as a usual search looks at: a smaller one may as well see repeats."""
_FURTHER = 4
"""How many times as many are looked at when too many of them say the same."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a search is to answer with. A budget counts the JSON of the hits as they are shown, in estimated tokens."""

    fold: bool = True
    detail: Detail = Detail.FULL
    budget_tokens: int | None = None
    by_ranks: bool = False

    @property
    def shortens(self) -> bool:
        """True when hits may be shown in less than their whole text."""
        return self.detail is not Detail.FULL or self.budget_tokens is not None

    def pool(self, limit: int) -> int:
        """How many candidates to look at first for so many hits."""
        if self.by_ranks:
            return min(limit * _RANKED, max(limit, intake.RESULTS_LIMIT))
        return max(limit, _LEAST_POOL) if self.fold else limit

    def gathered(
        self, look: Callable[[int], LocalAnswer], limit: int, pool: int, is_time: Callable[[], bool]
    ) -> LocalAnswer:
        """What `look` finds in a pool that holds `limit` hits that differ, if there are as many.

        Most pools do at once: a larger one costs time, and only repeats ask for it. When it is no time for that any
        more, what was found is the answer, and `cut`.
        """
        found = look(pool)
        while self._wants_more(found, limit, pool):
            if not is_time():
                return found._replace(cut=True)
            pool = min(pool * _FURTHER, intake.RESULTS_LIMIT)
            further = look(pool)
            best = max(found, further, key=lambda answer: len(answer.hits))  # the further one may have had no time
            found = best._replace(took_ms=found.took_ms + further.took_ms, cut=further.cut)
        return found

    def _wants_more(self, found: LocalAnswer, limit: int, pool: int) -> bool:
        if not self.fold or found.cut or len(found.hits) < pool or pool >= intake.RESULTS_LIMIT:
            return False
        from kingly_memory.retrieval.folding import groups

        return len(groups([hit.memory for hit in found.hits])) < limit

    def listed(self, results: Results, limit: int) -> Results:
        """At most `limit` hits, none of which repeats another; what they stand for besides is named."""
        hits, under = self._ranked(results.hits), dict[str, tuple[str, ...]]()
        if self.fold and len(hits) > 1:
            from kingly_memory.retrieval.folding import fold

            hits, under = fold(hits)
        if len(hits) > limit:
            from kingly_memory.retrieval.fusion import cut

            hits = cut(hits, limit)
            under = {hit.memory.id: under[hit.memory.id] for hit in hits if hit.memory.id in under}
        return replace(results, hits=tuple(hits), folded=under)

    def _ranked(self, hits: Sequence[Hit]) -> Sequence[Hit]:
        if not self.by_ranks:
            return hits
        from kingly_memory.retrieval.fusion import by_ranks

        return by_ranks(hits)

    def shown(self, results: Results, query: str, deadline_s: float = inf) -> Results:
        """The hits in as much detail as was asked for, and no more of them than the budget holds.

        After `deadline_s` on the monotonic clock they are shown by title, and the local layer's report says `cut`.
        """
        if not self.shortens:
            return results
        from kingly_memory.retrieval.disclosure import disclose

        told = disclose(
            results.hits,
            self.detail,
            asked=(query, *results.repaired.values()),
            budget_tokens=self.budget_tokens,
            repeats=results.folded,
            deadline_s=deadline_s,
        )
        there = told.shown.keys()
        local = results.layers["local"]
        return replace(
            results,
            hits=told.hits,
            shown=told.shown,
            layers={**results.layers, "local": replace(local, cut=local.cut or told.cut)},
            excluded={**results.excluded, **({BEYOND_BUDGET: told.left_out} if told.left_out else {})},
            folded=told.named,
            more_folded=told.unnamed,
            clusters={one: number for one, number in results.clusters.items() if one in there},
            verdicts={one: verdict for one, verdict in results.verdicts.items() if one in there},
        )


AS_FOUND = Shape(fold=False)
"""The hits as they were found."""


def shape(
    fold: object = True, detail: object = "full", budget_tokens: object = None, by_ranks: object = False
) -> Shape:
    """What a caller asked for. Raises InvalidInput."""
    budget = None if budget_tokens is None else intake.count("budget_tokens", budget_tokens, most=intake.MOST_TOKENS)
    return Shape(bool(fold), intake.detail(detail), budget, bool(by_ranks))
