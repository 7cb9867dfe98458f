"""The views of memories: the list, the search, and all that is known of one memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from kingly_memory.cognition.links import Link
from kingly_memory.errors import InvalidInput
from kingly_memory.models import REMOTE_ABOVE, Hit, LinkState, Memory, MemoryType, Results
from kingly_memory.page.actions import form
from kingly_memory.page.html import Child, Html, el, join
from kingly_memory.page.plots import graph
from kingly_memory.page.view import (
    PageRequest,
    View,
    card,
    facts,
    folded,
    group,
    heading_of,
    heading_of_day,
    link,
    meter,
    section,
    select,
    tags_of,
    verbatim,
    when,
)
from kingly_memory.text.passages import PASSAGE, passages
from kingly_memory.text.writing import counted, stems

LISTED = 25
SHOWN_CHARACTERS = 20_000
"""Of one text, unless all is asked for: a browser that draws a megabyte at once stands still for seconds."""
_WORD = re.compile(r"[^\W_]+")
_WHY = {
    "words": "words",
    "vectors": "meaning",
    "local": "this machine",
    "remote": "the remote",
    "bm25": "weight of its words",
    "cosine": "likeness of its vector",
    "context": "said beside a hit",
    "lift": "factor for a name",
    "key": "its key is the question",
}
"""What the figures of a hit are; docs/search.md has all of them."""
_FILTERS = ("type", "tag", "since", "until", "which")
_WHICH = {"": "alive", "archived": "with the archive", "forgotten": "forgotten"}


async def memories(request: PageRequest) -> View:
    """The first view: search, filters, and the latest or what was found."""
    text = request.query.get("q", "").strip()
    try:
        found = await (_found(request, text) if text else _listed(request))
    except InvalidInput as error:
        found = el("p", f"{error.field}: {error.problem}", role="alert", class_="alert")
    results = el("div", found, id="results", aria_live="polite")
    return View("Memories", results if "part" in request.query else join(_search_form(request, text), results))


def _filter(request: PageRequest) -> dict[str, Any]:
    given = {name: request.query.get(name, "").strip() for name in _FILTERS}
    tags = [tag.strip() for tag in given["tag"].split(",") if tag.strip()]
    return {
        "types": [given["type"]] if given["type"] else None,
        "tags": tags or None,
        "since": given["since"] or None,
        "until": given["until"] or None,
        "include_archived": given["which"] == "archived",
    }


async def _found(request: PageRequest, text: str) -> Html:
    # What is typed letter by letter is nobody else's business yet, and a remote need not be asked for every letter.
    is_typing = "part" in request.query
    results = await request.memory.search(
        text,
        limit=LISTED,
        detail="passages",
        include_semantic=not is_typing,
        after=request.query.get("after"),
        **_filter(request),
    )
    asked_for = stems(text)
    hits = [_hit(request, results, hit, asked_for) for hit in results]
    notes = [f"{name} did not answer: {why}." for name, why in results.failures.items()]
    notes += [f"Looked for “{other}” instead of “{word}”." for word, other in results.repaired.items()]
    summary = f"{counted(len(hits), 'hit')} in {results.took_ms:.0f} ms, best first."
    return join(
        el("h2", summary, class_="day"),
        el("p", " ".join(notes), class_="says") if notes else None,
        hits or el("p", "Nothing that is remembered answers that. Try other words, or fewer filters."),
        _more(request, after=results.next) if results.next and len(hits) == LISTED else None,
    )


def _hit(request: PageRequest, results: Results, hit: Hit, asked_for: set[str]) -> Html:
    shown = results.shown.get(hit.memory.id)
    text = (shown.text if shown and shown.text else hit.memory.content)[:600].strip()
    layers = " and ".join("this machine" if layer == "local" else layer for layer in hit.layers)
    scores = [
        f"{_WHY.get(name, name.replace('_', ' '))} {score:.2f}" for name, score in hit.scores.items() if name != PASSAGE
    ]
    same = len(results.folded.get(hit.memory.id, ()))
    later = hit.superseded_by
    why = el(
        "p",
        meter(hit.relevance, "relevance"),
        f" {hit.relevance:.2f}, found on {layers}: {', '.join(scores)}",
        el("b", " · weak: chance may explain it") if hit.is_weak else None,
        [" · ", link(request, later, "said anew later")] if later else None,
        f" · {same} more say the same" if same else None,
        class_="why",
    )
    return card(request, hit.memory, why, found=_marked(text, asked_for), is_archived=hit.archived)


def _marked(text: str, asked_for: set[str]) -> Child:
    """The text, with the words of the question marked."""
    at, pieces = 0, list[Child]()
    for word in _WORD.finditer(text):
        if stems(word.group()) & asked_for:
            pieces += [text[at : word.start()], el("mark", word.group())]
            at = word.end()
    return [*pieces, text[at:]]


async def _listed(request: PageRequest) -> Html:
    filters, before = _filter(request), request.query.get("before")
    position = int(before) if before and before.isdecimal() else None
    is_forgotten = request.query.get("which") == "forgotten"
    page = await request.memory.list(LISTED, position, forgotten=is_forgotten, **filters)
    cards: list[Child] = []
    for day, stored in groupby(page, lambda one: one.updated_at.date()):
        cards.append(heading_of_day(day))
        for memory in stored:
            back = form(request, "restore", fixed={"key_or_id": memory.id}, button="Restore") if is_forgotten else None
            cards.append(card(request, memory, back, is_archived=memory.id in page.archived))
    is_filtered = any(request.query.get(name) for name in _FILTERS)
    nothing = "Nothing fits these filters." if is_filtered else "Nothing is remembered here yet. Store something below."
    return join(
        cards or el("p", nothing), _more(request, before=page.next_before) if page.next_before is not None else None
    )


def _more(request: PageRequest, **further: str | int | None) -> Html:
    kept = {name: value for name, value in request.query.items() if name in ("q", *_FILTERS)}
    return el("p", el("a", "Go on", href=request.url("/", **kept, **further), class_="more", rel="next"))


def _search_form(request: PageRequest, text: str) -> Html:
    query = request.query
    kinds = {"": "all types", **{kind.value: kind.value for kind in MemoryType}}
    filters = {
        "type": select("type", kinds, query.get("type", "")),
        "tags, with commas": el("input", type="text", name="tag", value=query.get("tag", ""), dir="auto"),
        "since": el("input", type="date", name="since", value=query.get("since", "")),
        "until": el("input", type="date", name="until", value=query.get("until", "")),
        "which": select("which", _WHICH, query.get("which", "")),
    }
    return join(
        el("h1", "What is remembered"),
        el(
            "form",
            el("input", type="hidden", name="in", value=request.here) if request.here else None,
            el("label", "Search", for_="q", class_="hidden"),
            el(
                "input",
                type="search",
                id="q",
                name="q",
                value=text,
                placeholder="Search what is remembered",
                dir="auto",
                autocomplete="off",
            ),
            el("button", "Search"),
            folded(
                "Filters",
                el("div", (el("label", el("span", says), one) for says, one in filters.items()), class_="filters"),
                is_open=any(query.get(name) for name in _FILTERS),
            ),
            id="search",
            role="search",
            method="get",
            action="/",
        ),
        folded(
            "Store something new",
            form(request, "store", ["content", "key", "type", "tags", "significance"], button="Store"),
        ),
    )


# --- one memory -------------------------------------------------------------------------------------------------------


async def memory_detail(request: PageRequest) -> View:
    """All that is known of one memory. Looking at it counts as no use."""
    name, memory = request.query.get("m", ""), request.memory
    revisions = await memory.history(name) if name else ()
    explained = await memory.explain(revisions[0].id) if revisions else None
    if explained is None:
        return View("No such memory", _gone(request, name), 404)
    latest, status = revisions[0], explained["status"]
    links = await memory.links(latest.id)
    near = await _near(request, latest, links)
    main = join(
        el("h1", el("bdi", heading_of(latest))),
        el("p", f"This memory is {status}.", class_="alert") if status != "live" else None,
        _text(request, latest),
        tags_of(request, latest.tags),
        _actions(request, latest, status, [one.revision for one in revisions]),
        section("Where it stands", _status(request, latest, explained)),
        section("Links", _links(request, latest, links, near), id="links"),
        section("History", await _history(request, latest, revisions), id="history"),
    )
    return View(heading_of(latest), main)


def _gone(request: PageRequest, name: str) -> Html:
    return el(
        "div",
        el("h1", "No such memory"),
        el("p", "Nothing that is remembered here has the key or id ", el("code", name), "."),
        form(request, "restore", fixed={"key_or_id": name}, button="Restore it, if it was forgotten") if name else None,
        el("p", el("a", "What was forgotten", href=request.url("/", which="forgotten"))),
    )


def _text(request: PageRequest, memory: Memory) -> Html:
    text, is_whole = memory.content, "whole" in request.query
    shown = text if is_whole else text[:SHOWN_CHARACTERS]
    beyond = len(text) - len(shown)
    cuts = passages(text) if len(text) <= SHOWN_CHARACTERS * 10 else []
    items = [el("li", text[begin:end], dir="auto", class_="passage") for begin, end in cuts[:50]]
    rest = el("a", f"Show the other {beyond:,} characters", href=request.url("/memory", m=memory.id, whole=1))
    return join(
        verbatim(shown, "text") if text.strip() != heading_of(memory) else None,
        el("p", rest) if beyond else None,
        folded(f"{len(cuts)} passages, by the best of which it is found", el("ol", items)) if cuts else None,
    )


def _status(request: PageRequest, memory: Memory, explained: Mapping[str, Any]) -> Html:
    strength, uses, thread = explained["strength"], explained["uses"], memory.scope.context_id
    value, used, ends = float(strength["strength"]), uses["last_used"], explained["ends_at"]
    stays = "" if memory.significance > REMOTE_ABOVE else ": it never leaves this machine"
    figures = {
        "id": el("code", memory.id),
        "key": memory.key,
        "type": memory.type,
        "significance": f"{memory.significance:.2f}{stays}",
        "confidence": memory.confidence,
        "strength": el("span", meter(value, "strength"), f" {value:.2f}, {strength['state']}"),
        "tier": explained["tier"]["name"],
        "used": el("span", f"{counted(uses['accesses'], 'time')}, last ", when(used, request.now))
        if used
        else "never yet",
        "ends": when(ends, request.now) if ends else "never",
        "said by": memory.origin,
        "agent": memory.scope.agent,
        "thread": link_to_thread(request, thread or memory.id, thread or "its own"),
        "stored": when(memory.created_at, request.now),
        "changed": when(memory.updated_at, request.now),
        "delivered to": explained["remotes"] or "no remote: it is on this machine alone",
        "archived": explained["archived"],
        "metadata": memory.metadata,
    }
    return join(facts(figures), folded("All figures", facts(explained)))


def link_to_thread(request: PageRequest, name: str, words: str) -> Html:
    return el("a", el("bdi", words), href=request.url("/thread", t=name))


def rating(request: PageRequest, name: str) -> Html:
    """Whether what was put into a prompt has helped."""
    words = (("Helped in prompts", "true"), ("Was noise", "false"))
    buttons = [el("button", says, name="useful", value=value) for says, value in words]
    return form(request, "attention.rate", fixed={"thread_id": name}, buttons=buttons)


def _actions(request: PageRequest, memory: Memory, status: str, revisions: Sequence[int]) -> Html:
    this = {"key_or_id": memory.id}
    fields = ["content", "title", "tags", "type", "significance", "confidence", "ttl"]
    given = {name: getattr(memory, name) for name in fields[:-1]} | {"type": memory.type.value}
    now = {**this, "if_revision": str(memory.revision)}
    before = {**this, "revision": str(revisions[1])} if len(revisions) > 1 else None
    pin = form(
        request, "attention.pin", ("content", "title", "topics"), given={"content": memory.content}, button="Pin"
    )
    is_apart = len(memory.content) > SHOWN_CHARACTERS and "whole" not in request.query
    fields = fields[1:] if is_apart else fields
    whole = el("a", "Its text is edited beside the whole of it", href=request.url("/memory", m=memory.id, whole=1))
    edit = form(request, "update", fields, given=given, fixed=now, button="Save")
    return join(
        folded("Edit", el("p", whole) if is_apart else None, edit, id="edit"),
        group(
            "actions",
            form(request, "restore", fixed=before, button="Undo the last change") if before else None,
            form(request, "restore", fixed=this, button="Restore") if status == "archived" else None,
            form(request, "reinforce", fixed=this, button="Hold against fading"),
            rating(request, memory.id),
            form(request, "archive", fixed=this, button="Archive") if status == "live" else None,
            form(request, "forget", fixed=this, button="Forget"),
            form(request, "purge", fixed=this, button="Purge for good…", back="/"),
        ),
        folded("Pin this text", pin) if len(memory.content) <= SHOWN_CHARACTERS else None,
    )


# --- links ------------------------------------------------------------------------------------------------------------

_MOST_NEAR = 40
_Near = Mapping[str, tuple[Memory | None, Sequence[Link]]]


async def _near(request: PageRequest, memory: Memory, links: Sequence[Link]) -> _Near:
    """The memories that links lead to, with what leads further from each: two steps, forty memories at most."""
    found: dict[str, tuple[Memory | None, Sequence[Link]]] = {memory.id: (memory, links)}
    for step in (1, 2):
        ends = {end for _, linked in found.values() for edge in linked for end in (edge.source, edge.target)}
        for end in sorted(ends - found.keys())[: _MOST_NEAR - len(found)]:
            revisions = (await request.memory.history(end))[:1]
            found[end] = (revisions[0] if revisions else None, await request.memory.links(end) if step == 1 else ())
    return found


def _links(request: PageRequest, memory: Memory, links: Sequence[Link], near: _Near) -> Html:
    names = {memory_id: heading_of(other) if other else memory_id for memory_id, (other, _) in near.items()}
    edges = {(edge.source, edge.target, edge.link_type.value) for _, linked in near.values() for edge in linked}
    rows = []
    for edge in links:
        is_from = edge.source == memory.id
        other, says = (edge.target, f"{edge.link_type} →") if is_from else (edge.source, f"← {edge.link_type}")
        words = link(request, other, names.get(other, other))
        rows.append(el("li", f"{says} ", words, f" ({edge.strength:.2f}) ", edge.description))
    fields = ("target", "link_type", "strength", "description")
    return join(
        el("ul", rows) if rows else el("p", "It is linked to nothing yet."),
        graph(memory.id, names, sorted(edges), lambda one: request.url("/memory", m=one)) if rows else None,
        folded(
            "Link it to another memory",
            form(request, "link_memories", fields, fixed={"source": memory.id}, button="Link"),
        ),
    )


# --- history ----------------------------------------------------------------------------------------------------------


async def _history(request: PageRequest, latest: Memory, revisions: Sequence[Memory]) -> Html:
    numbers, now = [one.revision for one in revisions], latest.revision
    chosen = request.query.get("a", "")
    a = int(chosen) if chosen.isdecimal() and int(chosen) in numbers else numbers[1] if len(numbers) > 1 else None
    rows = []
    for revision in revisions[:50]:
        number, said_by = revision.revision, f", {revision.origin.value} "
        compare = el("a", "compare with now", href=request.url("/memory", m=latest.id, a=number) + "#history")
        again = {"key_or_id": latest.id, "revision": str(number)}
        button = form(request, "restore", fixed=again, button=f"Say again what it said as {number}")
        is_now = number == now
        about = (when(revision.updated_at, request.now), said_by, el("bdi", revision.scope.agent), " ")
        rows.append(el("li", el("b", f"Revision {number} "), about, "(now)" if is_now else (compare, button)))
    diff = None if a is None else await request.memory.diff(latest.id, a, now)
    return join(el("ul", rows, class_="revisions"), None if diff is None else _diff(diff, a, now))


def _diff(diff: str, a: int | None, b: int) -> Html:
    if not diff:
        return el("p", f"The texts of {a} and {b} are the same; type, tags or figures may differ.")
    kinds = {"+": "ins", "-": "del"}
    lines = diff[:SHOWN_CHARACTERS].splitlines()[2:]
    marked = [el(kinds.get(line[:1], "span"), line, "\n") for line in lines]
    return join(el("h3", f"From {a} to {b}"), verbatim(marked, "changes", "diff"))


def link_state(status: Mapping[str, Any]) -> str:
    """The link to the remote in a few words."""
    state, waiting = status["link"]["state"], status["outbox"]["pending"]
    if state == LinkState.DISABLED:
        return "no remote"
    return f"remote {state}" + (f", {waiting:,} waiting" if waiting else "")
