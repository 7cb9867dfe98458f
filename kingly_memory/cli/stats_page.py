"""`stats --html`: how memories are doing, as one page to look at. Nothing is loaded from anywhere, and nothing runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from typing import NamedTuple

from kingly_memory.cli.output import counted, harmless, one_line, shortened
from kingly_memory.cli.stats_style import STYLE
from kingly_memory.lifecycle import strength
from kingly_memory.models import JsonObject, Memory
from kingly_memory.router.sweeping.outlook import BINS, Course, Outlook
from kingly_memory.router.sweeping.sweeper import SweepReport

ACTIONS_SHOWN = 20
NAME_CHARACTERS = 60
REASONS_SHOWN = 8

_TIER_MEANS = {
    "fast": "matters at every event",
    "medium": "matters in every round",
    "slow": "matters now and then",
    "glacial": "rests",
}
_DOES = {
    "archive": "archive",
    "summarise": "archive",
    "expire": "erase",
    "promote": "move up",
    "demote": "move down",
    "merge": "merge",
}


@dataclass(frozen=True, slots=True)
class View:
    """What the page shows. `sweep` is what the next sweep would do by itself, `everything` what one by all policies
    would; `names` are the memories that those speak of, `reasons` count the archive by policy and reason."""

    project: str
    at: datetime
    stats: JsonObject
    outlook: Outlook
    sweep: SweepReport
    everything: SweepReport
    reasons: Counter[tuple[str, str]]
    names: Mapping[str, Memory]


def page(view: View) -> str:
    """The whole document. Titles and texts of memories are shown as text, whatever they hold."""
    title = f"Memories of {_text(view.project)}"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">""",
            f"<title>{title}</title>",
            f"<style>{STYLE}</style></head><body><main>",
            f"<header><h1>{title}</h1><p>as of {view.at:%Y-%m-%d %H:%M} UTC</p></header>",
            _figures(view),
            '<div class="pair">',
            _card("Tiers", "where live memories are kept at hand", _tiers(view.stats["tier_counts"])),
            _card("Strength", "how alive live memories are, from 0 to 1", _spread(view.outlook)),
            "</div>",
            _card(
                "Next to fade",
                f"strength day by day if nobody uses them; below {view.outlook.rules.forget_threshold:g} they may go",
                _courses(view),
            ),
            _card("Archive", "what was put away, and why; all of it can be restored", _archive(view.reasons)),
            _sweep_card(view.sweep, "The next sweep", "by itself", view),
            *(
                [_sweep_card(view.everything, "A sweep by every policy", "if asked for", view)]
                if _differs(view)
                else []
            ),
            "<footer>Made by <code>kingly-memory stats --html</code>. "
            "Hold a memory with <code>reinforce</code>, bring one back with <code>archive restore</code>, "
            "take a sweep back with <code>sweep --undo</code>.</footer>",
            "</main></body></html>",
            "",
        ]
    )


def _figures(view: View) -> str:
    stats = view.stats
    live = sum(stats["strength"].values())
    told = [
        (f"{live:,}", "live"),
        (f"{stats['archived']:,}", "in the archive"),
        (f"{stats['strength']['weak'] + stats['strength']['forgettable']:,}", "faded"),
        (f"{stats['hit_rate']:.0%}" if stats["searches"] else "–", "of searches found something"),
        (f"{stats['promotions_last_hour']:,} ↑ {stats['demotions_last_hour']:,} ↓", "moves in the last hour"),
    ]
    return f'<dl class="figures">{"".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for value, name in told)}</dl>'


def _card(title: str, about: str, inside: str) -> str:
    return f"<section><h2>{title}</h2><p>{about}</p>{inside}</section>"


# --- bars -----------------------------------------------------------------------------------------------------------


class Bar(NamedTuple):
    """One bar; `note` stands below its name."""

    name: str
    length: int
    note: str
    kind: str


def _bars(bars: Sequence[Bar], label: str) -> str:
    """Bars that share a scale, each with its count at its end."""
    most = max((bar.length for bar in bars), default=0) or 1
    rows = "".join(
        f'<li><span class="name">{_text(bar.name)}<small>{_text(bar.note)}</small></span>'
        f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="rail" width="100" height="10"/>'
        f'<rect class="{bar.kind}" width="{100 * bar.length / most:.2f}" height="10"/></svg>'
        f'<span class="count">{bar.length:,}</span></li>'
        for bar in bars
    )
    return f'<ul class="bars" aria-label="{label}">{rows}</ul>'


def _tiers(counts: Mapping[str, int]) -> str:
    return _bars([Bar(name, count, _TIER_MEANS[name], f"tier-{name}") for name, count in counts.items()], "Tiers")


def _archive(reasons: Counter[tuple[str, str]]) -> str:
    if not reasons:
        return '<p class="none">Nothing has been put away yet.</p>'
    shown = reasons.most_common(REASONS_SHOWN)
    bars = [Bar(reason, count, f"by {policy}", "archive") for (policy, reason), count in shown]
    rest = sum(reasons.values()) - sum(bar.length for bar in bars)
    return _bars([*bars, *([Bar("other reasons", rest, "", "archive")] if rest else [])], "Archive by reason")


# --- strengths ------------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _LEFT, _FLOOR, _TOP = 520, 210, 10, 180, 24


def _spread(outlook: Outlook) -> str:
    """A column for each tenth, in the colour of its state."""
    most = max(outlook.spread) or 1
    room = (_WIDTH - 2 * _LEFT) / BINS
    parts = []
    for place, count in enumerate(outlook.spread):
        height = (_FLOOR - _TOP) * count / most
        left = _LEFT + place * room
        state = strength.state((place + 0.5) / BINS, outlook.rules).value
        parts.append(
            f'<rect class="{state}" x="{left + 2:.1f}" y="{_FLOOR - height:.1f}" width="{room - 4:.1f}" '
            f'height="{height:.1f}" rx="2"/>'
        )
        if count:
            parts.append(
                f'<text class="value" x="{left + room / 2:.1f}" y="{_FLOOR - height - 6:.1f}" '
                f'text-anchor="middle">{count:,}</text>'
            )
    parts.append(f'<line class="axis" x1="{_LEFT}" y1="{_FLOOR}" x2="{_WIDTH - _LEFT}" y2="{_FLOOR}"/>')
    parts += [
        f'<text x="{_LEFT + place * room:.1f}" y="{_FLOOR + 18}" text-anchor="middle">{place / BINS:g}</text>'
        for place in range(0, BINS + 1, 2)
    ]
    legend = "".join(f'<li><i class="{state}"></i>{state}</li>' for state in strength.StrengthState)
    figure = (
        f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Strengths">{"".join(parts)}</svg>'
    )
    return f'{figure}<ul class="legend">{legend}</ul>'


_SMALL_WIDTH, _SMALL_HEIGHT, _SMALL_FLOOR, _SMALL_TOP = 300, 120, 100, 8
_LABEL_ROOM = 70


def _courses(view: View) -> str:
    courses = view.outlook.next_to_fall
    if not courses:
        return '<p class="none">No live memory is on its way below the threshold.</p>'
    threshold = view.outlook.rules.forget_threshold
    highest = max(height for one in courses for _, height in one.curve)
    scale = Scale(threshold, math.ceil(highest * 10) / 10)
    return f'<ul class="courses">{"".join(_course(one, scale, view.at) for one in courses)}</ul>'


class Scale(NamedTuple):
    """What all courses share, so that they compare: the threshold, and the strength at the top."""

    threshold: float
    top: float


def _course(one: Course, scale: Scale, at: datetime) -> str:
    falls = at + timedelta(days=min(one.falls_in_days, 36_500))
    when = (
        "today"
        if one.falls_in_days < 1
        else f"on {falls:%Y-%m-%d}, in {counted(round(one.falls_in_days), 'day', 'days')}"
    )
    return (
        f"<li><h3>{_name(one.memory)}</h3>{_curve(one, scale)}"
        f"<p><b>{one.strength:.2f}</b> now; below {scale.threshold:g} {when}</p></li>"
    )


def _curve(one: Course, scale: Scale) -> str:
    """The past as a full line over an area, what is to come as a dashed one."""
    first, last = one.curve[0][0], one.curve[-1][0]

    def x(day: float) -> float:
        return _SMALL_WIDTH * (day - first) / (last - first)

    def y(height: float) -> float:
        return _SMALL_FLOOR - (_SMALL_FLOOR - _SMALL_TOP) * height / scale.top

    def line(points: Iterable[tuple[float, float]]) -> str:
        return " ".join(f"{x(day):.1f},{y(height):.1f}" for day, height in points)

    gone = [point for point in one.curve if point[0] <= 0]
    coming = [point for point in one.curve if point[0] >= 0]
    ends = f"{x(0):.1f},{_SMALL_FLOOR} {x(first):.1f},{_SMALL_FLOOR}"
    low = y(scale.threshold)
    today = min(max(x(0), 16), _SMALL_WIDTH - 16)
    beginning = f"{-first:.0f} d ago" if today > _LABEL_ROOM and first <= -1 else ""
    ending = f"+{last:.0f} d" if today < _SMALL_WIDTH - _LABEL_ROOM else ""
    return (
        f'<svg class="plot" viewBox="-4 0 {_SMALL_WIDTH + 8} {_SMALL_HEIGHT}" role="img" aria-label="Strength by day">'
        f'<polygon class="area" points="{line(gone)} {ends}"/>'
        f'<line class="axis" x1="0" y1="{_SMALL_FLOOR}" x2="{_SMALL_WIDTH}" y2="{_SMALL_FLOOR}"/>'
        f'<line class="threshold" x1="0" y1="{low:.1f}" x2="{_SMALL_WIDTH}" y2="{low:.1f}"/>'
        f'<line class="today" x1="{x(0):.1f}" y1="{_SMALL_TOP}" x2="{x(0):.1f}" y2="{_SMALL_FLOOR}"/>'
        f'<polyline class="gone" points="{line(gone)}"/><polyline class="coming" points="{line(coming)}"/>'
        f'<circle class="now" cx="{x(0):.1f}" cy="{y(one.strength):.1f}" r="3.5"/>'
        f'<circle class="fall" cx="{x(one.falls_in_days):.1f}" cy="{low:.1f}" r="3.5"/>'
        f'<text x="{today:.1f}" y="{_SMALL_FLOOR + 14}" text-anchor="middle">today</text>'
        f'<text x="0" y="{_SMALL_FLOOR + 14}">{beginning}</text>'
        f'<text x="{_SMALL_WIDTH}" y="{_SMALL_TOP + 4}" text-anchor="end">{scale.top:g}</text>'
        f'<line class="axis" x1="0" y1="{_SMALL_TOP}" x2="{_SMALL_WIDTH - 20}" y2="{_SMALL_TOP}"/>'
        f'<text x="{_SMALL_WIDTH}" y="{_SMALL_FLOOR + 14}" text-anchor="end">{ending}</text></svg>'
    )


# --- sweeps ---------------------------------------------------------------------------------------------------------


def _differs(view: View) -> bool:
    return view.everything.policies != view.sweep.policies


def _sweep_card(report: SweepReport, title: str, when: str, view: View) -> str:
    about = f"what would happen now {when} (policies: {', '.join(report.policies) or 'none'}); nothing was changed"
    return _card(title, about, "".join(_sweep(report, view.names)))


def _sweep(report: SweepReport, names: Mapping[str, Memory]) -> Iterator[str]:
    yield _before_and_after(report)
    if not report.actions:
        yield '<p class="none">Nothing: every memory may stay where it is.</p>'
        return
    rows = "".join(_action(action, names) for action in report.actions[:ACTIONS_SHOWN])
    heads = "".join(f"<th>{head}</th>" for head in ("What", "Memory", "Why"))
    yield f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    total = report.archived + report.merged + report.erased + report.promoted + report.demoted
    if total > ACTIONS_SHOWN:
        yield f'<p class="none">and {total - ACTIONS_SHOWN:,} more</p>'
    if report.kept_for_keys:
        yield f'<p class="none">{report.kept_for_keys:,} kept apart by keys, though others say the same</p>'


def _before_and_after(report: SweepReport) -> str:
    before, after = report.before.to_json(), report.after.to_json()
    rows = [("live", before["live"], after["live"]), ("archive", before["archived"], after["archived"])]
    rows += [(tier, count, after["tiers"].get(tier, 0)) for tier, count in before["tiers"].items()]
    cells = "".join(
        f'<div class="{"moved" if old != new else "same"}"><dt>{name}</dt><dd>{old:,} → {new:,}</dd></div>'
        for name, old, new in rows
    )
    return f'<dl class="moves">{cells}</dl>'


def _action(action: JsonObject, names: Mapping[str, Memory]) -> str:
    memory = names.get(action["memory_id"])
    name = _text(action["memory_id"]) if memory is None else _name(memory)
    does = _DOES[action["does"]]
    what = f"{does} to {action['to']}" if "to" in action else does
    kind = does.partition(" ")[0]
    into = names.get(action.get("into", ""))
    why = _text(action["reason"]) + ("" if into is None else f": {_name(into)}")
    return f'<tr><td><span class="tag {kind}">{what}</span></td><td>{name}</td><td>{why}</td></tr>'


# --- texts ----------------------------------------------------------------------------------------------------------


def _name(memory: Memory) -> str:
    """What a memory is called and how it begins."""
    begin = shortened(
        one_line(f"{memory.title}: {memory.content[:500]}" if memory.title else memory.content[:500]), NAME_CHARACTERS
    )
    return f"{_text(begin)}{f'<small>{_text(memory.key)}</small>' if memory.key else ''}"


def _text(text: str) -> str:
    """Any text as text of a page."""
    return escape(one_line(harmless(text)))
