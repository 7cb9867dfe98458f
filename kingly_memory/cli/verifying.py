"""`search --verify`: what was found, by what came of checking it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kingly_memory.cli.output import Output, ago, counted, one_line, shortened, width
from kingly_memory.cli.place import place_of, routing
from kingly_memory.cli.showing import left_out
from kingly_memory.errors import InvalidInput
from kingly_memory.retrieval.verification import Basis, Judge, VerifiedMemory, VerifiedResults

SOURCE_LIMIT_BYTES = 1_048_576

_HELD_AGAINST = {
    Basis.GROUND_TRUTH: "held against what was given",
    Basis.CROSS_VERIFY: "held against each other",
    Basis.NONE: "held against nothing",
}


def search(options: Namespace, out: Output, filters: dict[str, Any]) -> int:
    """`filters` are those of every search and of a mode, and how many to show."""
    place = place_of(options, out)
    sources = [_source(name) for name in options.source or ()]
    with routing(replace(place, remote=None) if options.local else place, out) as router:
        results = router.search_verified(
            " ".join(options.query),
            ground_truth=sources or None,
            include_semantic=not options.no_semantic,
            **filters,
        )
    out.show(results.to_json(), lines(results, datetime.now(UTC)))
    return 0


def lines(results: VerifiedResults, now: datetime) -> Iterator[str]:
    """Each memory under its status, with the reason for that."""
    said = results.metadata
    shown = ", ".join(f"{count} {status}" for status, count in said["counts"].items() if count)
    candidates = counted(said["total_candidates"], "candidate")
    yield f"{candidates} {_HELD_AGAINST[Basis(said['verification_method'])]}: {shown or 'none'}"
    for name, reason in said["failures"].items():
        yield f"  {name} did not answer: {reason}"
    if "mode" in said:
        yield f"  mode {said['mode']}: {said['mode_reason']}"
    if said.get("excluded"):
        yield f"  {left_out(said['excluded'])}"
    for one in results:
        yield ""
        yield from _judged(one, now)


def _judged(one: VerifiedMemory, now: datetime) -> Iterator[str]:
    memory, verdict = one.memory, one.verification
    text = f"{memory.title}: {memory.content}" if memory.title else memory.content
    yield shortened(f"{verdict.status.value:12}  {one_line(text[:1000])}", width())
    by = "" if verdict.judge is Judge.NONE else f"by {verdict.judge}: "
    yield shortened(f"{verdict.confidence:12.2f}  {by}{one_line(verdict.reason)}", width())
    if verdict.contradicting_source:
        yield shortened(f"{'against':>12}  {one_line(verdict.contradicting_source)}", width())
    yield f"{'':12}  {' · '.join([memory.type, ago(memory.created_at, now), memory.key or memory.id])}"


def _source(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            read = file.read(SOURCE_LIMIT_BYTES + 1)
    except OSError as error:
        raise InvalidInput("source", f"{name} cannot be read ({error.strerror})") from None
    if len(read) > SOURCE_LIMIT_BYTES:
        raise InvalidInput("source", f"{name} has more than {SOURCE_LIMIT_BYTES:,} bytes; give the part that matters")
    return read.decode(errors="replace")
