"""What a view is given of a request, and the few pieces that all views are made of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote, urlencode

from kingly_memory.models import CONFIDENCE_ASSESSMENT, Memory, project_and_user, space_of
from kingly_memory.page.html import Child, Html, el, join
from kingly_memory.plain import plain
from kingly_memory.text.writing import ago, shortened

if TYPE_CHECKING:
    from kingly_memory.app.opening import MemoryRouter

_BEGINNING, _EXCERPT = 90, 320
"""Characters of a text in the place of a title, and of one in a list."""
_MOST_FACTS = 100
"""Entries of one list that are shown; the others are counted."""


class PageRequest(NamedTuple):
    """One request: the router of the space that is looked at, what the address says, and the seal of its forms. `here`
    is how addresses name that space, "" where it is the one that the page began with."""

    memory: MemoryRouter
    query: Mapping[str, str]
    path: str
    here: str
    seal: str
    now: datetime

    def url(self, path: str, **query: str | int | None) -> str:
        given = {name: value for name, value in {"in": self.here, **query}.items() if value not in (None, "")}
        return f"{path}?{urlencode(given)}" if given else path

    @property
    def itself(self) -> str:
        """The address that was asked for."""
        return self.url(self.path, **{name: value for name, value in self.query.items() if name not in ("in", "part")})


class View(NamedTuple):
    """What a request is answered with."""

    title: str
    main: Html
    status: int = 200

    @classmethod
    def of(cls, title: str, *main: Child, says: str | None = None) -> View:
        """A view under its title, which may say what it is for."""
        return cls(title, join(el("h1", title), el("p", says, class_="says") if says else None, *main))


def space_in_address(space: str) -> str:
    project, user = project_and_user(space)
    return f"{quote(user or '', safe='')}/{quote(project or '', safe='')}"


def space_of_address(address: str) -> tuple[str | None, str | None]:
    """Project and user of the `in` of an address."""
    user, _, project = address.partition("/")
    return unquote(project) or None, unquote(user) or None


def space_words(project: str | None, user: str | None) -> str:
    place = "every project" if project is None else project
    return place if user is None else f"{place} · {user}"


def same_space(memory: MemoryRouter, address: str) -> bool:
    return space_of(*space_of_address(address)) == space_of(memory.project, memory.user)


# --- pieces -----------------------------------------------------------------------------------------------------------


def when(moment: datetime | str | None, now: datetime) -> Html:
    """How long ago, with the time itself beside it for whoever points at it."""
    if moment is None:
        return el("span", "never")
    at = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    exact = at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return el("time", ago(at, now), datetime=at.isoformat(), title=exact)


def assessment_of(memory: Memory) -> Mapping[str, Any]:
    """What an assessment of confidence says: nothing where it is none."""
    try:
        fields = json.loads(memory.content) if CONFIDENCE_ASSESSMENT in memory.tags else {}
        return fields if 0 <= fields["confidence"] <= 1 and isinstance(fields["task"], str) else {}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


def heading_of(memory: Memory) -> str:
    if assessment := assessment_of(memory):
        return f"How sure: {assessment['confidence']:.2f}, {assessment['task'][:_BEGINNING]}"
    text = memory.title or next((line for line in memory.content[:2_000].splitlines() if line.strip()), memory.id)
    return shortened(text, _BEGINNING)


def excerpt(memory: Memory) -> str | None:
    """The beginning of the text, where the heading does not say it all."""
    text, head = memory.content[:_EXCERPT].strip(), heading_of(memory)
    cut = "…" if len(memory.content) > _EXCERPT else ""
    beyond = text.removeprefix(f"{head}\n").lstrip()
    return None if text == head else f"{beyond}{cut}"


def link(request: PageRequest, memory_id: str, words: Child) -> Html:
    return el("a", el("bdi", words), href=request.url("/memory", m=memory_id))


def tags_of(request: PageRequest, tags: Sequence[str]) -> Html | None:
    links = [el("li", el("a", el("bdi", f"#{tag}"), href=request.url("/", tag=tag))) for tag in tags]
    return el("ul", links, class_="tags", aria_label="tags") if links else None


def card(request: PageRequest, memory: Memory, *more: Child, found: Child = None, is_archived: bool = False) -> Html:
    """A memory in a list; `found` is what of its text answers a question."""
    scope, head = memory.scope, heading_of(memory)
    is_all = memory.content.strip() == head
    text = None if is_all else found or excerpt(memory)
    about: list[Child] = [
        memory.type.value,
        el("b", "in the archive") if is_archived else None,
        when(memory.updated_at, request.now),
        ["by ", el("bdi", scope.agent)] if scope.agent else f"said by {memory.origin.value}",
        el("a", el("bdi", scope.context_id), href=request.url("/thread", t=scope.context_id))
        if scope.context_id
        else None,
        el("code", el("bdi", memory.key)) if memory.key else None,
        f"stored {memory.sightings} times" if memory.sightings > 1 else None,
    ]
    return el(
        "article",
        el("h3", link(request, memory.id, (found if is_all else None) or head)),
        el("p", text, dir="auto", class_="excerpt") if text else None,
        el("p", (el("span", part) for part in about if part is not None), class_="about"),
        tags_of(request, memory.tags),
        more,
        class_="card",
    )


def facts(value: Any) -> Child:
    """Any answer as a list of what it says, nested where it is."""
    if isinstance(value, Html):
        return value
    if isinstance(value, Mapping):
        rows = [
            (el("dt", str(name).replace("_", " ")), el("dd", facts(item)))
            for name, item in value.items()
            if not _is_empty(item)
        ]
        return el("dl", rows) if rows else "nothing"
    if isinstance(value, list | tuple) and not hasattr(value, "to_json"):
        shown: list[Child] = [el("li", facts(one)) for one in value[:_MOST_FACTS]]
        beyond = len(value) - len(shown)
        return el("ul", shown, el("li", f"and {beyond:,} more") if beyond > 0 else None)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    return el("bdi", str(value)) if isinstance(value, str) else facts(plain(value))


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, Mapping | list | tuple) and not value)


def section(title: str, *children: Child, id: str | None = None, says: str | None = None) -> Html:
    return el("section", el("h2", title), el("p", says, class_="says") if says else None, children, id=id)


def folded(title: Child, *children: Child, is_open: bool = False, id: str | None = None) -> Html:
    return el("details", el("summary", title), children, open=is_open, id=id)


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[Child]]) -> Html:
    """A table, or a word where nothing would stand in it."""
    if not rows:
        return el("p", f"{caption}: none.")
    head = el("thead", el("tr", (el("th", one, scope="col") for one in heads)))
    body = el("tbody", (el("tr", (el("td", cell) for cell in row)) for row in rows))
    return _scrolls("div", el("table", el("caption", caption), head, body), caption, "wide")


def verbatim(text: Child, label: str, class_: str = "said") -> Html:
    """A text with its own line ends."""
    return _scrolls("pre", text, label, class_)


def _scrolls(name: str, inner: Child, label: str, class_: str) -> Html:
    """What may be larger than its place can be scrolled from the keyboard."""
    return el(name, inner, class_=class_, dir="auto", tabindex="0", role="region", aria_label=label)


def meter(value: float, label: str) -> Html:
    return el("meter", f"{value:.2f}", value=f"{value:.3f}", min="0", max="1", aria_label=label)


def group(label: str, *children: Child) -> Html:
    """Buttons that stand together."""
    return el("div", children, class_="actions", role="group", aria_label=label)


def heading_of_day(day: date) -> Html:
    return el("h2", el("time", f"{day:%A, %d %B %Y}", datetime=day.isoformat()), class_="day")


def select(name: str, options: Mapping[str, str], chosen: str, **attributes: str) -> Html:
    """A choice of one value, each with its words."""
    each = (el("option", words, value=value, selected=value == chosen) for value, words in options.items())
    return el("select", each, name=name, **attributes)


def ask(request: PageRequest, label: str, name: str, button: str) -> Html:
    """A form that asks this view something, and changes nothing."""
    typed, here = request.query.get(name, ""), request.here
    field = el("input", type="text", name=name, value=typed, dir="auto")
    kept = el("input", type="hidden", name="in", value=here) if here else None
    return el(
        "form",
        kept,
        el("label", f"{label} ", field),
        el("button", button),
        method="get",
        action=request.path,
        class_="ask",
    )
