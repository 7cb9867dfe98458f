"""The views of work: threads and what is at hand in them, tasks, delivery, upkeep, and figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from kingly_memory.cognition.outcomes import KNOWN, TASK_OUTCOME, TaskStatus, outcome_of
from kingly_memory.errors import InvalidInput
from kingly_memory.models import CONFIDENCE_ASSESSMENT, LinkState, Memory, space_of
from kingly_memory.page.actions import form
from kingly_memory.page.html import Child, Html, el, join
from kingly_memory.page.memories import link_state, link_to_thread, rating
from kingly_memory.page.plots import bars, calibration, line
from kingly_memory.page.view import (
    PageRequest,
    View,
    assessment_of,
    card,
    facts,
    folded,
    group,
    heading_of,
    link,
    meter,
    section,
    space_in_address,
    space_words,
    table,
    when,
)
from kingly_memory.text.writing import counted

_LATEST = 1_000
"""Memories that plots of time are made of."""
_SHOWN = 50
"""Of what is listed beside other things."""
_AT_ONCE = 5_000
"""Memories that are all looked at unasked: half a second of them."""


async def threads(request: PageRequest) -> View:
    """What was said together, and what is in focus."""
    listed, focus = await request.memory.threads.list(100), await request.memory.attention.focused()
    in_focus = [
        (el("bdi", item.topic), f"{item.weight:.1f}", form(request, "attention.unfocus", fixed={"topic": item.topic}))
        for item in focus
    ]
    rows = [
        (
            link_to_thread(request, entry.id, entry.title or entry.id),
            "pinned" if entry.pinned else "",
            counted(entry.message_count, "memory", "memories"),
            when(entry.last_active, request.now),
            el("bdi", ", ".join(entry.topics[:5])),
        )
        for entry in listed
    ]
    says = "A thread is what was said in one conversation or task. What is in focus or pinned comes first in prompts."
    return View.of(
        "Threads",
        table("Active threads, the latest first", ("thread", "pin", "holds", "last active", "about"), rows),
        section("In focus", table("Topics in focus", ("topic", "weight", ""), in_focus)),
        folded("Focus on a topic", form(request, "attention.focus", ["topic", "weight"])),
        folded("Pin a new text", form(request, "attention.pin", ["content", "title", "topics", "weight_boost"])),
        says=says,
    )


async def thread(request: PageRequest) -> View:
    """One thread with its memories, and on request what is at hand there."""
    name = request.query.get("t", "")
    try:
        detail = await request.memory.threads.get(name, limit=100)
    except InvalidInput as error:
        return View("No such thread", join(el("h1", "No such thread"), el("p", error.problem)), 404)
    this, title = {"thread_id": detail.id}, detail.title or detail.id
    names = ("status", "weight", "relevance", "pinned", "topics", "drift_history", "merged", "ratings")
    look = el("a", "Show what is at hand", href=request.url("/thread", t=name, hand=1))
    hand: Child = el("p", look, " (that counts as a use of this context)")
    if "hand" in request.query:
        context = await request.memory.working_context(detail.id)
        items = [el("li", link(request, each.id, heading_of(each))) for each in (*context.items, *context.remote)]
        sizes = (
            f"{counted(len(items), 'memory', 'memories')} and {context.whispers} whispers, {context.tokens:,} tokens."
        )
        hand = join(el("p", sizes), el("ol", items) if items else None)
    return View(
        title,
        join(
            el("h1", el("bdi", title)),
            group(
                "actions",
                rating(request, detail.id),
                form(request, "attention.unpin", fixed=this, button="Take the pin off") if detail.pinned else None,
                form(request, "threads.split", fixed=this, button="Split where the topic changes"),
            ),
            folded("Rename it", form(request, "threads.rename", ["title"], given={"title": title}, fixed=this)),
            folded(
                "Merge another into it", form(request, "threads.merge", ["thread_b"], fixed={"thread_a": detail.id})
            ),
            section(
                "What was said", [card(request, each.memory, is_archived=each.archived) for each in detail.messages]
            ),
            section(
                "At hand", hand, says="The last of it and of what it drew on, as an agent at work there is given it."
            ),
            section("Its figures", facts({name: getattr(detail, name) for name in names})),
        ),
    )


# --- tasks ------------------------------------------------------------------------------------------------------------


async def tasks(request: PageRequest) -> View:
    """What came of tasks, and how sure to be of the next one."""
    outcomes = await request.memory.list(_SHOWN, tags=[TASK_OUTCOME])
    assessed = await request.memory.list(_SHOWN, tags=[CONFIDENCE_ASSESSMENT])
    ended = [
        (
            link(request, memory.id, outcome.task),
            outcome.status,
            el("bdi", outcome.approach),
            when(memory.updated_at, request.now),
        )
        for memory in outcomes
        if (outcome := outcome_of(memory))
    ]
    rows: list[Sequence[Child]] = [
        (
            link(request, memory.id, assessment["task"]),
            [meter(assessment["confidence"], "confidence"), f" {assessment['confidence']:.2f}"],
            when(memory.updated_at, request.now),
            folded(
                "why", facts({name: value for name, value in assessment.items() if name not in ("task", "confidence")})
            ),
        )
        for memory in assessed
        if (assessment := assessment_of(memory))
    ]
    return View.of(
        "Tasks",
        section("How likely is it to succeed?", form(request, "assess_confidence", ["task"], button="Assess")),
        section("What came of tasks", table("The latest tasks", ("task", "came to", "by", "when"), ended)),
        folded(
            "Record a task", form(request, "record_task_outcome", ["task", "status", "approach", "reason", "notes"])
        ),
        section("Assessments", table("The latest assessments", ("task", "confidence", "when", "evidence"), rows)),
    )


# --- delivery ---------------------------------------------------------------------------------------------------------


async def delivery(request: PageRequest) -> View:
    """Where memories go besides this machine, and what waits for that."""
    status, remotes = await request.memory.status(), await request.memory.remotes()
    known = [
        (
            el("bdi", remote.label or remote.endpoint),
            "in use" if remote.in_use else "not in use here",
            *(f"{count:,}" for count in (remote.delivered, remote.waiting, remote.dead)),
        )
        for remote in remotes
    ]
    names = section("Remotes", table("Known remotes", ("remote", "use", "delivered", "waiting", "refused"), known))
    if status["link"]["state"] == LinkState.DISABLED:
        how = el("code", "kingly-memory remotes add NAME URL")
        alone = "There is no remote: all memories are on this machine alone. "
        shown: Child = [el("p", alone, how, " names one; begin the page anew."), names if known else None]
    else:
        link_now = facts({"link": link_state(status), **status["link"]})
        shown = [link_now, form(request, "sync", button="Try the remote now"), names, await _outbox(request)]
    says = "Memories of significance 0.3 and below never leave this machine."
    return View.of("Delivery", el("div", shown, id="live"), says=says)


async def _outbox(request: PageRequest) -> Html:
    waiting = [
        (
            link(request, entry.id, entry.key or entry.id),
            entry.state.value,
            f"{entry.attempts}",
            "" if entry.due_s is None else f"in {max(entry.due_s, 0):.0f} s",
            el("bdi", entry.last_error),
            form(request, "outbox_retry", fixed={"ids": entry.id}, button="Send again")
            if entry.state == "dead"
            else None,
            form(request, "outbox_drop", fixed={"ids": entry.id}, button="Stop sending"),
        )
        for entry in (await request.memory.outbox())[: _SHOWN * 2]
    ]
    heads = ("memory", "state", "tries", "next", "last error", "", "")
    return section("Outbox", table("What no remote has acknowledged yet", heads, waiting))


# --- upkeep and figures -----------------------------------------------------------------------------------------------


async def upkeep(request: PageRequest) -> View:
    """What the next sweep would do, what lies in the archive, and the projects of the home."""
    memory = request.memory
    projects: list[Sequence[Child]] = [
        (
            [el("p", _space(request, project.name, user)) for user in (None, *project.users)],
            *(f"{count:,}" for count in (project.memories, project.archived, project.documents)),
            when(project.changed_at, request.now),
        )
        for project in await memory.projects.list()
    ]
    put_away = []
    for entry in (await memory.archived(_SHOWN)).entries:
        why = f": {entry.why.reason}" if entry.why else ""
        at = when(datetime.fromtimestamp(entry.why.at, UTC), request.now) if entry.why else "with an import"
        back = form(request, "restore", fixed={"key_or_id": entry.memory.id}, button="Restore")
        put_away.append(card(request, entry.memory, el("p", "Put away ", at, why), back, is_archived=True))
    heads = ("project", "memories", "archived", "documents", "changed")
    many = ("tags", "context_id", "by_agent", "force")
    return View.of(
        "Upkeep",
        section(
            "The next sweep",
            await _planned(request),
            says="A sweep puts what has ended or faded into the archive. It is shown before it is done.",
        ),
        group(
            "sweeps",
            form(request, "sweep", button="Sweep…"),
            form(request, "undo_sweep"),
            form(request, "compact", button="Compact the threads…"),
        ),
        section("Archive", put_away or el("p", "Nothing was put away.")),
        section("Projects of this home", table("Projects and users", heads, projects), id="projects"),
        folded("Rename a project", form(request, "projects.rename", ["old", "new"])),
        folded("Merge a project into another", form(request, "projects.merge", ["source", "into"])),
        folded("Purge many memories", form(request, "purge", many, button="Show what would go…")),
    )


def _space(request: PageRequest, project: str | None, user: str | None) -> Html:
    """A link to the memories of a space."""
    query = {"in": space_in_address(space_of(project, user))}
    return el("a", el("bdi", space_words(project, user)), href=request.url("/", **query))


async def _planned(request: PageRequest) -> Child:
    if later := await _later(request):
        return later
    plan, weak = await request.memory.sweep(dry_run=True), await request.memory.weak()
    names = ("archived", "erased", "promoted", "demoted", "waiting", "spared", "elsewhere", "actions")
    planned = {name: value for name in names if (value := getattr(plan, name))}
    kinds = {
        "forgettable": "faded",
        "recoverable": "faded, still to be saved",
        "protected": "faded, kept as it matters",
    }
    faded = {words: count for name, words in kinds.items() if (count := len(getattr(weak, name)))}
    return facts({**(planned or {"to do": "nothing"}), **faded})


async def _later(request: PageRequest) -> Child:
    """A link that stands in for a slow section until the user follows it."""
    total = (await request.memory.status())["memories"]["total"]
    if total <= _AT_ONCE or "all" in request.query:
        return None
    return el(
        "p", el("a", f"Look at all {total:,} memories", href=request.url(request.path, all=1)), " (it takes a while)"
    )


async def figures(request: PageRequest) -> View:
    """How the memory grows, how strong it is, and whether its confidence can be trusted."""
    latest = [*await request.memory.list(_LATEST)]
    days = Counter(memory.created_at.date().isoformat() for memory in latest)
    total = (await request.memory.status())["memories"]["total"]
    beyond = f"; the days are those of the latest {_LATEST:,}" if len(latest) == _LATEST else ""
    growth, so_far = list[tuple[str, int]](), total - len(latest)
    for day, count in sorted(days.items()):
        so_far += count
        growth.append((day, so_far))
    assessed = await request.memory.list(_LATEST, tags=[CONFIDENCE_ASSESSMENT])
    groups = calibrated(assessed, await request.memory.list(_LATEST, tags=[TASK_OUTCOME]))
    pairs = counted(sum(count for *_, count in groups), "assessment")
    says = f"{pairs} whose task ended. On the line, it came true as often as was said."
    needs = "It needs tasks that were assessed, and recorded later with the same words."
    return View.of(
        "Figures",
        el("p", f"{total:,} memories{beyond}; days are counted without assessments.", class_="says"),
        section("Growth", line("Memories by day", growth)) if len(growth) > 1 else None,
        section("Stored each day", bars("Memories stored each day", dict(sorted(days.items())[-60:]))),
        section("Strength and tiers", await _strength(request)),
        section(
            "Is the confidence right?",
            calibration("Said confidence and what came true", groups) if groups else None,
            el("p", says if groups else needs, class_="says"),
        ),
    )


async def _strength(request: PageRequest) -> Child:
    if later := await _later(request):
        return later
    stats = await request.memory.stats()
    pictures = bars("Memories by strength", stats["strength"]), bars("Memories by tier", stats["tier_counts"])
    return join(*pictures, folded("All figures", facts(stats)))


def calibrated(assessed: Iterable[Memory], outcomes: Iterable[Memory]) -> list[tuple[float, float, int]]:
    """Assessments in groups of a tenth: the mean of what was said, the share of successes, and how many; of each, what
    the next outcome of the same task came to."""
    ended: dict[str, list[tuple[datetime, bool]]] = {}
    for memory in outcomes:
        if (outcome := outcome_of(memory)) is not None and outcome.status in KNOWN:
            ended.setdefault(outcome.task, []).append((memory.created_at, outcome.status == TaskStatus.COMPLETED))
    groups: dict[int, list[tuple[float, bool]]] = {}
    for memory in assessed:
        assessment = assessment_of(memory)
        later = [end for end in ended.get(assessment.get("task", ""), ()) if end[0] >= memory.created_at]
        if later:
            groups.setdefault(min(int(assessment["confidence"] * 10), 9), []).append(
                (assessment["confidence"], min(later)[1])
            )
    means = ([*zip(*pairs, strict=True)] for _, pairs in sorted(groups.items()))
    return [
        (sum(estimates) / len(estimates), sum(successes) / len(successes), len(estimates))
        for estimates, successes in means
    ]
