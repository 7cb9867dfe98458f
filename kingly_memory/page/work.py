"""The views of work: threads and what is at hand in them, tasks, delivery, upkeep, and figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from kingly_memory.cognition.outcomes import KNOWN, TASK_OUTCOME, TaskStatus, outcome_of
from kingly_memory.errors import InvalidInput
from kingly_memory.models import CONFIDENCE_ASSESSMENT, LinkState, Memory, space_of
from kingly_memory.page.actions import form
from kingly_memory.page.asked import (
    Asked,
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
from kingly_memory.page.html import Child, Html, el, join
from kingly_memory.page.memories import link_state, link_to_thread, rating
from kingly_memory.page.plots import bars, calibration, line
from kingly_memory.text.writing import counted

_LATEST = 1_000
"""Memories that plots of time are made of."""
_SHOWN = 50
"""Of what is listed beside other things."""
_AT_ONCE = 5_000
"""Memories that are all looked at unasked: half a second of them."""


async def threads(asked: Asked) -> View:
    """What was said together, and what is in focus."""
    listed, focus = await asked.memory.threads.list(100), await asked.memory.attention.focused()
    in_focus = [
        (el("bdi", one.topic), f"{one.weight:.1f}", form(asked, "attention.unfocus", fixed={"topic": one.topic}))
        for one in focus
    ]
    rows = [
        (
            link_to_thread(asked, one.id, one.title or one.id),
            "pinned" if one.pinned else "",
            counted(one.message_count, "memory", "memories"),
            when(one.last_active, asked.now),
            el("bdi", ", ".join(one.topics[:5])),
        )
        for one in listed
    ]
    says = "A thread is what was said in one conversation or task. What is in focus or pinned comes first in prompts."
    return View.of(
        "Threads",
        table("Active threads, the latest first", ("thread", "pin", "holds", "last active", "about"), rows),
        section("In focus", table("Topics in focus", ("topic", "weight", ""), in_focus)),
        folded("Focus on a topic", form(asked, "attention.focus", ["topic", "weight"])),
        folded("Pin a new text", form(asked, "attention.pin", ["content", "title", "topics", "weight_boost"])),
        says=says,
    )


async def thread(asked: Asked) -> View:
    """One thread with its memories, and on request what is at hand there."""
    name = asked.query.get("t", "")
    try:
        one = await asked.memory.threads.get(name, limit=100)
    except InvalidInput as error:
        return View("No such thread", join(el("h1", "No such thread"), el("p", error.problem)), 404)
    this, title = {"thread_id": one.id}, one.title or one.id
    names = ("status", "weight", "relevance", "pinned", "topics", "drift_history", "merged", "ratings")
    look = el("a", "Show what is at hand", href=asked.url("/thread", t=name, hand=1))
    hand: Child = el("p", look, " (that counts as a use of this context)")
    if "hand" in asked.query:
        context = await asked.memory.working_context(one.id)
        items = [el("li", link(asked, each.id, heading_of(each))) for each in (*context.items, *context.remote)]
        told = (
            f"{counted(len(items), 'memory', 'memories')} and {context.whispers} whispers, {context.tokens:,} tokens."
        )
        hand = join(el("p", told), el("ol", items) if items else None)
    return View(
        title,
        join(
            el("h1", el("bdi", title)),
            group(
                "actions",
                rating(asked, one.id),
                form(asked, "attention.unpin", fixed=this, button="Take the pin off") if one.pinned else None,
                form(asked, "threads.split", fixed=this, button="Split where the topic changes"),
            ),
            folded("Rename it", form(asked, "threads.rename", ["title"], given={"title": title}, fixed=this)),
            folded("Merge another into it", form(asked, "threads.merge", ["thread_b"], fixed={"thread_a": one.id})),
            section("What was said", [card(asked, each.memory, is_archived=each.archived) for each in one.messages]),
            section(
                "At hand", hand, says="The last of it and of what it drew on, as an agent at work there is given it."
            ),
            section("Its figures", facts({name: getattr(one, name) for name in names})),
        ),
    )


# --- tasks ------------------------------------------------------------------------------------------------------------


async def tasks(asked: Asked) -> View:
    """What came of tasks, and how sure to be of the next one."""
    outcomes, assessed = await _tagged(asked, TASK_OUTCOME, _SHOWN), await _tagged(asked, CONFIDENCE_ASSESSMENT, _SHOWN)
    ended = [
        (link(asked, one.id, said.task), said.status, el("bdi", said.approach), when(one.updated_at, asked.now))
        for one in outcomes
        if (said := outcome_of(one))
    ]
    rows: list[Sequence[Child]] = [
        (
            link(asked, one.id, told["task"]),
            [meter(told["confidence"], "confidence"), f" {told['confidence']:.2f}"],
            when(one.updated_at, asked.now),
            folded("why", facts({name: said for name, said in told.items() if name not in ("task", "confidence")})),
        )
        for one in assessed
        if (told := assessment_of(one))
    ]
    return View.of(
        "Tasks",
        section("How likely is it to succeed?", form(asked, "assess_confidence", ["task"], button="Assess")),
        section("What came of tasks", table("The latest tasks", ("task", "came to", "by", "when"), ended)),
        folded("Record a task", form(asked, "record_task_outcome", ["task", "status", "approach", "reason", "notes"])),
        section("Assessments", table("The latest assessments", ("task", "confidence", "when", "evidence"), rows)),
    )


async def _tagged(asked: Asked, tag: str, limit: int) -> list[Memory]:
    return [*await asked.memory.list(limit, tags=[tag])]


# --- delivery ---------------------------------------------------------------------------------------------------------


async def delivery(asked: Asked) -> View:
    """Where memories go besides this machine, and what waits for that."""
    status, remotes = await asked.memory.status(), await asked.memory.remotes()
    is_alone = status["link"]["state"] == LinkState.DISABLED
    outbox = [] if is_alone else await asked.memory.outbox()
    known = [
        (
            el("bdi", one.label or one.endpoint),
            "in use" if one.in_use else "not in use here",
            *(f"{count:,}" for count in (one.delivered, one.waiting, one.dead)),
        )
        for one in remotes
    ]
    waiting = [
        (
            link(asked, one.id, one.key or one.id),
            one.state.value,
            f"{one.attempts}",
            "" if one.due_s is None else f"in {max(one.due_s, 0):.0f} s",
            el("bdi", one.last_error),
            form(asked, "outbox_retry", fixed={"ids": one.id}, button="Send again") if one.state == "dead" else None,
            form(asked, "outbox_drop", fixed={"ids": one.id}, button="Stop sending"),
        )
        for one in outbox[: _SHOWN * 2]
    ]
    heads = ("memory", "state", "tries", "next", "last error", "", "")
    return View.of(
        "Delivery",
        el(
            "div",
            _no_remote() if is_alone else facts({"link": link_state(status), **status["link"]}),
            None if is_alone else form(asked, "sync", button="Try the remote now"),
            None
            if is_alone and not known
            else section(
                "Remotes", table("Known remotes", ("remote", "use", "delivered", "waiting", "refused"), known)
            ),
            None if is_alone else section("Outbox", table("What no remote has acknowledged yet", heads, waiting)),
            id="live",
        ),
        says="Memories of significance 0.3 and below never leave this machine.",
    )


def _no_remote() -> Html:
    """What to do to have one."""
    how = el("code", "kingly-memory remotes add NAME URL")
    return el(
        "p", "There is no remote: all memories are on this machine alone. ", how, " names one; begin the page anew."
    )


# --- upkeep and figures -----------------------------------------------------------------------------------------------


async def upkeep(asked: Asked) -> View:
    """What the next sweep would do, what lies in the archive, and the projects of the home."""
    memory = asked.memory
    projects: list[Sequence[Child]] = [
        (
            [el("p", _space(asked, one.name, user)) for user in (None, *one.users)],
            *(f"{count:,}" for count in (one.memories, one.archived, one.documents)),
            when(one.changed_at, asked.now),
        )
        for one in await memory.projects.list()
    ]
    put_away = []
    for one in (await memory.archived(_SHOWN)).entries:
        why = f": {one.why.reason}" if one.why else ""
        at = when(datetime.fromtimestamp(one.why.at, UTC), asked.now) if one.why else "with an import"
        back = form(asked, "restore", fixed={"key_or_id": one.memory.id}, button="Restore")
        put_away.append(card(asked, one.memory, el("p", "Put away ", at, why), back, is_archived=True))
    heads = ("project", "memories", "archived", "documents", "changed")
    many = ("tags", "context_id", "by_agent", "force")
    return View.of(
        "Upkeep",
        section(
            "The next sweep",
            await _planned(asked),
            says="A sweep puts what has ended or faded into the archive. It is shown before it is done.",
        ),
        group(
            "sweeps",
            form(asked, "sweep", button="Sweep…"),
            form(asked, "undo_sweep"),
            form(asked, "compact", button="Compact the threads…"),
        ),
        section("Archive", put_away or el("p", "Nothing was put away.")),
        section("Projects of this home", table("Projects and users", heads, projects), id="projects"),
        folded("Rename a project", form(asked, "projects.rename", ["old", "new"])),
        folded("Merge a project into another", form(asked, "projects.merge", ["source", "into"])),
        folded("Purge many memories", form(asked, "purge", many, button="Show what would go…")),
    )


def _space(asked: Asked, project: str | None, user: str | None) -> Html:
    """A link to what it holds."""
    there = {"in": space_in_address(space_of(project, user))}
    return el("a", el("bdi", space_words(project, user)), href=asked.url("/", **there))


async def _planned(asked: Asked) -> Child:
    if later := await _later(asked):
        return later
    plan, weak = await asked.memory.sweep(dry_run=True), await asked.memory.weak()
    names = ("archived", "erased", "promoted", "demoted", "waiting", "spared", "elsewhere", "actions")
    told = {name: value for name in names if (value := getattr(plan, name))}
    kinds = {
        "forgettable": "faded",
        "recoverable": "faded, still to be saved",
        "protected": "faded, kept as it matters",
    }
    faded = {words: count for name, words in kinds.items() if (count := len(getattr(weak, name)))}
    return facts({**(told or {"to do": "nothing"}), **faded})


async def _later(asked: Asked) -> Child:
    """What is shown in the place of what takes long, until it is asked for."""
    total = (await asked.memory.status())["memories"]["total"]
    if total <= _AT_ONCE or "all" in asked.query:
        return None
    return el("p", el("a", f"Look at all {total:,} memories", href=asked.url(asked.path, all=1)), " (it takes a while)")


async def figures(asked: Asked) -> View:
    """How the memory grows, how strong it is, and whether its confidence can be trusted."""
    latest = [*await asked.memory.list(_LATEST)]
    days = Counter(one.created_at.date().isoformat() for one in latest)
    total = (await asked.memory.status())["memories"]["total"]
    beyond = f"; the days are those of the latest {_LATEST:,}" if len(latest) == _LATEST else ""
    growth, so_far = list[tuple[str, int]](), total - len(latest)
    for day, count in sorted(days.items()):
        so_far += count
        growth.append((day, so_far))
    groups = calibrated(
        await _tagged(asked, CONFIDENCE_ASSESSMENT, _LATEST), await _tagged(asked, TASK_OUTCOME, _LATEST)
    )
    pairs = counted(sum(count for *_, count in groups), "assessment")
    says = f"{pairs} whose task ended. On the line, it came true as often as was said."
    needs = "It needs tasks that were assessed, and recorded later with the same words."
    return View.of(
        "Figures",
        el("p", f"{total:,} memories{beyond}; days are counted without assessments.", class_="says"),
        section("Growth", line("Memories by day", growth)) if len(growth) > 1 else None,
        section("Stored each day", bars("Memories stored each day", dict(sorted(days.items())[-60:]))),
        section("Strength and tiers", await _strength(asked)),
        section(
            "Is the confidence right?",
            calibration("Said confidence and what came true", groups) if groups else None,
            el("p", says if groups else needs, class_="says"),
        ),
    )


async def _strength(asked: Asked) -> Child:
    if later := await _later(asked):
        return later
    stats = await asked.memory.stats()
    pictures = bars("Memories by strength", stats["strength"]), bars("Memories by tier", stats["tier_counts"])
    return join(*pictures, folded("All figures", facts(stats)))


def calibrated(assessed: Iterable[Memory], outcomes: Iterable[Memory]) -> list[tuple[float, float, int]]:
    """Assessments in groups of a tenth: the mean of what was said, the share of successes, and how many; of each, what
    the next outcome of the same task came to."""
    ended: dict[str, list[tuple[datetime, bool]]] = {}
    for one in outcomes:
        if (said := outcome_of(one)) is not None and said.status in KNOWN:
            ended.setdefault(said.task, []).append((one.created_at, said.status == TaskStatus.COMPLETED))
    groups: dict[int, list[tuple[float, bool]]] = {}
    for one in assessed:
        told = assessment_of(one)
        later = [end for end in ended.get(told.get("task", ""), ()) if end[0] >= one.created_at]
        if later:
            groups.setdefault(min(int(told["confidence"] * 10), 9), []).append((told["confidence"], min(later)[1]))
    means = ([*zip(*several, strict=True)] for _, several in sorted(groups.items()))
    return [(sum(said) / len(said), sum(true) / len(true), len(said)) for said, true in means]
