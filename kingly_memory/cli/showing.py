"""What a search shows less of, and leaves out: below each hit what it is, then as much of its text as is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from textwrap import wrap

from kingly_memory.cli.output import ago, counted, harmless, layers_told, one_line, shortened, type_told, width
from kingly_memory.models import Detail, Hit, Results, Shown

_EXCLUDED: Mapping[str, str] = {
    "low_confidence": "less sure than was asked for (--min-confidence sets the bar)",
    "anti_pattern": "about what failed and why, which this mode leaves out",
    "low_similarity": "too unlike the question",
    "beyond_top_k": "for want of room (--limit makes more)",
    "beyond_budget": "for want of tokens (--budget-tokens makes more)",
}
"""What was left out, in words."""

_OFFLINE = "offline: "
"""How the reason begins for a remote that was not asked at all."""

_INDENT = " " * 8

_VIEWS: Mapping[Detail, str] = {Detail.FULL: "whole", Detail.PASSAGE: "as a passage", Detail.TITLE: "by title"}


def views(results: Results) -> str:
    """How many hits are shown how, and how to see more."""
    counts = Counter(results.shown[hit.memory.id].view for hit in results)
    told = ", ".join(f"{counts[view]} {how}" for view, how in _VIEWS.items() if counts[view]) or "none"
    return f"shown: {told}" + ("; `get KEY_OR_ID` shows all of one" if counts.keys() - {Detail.FULL} else "")


def whole(results: Results) -> Results:
    """The results with all of each hit to be shown."""
    from kingly_memory.retrieval.snippets import disclose

    return replace(results, shown=disclose(results.hits, Detail.FULL, asked=()).shown)


def budget_line(results: Results, tokens: int) -> str:
    """What of a budget is spent, and on what."""
    used = sum(_spent(results, hit) for hit in results)
    return f"  budget: {used:,} of {tokens:,} tokens, as a program is told the hits: with ids, types, dates and tags"


def counted_line(results: Results, hit: Hit) -> str:
    """What a hit takes of a budget."""
    return f"      counts {counted(_spent(results, hit), 'token')}"


def _spent(results: Results, hit: Hit) -> int:
    from kingly_memory.retrieval.snippets import spent

    one = hit.memory.id
    return spent(hit, results.shown[one], results.folded.get(one, ()), results.more_folded.get(one, 0))


def notes(failures: Mapping[str, str], asked: str | None, repaired: Mapping[str, str]) -> Iterator[str]:
    """What the answer lacks, and what was looked up instead of what was said."""
    for name, reason in failures.items():
        is_offline = reason.startswith(_OFFLINE)
        yield f"  {name} is {reason}" if is_offline else f"  {name} did not answer: {reason}"
    if asked is not None:
        yield f"  of all that was said, this was looked up: {shortened(one_line(asked), width())}"
    for word, instead in repaired.items():
        yield f"  looked for {instead!r} instead of {word!r}"


def left_out(excluded: Mapping[str, int]) -> str:
    """How many were left out, and why."""
    told = ", ".join(f"{count:,} {_EXCLUDED.get(reason, reason)}" for reason, count in excluded.items())
    return f"left out: {told}"


def lines(shown: Mapping[str, Shown], hit: Hit, now: datetime) -> Iterator[str]:
    """One hit."""
    memory, one = hit.memory, shown[hit.memory.id]
    name = memory.key or memory.id
    about = " · ".join([type_told(hit), ago(memory.created_at, now), layers_told(hit), name, _extent(one)])
    if one.title:
        yield shortened(f"{hit.relevance:.2f}  {one_line(one.title)}", width())
        yield f"      {about}"
    else:
        yield f"{hit.relevance:.2f}  {about}"
    for line in harmless(one.text or "").splitlines():
        yield from wrap(line, width(), initial_indent=_INDENT, subsequent_indent=_INDENT)


def _extent(one: Shown) -> str:
    tokens = counted(one.tokens, "token")
    return {Detail.FULL: tokens, Detail.PASSAGE: f"part of {tokens}", Detail.TITLE: f"{tokens} to read"}[one.view]
