"""What the commands about the life of memories print: sweep, weak, archive, stats, reinforce."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING

from kingly_memory import intake
from kingly_memory.cli.memories import LAST_POSITION, restore_lines, strength_line, summary
from kingly_memory.cli.output import Output, ago, counted, facts, one_line, shortened, table, width
from kingly_memory.cli.place import command, place_of, reading, routing
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject, Memory
from kingly_memory.settings import Place

if TYPE_CHECKING:
    from kingly_memory.lifecycle.policies import Faded, WeakMemories
    from kingly_memory.router.archive import ArchiveEntry
    from kingly_memory.router.sweep import SweepReport

ACTIONS_SHOWN = 20
TWINS_SHOWN = 5
ARCHIVE_PAGE = 500
MOST_PAGES = 200
"""Of the archive, read to count reasons: 100,000 memories."""

_DOES = {
    "archive": "archive",
    "summarise": "archive",
    "expire": "erase",
    "promote": "up",
    "demote": "down",
    "merge": "merge",
}

_RESTING = {False: "archived", True: "was archived already"}


def sweep(options: Namespace, out: Output) -> int:
    if options.undo:
        return _undo(options, out)
    place = place_of(options, out)
    with routing(place, out, reads=options.dry_run) as router:
        report = router.sweep(options.policies, options.dry_run)
    told = report.to_json()
    names = _named(place, out, _concerned([*told["actions"][:ACTIONS_SHOWN], *told["twins"][:TWINS_SHOWN]]))
    out.show(told, sweep_lines(report, names, command(options, "sweep --undo")))
    return 0


def weak(options: Namespace, out: Output) -> int:
    limit = intake.count("limit", options.limit, most=1_000)
    place = place_of(options, out)
    with routing(place, out, reads=True) as router:
        found = router.weak(options.agent)
    lists: Mapping[str, Sequence[Faded]] = {
        "forgettable": found.forgettable,
        "weak": found.recoverable,
        "protected": found.protected,
    }
    shown = {state: several[:limit] for state, several in lists.items()}
    names = _named(place, out, [one.memory_id for several in shown.values() for one in several])
    rows = [
        (state, f"{one.strength:.2f}", *_labels(names.get(one.memory_id), one.memory_id))
        for state, several in shown.items()
        for one in several
    ]
    lines = table(rows, ("STATE", "STRENGTH", "MEMORY", "TEXT")) if rows else ["no memory has faded"]
    hidden = sum(map(len, lists.values())) - len(rows)
    more = [f"{hidden:,} more; --limit shows them"] if hidden else []
    out.show(found.to_json(), [*lines, *more, *_advice(options, found)])
    return 0


def archived(options: Namespace, out: Output) -> int:
    limit = intake.count("limit", options.limit, most=1_000)
    before = None if options.before is None else intake.count("before", options.before, least=0, most=LAST_POSITION)
    with routing(place_of(options, out), out, reads=True) as router:
        page = router.archived(limit, before)
    now = datetime.now(UTC)
    lines = [line for entry in page.entries for line in _archived_lines(entry, now)] or ["the archive is empty"]
    if page.next_before is not None:
        lines.append(f"more: the same with --before {page.next_before}")
    out.show(page.to_json(), lines)
    return 0


def archive(options: Namespace, out: Output) -> int:
    with routing(place_of(options, out), out) as router:
        resting = router.archive_all(options.keys_or_ids, options.reason)
    gone = [one.memory for one in resting]
    lines = (
        shortened(f"{_RESTING[one.was_there]}: {'  '.join(_labels(one.memory, one.memory.id))}", width())
        for one in resting
    )
    which = gone[0].key or gone[0].id if len(gone) == 1 else "KEY_OR_ID"
    undo = command(options, "archive restore", which)
    out.show([memory.to_json() for memory in gone], [*lines, f"undo: {undo}"])
    return 0


def reinforce_lines(held: JsonObject, options: Namespace) -> list[str]:
    return [f"reinforced {options.key_or_id}: {strength_line(held)}"]


def sweep_lines(report: SweepReport, names: Mapping[str, Memory], undo: str) -> Iterator[str]:
    """What a sweep did or would do, with before → after, the first memories with the reasons, and the command that
    takes it back."""
    would = "would be " if report.dry_run else ""
    yield f"{counted(report.archived, 'memory')} {would}archived, {report.erased:,} {would}erased" + (
        f", {report.promoted:,} {would}moved up, {report.demoted:,} {would}moved down"
        if report.promoted or report.demoted
        else ""
    )
    if report.merged:
        yield f"  {report.merged:,} {would}merged into others that say the same"
    if report.summarised:
        yield f"  {report.summarised:,} of them behind {counted(report.summaries, 'summary', 'summaries')}"
    before, after = report.before.to_json(), report.after.to_json()
    moves = [("live", before["live"], after["live"]), ("archive", before["archived"], after["archived"])]
    tiers = ((tier, count, after["tiers"].get(tier, 0)) for tier, count in before["tiers"].items())
    moves += [(tier, old, new) for tier, old, new in tiers if old != new]
    yield f"  {'; '.join(f'{name} {old:,} → {new:,}' for name, old, new in moves)}  ({', '.join(report.policies)})"
    yield from _remarks(report, would)
    for reason, count in report.reasons.items():
        yield f"  {one_line(reason)}: {count:,}"
    yield from _twin_lines(report, names)
    actions = report.actions[:ACTIONS_SHOWN]
    if actions:
        for what, several in groupby(actions, _headline):
            yield from ["", what]
            for action in several:
                yield from _action_lines(action, names)
        total = report.archived + report.merged + report.erased + report.promoted + report.demoted
        if total > len(actions):
            yield f"and {total - len(actions):,} more"
    if report.can_be_undone:
        yield f"undo: {undo}"


def _remarks(report: SweepReport, would: str) -> Iterator[str]:
    """What stays although it might go, and what went that is not the project's."""
    several = (
        (report.waiting, "stays until the remote has acknowledged it", "stay until the remote has acknowledged them"),
        (report.spared, "stays as the last of its category", "stay, each the last of its category"),
        (
            report.skipped,
            "was touched meanwhile and is left as it is",
            "were touched meanwhile and are left as they are",
        ),
        (
            report.elsewhere,
            f"of another project had ended and {would or 'was '}put away too",
            f"of other projects had ended and {would or 'were '}put away too",
        ),
    )
    for count, one, many in several:
        if count:
            yield f"  {counted(count, 'memory')} {one if count == 1 else many}"


def _undo(options: Namespace, out: Output) -> int:
    given = [name for name, value in (("policy", options.policies), ("dry_run", options.dry_run)) if value]
    if given:
        raise InvalidInput(given[0], "does not go with --undo, which takes back the last sweep as it was")
    with routing(place_of(options, out), out) as router:
        undone = router.undo_sweep()
    memories, threads = counted(undone.memories, "memory"), counted(undone.threads, "thread")
    many = f"{memories} and {threads}" if undone.threads else memories
    line = f"{many} as before the last sweep" if any(undone) else "there is nothing to take back"
    out.show({"undone": sum(undone), "memories": undone.memories, "threads": undone.threads}, [line])
    return 0


def _headline(action: JsonObject) -> str:
    """What becomes of several memories and why."""
    does = _DOES[action["does"]]
    what = f"{does} to {action['to']}" if "to" in action else does
    return f"{what}, {_wanted(action)}:"


def _action_lines(action: JsonObject, names: Mapping[str, Memory]) -> Iterator[str]:
    """One of them: what it says, and below it what it is called, with the figures that counted."""
    name, text = _labels(names.get(action["memory_id"]), action["memory_id"])
    figures = action["figures"]
    told = [name]
    if "strength" in figures:
        told.append(f"strength {_strength(figures['strength'])}")
    if "idle_days" in figures:
        told.append(f"idle for {counted(round(figures['idle_days']), 'day', 'days')}")
    if "into" in action:
        told.append(f"into {_labels(names.get(action['into']), action['into'])[0]}")
    if text:
        yield shortened(f"  {text}", width())
    yield shortened(f"      {' · '.join(told)}", width())


def _twin_lines(report: SweepReport, names: Mapping[str, Memory]) -> Iterator[str]:
    """What would have been merged but for its key."""
    if report.kept_for_keys:
        yield f"  {report.kept_for_keys:,} kept apart by keys, though others say the same:"
    for pair in report.twins[:TWINS_SHOWN]:
        one, other = (_labels(names.get(each), each)[0] for each in pair)
        yield shortened(f"    {one} and {other}", width())
    if report.kept_for_keys > TWINS_SHOWN:
        yield f"    and {report.kept_for_keys - TWINS_SHOWN:,} more"


def _why(told: JsonObject) -> str:
    """Who wanted it and why, with the strength where it counted."""
    strength = told["figures"].get("strength")
    return _wanted(told) + ("" if strength is None else f" ({_strength(strength)})")


def _wanted(told: JsonObject) -> str:
    return f"{told['policy']}: {one_line(told['reason'])}"


def _strength(strength: float) -> str:
    """Rounded down, so that one just below a threshold does not look like the threshold."""
    return f"{math.floor(strength * 100) / 100:.2f}"


def _concerned(actions: Iterable[JsonObject]) -> list[str]:
    return [action[end] for action in actions for end in ("memory_id", "into", "like") if end in action]


def _named(place: Place, out: Output, ids: Iterable[str]) -> dict[str, Memory]:
    """The memories of those ids that are there, archived ones too. Looking at them is no use of them."""
    with reading(place, out) as reader:
        return reader.named(ids)


def _labels(memory: Memory | None, memory_id: str) -> tuple[str, str]:
    """What a person calls a memory, and what it says."""
    return (memory_id, "") if memory is None else (memory.key or memory_id, summary(memory, width()))


def _advice(options: Namespace, found: WeakMemories) -> Iterator[str]:
    if found.forgettable:
        yield f"archive the forgettable: {command(options, 'sweep --policy strength')}"
    if found.forgettable or found.recoverable:
        yield f"hold one: {command(options, 'reinforce', 'KEY_OR_ID')}"


def _archived_lines(entry: ArchiveEntry, now: datetime) -> Iterator[str]:
    memory, why = entry.memory, entry.why
    yield shortened("  ".join(_labels(memory, memory.id)), width())
    if why is None:
        yield "    it came with an import"
    else:
        when = ago(datetime.fromtimestamp(why.at, UTC), now)
        yield shortened(f"    {when}, {_why(why.to_json())}", width())
        if why.summary is not None:
            yield f"    behind {why.summary}"


def stats_lines(found: JsonObject, _: Namespace) -> list[str]:
    tiers = " · ".join(f"{count:,} {tier}" for tier, count in found["tier_counts"].items())
    strengths = " · ".join(f"{count:,} {state}" for state, count in found["strength"].items())
    return facts(
        [
            ("tiers", tiers),
            ("strength", strengths),
            ("archive", counted(found["archived"], "memory")),
            (
                "moves",
                f"{found['promotions_last_hour']:,} up and {found['demotions_last_hour']:,} down in the last hour",
            ),
            ("searches", _searches(found)),
            ("surprise", f"{found['avg_surprise_score']:.2f} on average"),
        ]
    )


def _searches(found: JsonObject) -> str:
    searches = found["searches"]
    return f"{found['hit_rate']:.0%} of {searches:,} found something" if searches else "none counted yet"


def archive_restore_lines(memory: Memory, options: Namespace) -> list[str]:
    return restore_lines(memory, options)
