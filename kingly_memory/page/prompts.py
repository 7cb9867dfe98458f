"""The view of prompts: what hooks put beside the last ones, why and at what cost, and what another one would get."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from kingly_memory.attention.injection import Omission, Priority
from kingly_memory.errors import StoreUntrusted
from kingly_memory.hosts.hook_log import failures
from kingly_memory.page.html import Child, el, join
from kingly_memory.page.plots import bars
from kingly_memory.page.view import PageRequest, View, ask, facts, heading_of, link, section, table, verbatim, when
from kingly_memory.ports import InjectedPrompt
from kingly_memory.text.writing import counted, shortened

_LATEST = 500
"""Prompts that the figures are of."""
_SHOWN = 50
_NAME = 14
"""Characters of a session's name."""
_FIGURES = 5
"""Of a memory that was put in: how pertinent it was, and what its priority is made of."""


async def prompts(request: PageRequest) -> View:
    """What was put beside the last prompts, and a try."""
    answered, names = await request.memory.attention.prompts(_LATEST), dict[str, Child]()
    for memory_id in dict.fromkeys(one for prompt in answered[:_SHOWN] for one in prompt.ids):
        names[memory_id] = await _named(request, memory_id)
    rows = [
        (
            when(datetime.fromtimestamp(prompt.at_s, UTC), request.now),
            [
                el("bdi", shortened(prompt.session, _NAME)),
                ", its start" if prompt.account.get("occasion") == "start" else None,
            ],
            _put_in(prompt, names),
            _left(prompt),
            *(f"{_figure(prompt, name):,.0f}" for name in ("tokens", "bytes", "ms")),
        )
        for prompt in answered[:_SHOWN]
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
            _failures(request, str((await request.memory.status())["home"])),
            _cost(answered),
            table("The last prompts, the latest first", heads, rows) if rows else el("p", none),
            id="live",
        ),
        section(
            "Try a prompt",
            ask(request, "Prompt", "prompt", "See what it would get"),
            await _tried(request),
            says="The notes that a hook would put beside it now, and why others stay out. It asks no remote.",
        ),
        says=says,
    )


def _failures(request: PageRequest, home: str) -> Child:
    """That hooks failed, as `doctor` says it; a failure of another home is none of this one's."""
    failed = [failure for failure in failures(request.now) if failure.home in (None, home)]
    if not failed:
        return None
    what = f"Hooks failed {counted(len(failed), 'time')} in the last day, the last time because: {failed[-1].problem}. "
    return el("p", what, el("code", "kingly-memory doctor"), " says more.", role="note", class_="alert")


def _cost(answered: Sequence[InjectedPrompt]) -> Child:
    """The cost of these prompts in tokens, bytes and time, with a plot by day."""
    if not answered:
        return None
    days: dict[str, int] = {}
    for prompt in reversed(answered):
        day = datetime.fromtimestamp(prompt.at_s, UTC).date().isoformat()
        days[day] = days.get(day, 0) + int(_figure(prompt, "tokens"))
    took = sorted(_figure(prompt, "ms") for prompt in answered)
    tokens, size = (int(sum(_figure(prompt, name) for prompt in answered)) for name in ("tokens", "bytes"))
    costs = {
        "prompts": f"the last {len(answered):,}; {sum(bool(prompt.ids) for prompt in answered):,} of them got notes",
        "tokens": f"about {tokens:,}, {tokens / len(answered):,.0f} a prompt",
        "bytes": f"{size:,}",
        "time": f"{took[len(took) // 2]:,.0f} ms usually, {took[-1]:,.0f} ms at most",
    }
    plot = bars("Tokens put in each day", dict([*days.items()][-60:])) if len(days) > 1 else None
    return section("What it cost", facts(costs), plot)


def _put_in(prompt: InjectedPrompt, names: dict[str, Child]) -> Child:
    why = prompt.account.get("why")
    reasons = why if isinstance(why, list) and len(why) == len(prompt.ids) else [None] * len(prompt.ids)
    rows = [el("li", names[each], _why(reason)) for each, reason in zip(prompt.ids, reasons, strict=True)]
    return el("ul", rows) if rows else "nothing"


def _why(figures: Any) -> Child:
    """The figures of one memory in words; None where they make no sense, since a file has them."""
    if not isinstance(figures, list | tuple) or len(figures) != _FIGURES:
        return None
    if not all(isinstance(figure, int | float) for figure in figures):
        return None
    fits, *parts = figures
    priority = Priority(*parts)
    more = [f"weight × {priority.weight:.2f}"] if priority.weight != 1 else []
    more += [f"ratings × {priority.relevance:.2f}"] if priority.relevance != 1 else []
    more += [f"focus + {priority.boost:.2f}"] if priority.boost else []
    words = f"fits {fits:.0%}, likeness {priority.similarity:.2f}"
    return el("small", " ", ", ".join([words, *more]), f"; priority {priority.total:.2f}", class_="says")


def _left(prompt: InjectedPrompt) -> Child:
    left = prompt.account.get("left")
    words = {each.name: each.value for each in Omission}
    counts = left.items() if isinstance(left, dict) else ()
    rows = [el("li", f"{count} × {words[name]}") for name, count in counts if name in words and isinstance(count, int)]
    return el("ul", rows) if rows else "–"


def _figure(prompt: InjectedPrompt, name: str) -> float:
    value = prompt.account.get(name)
    return min(max(float(value), 0.0), 1e9) if isinstance(value, int | float) else 0.0


async def _tried(request: PageRequest) -> Child:
    prompt = request.query.get("prompt", "").strip()
    if not prompt:
        return None
    try:
        found = await request.memory.inject(prompt)
    except StoreUntrusted as error:
        return el("p", str(error), role="alert", class_="alert")
    left = [(await _named(request, memory_id), why.value) for memory_id, why in [*found.left_out.items()][:_SHOWN]]
    put_in = [
        el("li", await _named(request, memory_id), _why((fits, *priority)))
        for memory_id, (fits, priority) in found.why.items()
    ]
    account = found.account("prompt", 0)
    return join(
        el("h3", f"Put in: {counted(len(put_in), 'memory', 'memories')}, {account['tokens']:,} tokens"),
        el("ul", put_in) if put_in else None,
        verbatim(found.text or "Nothing fits this prompt well enough.", "notes"),
        table("Left out", ("memory", "why"), left),
    )


async def _named(request: PageRequest, memory_id: str) -> Child:
    """A link with the memory's heading; looking it up counts as no use."""
    revisions: Iterable[Any] = (await request.memory.history(memory_id))[:1]
    return next((link(request, memory_id, heading_of(one)) for one in revisions), "one that was forgotten or purged")
