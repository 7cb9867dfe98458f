"""`search --verify`: what was found, by what came of checking it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kingly_memory.cli.output import Output, ago, counted, one_line, shortened, width, wrapped
from kingly_memory.cli.place import routing
from kingly_memory.cli.showing import left_out, notes
from kingly_memory.errors import InvalidInput
from kingly_memory.models import RetrievalMode
from kingly_memory.retrieval.verification import Basis, Judge, VerifiedMemory, VerifiedResults
from kingly_memory.settings import Place

SOURCE_LIMIT_BYTES = 1_048_576

_INDENT = " " * 14

_HELD_AGAINST = {
    Basis.GROUND_TRUTH: "held against what was given",
    Basis.CROSS_VERIFY: "held against each other",
    Basis.NONE: "held against nothing",
}


def search(options: Namespace, place: Place, text: str, out: Output, filters: dict[str, Any]) -> int:
    """`filters` are those of every search and of a mode, and how many to show."""
    sources = [_source(name) for name in options.source or ()]
    with routing(place.alone() if options.local else place, out, by_meaning=True, reads=True) as router:
        results = router.search_verified(
            text,
            ground_truth=sources or None,
            include_semantic=not options.no_semantic,
            **filters,
        )
    out.show(results.to_json(), lines(results, datetime.now(UTC)))
    return 0


def lines(results: VerifiedResults, now: datetime) -> Iterator[str]:
    """Each memory under its status, with the reason for that."""
    said = results.metadata
    yield _summary(said)
    yield from notes(said["failures"], said["asked"], said["repaired"])
    if said.get("mode") not in (None, RetrievalMode.SIMILARITY):
        yield f"  mode {said['mode']}: {said['mode_reason']}"
    if said.get("excluded"):
        yield f"  {left_out(said['excluded'])}"
    for one in results:
        yield ""
        yield from _judged(one, now, len(said["folded"].get(one.memory.id, ())))


def _summary(said: Mapping[str, Any]) -> str:
    basis, count = Basis(said["verification_method"]), said["total_candidates"]
    if not count:
        return "nothing was found that could be checked"
    how = "with no other to hold it against" if basis is Basis.CROSS_VERIFY and count == 1 else _HELD_AGAINST[basis]
    shown = ", ".join(f"{several} {status}" for status, several in said["counts"].items() if several)
    return f"{counted(count, 'candidate')} {how}: {shown}"


def _judged(one: VerifiedMemory, now: datetime, repeats: int) -> Iterator[str]:
    memory, verdict = one.memory, one.verification
    text = f"{memory.title}: {memory.content}" if memory.title else memory.content
    yield shortened(f"{verdict.status.value:12}  {one_line(text[:1000])}", width())
    by = "" if verdict.judge is Judge.NONE else f"by {verdict.judge}: "
    yield from wrapped(by + verdict.reason, _INDENT, f"{verdict.confidence:12.2f}  ")
    if verdict.contradicting_source:
        yield shortened(f"{'against':>12}  {one_line(verdict.contradicting_source)}", width())
    about = [f"relevance {one.retrieval_score:.2f}", memory.type, ago(memory.created_at, now), memory.key or memory.id]
    yield _INDENT + " · ".join([*about, *([f"{repeats + 1} alike (--no-fold shows each)"] if repeats else [])])


def _source(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            read = file.read(SOURCE_LIMIT_BYTES + 1)
    except OSError as error:
        raise InvalidInput("source", f"{name} cannot be read ({error.strerror})") from None
    if len(read) > SOURCE_LIMIT_BYTES:
        raise InvalidInput("source", f"{name} has more than {SOURCE_LIMIT_BYTES:,} bytes; give the part that matters")
    return read.decode(errors="replace")
