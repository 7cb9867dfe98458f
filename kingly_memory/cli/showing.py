"""What a search shows less of, and leaves out: below each hit what it is, then as much of its text as is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from textwrap import wrap

from kingly_memory.cli.output import ago, counted, harmless, one_line, shortened, width
from kingly_memory.models import Hit, Results, Shown, View

_EXCLUDED: Mapping[str, str] = {
    "low_confidence": "not sure enough for this mode (--min-confidence lowers the bar)",
    "anti_pattern": "about what failed and why, which this mode leaves out",
    "low_similarity": "too unlike the question",
    "beyond_top_k": "for want of room (--limit makes more)",
    "beyond_budget": "for want of tokens (--budget-tokens makes more)",
}
"""What was left out, in words."""

_INDENT = " " * 8

_VIEWS: Mapping[View, str] = {View.FULL: "whole", View.PASSAGE: "as a passage", View.TITLE: "by title"}


def views(results: Results) -> str:
    """How many hits are shown how, and how to see more."""
    counts = Counter(results.shown[hit.memory.id].view for hit in results)
    told = ", ".join(f"{counts[view]} {how}" for view, how in _VIEWS.items() if counts[view]) or "none"
    return f"shown: {told}" + ("; `get KEY_OR_ID` shows all of one" if counts.keys() - {View.FULL} else "")


def left_out(excluded: Mapping[str, int]) -> str:
    """How many were left out, and why."""
    told = ", ".join(f"{count:,} {_EXCLUDED.get(reason, reason)}" for reason, count in excluded.items())
    return f"left out: {told}"


def lines(shown: Mapping[str, Shown], hit: Hit, now: datetime) -> Iterator[str]:
    """One hit."""
    memory, one = hit.memory, shown[hit.memory.id]
    name = memory.key or memory.id
    about = " · ".join([memory.type, ago(memory.created_at, now), "+".join(hit.layers), name, _extent(one)])
    if one.title:
        yield shortened(f"{hit.relevance:.2f}  {one_line(one.title)}", width())
        yield f"      {about}"
    else:
        yield f"{hit.relevance:.2f}  {about}"
    for line in harmless(one.text or "").splitlines():
        yield from wrap(line, width(), initial_indent=_INDENT, subsequent_indent=_INDENT)


def _extent(one: Shown) -> str:
    tokens = counted(one.tokens, "token")
    return {View.FULL: tokens, View.PASSAGE: f"part of {tokens}", View.TITLE: f"{tokens} to read"}[one.view]
