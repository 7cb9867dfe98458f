"""What the commands about the life of memories print: sweep, weak, archive, stats, reinforce."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from kingly_memory import validation
from kingly_memory.cli.commands import Options
from kingly_memory.cli.memories import restore, summary
from kingly_memory.cli.output import Answer, Output, Table, documents, facts, one_line, width
from kingly_memory.cli.place import answered, arguments, command, place_of, reading, routing
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject, Memory
from kingly_memory.text.writing import ago, counted, shortened

if TYPE_CHECKING:
    from kingly_memory.lifecycle.policies import Faded
    from kingly_memory.router.projects import Moved
    from kingly_memory.router.purging import Purged
    from kingly_memory.router.sweep.condition import ArchivePage
    from kingly_memory.router.sweep.steward import SweepReport

ACTIONS_SHOWN = 20
USERS_SHOWN = 5
_DOES = {"archive": "archive", "summarise": "archive", "expire": "erase", "promote": "up", "demote": "down"}

archive_restore = restore


def sweep(options: Options, out: Output) -> Answer:
    if options.undo:
        given = [name for name, value in (("policy", options.policies), ("dry_run", options.dry_run)) if value]
        if given:
            raise InvalidInput(given[0], "does not go with --undo, which takes back the last sweep as it was")
        with routing(place_of(options, out), out) as router:
            undone = router.undo_sweep()
        memories, threads = counted(undone.memories, "memory"), counted(undone.threads, "thread")
        many = f"{memories} and {threads}" if undone.threads else memories
        line = f"{many} as before the last sweep" if any(undone) else "there is nothing to take back"
        return Answer({"undone": sum(undone), "memories": undone.memories, "threads": undone.threads}, [line])
    report = answered(options, out)
    names = _named(options, out, [action["memory_id"] for action in report.actions[:ACTIONS_SHOWN]])
    return Answer(report.to_json(), sweep_lines(report, names, command(options, "sweep --undo")))


def purge(options: Options, out: Output) -> Answer:
    place = place_of(options, out)
    fields = arguments(options.command.verb, options, place)
    chosen = ("key_or_id", "tags", "context_id", "by_agent", "whole_project")
    if options.user is not None and not any(fields[name] for name in chosen):
        if options.everywhere:
            each = "what is kept for every project, and --user alone purges what is in each; leave it out"
            raise InvalidInput("everywhere", f"is {each}, or add --whole-project for that alone")
        if options.project is None:
            fields["user"] = options.user  # and nothing else is said: all that is theirs
        else:
            fields["whole_project"] = True
    with routing(place, out) as router:
        return _purged(options, out, lambda dry_run: router.purge(**{**fields, "dry_run": dry_run}))


def projects_remove(options: Options, out: Output) -> Answer:
    with routing(place_of(options, out), out) as router:
        remove = partial(router.projects.remove, options.name, force=options.force)
        return _purged(options, out, lambda dry_run: remove(dry_run=dry_run))


def _purged(options: Options, out: Output, purge: Callable[[bool], Purged]) -> Answer:
    """Say what `purge` would take away, ask, and have it done."""
    planned = purge(True)
    if options.dry_run:
        pinned = [f"{counted(planned.pinned, 'of them is', 'of them are')} pinned: --force"] * bool(planned.pinned)
        lines = [f"would purge {_what_goes(planned, options)}", *(f"  {one}" for one in planned.names)]
        return Answer(planned.to_json(), [*lines, *_kept_elsewhere(planned), *pinned])
    if not options.yes and not sys.stdin.isatty():
        raise InvalidInput(
            "yes", "say --yes to purge without being asked; nothing was purged, and --dry-run shows what it would be"
        )
    out.is_idle = not options.yes
    if not options.yes:
        sys.stderr.write(f"purge {_what_goes(planned, options)} for good? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            return Answer({**planned.to_json(), "count": 0, "ids": []}, ["nothing was purged"], 2)
    out.is_idle = False
    done = purge(False)
    lines = [f"purged {counted(len(done.ids), 'memory')}; nothing restores them", *_kept_elsewhere(done)]
    lines += [f"  {endpoint} is told of {count:,} as soon as it answers" for endpoint, count in done.remotes.items()]
    if done.documents:
        lines.append(f"  and {documents(done.documents)}")
    if done.log_lines:
        lines.append(f"  {counted(done.log_lines, 'record')} left the audit")
    if not done.is_complete:
        lines.append("  another process still reads the store: old pages leave its log when that one ends")
    for folder in done.left_in:
        lines.append(f"  it also stands in {folder}, which a backup has replaced; remove that folder to be rid of it")
    return Answer(done.to_json(), lines)


def projects_rename_lines(moved: Moved, options: Options) -> list[str]:
    left = options.old if options.command.name == "projects rename" else options.source
    lines = [f"{_held(moved.memories, moved.documents)} moved from {left} to {moved.into}"]
    if moved.merged:
        lines.append(f"  {moved.merged:,} of them had the key of one that was there; its history has both")
    return lines


projects_merge_lines = projects_rename_lines


def _what_goes(planned: Purged, options: Options) -> str:
    held = _held(len(planned.ids), planned.documents)
    if options.user is not None or not planned.users:
        return held
    many = len(planned.users) - USERS_SHOWN
    more = f" and {counted(many, 'more user', 'more users')}" if many > 0 else ""
    return f"{held}, those of {', '.join(planned.users[:USERS_SHOWN])}{more} among them"


def _held(memories: int, beside: int) -> str:
    held = counted(memories, "memory")
    return f"{held} and {documents(beside)}" if beside else held


def _kept_elsewhere(purged: Purged) -> list[str]:
    many = counted(purged.elsewhere, "of them was only a copy here", "of them were only copies here")
    return [f"  {many}; another home keeps what it has stored"] if purged.elsewhere else []


def sweep_lines(report: SweepReport, names: Mapping[str, Memory], undo: str) -> Iterator[str]:
    """What a sweep did or would do, the first memories with the reasons, and the command that takes it back."""

    def headline(action: JsonObject) -> str:
        """What becomes of several memories, who wanted it and why."""
        to = f" to {action['to']}" if "to" in action else ""
        return f"{_DOES[action['does']]}{to}, {action['policy']}: {one_line(action['reason'])}:"

    would = "would be " if report.dry_run else ""
    moved = f", {report.promoted:,} {would}moved up, {report.demoted:,} {would}moved down"
    ended = f"{counted(report.archived, 'memory')} {would}archived, {report.erased:,} {would}erased"
    yield f"{ended}{moved if report.promoted or report.demoted else ''}  ({', '.join(report.policies)})"
    if report.summarised:
        yield f"  {report.summarised:,} of them behind {counted(report.summaries, 'summary', 'summaries')}"
    yield from _remarks(report, would)
    for reason, count in report.reasons.items():
        yield f"  {one_line(reason)}: {count:,}"
    for what, several in groupby(report.actions[:ACTIONS_SHOWN], headline):
        yield from ["", what]
        for action in several:
            name, text = _labels(names.get(action["memory_id"]), action["memory_id"])
            figures = action["figures"]
            strength = f" · strength {_strength(figures['strength'])}" if "strength" in figures else ""
            idle = (
                f" · idle for {counted(round(figures['idle_days']), 'day', 'days')}" if "idle_days" in figures else ""
            )
            yield from [shortened(f"  {text}", width())] if text else []
            yield shortened(f"      {name}{strength}{idle}", width())
    total = report.archived + report.erased + report.promoted + report.demoted
    if report.actions and total > ACTIONS_SHOWN:
        yield f"and {total - min(ACTIONS_SHOWN, len(report.actions)):,} more"
    if report.can_be_undone:
        yield f"undo: {undo}"


def _remarks(report: SweepReport, would: str) -> Iterator[str]:
    """What stays although it might go, and what went that is not the project's."""
    was, were = would or "was ", would or "were "
    touched, touched_too = (
        "was touched meanwhile and is left as it is",
        "were touched meanwhile and are left as they are",
    )
    for count, singular, plural in (
        (report.waiting, "stays until the remote has acknowledged it", "stay until the remote has acknowledged them"),
        (report.spared, "stays as the last of its category", "stay, each the last of its category"),
        (report.skipped, touched, touched_too),
        (
            report.elsewhere,
            f"of another project had ended and {was}put away too",
            f"of other projects had ended and {were}put away too",
        ),
    ):
        if count:
            yield f"  {counted(count, 'memory')} {singular if count == 1 else plural}"
    if report.revisions:
        yield f"  {counted(report.revisions, 'earlier revision')} {would}let go"


def _strength(strength: float) -> str:
    """Rounded down, so that one just below a threshold does not look like the threshold."""
    return f"{math.floor(strength * 100) / 100:.2f}"


def _named(options: Options, out: Output, ids: Sequence[str]) -> Mapping[str, Memory]:
    """Those memories, also from the archive; looking at them is no use of them."""
    with reading(place_of(options, out), out) as reader:
        return reader.named(ids)


def _labels(memory: Memory | None, memory_id: str) -> tuple[str, str]:
    """What a person calls a memory, and what it says."""
    return (memory_id, "") if memory is None else (memory.key or memory_id, summary(memory, width()))


def weak(options: Options, out: Output) -> Answer:
    limit = validation.count("limit", options.limit, most=1_000)
    faded = answered(options, out)
    lists = {"forgettable": faded.forgettable, "weak": faded.recoverable, "protected": faded.protected}
    shown = [(state, one) for state, several in lists.items() for one in several[:limit]]
    names = _named(options, out, [memory.memory_id for _, memory in shown])

    def row(found: tuple[str, Faded]) -> Sequence[object]:
        state, memory = found
        return state, f"{memory.strength:.2f}", *_labels(names.get(memory.memory_id), memory.memory_id)

    lines = Table(("STATE", "STRENGTH", "MEMORY", "TEXT"), row, "no memory has faded")(shown, options)
    if hidden := sum(map(len, lists.values())) - len(shown):
        lines.append(f"{hidden:,} more; --limit shows them")
    if faded.forgettable:
        lines.append(f"archive the forgettable: {command(options, 'sweep --policy strength')}")
    if faded.forgettable or faded.recoverable:
        lines.append(f"hold one: {command(options, 'reinforce', 'KEY_OR_ID')}")
    return Answer(faded.to_json(), lines)


def archive_list_lines(page: ArchivePage, _: Options) -> list[str]:
    lines = list[str]()
    for entry in page.entries:
        memory, why = entry.memory, entry.why
        lines.append(shortened("  ".join(_labels(memory, memory.id)), width()))
        if why is None:
            lines.append("    it came with an import")
            continue
        fields, when = why.to_json(), ago(datetime.fromtimestamp(why.at, UTC))
        strength = fields["figures"].get("strength")
        at = "" if strength is None else f" ({_strength(strength)})"
        lines.append(shortened(f"    {when}, {fields['policy']}: {one_line(fields['reason'])}{at}", width()))
        if why.summary is not None:
            lines.append(f"    behind {why.summary}")
    if page.next_before is not None:
        lines.append(f"more: the same with --before {page.next_before}")
    return lines or ["the archive is empty"]


def stats_lines(stats: JsonObject, _: Options) -> list[str]:
    tiers = " · ".join(f"{count:,} {tier}" for tier, count in stats["tier_counts"].items())
    strengths = " · ".join(f"{count:,} {state}" for state, count in stats["strength"].items())
    ups, downs, searches = stats["promotions_last_hour"], stats["demotions_last_hour"], stats["searches"]
    rate = f"{stats['hit_rate']:.0%} of {searches:,} found something" if searches else "none counted yet"
    rows = {
        "tiers": f"{tiers} (how near at hand: what is used is fast, what rests long is glacial)",
        "strength": strengths,
        "archive": counted(stats["archived"], "memory"),
        "moves": f"{ups:,} up and {downs:,} down in the last hour",
        "searches": f"{rate} (a search of the command line counts if it asks a remote)",
        "surprise": f"{stats['avg_surprise_score']:.2f} on average: how much more useful memories were than predicted",
    }
    return facts(rows.items())
