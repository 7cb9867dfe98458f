"""Modes: what a search is for, how a question tells, and what a mode makes of the candidates (seed 000, priority 1).

Pure. `select` filters, scores, folds, diversifies and groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import mul
from types import MappingProxyType
from typing import NamedTuple

from kingly_memory import validation
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.models import Hit, Memory, Results, RetrievalMode
from kingly_memory.retrieval.fusion import is_ours, local_places
from kingly_memory.retrieval.repeats import groups
from kingly_memory.text.writing import words

AUTO = "auto"
"""The mode that leaves it to the question."""
POOL = 3
"""Candidates per memory wanted, so that there is something to choose from (seed 000)."""


def weights(similarity: float, recency: float, success: float, confidence: float) -> Mapping[str, float]:
    """The shares of a candidate's four figures in a mode's score. They add up to 1."""
    shares = {"similarity": similarity, "recency": recency, "success": success, "confidence": confidence}
    return MappingProxyType(shares)


@dataclass(frozen=True, slots=True)
class ModeConfig:
    """What a mode means. `diversity_factor` is 0 (focused) to 1 (diverse); a boost of 1 is none."""

    top_k: int
    min_confidence: float
    weights: Mapping[str, float]
    include_anti_patterns: bool
    diversity_factor: float
    prioritize_failures: bool = False
    cluster_similar: bool = False
    exact_match_boost: float = 1.0


MODES: Mapping[RetrievalMode, ModeConfig] = {
    RetrievalMode.SIMILARITY: ModeConfig(10, 0.0, weights(1.0, 0.0, 0.0, 0.0), True, 0.0),
    RetrievalMode.BROAD: ModeConfig(15, 0.3, weights(0.70, 0.10, 0.10, 0.10), False, 0.8),
    RetrievalMode.PRECISE: ModeConfig(5, 0.7, weights(0.30, 0.10, 0.40, 0.20), True, 0.2, exact_match_boost=2.0),
    RetrievalMode.DIAGNOSTIC: ModeConfig(10, 0.4, weights(0.40, 0.30, 0.00, 0.30), True, 0.5, prioritize_failures=True),
    RetrievalMode.LEARNING: ModeConfig(20, 0.2, weights(0.90, 0.00, 0.05, 0.05), True, 0.3, cluster_similar=True),
    RetrievalMode.RECALL: ModeConfig(3, 0.5, weights(0.95, 0.00, 0.00, 0.05), False, 0.0, exact_match_boost=3.0),
}
"""The seed's values; `similarity` is ours, and leaves the order as it was found."""


@dataclass(frozen=True, slots=True)
class ModePlan:
    """What a search in a mode is to do, and why in that mode."""

    mode: RetrievalMode
    reason: str
    config: ModeConfig
    min_similarity: float | None = None

    @property
    def pool(self) -> int:
        """How many candidates are looked at."""
        return POOL * self.config.top_k

    def are_enough(self, memories: Sequence[Memory], *, fold: bool) -> bool:
        """Whether as many of them as are wanted are trusted and, where repeats are folded, say different things."""
        trusted = [one for one in memories if one.confidence >= self.config.min_confidence]
        return len(groups(trusted) if fold else trusted) >= self.config.top_k


# --- the mode of a question -----------------------------------------------------------------------------------------

_ENDINGS = "es ed ing ly y ure ures ural ion ions ity ities ence ences ent".split()
"""What a word may grow without becoming another one. With any ending, a plan would be a planet."""

_SIGNS: Mapping[RetrievalMode, str] = {
    RetrievalMode.DIAGNOSTIC: """error, bug/bugg, fail, broken, issue/issu, problem, debug/debugg, fix, wrong,
        not working, doesn t work, does not work, broke, crash, exception, traceback, debugger""",
    RetrievalMode.BROAD: """how should, what approach, options for, ways to, plan/plann, design, architect,
        brainstorm, how could, ideas for, alternatives""",
    RetrievalMode.RECALL: """what was, when did, remember when, last time, previously, what did we, what did i,
        what were, remind me, where did""",
    RetrievalMode.LEARNING: """pattern, similar, consolidate/consolidat, common, recur/recurr, lesson,
        what have we learned, what have we learnt, trend""",
}
"""In the order of precedence; the seed's words first, then ours. Behind a slash stands what the endings are added to,
where that is not the word."""


class Inference(NamedTuple):
    """The mode of a question and the words of it that decided; None when none did."""

    mode: RetrievalMode
    decided_by: str | None


def inferred(query: str, default: RetrievalMode = RetrievalMode.PRECISE) -> Inference:
    """What a question asks for. The first mode that any of its words points to, in the order of precedence:
    diagnostic, broad, recall, learning; else the default."""
    query_words = words(query)
    for mode, listed in _SIGNS.items():
        signs = [[_forms(*word.split("/")) for word in sign.split()] for sign in listed.split(",")]
        for start in range(len(query_words)):
            for sign in signs:
                here = query_words[start : start + len(sign)]
                if len(here) == len(sign) and all(word in forms for word, forms in zip(here, sign, strict=True)):
                    return Inference(mode, " ".join(here))
    return Inference(default, None)


def mode_of(query: str, mode: object, default: RetrievalMode, *, is_aware: bool) -> tuple[RetrievalMode, str]:
    """The mode of a search that asked for `mode`, and why it is that one. Raises InvalidInput."""
    if mode is None:
        return RetrievalMode.SIMILARITY, "asked for"
    if mode != AUTO:
        return RetrievalMode(validation.one_of("mode", mode, (*RetrievalMode, AUTO))), "asked for"
    if not is_aware:
        return default, "the default, since mode_aware is off"
    inference = inferred(query, default)
    if inference.decided_by is None:
        return default, "the default, since no word of the question points to another mode"
    return inference.mode, f"the question says {inference.decided_by!r}"


def _forms(word: str, root: str | None = None) -> frozenset[str]:
    return frozenset({word, f"{word}s", *((root or word) + ending for ending in _ENDINGS)})


# --- the score of a candidate ---------------------------------------------------------------------------------------

RECENCY_HALF_LIFE = timedelta(days=30)
NEUTRAL = 0.5
"""The success of what nobody has recorded an outcome of."""
SAME = 0.95
"""Cosine above which two texts count as the same."""
READ_CHARACTERS = 10_000
"""How much of a text is looked through for the question's words."""


@dataclass(frozen=True, slots=True)
class ModeCandidate:
    """A hit and what is known of it. `success` is in [0, 1]; `cosine` is its likeness to the question by vectors, None
    without vectors; an anti-pattern says what failed and why; `is_worded`: this machine found it by its words."""

    hit: Hit
    success: float
    is_failure: bool = False
    is_anti_pattern: bool = False
    is_worded: bool = True
    cosine: float | None = None


def weighted(shares: Mapping[str, float], figures: Mapping[str, float]) -> float:
    """Σ share × figure, in [0, 1]."""
    return float(sum(share * figures[name] for name, share in shares.items()))


def recency(changed_at: datetime, now: datetime) -> float:
    """½ to the power of (age ÷ 30 days): 1 now, 0.5 a month after the memory was last changed. The future counts as
    now."""
    age = max(now - changed_at, timedelta())
    return float(0.5 ** (age / RECENCY_HALF_LIFE))


def success(succeeded: bool | None, rate: object = None) -> float:
    """1 for a task that was completed and 0 for one that failed; else the success rate that was recorded, if that is a
    number from 0 to 1; else 0.5."""
    if succeeded is not None:
        return float(succeeded)
    if isinstance(rate, int | float) and not isinstance(rate, bool) and 0 <= rate <= 1:
        return float(rate)
    return NEUTRAL


def is_exact(query: str, memory: Memory, cosine: float | None = None) -> bool:
    """True when the question is the memory's key, stands word for word in its title or text, names its whole title, or
    is the same by its vector."""
    plain_query, title = _plain(query), _plain(memory.title or "")
    if query.strip() == memory.key or (cosine is not None and cosine > SAME):
        return True
    if not plain_query.strip():
        return False
    names_title = title in plain_query and len(title.split()) > 1
    return names_title or plain_query in title or plain_query in _plain(memory.content[:READ_CHARACTERS])


def _plain(text: str) -> str:
    """The words alone, each between spaces, so that no word is found inside another."""
    return f" {' '.join(words(text))} "


# --- saying different things ----------------------------------------------------------------------------------------

Alike = Callable[[int, int], float]
"""How alike two candidates are, by their places in the list: at most 1, and 1 for the same text."""
ALIKE = 0.45
"""Similarity from which two memories are of one cluster: with the built-in vectors two wordings of one thing lie
above it, and two things about one subject, which share the words they were found by, below."""


class Pick(NamedTuple):
    """The place of a candidate in the list that was given, and what likeness to earlier picks has cost it."""

    place: int
    penalty: float


def pick(
    scores: Sequence[float],
    factor: float,
    alike: Alike,
    limit: int,
    *,
    first: frozenset[int] = frozenset(),
    owed: tuple[frozenset[int], int] = (frozenset(), 0),
) -> list[Pick]:
    """Up to `limit` candidates by maximal marginal relevance (Carbonell and Goldstein 1998): each time the one with the
    highest score − factor × its greatest similarity to those already picked; the earlier one among equals.

    Those in `first` come before all others, diverse among themselves. `owed` are candidates and how many of the places
    are for them: the last places go to them alone where they must, and only their own kind makes them redundant."""
    picked: list[Pick] = []
    nearest = [0.0] * len(scores)
    waiting = list(range(len(scores)))
    theirs, owing = owed[0], min(len(owed[0]), owed[1])
    while waiting and len(picked) < limit:
        free = [index for index in waiting if index in theirs] if owing >= limit - len(picked) else waiting
        among = [index for index in free if index in first] or free
        best = max(among, key=lambda index: scores[index] - factor * nearest[index])
        waiting.remove(best)
        owing -= best in theirs
        picked.append(Pick(best, factor * nearest[best]))
        if factor > 0:
            for index in waiting:
                if best in theirs or index not in theirs:
                    nearest[index] = max(nearest[index], alike(index, best))
    return picked


def clusters(indexes: Sequence[int], alike: Alike) -> list[list[int]]:
    """The candidates in groups: each joins the first group whose first member it resembles. Stable: groups stand in
    the order of their first members, and members in their own order."""
    groups: list[list[int]] = []
    for index in indexes:
        home = next((group for group in groups if alike(group[0], index) >= ALIKE), None)
        if home is None:
            groups.append([index])
        else:
            home.append(index)
    return groups


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """The cosine of two vectors of unit length: their inner product, kept within -1 and 1."""
    product: float = sum(map(mul, left, right))
    return min(max(product, -1.0), 1.0)


# --- the answer of a mode -------------------------------------------------------------------------------------------

LOW_CONFIDENCE = "low_confidence"
ANTI_PATTERN = "anti_pattern"
LOW_SIMILARITY = "low_similarity"
BEYOND_TOP_K = "beyond_top_k"
"""Why a candidate is left out."""

WORTH_A_LOOK = 0.5
"""A failure goes first when it answers at least half as well as the best candidate. Below that it only shares a word
with the question."""


def select(
    found: Results,
    candidates: Sequence[ModeCandidate],
    config: ModeConfig,
    *,
    query: str,
    now: datetime,
    alike: Alike,
    min_similarity: float | None = None,
    fold: bool = False,
) -> Results:
    """What was found with the answer of a mode as its hits: of the candidates at most `top_k`, in the mode's order and
    with the figures of their scores.

    `alike` is asked about places in `candidates`. `min_similarity` leaves out what neither shares a word with the
    question nor is that near to it. `fold` lets the best of several that say the same stand for them.
    """
    excluded: Counter[str] = Counter()
    scored: dict[int, Hit] = {}
    for place, candidate in enumerate(candidates):
        reason = _reason(candidate, config, min_similarity)
        if reason is None:
            scored[place] = _scored(candidate, config, query, now)
        else:
            excluded[reason] += 1

    def worth(index: int) -> float:
        return scored[index].scores["boosted"]

    places = list(scored)  # each stands for itself, or for a group that says the same
    repeats: dict[int, list[str]] = {}
    if fold:
        for group in groups([hit.memory for hit in scored.values()]):
            members = [places[index] for index in group]
            best_of = max(members, key=worth)
            repeats[best_of] = [scored[one].memory.id for one in members if one != best_of]
        places = sorted(repeats)

    def alike_kept(left: int, right: int) -> float:
        return alike(places[left], places[right])

    best = max(map(worth, places), default=0.0) or 1.0
    least = WORTH_A_LOOK * max((scored[index].relevance for index in places), default=0.0)
    failures = frozenset(
        index
        for index, place in enumerate(places)
        if config.prioritize_failures and candidates[place].is_failure and scored[place].relevance >= least
    )
    ours = frozenset(
        index for index, place in enumerate(places) if "local" in scored[place].layers and is_ours(scored[place].memory)
    )
    picks = pick(
        [worth(index) / best for index in places],
        config.diversity_factor,
        alike_kept,
        config.top_k,
        first=failures,
        owed=(ours, local_places(config.top_k)),
    )
    hits: dict[int, Hit] = {}
    for index, penalty in picks:
        figures = {"penalty": penalty * best} if config.diversity_factor > 0 else {}
        figures |= {"failure_first": 1.0} if index in failures else {}
        hit = scored[places[index]]
        hits[index] = replace(hit, scores={**hit.scores, **figures})
    folded: dict[str, tuple[str, ...]] = {
        hits[index].memory.id: tuple(repeated) for index in hits if (repeated := repeats.get(places[index], []))
    }
    excluded[BEYOND_TOP_K] = len(scored) - len(hits) - sum(map(len, folded.values()))
    left_out = {reason: count for reason, count in excluded.items() if count}
    grouped = clusters(list(hits), alike_kept) if config.cluster_similar else [list(hits)]
    numbers: dict[str, int] = {
        hits[index].memory.id: number for number, group in enumerate(grouped, start=1) for index in group
    }
    return replace(
        found,
        hits=tuple(hits[index] for group in grouped for index in group),
        excluded=left_out,
        clusters=numbers if config.cluster_similar else {},
        folded=folded,
    )


def _reason(candidate: ModeCandidate, config: ModeConfig, min_similarity: float | None) -> str | None:
    """Why a candidate is left out; None when it stays."""
    if candidate.is_anti_pattern and not config.include_anti_patterns:
        return ANTI_PATTERN
    if candidate.hit.memory.confidence < config.min_confidence:
        return LOW_CONFIDENCE
    nearness = max(candidate.hit.scores.get("remote", candidate.hit.relevance), candidate.cosine or 0.0)
    if min_similarity is not None and not candidate.is_worded and nearness < min_similarity:
        return LOW_SIMILARITY
    return None


def _scored(candidate: ModeCandidate, config: ModeConfig, query: str, now: datetime) -> Hit:
    memory = candidate.hit.memory
    own = {"recency": recency(memory.updated_at, now), "success": candidate.success}
    score = weighted(config.weights, {**own, "similarity": candidate.hit.relevance, "confidence": memory.confidence})
    boost = config.exact_match_boost if is_exact(query, memory, candidate.cosine) else 1.0
    cosine_score = {} if candidate.cosine is None else {"cosine": candidate.cosine}
    return replace(
        candidate.hit, scores={**candidate.hit.scores, **cosine_score, **own, "score": score, "boosted": score * boost}
    )
