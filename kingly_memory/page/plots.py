"""Pictures that we draw, as SVG. Each says its figures, for whoever cannot see it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from kingly_memory.page.html import Html, el
from kingly_memory.text.writing import shortened

_WIDE, _HIGH, _EDGE = 640.0, 200.0, 60.0
_FLOOR = _HIGH - 25
_MOST_NAMES = 12
"""Bars or dots that have room for their names."""
_NAME = 18
"""Characters of a name in the graph."""
_RINGS = ((195.0, 95.0), (245.0, 175.0))


def _picture(label: str, drawn: Iterable[Html], high: float = _HIGH, role: str = "img", top: float = 0) -> Html:
    return el("svg", drawn, viewBox=f"0 {top:.0f} {_WIDE:.0f} {high:.0f}", role=role, aria_label=label, class_="plot")


def _text(words: str, x: float, y: float, anchor: str = "middle") -> Html:
    return el("text", words, x=x, y=y, text_anchor=anchor)


def _line(start: tuple[float, float], end: tuple[float, float], kind: str = "axis", title: str = "") -> Html:
    return el("line", el("title", title), x1=start[0], y1=start[1], x2=end[0], y2=end[1], class_=kind)


def bars(label: str, values: Mapping[str, int]) -> Html:
    """A bar for each, with its name and figure."""
    most, wide = max([*values.values(), 1]), _WIDE / max(len(values), _MOST_NAMES // 2)
    every, drawn = math.ceil(len(values) / _MOST_NAMES), []
    for position, (name, value) in enumerate(values.items()):
        tall, x = (_FLOOR - 25) * value / most, position * wide
        size = {"x": x + wide * 0.1, "y": _FLOOR - tall, "width": wide * 0.8, "height": tall}
        drawn.append(el("rect", el("title", f"{name}: {value:,}"), **size))
        if position % every == 0:
            drawn.append(_text(name, x + wide / 2, _HIGH - 8))
        if every == 1:
            drawn.append(_text(f"{value:,}", x + wide / 2, _FLOOR - tall - 5))
    description = (
        ", ".join(f"{name} {value:,}" for name, value in values.items()) if every == 1 else f"{len(values)} of them"
    )
    return _picture(f"{label}: {description}", drawn)


def line(label: str, points: Sequence[tuple[str, int]]) -> Html:
    """What grows; the first and last point are named."""
    most, (first, begin), (last, end) = max(value for _, value in points), points[0], points[-1]
    right = _WIDE - _EDGE
    step = (right - _EDGE) / max(len(points) - 1, 1)
    places = [
        (_EDGE + at * step, _FLOOR - (_FLOOR - 25) * value / max(most, 1)) for at, (_, value) in enumerate(points)
    ]
    drawn = [
        _line((_EDGE, _FLOOR), (right, _FLOOR)),
        el("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in places)),
        _text(first, _EDGE, _HIGH - 8),
        _text(last, right, _HIGH - 8),
        _text(f"{most:,}", _EDGE - 5, 30, "end"),
        _text("0", _EDGE - 5, _FLOOR, "end"),
    ]
    return _picture(f"{label}: from {begin:,} on {first} to {end:,} on {last}", drawn)


def calibration(label: str, groups: Sequence[tuple[float, float, int]]) -> Html:
    """For each group of estimates: the mean of what was said, the share that came true, and how many. On the diagonal
    both are the same."""
    high = 300.0

    def at(estimate: float, true: float) -> tuple[float, float]:
        return _EDGE + estimate * (_WIDE - 2 * _EDGE), high - 35 - true * (high - 70)

    (left, floor), (right, top) = at(0, 0), at(1, 1)
    drawn = [
        _line((left, floor), (right, top)),
        _line((left, floor), (right, floor)),
        _line((left, floor), (left, top)),
        _text("came true", left, top - 12),
        _text("said", right, floor + 20),
        *(_text(f"{mark:g}", left - 8, at(0, mark)[1] + 4, "end") for mark in (0, 0.5, 1)),
        *(_text(f"{mark:g}", at(mark, 0)[0], floor + 20) for mark in (0, 0.5)),
    ]
    for estimate, true, count in groups:
        x, y = at(estimate, true)
        words = f"said {estimate:.2f}, came true {true:.2f}, {count} of them"
        drawn += [
            el("circle", el("title", words), cx=x, cy=y, r=4 + min(math.sqrt(count), 12)),
            _text(f"{count}", x, y - 14),
        ]
    return _picture(label, drawn, high)


def graph(
    middle: str, names: Mapping[str, str], edges: Sequence[tuple[str, str, str]], address: Callable[[str], str]
) -> Html:
    """One memory, those that it is linked to around it, and those behind them in a wider circle."""
    center = (_WIDE / 2, 210.0)
    near = [
        memory_id
        for memory_id in names
        if memory_id != middle and any({memory_id, middle} == {a, b} for a, b, _ in edges)
    ]
    places = {middle: center}
    for ring, size in zip(
        (near, [memory_id for memory_id in names if memory_id not in (middle, *near)]), _RINGS, strict=True
    ):
        for position, memory_id in enumerate(ring):
            turn = 2 * math.pi * position / len(ring) + (0.3 if ring is near else 0.65)
            places[memory_id] = (center[0] + size[0] * math.cos(turn), center[1] + size[1] * math.sin(turn))
    return _linked("graph of links, two steps wide", places, names, edges, address)


def circle(names: Mapping[str, str], edges: Sequence[tuple[str, str, str]], address: Callable[[str], str]) -> Html:
    """Memories on a circle, which those that are linked most begin."""
    places = {}
    for position, memory_id in enumerate(names):
        turn = 2 * math.pi * position / len(names)
        places[memory_id] = _WIDE / 2 + 235 * math.sin(turn), 210 - 175 * math.cos(turn)
    return _linked("graph of links", places, names, edges, address)


def _linked(
    label: str,
    places: Mapping[str, tuple[float, float]],
    names: Mapping[str, str],
    edges: Sequence[tuple[str, str, str]],
    address: Callable[[str], str],
) -> Html:
    """The first one is larger. The picture is as high as it has to be."""
    tops = [y for _, y in places.values()]
    above, high = min(tops) - 30, max(tops) - min(tops) + 65
    drawn = [_line(places[a], places[b], f"edge {kind}", kind) for a, b, kind in edges if a in places and b in places]
    for number, (memory_id, (x, y)) in enumerate(places.items()):
        dot = el("circle", cx=x, cy=y, r=6 if number else 9)
        anchor = "start" if x < _WIDE * 0.2 else "end" if x > _WIDE * 0.8 else "middle"
        # A name stands away from the middle, where the lines are.
        name = _text(
            shortened(names[memory_id], _NAME), x, y - 14 if y < (min(tops) + max(tops)) / 2 - 20 else y + 24, anchor
        )
        drawn.append(el("a", el("title", names[memory_id]), dot, name, href=address(memory_id)))
    return _picture(label, drawn, high, role="group", top=above)
