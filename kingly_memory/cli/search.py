"""`search`: on this machine alone where nothing else need be asked, else everywhere; and what is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kingly_memory import validation
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Answer, Line, Output, begun, harmless, one_line, width, wrapped
from kingly_memory.cli.place import arguments, place_of, reading, routing
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput
from kingly_memory.filters import NOTHING_FITS
from kingly_memory.home.place import Place
from kingly_memory.models import Assist, Detail, Hit, Origin, Results, RetrievalMode, Source
from kingly_memory.text.passages import PASSAGE
from kingly_memory.text.writing import ago, counted, duration, shortened

if TYPE_CHECKING:
    from kingly_memory.retrieval.verification import VerifiedMemory

USUAL_LIMIT = 10
SOURCE_LIMIT_BYTES = 1_048_576
_INDENT = " " * 6


def search(options: Options, out: Output) -> Answer:
    place = place_of(options, out)
    fields = arguments(options.command.verb, options, place)
    in_mode = (options.mode, options.min_confidence, options.min_similarity) != (None, None, None)
    if options.limit is not None and (options.verify or in_mode):
        validation.count("limit", options.limit, most=min(validation.MOST_IN_A_MODE, validation.MOST_VERIFIED))
    if options.verify or options.source:
        fields["top_k"] = fields.pop("limit") or (None if in_mode else USUAL_LIMIT)
        return _search_verified(options, place, fields, out)
    if in_mode:
        fields["top_k"] = fields.pop("limit")
    results = None if in_mode else _searched_here(options, place, fields, out)
    if results is None:
        # No warnings: the results themselves say who did not answer.
        with routing(place, by_meaning=not options.prefer_speed, reads=True) as router:
            results = options.command.verb.call(router, fields)
    data = results.to_json()
    if options.explain:
        for shown, hit in zip(data["hits"], results, strict=True):
            shown["scores"] = {name: round(value, 4) for name, value in hit.scores.items()}
    # The passages that answer, of long texts that were found by one: their first line says something else.
    if not out.as_json and (long := [hit for hit in results if PASSAGE in hit.scores]):
        from kingly_memory.retrieval.snippets import disclose

        results = replace(results, shown=disclose(long, Detail.PASSAGE, asked=(fields["query"],)).shown)
    elif not out.as_json:
        results = replace(results, shown={})
    lines = search_lines(results, explain=options.explain)
    return Answer(data, [*lines, *([] if results or options.filter is None else [NOTHING_FITS])])


def _searched_here(options: Options, place: Place, fields: Mapping[str, Any], out: Output) -> Results | None:
    """The answer of this machine when that is all there is to ask; None when the remote should be asked."""
    asks_nobody = not options.include_semantic
    of_a_router = {"assist", "mode", "min_confidence", "min_similarity", "prefer_speed", "include_semantic"}
    with reading(place, out, meaning=not options.prefer_speed) as reader:
        if (options.assist or reader.settings.search_assist) != Assist.NONE:
            return None
        offline = reader.offline_reasons()
        alone = asks_nobody or not place.has_remote or offline is not None
        if not alone and not options.prefer_speed:
            return None
        here = {name: value for name, value in fields.items() if value is not None and name not in of_a_router}
        results = reader.search(**here)
        reader.note_used([hit.memory.id for hit in results if not hit.archived])
    if not alone and not results:
        return None
    if offline is None or asks_nobody:
        return results
    return replace(results, source=Source.LOCAL_FALLBACK, failures=offline)


# --- what is shown ----------------------------------------------------------------------------------------------------

_EXCLUDED: Mapping[str, str] = {
    "low_confidence": "less sure than was asked for (--min-confidence sets the bar)",
    "anti_pattern": "about what failed and why, which this mode leaves out",
    "low_similarity": "too unlike the question",
    "low_relevance": "less relevant than was asked for (--min-relevance sets the bar)",
    "beyond_top_k": "for want of room (--limit makes more)",
}
NONE_FOUND = "nothing that is remembered answers that well enough; try words of the memory itself, or fewer filters"
_OFFLINE = "offline: "
"""How the reason begins for a remote that was not asked at all."""


def search_lines(results: Results, *, explain: bool = False) -> Iterator[str]:
    """The answer, best first, under what says how it was found. `explain` says of each hit what made its place."""
    layers = ", ".join(
        f"{name} {duration(report.took_ms / 1000)}{' (cut short)' if report.cut else ''}"
        for name, report in results.layers.items()
    )
    sources = layers if [*results.layers] == [results.source] else f"{results.source}: {layers}"
    yield f"{counted(len(results), 'hit')} in {duration(results.took_ms / 1000)}, {sources}"
    yield from notes(results.failures, results.asked, results.repaired)
    if results.reworded:
        yield f"  also looked for {' · '.join(map(one_line, results.reworded))}"
    if results.mode not in (None, RetrievalMode.SIMILARITY):
        yield f"  mode {results.mode}: {results.mode_reason}; in that mode's order"
    yield from _left_out(results.excluded)
    if not len(results) and "low_confidence" in results.excluded:
        yield "  memories have confidence 0.5 unless `store --confidence` says more; `--min-confidence 0` shows all"
    elif not len(results) and not results.excluded:
        yield f"  {NONE_FOUND}"
    if explain:
        yield "  relevance: how well a hit answers, 0 to 1; docs/search.md explains the other figures"
    for hit in results:
        yield ""
        yield from _hit_lines(results, hit)
        if explain:
            scores = {"relevance": hit.relevance, **hit.scores}
            figures = [f"{name.replace('_', ' ')} {value:.2f}" for name, value in scores.items() if name != PASSAGE]
            group = results.clusters.get(hit.memory.id)
            yield from wrapped(", ".join([*figures, *([] if group is None else [f"group {group}"])]), _INDENT)


def notes(failures: Mapping[str, str], query: str | None, repaired: Mapping[str, str]) -> Iterator[str]:
    """What the answer lacks, and what was looked up instead of what was said."""
    for name, reason in failures.items():
        yield f"  {name} is {reason}" if reason.startswith(_OFFLINE) else f"  {name} did not answer: {reason}"
    if query is not None:
        yield f"  of all that was said, this was looked up: {shortened(one_line(query), width())}"
    for word, instead in repaired.items():
        yield f"  looked for {instead!r} instead of {word!r}"


def _left_out(excluded: Mapping[str, int]) -> Iterator[str]:
    if excluded:
        counts = ", ".join(f"{count:,} {_EXCLUDED.get(reason, reason)}" for reason, count in excluded.items())
        yield f"  left out: {counts}"


def _hit_lines(results: Results, hit: Hit) -> Iterator[str]:
    """A hit in two lines, with the passage that answers in a long text; then what else is known of it."""
    memory, shown = hit.memory, results.shown.get(hit.memory.id)
    marks = {"archived": hit.archived, "superseded": hit.superseded_by, "weak": hit.is_weak}
    mark = next((name for name, is_so in marks.items() if is_so), None)
    kind = memory.type if mark is None else f"{memory.type} ({mark})"
    about = [kind, ago(memory.created_at), layers_line(hit), memory.key or memory.id]
    if shown is not None:
        about.append(f"part of {counted(shown.tokens, 'token')}; `get` shows all")
    head = one_line(begun(hit.memory)) if shown is None else one_line(shown.title or "")
    if head:
        line = shortened(f"{hit.relevance:.2f}  {head}", width())
        yield Line.of(line, len(line))
        yield f"{_INDENT}{' · '.join(about)}"
    else:
        yield f"{hit.relevance:.2f}  {' · '.join(about)}"
    if shown is not None and shown.text:
        from textwrap import wrap

        for line in harmless(shown.text).splitlines():
            yield from wrap(line, width(), initial_indent=" " * 8, subsequent_indent=" " * 8)
    repeats = len(results.folded.get(memory.id, ())) + results.more_folded.get(memory.id, 0)
    if repeats:
        yield f"{_INDENT}{repeats + 1} alike (--no-fold shows each)"
    if (verdict := results.verdicts.get(memory.id)) is not None:
        yield from wrapped(f"{verdict['status']} ({verdict['confidence']:.2f}): {verdict['reason']}", _INDENT)


def layers_line(hit: Hit) -> str:
    """Where it was found. What lies here only as a copy of what a remote said is called that."""
    is_copy = hit.memory.origin is Origin.REMOTE and hit.layers == ("local",)
    return "a copy from the remote" if is_copy else "+".join(hit.layers)


# --- --verify ---------------------------------------------------------------------------------------------------------

_BASIS: Mapping[str, str] = {
    "ground_truth": "held against what was given",
    "cross_verify": "held against each other",
    "none": "held against nothing",
}


def _search_verified(options: Options, place: Place, fields: dict[str, Any], out: Output) -> Answer:
    if not options.verify:
        raise InvalidInput("source", "goes with --verify")
    if options.prefer_speed or options.min_relevance is not None or options.explain:
        raise InvalidInput("verify", "does not go with --prefer-speed, --min-relevance or --explain; leave those out")
    if fields.pop("assist") is not None:
        raise InvalidInput("verify", "does not go with --assist; leave one of them out")
    del fields["prefer_speed"], fields["min_relevance"]
    sources = [_source(name) for name in options.source or ()]
    with routing(place, out, by_meaning=True, reads=True) as router:
        results = router.search_verified(ground_truth=sources or None, **fields)
    metadata = results.metadata
    lines = [_verified(metadata), *notes(metadata["failures"], metadata["asked"], metadata["repaired"])]
    if metadata.get("mode") not in (None, RetrievalMode.SIMILARITY):
        lines.append(f"  mode {metadata['mode']}: {metadata['mode_reason']}")
    lines += _left_out(metadata.get("excluded", {}))
    for judged in results:
        lines += ["", *_judged(judged, len(metadata["folded"].get(judged.memory.id, ())))]
    return Answer(results.to_json(), lines)


def _verified(metadata: Mapping[str, Any]) -> str:
    basis, count = metadata["verification_method"], metadata["total_candidates"]
    if not count:
        return "nothing was found that could be checked"
    how = "with no other to hold it against" if basis == "cross_verify" and count == 1 else _BASIS[basis]
    shown = ", ".join(f"{several} {status}" for status, several in metadata["counts"].items() if several)
    return f"{counted(count, 'candidate')} {how}: {shown}"


def _judged(judged: VerifiedMemory, repeats: int) -> Iterator[str]:
    memory, verdict, indent = judged.memory, judged.verification, " " * 14
    yield shortened(f"{verdict.status.value:12}  {one_line(begun(judged.memory))}", width())
    by = "" if verdict.judge == "none" else f"by {verdict.judge}: "
    yield from wrapped(by + verdict.reason, indent, f"{verdict.confidence:12.2f}  ")
    if verdict.contradicting_source:
        yield shortened(f"{'against':>12}  {one_line(verdict.contradicting_source)}", width())
    about = [f"relevance {judged.retrieval_score:.2f}", memory.type, ago(memory.created_at), memory.key or memory.id]
    yield indent + " · ".join([*about, *([f"{repeats + 1} alike (--no-fold shows each)"] if repeats else [])])


def _source(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            read = file.read(SOURCE_LIMIT_BYTES + 1)
    except OSError as error:
        raise InvalidInput("source", f"{name} cannot be read ({error.strerror})") from None
    if len(read) > SOURCE_LIMIT_BYTES:
        raise InvalidInput("source", f"{name} has more than {SOURCE_LIMIT_BYTES:,} bytes; give the part that matters")
    return read.decode(errors="replace")
