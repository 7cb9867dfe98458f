"""What is made of the hits of a search before they are answered: repeats folded, and as much shown as was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kingly_memory import intake
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Results, View

DETAILS: Mapping[str, View] = {"titles": View.TITLE, "passages": View.PASSAGE, "full": View.FULL}
"""How much of each hit may be asked for."""

MOST_TOKENS = 1_000_000
BEYOND_BUDGET = "beyond_budget"
"""Why a hit is left out for which not even a title has room."""

_POOL, _LEAST_POOL = 2, 20
"""Candidates per hit wanted, and how many at least, so that others come in the place of repeats."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a search is to answer with. A budget counts the JSON of the hits as they are shown, in estimated tokens."""

    fold: bool = True
    view: View = View.FULL
    budget_tokens: int | None = None

    @property
    def shortens(self) -> bool:
        """True when hits may be shown in less than their whole text."""
        return self.view is not View.FULL or self.budget_tokens is not None

    def pool(self, limit: int) -> int:
        """How many candidates to look at for so many hits."""
        pool = max(limit * _POOL, _LEAST_POOL)
        return min(pool, max(limit, intake.RESULTS_LIMIT)) if self.fold else limit

    def folded(self, results: Results, limit: int) -> Results:
        """At most `limit` hits, none of which repeats another; what they stand for besides is named."""
        hits = results.hits
        if not self.fold or len(hits) < 2:  # noqa: PLR2004  # a hit and its repeat
            return replace(results, hits=hits[:limit])
        from kingly_memory.retrieval.folding import fold

        told = fold(hits, limit)
        return replace(results, hits=told.hits, folded=told.under)

    def shown(self, results: Results, query: str) -> Results:
        """The hits in the view that was asked for, and no more of them than the budget holds."""
        if not self.shortens:
            return results
        from kingly_memory.retrieval.disclosure import disclose

        asked = (query, *results.repaired.values())
        told = disclose(results.hits, self.view, asked=asked, budget_tokens=self.budget_tokens, repeats=results.folded)
        there = told.shown.keys()
        excluded = {**results.excluded, **({BEYOND_BUDGET: told.left_out} if told.left_out else {})}
        return replace(
            results,
            hits=told.hits,
            shown=told.shown,
            excluded=excluded,
            folded={one: others for one, others in results.folded.items() if one in there},
            clusters={one: number for one, number in results.clusters.items() if one in there},
            verdicts={one: verdict for one, verdict in results.verdicts.items() if one in there},
        )


def shape(fold: object = True, detail: object = "full", budget_tokens: object = None) -> Shape:
    """What a caller asked for. Raises InvalidInput."""
    if not isinstance(detail, str) or detail not in DETAILS:
        raise InvalidInput("detail", f"{intake.shown(detail)!r} is unknown; choose one of {', '.join(DETAILS)}")
    budget = None if budget_tokens is None else intake.count("budget_tokens", budget_tokens, most=MOST_TOKENS)
    return Shape(bool(fold), DETAILS[detail], budget)
