"""`kingly-memory eval`: how well searches answer, on questions whose answers are known."""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from kingly_memory import intake
from kingly_memory.adapters.embed.wordllama import is_installed
from kingly_memory.adapters.files import jsonl, questions
from kingly_memory.adapters.files.questions import Conversation, QuestionFile
from kingly_memory.cli.configurations import Configuration, chosen
from kingly_memory.cli.injection_trial import InjectionReport, InjectionTrial
from kingly_memory.cli.output import Output, counted, table
from kingly_memory.cli.place import place_of, reading, warnings_on
from kingly_memory.cli.signals import ended_by_signals
from kingly_memory.cli.trial import Arrangement, Row, Trial, closeness, named, spread
from kingly_memory.errors import InvalidInput
from kingly_memory.intake import Imported
from kingly_memory.models import JsonObject
from kingly_memory.router.attending.injecting import TOKENS, room
from kingly_memory.settings import Place, Settings

QUESTIONS_LIMIT = 1_000_000
REDRAW_S = 0.1
NOTE_S = 10.0

_HEADS = ("CONFIGURATION", "CONVERSATIONS", "RECALL@5", "RECALL@10", "MRR@10", "P50 MS", "P95 MS")


def evaluate(options: Namespace, out: Output) -> int:
    """Everything is stored in a temporary folder that is gone afterwards, however this ends."""
    configurations = _configurations(options)
    budget = room("budget", TOKENS if options.budget is None else options.budget)
    _check_vectors(configurations)
    limit = None if options.limit is None else intake.count("limit", options.limit, most=QUESTIONS_LIMIT)
    settings = Settings.from_environment(home=Place.resolve(options.home).home)
    found = questions.read(
        Path(options.file),
        partial(_memories_of_project, options, out, settings),
        content_limit_bytes=settings.content_limit_bytes,
    )
    _note_problems(found, out)
    conversations = spread(found.conversations, limit)
    arrangements = _arrangements(options, conversations)
    with (
        ended_by_signals(),
        warnings_on(None),  # a remote that is too slow shows in the figures
        tempfile.TemporaryDirectory(prefix="kingly-eval-", ignore_cleanup_errors=True) as folder,
    ):
        progress = _Progress(out)
        try:
            how = {"corrupt": options.corrupt, "wrap": options.wrapped, "tell": progress.at}
            report: _Report | InjectionReport
            if options.inject:
                blocks = InjectionTrial(Path(folder), settings, budget, **how)
                told = blocks.run(conversations, configurations, arrangements)
                report = InjectionReport(_heading(conversations, options), told, _facts(conversations, options, budget))
            else:
                rows = Trial(Path(folder), settings, **how).run(conversations, configurations, arrangements)
                report = _Report(_heading(conversations, options), rows, _facts(conversations, options))
        finally:
            progress.over()
    out.show({"configurations": report.entries()}, report.lines())
    return 0


def _configurations(options: Namespace) -> tuple[Configuration, ...]:
    """Raises InvalidInput for one that is unknown, or that no block of notes comes from."""
    if not options.inject:
        if options.budget is not None:
            raise InvalidInput("budget", "is of notes; add --inject")
        return chosen(options.config)
    configurations = chosen(options.config or ["local"])
    for one in configurations:
        if one.hub or not one.repairs:
            raise InvalidInput("config", f"{one.name} is no way of injecting, which asks this machine's router alone")
    return configurations


def _heading(conversations: Sequence[Conversation], options: Namespace) -> str:
    asked = sum(len(one.questions) for one in conversations)
    memories = sum(len(one.memories) for one in conversations)
    spelling = ", with typing errors" if options.corrupt else ""
    spelling += ", wrapped in what was pasted" if options.wrapped else ""
    return (
        f"{counted(memories, 'memory')}, {counted(asked, 'question')}{spelling}; "
        f"{closeness(conversations):.0%} of a question's words stand in what answers it"
    )


def _facts(conversations: Sequence[Conversation], options: Namespace, budget: int | None = None) -> JsonObject:
    return {
        **({} if budget is None else {"budget_tokens": budget}),
        "memories": sum(len(one.memories) for one in conversations),
        "corrupted": options.corrupt,
        "wrapped": options.wrapped,
        "shared_stems": round(closeness(conversations), 4),
    }


def _check_vectors(configurations: Sequence[Configuration]) -> None:
    """Raises InvalidInput for a way of searching whose vectors nobody can make here."""
    named = [one.name for one in configurations if one.storing.get("embedder")]
    if named and not is_installed():
        raise InvalidInput("config", f"{named[0]} needs vectors; run `pip install 'kingly-memory[semantic]'` for them")


class _Report:
    """The figures, for programs and for people."""

    def __init__(self, heading: str, rows: Sequence[Row], facts: JsonObject) -> None:
        self._heading = heading
        self._rows = rows
        self._facts = facts

    def entries(self) -> list[JsonObject]:
        return [named(row, self._rows) | row.figures.to_json() | self._facts for row in self._rows]

    def lines(self) -> Iterator[str]:
        yield self._heading
        yield ""
        yield from table([_cells(row) for row in self._rows], _HEADS)
        if categories := list(self._rows[0].figures.recall_by_category):
            yield ""
            rows = [_category_cells(row) for row in self._rows]
            yield from table(rows, ("RECALL@10 BY CATEGORY", _HEADS[1], *map(str.upper, categories)))
        yield from filter(None, map(_remark, self._rows))


def _cells(row: Row) -> tuple[str, ...]:
    shares = (row.figures.recall_5, row.figures.recall_10, row.figures.mrr_10)
    times = (row.figures.p50_ms, row.figures.p95_ms)
    return (
        row.configuration,
        row.arrangement.value,
        *(f"{share:.3f}" for share in shares),
        *(f"{time_ms:.1f}" for time_ms in times),
    )


def _category_cells(row: Row) -> tuple[str, ...]:
    shares = row.figures.recall_by_category.values()
    return (row.configuration, row.arrangement.value, *(f"{share:.3f}" for share in shares))


def _remark(row: Row) -> str:
    """What makes the figures of a row worse than they could be."""
    causes = (
        (row.figures.alone, "answered without the hub, which took too long"),
        (row.figures.cut, "ended early by the deadline"),
    )
    told = ", ".join(f"{counted(count, 'search', 'searches')} {what}" for count, what in causes if count)
    return f"{row.configuration}, {row.arrangement}: {told}" if told else ""


def _arrangements(options: Namespace, conversations: Sequence[Conversation]) -> tuple[Arrangement, ...]:
    """Both unless one is named; a single conversation is the same either way."""
    if options.apart != options.pooled:
        return (Arrangement.APART,) if options.apart else (Arrangement.POOLED,)
    return tuple(Arrangement) if len(conversations) > 1 else (Arrangement.POOLED,)


def _memories_of_project(options: Namespace, out: Output, settings: Settings) -> list[Imported]:
    """Copies of the project's memories, to be asked elsewhere: the home itself must not notice."""
    limit = settings.content_limit_bytes
    with reading(place_of(options, out), out) as reader:
        return [
            jsonl.imported({**memory.to_json(), "standing": standing.value}, content_limit_bytes=limit)
            for memory, standing in reader.export()
        ]


def _note_problems(found: QuestionFile, out: Output) -> None:
    if found.problems:
        out.note(
            f"{counted(len(found.problems), 'part')} of the file could not be used, the first: {found.problems[0]}"
        )


class _Progress:
    """One line on a terminal, redrawn; elsewhere a note now and then of what takes long."""

    def __init__(self, out: Output, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._last = clock() - (REDRAW_S if out.watched else 0.0)

    def at(self, line: str) -> None:
        now = self._clock()
        if now - self._last < (REDRAW_S if self._out.watched else NOTE_S):
            return
        self._last = now
        if self._out.watched:
            self._out.redraw(line)
        else:
            self._out.note(line)

    def over(self) -> None:
        if self._out.watched:
            self._out.redraw("")
