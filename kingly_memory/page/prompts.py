"""The view of prompts: what hooks put beside the last ones, why and at what cost, and what another one would get."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from kingly_memory.attention.injection import Omission, Priority
from kingly_memory.errors import StoreUntrusted
from kingly_memory.hosts.hook_log import failures
from kingly_memory.page.asked import Asked, View, ask, facts, heading_of, link, section, table, verbatim, when
from kingly_memory.page.html import Child, el, join
from kingly_memory.page.plots import bars
from kingly_memory.ports import InjectedPrompt
from kingly_memory.text.writing import counted

_LATEST = 500
"""Prompts that the figures are of."""
_SHOWN = 50
_NAME = 14
"""Characters of a session's name."""
_FIGURES = 5
"""Of a memory that was put in: how pertinent it was, and what its priority is made of."""


async def prompts(asked: Asked) -> View:
    """What was put beside the last prompts, and a try."""
    told, names = await asked.memory.attention.prompts(_LATEST), dict[str, Child]()
    for memory_id in dict.fromkeys(one for each in told[:_SHOWN] for one in each.ids):
        names[memory_id] = await _named(asked, memory_id)
    rows = [
        (
            when(datetime.fromtimestamp(one.at_s, UTC), asked.now),
            [el("bdi", _short(one.session)), ", its start" if one.account.get("occasion") == "start" else None],
            _put_in(one, names),
            _left(one),
            *(f"{_figure(one, name):,.0f}" for name in ("tokens", "bytes", "ms")),
        )
        for one in told[:_SHOWN]
    ]
    says = (
        "Hooks put memories beside the prompts of your assistant. This is what they put there, and why. No prompt and "
        "no text is kept for it."
    )
    none = (
        "No prompt of this project was answered yet. ",
        el("code", "kingly-memory config claude-code --write"),
        " sets the hooks up; other hosts go by their own names.",
    )
    heads = ("when", "session", "put in, and why", "left out", "tokens", "bytes", "ms")
    return View.of(
        "What is put beside prompts",
        el(
            "div",
            _failures(asked, str((await asked.memory.status())["home"])),
            _cost(told),
            table("The last prompts, the latest first", heads, rows) if rows else el("p", none),
            id="live",
        ),
        section(
            "Try a prompt",
            ask(asked, "Prompt", "prompt", "See what it would get"),
            await _tried(asked),
            says="The notes that a hook would put beside it now, and why others stay out. It asks no remote.",
        ),
        says=says,
    )


def _failures(asked: Asked, home: str) -> Child:
    """That hooks failed, as `doctor` says it; a failure of another home is none of this one's."""
    failed = [one for one in failures(asked.now) if one.home in (None, home)]
    if not failed:
        return None
    what = f"Hooks failed {counted(len(failed), 'time')} in the last day, the last time because: {failed[-1].problem}. "
    return el("p", what, el("code", "kingly-memory doctor"), " says more.", role="note", class_="alert")


def _cost(told: Sequence[InjectedPrompt]) -> Child:
    """What they took together, and by day."""
    if not told:
        return None
    days: dict[str, int] = {}
    for one in reversed(told):
        day = datetime.fromtimestamp(one.at_s, UTC).date().isoformat()
        days[day] = days.get(day, 0) + int(_figure(one, "tokens"))
    took = sorted(_figure(one, "ms") for one in told)
    tokens, size = (int(sum(_figure(one, name) for one in told)) for name in ("tokens", "bytes"))
    said = {
        "prompts": f"the last {len(told):,}; {sum(bool(one.ids) for one in told):,} of them got notes",
        "tokens": f"about {tokens:,}, {tokens / len(told):,.0f} a prompt",
        "bytes": f"{size:,}",
        "time": f"{took[len(took) // 2]:,.0f} ms usually, {took[-1]:,.0f} ms at most",
    }
    plot = bars("Tokens put in each day", dict([*days.items()][-60:])) if len(days) > 1 else None
    return section("What it cost", facts(said), plot)


def _put_in(one: InjectedPrompt, names: dict[str, Child]) -> Child:
    why = one.account.get("why")
    reasons = why if isinstance(why, list) and len(why) == len(one.ids) else [None] * len(one.ids)
    rows = [el("li", names[each], _why(reason)) for each, reason in zip(one.ids, reasons, strict=True)]
    return el("ul", rows) if rows else "nothing"


def _why(figures: Any) -> Child:
    """Of figures that a file says."""
    if not isinstance(figures, list | tuple) or len(figures) != _FIGURES:
        return None
    if not all(isinstance(one, int | float) for one in figures):
        return None
    fits, *parts = figures
    place = Priority(*parts)
    more = [f"weight × {place.weight:.2f}"] if place.weight != 1 else []
    more += [f"ratings × {place.relevance:.2f}"] if place.relevance != 1 else []
    more += [f"focus + {place.boost:.2f}"] if place.boost else []
    words = f"fits {fits:.0%}, likeness {place.similarity:.2f}"
    return el("small", " ", ", ".join([words, *more]), f"; priority {place.total:.2f}", class_="says")


def _left(one: InjectedPrompt) -> Child:
    left = one.account.get("left")
    known = {each.name: each.value for each in Omission}
    counts = left.items() if isinstance(left, dict) else ()
    rows = [el("li", f"{count} × {known[name]}") for name, count in counts if name in known and isinstance(count, int)]
    return el("ul", rows) if rows else "–"


def _figure(one: InjectedPrompt, name: str) -> float:
    said = one.account.get(name)
    return min(max(float(said), 0.0), 1e9) if isinstance(said, int | float) else 0.0


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[:_NAME]}…"


async def _tried(asked: Asked) -> Child:
    prompt = asked.query.get("prompt", "").strip()
    if not prompt:
        return None
    try:
        found = await asked.memory.inject(prompt)
    except StoreUntrusted as error:
        return el("p", str(error), role="alert", class_="alert")
    left = [(await _named(asked, one), why.value) for one, why in [*found.left_out.items()][:_SHOWN]]
    put_in = [el("li", await _named(asked, one), _why((fits, *place))) for one, (fits, place) in found.why.items()]
    account = found.account("prompt", 0)
    return join(
        el("h3", f"Put in: {counted(len(put_in), 'memory', 'memories')}, {account['tokens']:,} tokens"),
        el("ul", put_in) if put_in else None,
        verbatim(found.text or "Nothing fits this prompt well enough.", "notes"),
        table("Left out", ("memory", "why"), left),
    )


async def _named(asked: Asked, memory_id: str) -> Child:
    """A link with the memory's heading; looking it up counts as no use."""
    said: Iterable[Any] = (await asked.memory.history(memory_id))[:1]
    return next((link(asked, memory_id, heading_of(one)) for one in said), "one that was forgotten or purged")
