"""How good answers are: what was found, held against what should have been. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.measure import percentile
from kingly_memory.models import JsonObject
from kingly_memory.text.writing import stems

RANK_MOST = 10
"""A relevant memory that comes later than this counts for nothing in the reciprocal rank."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One question and its answer: the names of what was `found`, best first, and of what is `relevant` (at least one).

    `cut`: a deadline ended the search early. `alone`: this machine answered without the remote that should have helped.
    """

    found: tuple[str, ...]
    relevant: frozenset[str]
    took_ms: float
    category: str | None = None
    cut: bool = False
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Figures:
    """What a set of answers amounts to. Shares and ranks are means over the questions, times are in milliseconds.

    `recall_by_category` holds recall@10 for each category that the questions name.
    """

    questions: int
    recall_5: float
    recall_10: float
    mrr_10: float
    p50_ms: float
    p95_ms: float
    recall_by_category: dict[str, float]
    cut: int = 0
    alone: int = 0

    def to_json(self) -> JsonObject:
        return {
            "questions": self.questions,
            "recall@5": round(self.recall_5, 4),
            "recall@10": round(self.recall_10, 4),
            "mrr@10": round(self.mrr_10, 4),
            "p50_ms": round(self.p50_ms, 2),
            "p95_ms": round(self.p95_ms, 2),
            "recall@10_by_category": {name: round(share, 4) for name, share in self.recall_by_category.items()},
            "cut": self.cut,
            "without_remote": self.alone,
        }


@dataclass(frozen=True, slots=True)
class Injected:
    """One question and the block of notes that it was given: the names of what was `put_in` and of what is `relevant`
    (at least one), and what the block takes."""

    put_in: frozenset[str]
    relevant: frozenset[str]
    tokens: int
    took_ms: float
    category: str | None = None

    @property
    def share(self) -> float:
        return len(self.put_in & self.relevant) / len(self.relevant)


@dataclass(frozen=True, slots=True)
class InjectionFigures:
    """What a set of blocks amounts to: `inside` is the share of questions all of whose evidence was put in, `evidence`
    the share of a question's evidence that was, as the mean over the questions."""

    questions: int
    inside: float
    evidence: float
    tokens: float
    p50_ms: float
    p95_ms: float
    inside_by_category: dict[str, float]

    def to_json(self) -> JsonObject:
        return {
            "questions": self.questions,
            "inside": round(self.inside, 4),
            "evidence": round(self.evidence, 4),
            "tokens": round(self.tokens, 1),
            "p50_ms": round(self.p50_ms, 2),
            "p95_ms": round(self.p95_ms, 2),
            "inside_by_category": {name: round(share, 4) for name, share in self.inside_by_category.items()},
        }


def injection_figures(blocks: Sequence[Injected]) -> InjectionFigures:
    """Sum up blocks, at least one. Their order does not matter."""
    times = [one.took_ms for one in blocks]
    categories = sorted({one.category for one in blocks if one.category is not None})
    return InjectionFigures(
        questions=len(blocks),
        inside=_inside(blocks),
        evidence=fmean(one.share for one in blocks),
        tokens=fmean(one.tokens for one in blocks),
        p50_ms=percentile(times, 50),
        p95_ms=percentile(times, 95),
        inside_by_category={name: _inside([one for one in blocks if one.category == name]) for name in categories},
    )


def figures(answers: Sequence[Answered]) -> Figures:
    """Sum up answers, at least one. Their order does not matter."""
    times = [one.took_ms for one in answers]
    categories = sorted({one.category for one in answers if one.category is not None})
    return Figures(
        questions=len(answers),
        recall_5=_mean_recall(answers, 5),
        recall_10=_mean_recall(answers, 10),
        mrr_10=fmean(reciprocal_rank(one.found, one.relevant) for one in answers),
        p50_ms=percentile(times, 50),
        p95_ms=percentile(times, 95),
        recall_by_category={
            name: _mean_recall([one for one in answers if one.category == name], 10) for name in categories
        },
        cut=sum(one.cut for one in answers),
        alone=sum(one.alone for one in answers),
    )


def recall(found: Sequence[str], relevant: Collection[str], most: int) -> float:
    """The share of the relevant memories, at least one, that are among the first `most` found."""
    return len(set(found[:most]) & set(relevant)) / len(set(relevant))


def reciprocal_rank(found: Sequence[str], relevant: Collection[str]) -> float:
    """1 for a relevant memory in the first place, 1/2 in the second, …; 0 when none is among the first RANK_MOST."""
    return next((1 / rank for rank, name in enumerate(found[:RANK_MOST], start=1) if name in relevant), 0.0)


def shared_stems(question: str, answers: Iterable[str]) -> float:
    """The share of a question's stems, stop words aside, that also stand in what answers it. 0 when it has none."""
    asked = stems(question)
    answered = {stem for answer in answers for stem in stems(answer)}
    return len(asked & answered) / len(asked) if asked else 0.0


def _mean_recall(answers: Sequence[Answered], most: int) -> float:
    return fmean(recall(one.found, one.relevant, most) for one in answers)


def _inside(blocks: Sequence[Injected]) -> float:
    return fmean(one.relevant <= one.put_in for one in blocks)
