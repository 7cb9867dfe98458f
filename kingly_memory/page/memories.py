"""The views of memories: what is remembered, found or listed, and all that is known of one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kingly_memory.cognition.links import Link
from kingly_memory.errors import InvalidInput
from kingly_memory.models import REMOTE_ABOVE, Hit, LinkState, Memory, MemoryType, Results
from kingly_memory.page.actions import form
from kingly_memory.page.asked import (
    Asked,
    View,
    card,
    facts,
    folded,
    group,
    heading_of,
    link,
    meter,
    section,
    tags_of,
    verbatim,
    when,
)
from kingly_memory.page.html import Child, Html, el, join
from kingly_memory.page.plots import graph
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


async def memories(asked: Asked) -> View:
    """The first view: search, filters, and the latest or what was found."""
    text = asked.query.get("q", "").strip()
    try:
        found = await (_found(asked, text) if text else _listed(asked))
    except InvalidInput as error:
        found = el("p", f"{error.field}: {error.problem}", role="alert", class_="alert")
    results = el("div", found, id="results", aria_live="polite")
    return View("Memories", results if "part" in asked.query else join(_search_form(asked, text), results))


def _filter(asked: Asked) -> dict[str, Any]:
    said = {name: asked.query.get(name, "").strip() for name in _FILTERS}
    tags = [one.strip() for one in said["tag"].split(",") if one.strip()]
    return {
        "types": [said["type"]] if said["type"] else None,
        "tags": tags or None,
        "since": said["since"] or None,
        "until": said["until"] or None,
        "include_archived": said["which"] == "archived",
    }


async def _found(asked: Asked, text: str) -> Html:
    # What is typed letter by letter is nobody else's business yet, and a remote need not be asked for every letter.
    is_typing = "part" in asked.query
    results = await asked.memory.search(
        text,
        limit=LISTED,
        detail="passages",
        include_semantic=not is_typing,
        after=asked.query.get("after"),
        **_filter(asked),
    )
    asked_for = stems(text)
    hits = [_hit(asked, results, one, asked_for) for one in results]
    notes = [f"{name} did not answer: {why}." for name, why in results.failures.items()]
    notes += [f"Looked for “{other}” instead of “{word}”." for word, other in results.repaired.items()]
    told = f"{counted(len(hits), 'hit')} in {results.took_ms:.0f} ms, best first."
    return join(
        el("h2", told, class_="day"),
        el("p", " ".join(notes), class_="says") if notes else None,
        hits or el("p", "Nothing that is remembered answers that. Try other words, or fewer filters."),
        _more(asked, after=results.next) if results.next and len(hits) == LISTED else None,
    )


def _hit(asked: Asked, results: Results, hit: Hit, asked_for: set[str]) -> Html:
    shown = results.shown.get(hit.memory.id)
    said = (shown.text if shown and shown.text else hit.memory.content)[:600].strip()
    where = " and ".join("this machine" if one == "local" else one for one in hit.layers)
    scores = [
        f"{_WHY.get(name, name.replace('_', ' '))} {one:.2f}" for name, one in hit.scores.items() if name != PASSAGE
    ]
    same = len(results.folded.get(hit.memory.id, ()))
    later = hit.superseded_by
    why = el(
        "p",
        meter(hit.relevance, "relevance"),
        f" {hit.relevance:.2f}, found on {where}: {', '.join(scores)}",
        el("b", " · weak: chance may explain it") if hit.is_weak else None,
        [" · ", link(asked, later, "said anew later")] if later else None,
        f" · {same} more say the same" if same else None,
        class_="why",
    )
    return card(asked, hit.memory, why, found=_marked(said, asked_for), is_archived=hit.archived)


def _marked(text: str, asked_for: set[str]) -> Child:
    """The text, with the words of the question marked."""
    at, pieces = 0, list[Child]()
    for word in _WORD.finditer(text):
        if stems(word.group()) & asked_for:
            pieces += [text[at : word.start()], el("mark", word.group())]
            at = word.end()
    return [*pieces, text[at:]]


async def _listed(asked: Asked) -> Html:
    said, before = _filter(asked), asked.query.get("before")
    place = int(before) if before and before.isdecimal() else None
    is_forgotten = asked.query.get("which") == "forgotten"
    page = await asked.memory.list(LISTED, place, forgotten=is_forgotten, **said)
    days: list[Child] = []
    last = None
    for one in page:
        if (day := one.updated_at.date()) != last:
            days.append(el("h2", el("time", f"{day:%A, %d %B %Y}", datetime=day.isoformat()), class_="day"))
            last = day
        more = form(asked, "restore", fixed={"key_or_id": one.id}, button="Restore") if is_forgotten else None
        days.append(card(asked, one, more, is_archived=one.id in page.archived))
    is_filtered = any(asked.query.get(name) for name in _FILTERS)
    nothing = "Nothing fits these filters." if is_filtered else "Nothing is remembered here yet. Store something below."
    return join(
        days or el("p", nothing), _more(asked, before=page.next_before) if page.next_before is not None else None
    )


def _more(asked: Asked, **further: str | int | None) -> Html:
    said = {name: one for name, one in asked.query.items() if name in ("q", *_FILTERS)}
    return el("p", el("a", "Go on", href=asked.url("/", **said, **further), class_="more", rel="next"))


def _search_form(asked: Asked, text: str) -> Html:
    query = asked.query
    chosen = [el("option", "all types", value="")]
    chosen += [el("option", one.value, value=one.value, selected=query.get("type") == one.value) for one in MemoryType]
    which = [el("option", says, value=one, selected=query.get("which", "") == one) for one, says in _WHICH.items()]

    def field(name: str, says: str, control: Html) -> Html:
        return el("label", el("span", says), control)

    def said(name: str, type_: str, hint: str | None = None) -> Html:
        return el("input", type=type_, name=name, value=query.get(name, ""), placeholder=hint, dir="auto")

    return join(
        el("h1", "What is remembered"),
        el(
            "form",
            el("input", type="hidden", name="in", value=asked.here) if asked.here else None,
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
                el(
                    "div",
                    field("type", "type", el("select", chosen, name="type")),
                    field("tag", "tags, with commas", said("tag", "text")),
                    field("since", "since", said("since", "date")),
                    field("until", "until", said("until", "date")),
                    field("which", "which", el("select", which, name="which")),
                    class_="filters",
                ),
                is_open=any(query.get(name) for name in _FILTERS),
            ),
            id="search",
            role="search",
            method="get",
            action="/",
        ),
        folded(
            "Store something new",
            form(asked, "store", ["content", "key", "type", "tags", "significance"], button="Store"),
        ),
    )


# --- one memory -------------------------------------------------------------------------------------------------------


async def one(asked: Asked) -> View:
    """All that is known of one memory. Looking at it counts as no use."""
    name, memory = asked.query.get("m", ""), asked.memory
    revisions = await memory.history(name) if name else ()
    known = await memory.explain(revisions[0].id) if revisions else None
    if known is None:
        return View("No such memory", _gone(asked, name), 404)
    latest, standing = revisions[0], known["standing"]
    links = await memory.links(latest.id)
    near = await _near(asked, latest, links)
    main = join(
        el("h1", el("bdi", heading_of(latest))),
        el("p", f"This memory is {standing}.", class_="alert") if standing != "live" else None,
        _text(asked, latest),
        tags_of(asked, latest.tags),
        _actions(asked, latest, standing, [one.revision for one in revisions]),
        section("Where it stands", _standing(asked, latest, known)),
        section("Links", _links(asked, latest, links, near), id="links"),
        section("History", await _history(asked, latest, revisions), id="history"),
    )
    return View(heading_of(latest), main)


def _gone(asked: Asked, name: str) -> Html:
    return el(
        "div",
        el("h1", "No such memory"),
        el("p", "Nothing that is remembered here has the key or id ", el("code", name), "."),
        form(asked, "restore", fixed={"key_or_id": name}, button="Restore it, if it was forgotten") if name else None,
        el("p", el("a", "What was forgotten", href=asked.url("/", which="forgotten"))),
    )


def _text(asked: Asked, memory: Memory) -> Html:
    text, is_whole = memory.content, "whole" in asked.query
    shown = text if is_whole else text[:SHOWN_CHARACTERS]
    beyond = len(text) - len(shown)
    cuts = passages(text) if len(text) <= SHOWN_CHARACTERS * 10 else []
    told = [el("li", text[begin:end], dir="auto", class_="passage") for begin, end in cuts[:50]]
    rest = el("a", f"Show the other {beyond:,} characters", href=asked.url("/memory", m=memory.id, whole=1))
    return join(
        verbatim(shown, "text") if text.strip() != heading_of(memory) else None,
        el("p", rest) if beyond else None,
        folded(f"{len(cuts)} passages, by the best of which it is found", el("ol", told)) if cuts else None,
    )


def _standing(asked: Asked, memory: Memory, known: Mapping[str, Any]) -> Html:
    strength, uses, thread = known["strength"], known["uses"], memory.scope.context_id
    value, used, ends = float(strength["strength"]), uses["last_used"], known["ends_at"]
    stays = "" if memory.significance > REMOTE_ABOVE else ": it never leaves this machine"
    told = {
        "id": el("code", memory.id),
        "key": memory.key,
        "type": memory.type,
        "significance": f"{memory.significance:.2f}{stays}",
        "confidence": memory.confidence,
        "strength": el("span", meter(value, "strength"), f" {value:.2f}, {strength['state']}"),
        "tier": known["tier"]["name"],
        "used": el("span", f"{counted(uses['accesses'], 'time')}, last ", when(used, asked.now))
        if used
        else "never yet",
        "ends": when(ends, asked.now) if ends else "never",
        "said by": memory.origin,
        "agent": memory.scope.agent,
        "thread": link_to_thread(asked, thread or memory.id, thread or "its own"),
        "stored": when(memory.created_at, asked.now),
        "changed": when(memory.updated_at, asked.now),
        "delivered to": known["remotes"] or "no remote: it is on this machine alone",
        "archived": known["archived"],
        "metadata": memory.metadata,
    }
    return join(facts(told), folded("All figures", facts(known)))


def link_to_thread(asked: Asked, name: str, words: str) -> Html:
    return el("a", el("bdi", words), href=asked.url("/thread", t=name))


def rating(asked: Asked, name: str) -> Html:
    """Whether what was put into a prompt has helped."""
    words = (("Helped in prompts", "true"), ("Was noise", "false"))
    buttons = [el("button", says, name="useful", value=value) for says, value in words]
    return form(asked, "attention.rate", fixed={"thread_id": name}, buttons=buttons)


def _actions(asked: Asked, memory: Memory, standing: str, revisions: Sequence[int]) -> Html:
    this = {"key_or_id": memory.id}
    fields = ["content", "title", "tags", "type", "significance", "confidence", "ttl"]
    given = {name: getattr(memory, name) for name in fields[:-1]} | {"type": memory.type.value}
    now = {**this, "if_revision": str(memory.revision)}
    before = {**this, "revision": str(revisions[1])} if len(revisions) > 1 else None
    pin = form(asked, "attention.pin", ("content", "title", "topics"), given={"content": memory.content}, button="Pin")
    is_apart = len(memory.content) > SHOWN_CHARACTERS and "whole" not in asked.query
    fields = fields[1:] if is_apart else fields
    whole = el("a", "Its text is edited beside the whole of it", href=asked.url("/memory", m=memory.id, whole=1))
    edit = form(asked, "update", fields, given=given, fixed=now, button="Save")
    return join(
        folded("Edit", el("p", whole) if is_apart else None, edit, id="edit"),
        group(
            "actions",
            form(asked, "restore", fixed=before, button="Undo the last change") if before else None,
            form(asked, "restore", fixed=this, button="Restore") if standing == "archived" else None,
            form(asked, "reinforce", fixed=this, button="Hold against fading"),
            rating(asked, memory.id),
            form(asked, "archive", fixed=this, button="Archive") if standing == "live" else None,
            form(asked, "forget", fixed=this, button="Forget"),
            form(asked, "purge", fixed=this, button="Purge for good…", back="/"),
        ),
        folded("Pin this text", pin) if len(memory.content) <= SHOWN_CHARACTERS else None,
    )


# --- links ------------------------------------------------------------------------------------------------------------

_MOST_NEAR = 40
_Near = Mapping[str, tuple[Memory | None, Sequence[Link]]]


async def _near(asked: Asked, memory: Memory, links: Sequence[Link]) -> _Near:
    """The memories that links lead to, with what leads further from each: two steps, forty memories at most."""
    found: dict[str, tuple[Memory | None, Sequence[Link]]] = {memory.id: (memory, links)}
    for step in (1, 2):
        ends = {end for _, several in found.values() for one in several for end in (one.source, one.target)}
        for end in sorted(ends - found.keys())[: _MOST_NEAR - len(found)]:
            said = (await asked.memory.history(end))[:1]
            found[end] = (said[0] if said else None, await asked.memory.links(end) if step == 1 else ())
    return found


def _links(asked: Asked, memory: Memory, links: Sequence[Link], near: _Near) -> Html:
    names = {one: heading_of(other) if other else one for one, (other, _) in near.items()}
    edges = {(one.source, one.target, one.link_type.value) for _, several in near.values() for one in several}
    rows = []
    for one in links:
        is_from = one.source == memory.id
        other, says = (one.target, f"{one.link_type} →") if is_from else (one.source, f"← {one.link_type}")
        words = link(asked, other, names.get(other, other))
        rows.append(el("li", f"{says} ", words, f" ({one.strength:.2f}) ", one.description))
    fields = ("target", "link_type", "strength", "description")
    return join(
        el("ul", rows) if rows else el("p", "It is linked to nothing yet."),
        graph(memory.id, names, sorted(edges), lambda one: asked.url("/memory", m=one)) if rows else None,
        folded(
            "Link it to another memory",
            form(asked, "link_memories", fields, fixed={"source": memory.id}, button="Link"),
        ),
    )


# --- history ----------------------------------------------------------------------------------------------------------


async def _history(asked: Asked, latest: Memory, revisions: Sequence[Memory]) -> Html:
    numbers, now = [one.revision for one in revisions], latest.revision
    chosen = asked.query.get("a", "")
    a = int(chosen) if chosen.isdecimal() and int(chosen) in numbers else numbers[1] if len(numbers) > 1 else None
    rows = []
    for one in revisions[:50]:
        number, said_by = one.revision, f", {one.origin.value} "
        compare = el("a", "compare with now", href=asked.url("/memory", m=latest.id, a=number) + "#history")
        again = {"key_or_id": latest.id, "revision": str(number)}
        button = form(asked, "restore", fixed=again, button=f"Say again what it said as {number}")
        is_now = number == now
        about = (when(one.updated_at, asked.now), said_by, el("bdi", one.scope.agent), " ")
        rows.append(el("li", el("b", f"Revision {number} "), about, "(now)" if is_now else (compare, button)))
    diff = None if a is None else await asked.memory.diff(latest.id, a, now)
    return join(el("ul", rows, class_="revisions"), None if diff is None else _diff(diff, a, now))


def _diff(diff: str, a: int | None, b: int) -> Html:
    if not diff:
        return el("p", f"The texts of {a} and {b} are the same; type, tags or figures may differ.")
    kinds = {"+": "ins", "-": "del"}
    lines = diff[:SHOWN_CHARACTERS].splitlines()[2:]
    said = [el(kinds.get(one[:1], "span"), one, "\n") for one in lines]
    return join(el("h3", f"From {a} to {b}"), verbatim(said, "changes", "diff"))


def link_state(status: Mapping[str, Any]) -> str:
    """The link to the remote in a few words."""
    state, waiting = status["link"]["state"], status["outbox"]["pending"]
    if state == LinkState.DISABLED:
        return "no remote"
    return f"remote {state}" + (f", {waiting:,} waiting" if waiting else "")
