"""How well searches answer questions whose answers are known: `python -m benchmarks.eval FILE`.

FILE is a LoCoMo file, or JSONL of memories and questions (see `questions`). Everything is stored in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.eval import questions
from benchmarks.eval.configurations import CONFIGURATIONS, USUAL, Configuration, chosen
from benchmarks.eval.injection import InjectionReport, InjectionTrial
from benchmarks.eval.questions import Conversation
from benchmarks.eval.trial import Arrangement, Row, Trial, closeness, named, spread
from kingly_memory.adapters.embed import wordllama
from kingly_memory.api.attention import TOKENS
from kingly_memory.cli.output import table
from kingly_memory.errors import ExtraMissing, InvalidInput, KinglyMemoryError
from kingly_memory.models import JsonObject
from kingly_memory.router.attention.candidates import room
from kingly_memory.settings import Settings
from kingly_memory.text.writing import counted

_HEADS = ("CONFIGURATION", "CONVERSATIONS", "RECALL@5", "RECALL@10", "MRR@10", "P50 MS", "P95 MS")


def main(arguments: Sequence[str] | None = None) -> int:
    """0 with figures on standard output, 2 with one sentence on standard error."""
    options = _parser().parse_args(arguments)
    try:
        report = _measured(options)
    except KinglyMemoryError as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps({"configurations": report.entries()}, ensure_ascii=False))
    else:
        print("\n".join(report.lines()))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.eval", description="Measure how well searches answer.")
    parser.add_argument("file", type=Path, help="LoCoMo file, or JSONL of memories and questions")
    names = ", ".join(one.name for one in CONFIGURATIONS)
    parser.add_argument("--config", action="append", metavar="NAME", help=f"of {names} (default: {', '.join(USUAL)})")
    parser.add_argument("--apart", action="store_true", help="only with each conversation in a project of its own")
    parser.add_argument("--pooled", action="store_true", help="only with all conversations in one project")
    parser.add_argument("--limit", type=int, metavar="N", help="ask only so many of the questions")
    parser.add_argument("--corrupt", action="store_true", help="with typing errors in every word of 6 letters or more")
    parser.add_argument("--wrapped", action="store_true", help="in the middle of pasted prompts, logs and files")
    parser.add_argument("--inject", action="store_true", help="ask for the notes beside a prompt instead of searching")
    parser.add_argument("--budget", type=int, metavar="N", help=f"with --inject: tokens of notes (default {TOKENS})")
    parser.add_argument("--hub-store", metavar="URL", help="an empty PostgreSQL that has the hub's memory")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    return parser


def _measured(options: argparse.Namespace) -> _Report | InjectionReport:
    """Raises InvalidInput, ExtraMissing, HubDidNotStart, NotDelivered or StoreError."""
    configurations = _configurations(options)
    settings = Settings.from_environment()
    found = questions.read(options.file)
    if found.problems:
        print(f"{len(found.problems)} parts of the file are left out, the first: {found.problems[0]}", file=sys.stderr)
    if options.limit is not None and options.limit < 1:
        raise InvalidInput("limit", f"{options.limit} is less than 1")
    conversations = spread(found.conversations, options.limit)
    arrangements = _arrangements(options, conversations)
    heading, facts = _heading(conversations, options), _facts(conversations, options)
    with tempfile.TemporaryDirectory(prefix="kingly-eval-", ignore_cleanup_errors=True) as folder:
        if not options.inject:
            changes = {"corrupt": options.corrupt, "wrap": options.wrapped}
            trial = Trial(Path(folder), settings, **changes, hub_store=options.hub_store)
            report = _Report(heading, trial.run(conversations, configurations, arrangements), facts)
            if trial.unassisted:
                warning = (
                    f"{counted(len(trial.unassisted), 'search', 'searches')} had no help of the model, the last since"
                )
                print(f"{warning} {trial.unassisted[-1]}", file=sys.stderr)
            return report
        budget = room("budget", TOKENS if options.budget is None else options.budget)
        blocks = InjectionTrial(Path(folder), settings, budget, corrupt=options.corrupt, wrap=options.wrapped)
        rows = blocks.run(conversations, configurations, arrangements)
        return InjectionReport(heading, rows, {"budget_tokens": budget, **facts})


def _configurations(options: argparse.Namespace) -> tuple[Configuration, ...]:
    if options.budget is not None and not options.inject:
        raise InvalidInput("budget", "is of notes; add --inject")
    configurations = chosen(options.config or (["local"] if options.inject else None))
    for configuration in configurations:
        if options.inject and (configuration.hub or not configuration.repairs):
            raise InvalidInput(
                "config", f"{configuration.name} cannot inject: notes come from a router without a remote"
            )
        if configuration.storing.get("embedder") and wordllama.folder() is None:
            raise ExtraMissing(configuration.name, "semantic")
    return configurations


def _heading(conversations: Sequence[Conversation], options: argparse.Namespace) -> str:
    asked = sum(len(one.questions) for one in conversations)
    memories = sum(len(one.memories) for one in conversations)
    spelling = ", with typing errors" if options.corrupt else ""
    spelling += ", wrapped in what was pasted" if options.wrapped else ""
    return (
        f"{counted(memories, 'memory')}, {counted(asked, 'question')}{spelling}; "
        f"{closeness(conversations):.0%} of a question's words stand in what answers it"
    )


def _facts(conversations: Sequence[Conversation], options: argparse.Namespace) -> JsonObject:
    return {
        "memories": sum(len(one.memories) for one in conversations),
        "corrupted": options.corrupt,
        "wrapped": options.wrapped,
        "shared_stems": round(closeness(conversations), 4),
    }


def _arrangements(options: argparse.Namespace, conversations: Sequence[Conversation]) -> tuple[Arrangement, ...]:
    """Both unless one is named; a single conversation is the same either way."""
    if options.apart != options.pooled:
        return (Arrangement.APART,) if options.apart else (Arrangement.POOLED,)
    return tuple(Arrangement) if len(conversations) > 1 else (Arrangement.POOLED,)


@dataclass(frozen=True, slots=True)
class _Report:
    """The figures, for programs and for people."""

    heading: str
    rows: Sequence[Row]
    facts: JsonObject

    def entries(self) -> list[JsonObject]:
        return [named(row, self.rows) | row.figures.to_json() | self.facts for row in self.rows]

    def lines(self) -> Iterator[str]:
        yield self.heading
        yield ""
        yield from table([_cells(row) for row in self.rows], _HEADS)
        if categories := list(self.rows[0].figures.recall_by_category):
            yield ""
            rows = [_category_cells(row) for row in self.rows]
            yield from table(rows, ("RECALL@10 BY CATEGORY", _HEADS[1], *map(str.upper, categories)))
        yield from filter(None, map(_remark, self.rows))


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
    remark = ", ".join(f"{counted(count, 'search', 'searches')} {what}" for count, what in causes if count)
    return f"{row.configuration}, {row.arrangement}: {remark}" if remark else ""


if __name__ == "__main__":
    sys.exit(main())
