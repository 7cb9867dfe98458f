"""The verbs about memories: store, search, get, list, forget, restore."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from kingly_memory import intake
from kingly_memory.cli.failures import Archived, NothingUnder
from kingly_memory.cli.output import (
    Output,
    ago,
    counted,
    duration,
    facts,
    harmless,
    layers_told,
    one_line,
    shortened,
    table,
    type_told,
    width,
    wrapped,
)
from kingly_memory.cli.place import command, is_about_a_token, named_options, place_of, reading, routing
from kingly_memory.cli.vitals import end_line, explanation
from kingly_memory.errors import InvalidInput
from kingly_memory.models import (
    DeliveryState,
    Hit,
    JsonObject,
    LinkState,
    Memory,
    Receipt,
    RemoteUse,
    Results,
    RetrievalMode,
    Source,
    moment_text,
)
from kingly_memory.settings import Place, Settings

if TYPE_CHECKING:
    from kingly_memory.blocking import SyncMemoryRouter

REMOTE_WAIT_S = 0.25
"""How long `store` waits for the remote unless told otherwise: a command ends, and then nobody delivers."""


LAST_POSITION = 2**62

USUAL_LIMIT = 10

_TITLE_ROOM = 48


def store(options: Namespace, out: Output) -> int:
    place = place_of(options, out)
    content = standard_input(place, "content") if options.content == "-" else options.content
    metadata = _metadata(options.metadata)
    with routing(place, out) as router:
        receipt = router.store(
            content,
            key=options.key,
            type=options.type,
            significance=options.significance,
            confidence=options.confidence,
            tags=options.tag or (),
            title=options.title,
            context_id=options.context,
            origin=options.origin or ("agent" if place.agent else "user"),
            metadata=metadata,
            ttl=options.ttl,
            wait=_wait_s(options, place),
            require_remote=options.require_remote,
        )
        is_pending = receipt.delivery is DeliveryState.PENDING
        refusing = _links_that(router.status(), is_about_a_token) if is_pending else []
        once = [] if receipt.delivery is DeliveryState.LOCAL_ONLY else _used_once(place, router)
    advice = f"nothing is sent to {', '.join(refusing)} until a token is accepted; see `{command(options, 'doctor')}`"
    out.show(receipt.to_json(), [*receipt_lines(receipt), *once, *([f"  {advice}"] if refusing else [])])
    return 0


def _used_once(place: Place, router: SyncMemoryRouter) -> list[str]:
    """Says of remotes that --remote names and that are not enrolled that they get no later memories."""
    if place.remote_use is not RemoteUse.ONCE:
        return []
    others = [one.endpoint for one in router.remotes() if one.in_use and one.since is None]
    return [
        f"  later memories do not go to {one}; `kingly-memory remotes add NAME {one}` sends them there too"
        for one in others
    ]


def _links_that(status: JsonObject, are: Callable[[JsonObject], bool]) -> list[str]:
    """The remotes whose links are so."""
    links = status.get("remotes") or {"the remote": status["link"]}
    return [label for label, link in links.items() if are(link)]


def search(options: Namespace, out: Output) -> int:
    if options.limit is not None and (options.verify or _wants_mode(options)):
        intake.count("limit", options.limit, most=min(intake.MOST_IN_A_MODE, intake.MOST_VERIFIED))
    place = place_of(options, out)
    text = standard_input(place, "query") if options.query == ["-"] else " ".join(options.query)
    if not text.strip():
        raise InvalidInput("query", "is empty; say what to look for")
    if options.verify or options.source:
        return _search_verified(options, place, text, out)
    results = None if _wants_mode(options) else _searched_here(options, place, text, out)
    if results is None:
        results = _searched_everywhere(options, place, text)
    lines = _told(options, results)
    out.show(_with_scores(results) if options.explain else results.to_json(), lines)
    return 0


def get(options: Namespace, out: Output) -> int:
    place = place_of(options, out)
    with reading(place, out) as reader:
        # Why it is in the archive is asked of what lies there.
        name = options.memory
        memory = reader.named([name]).get(name) if options.explain else reader.get(name)
        remote_id = None if memory is None else reader.remote_ids([memory.id]).get(memory.id)
        if memory is not None and not options.explain:
            reader.note_used([memory.id])
        is_archived = memory is None and bool(reader.named([name]))
    if memory is None:
        raise Archived(name) if is_archived else NothingUnder(name)
    if options.explain:
        return _explained_memory(place, memory, out)
    out.show({**_told_of(memory), "remote_id": remote_id}, _details(memory, remote_id))
    return 0


def _explained_memory(place: Place, memory: Memory, out: Output) -> int:
    with routing(place, out, reads=True) as router:
        told = router.explain(memory.id)
    if told is None:
        raise NothingUnder(memory.id)
    out.show({**_told_of(memory), "explained": told}, [*_details(memory), "", *explanation(told)])
    return 0


def list_memories(options: Namespace, out: Output) -> int:
    place = place_of(options, out)
    before = None if options.before is None else intake.count("before", options.before, least=0, most=LAST_POSITION)
    with reading(place, out) as reader:
        page = reader.list(
            limit=options.limit,
            before=before,
            types=options.type,
            tags=options.tag,
            agent=options.agent,
            context_id=options.context,
            include_archived=options.archived,
            without_tags=intake.unsought(options.tag),
        )
    now = datetime.now(UTC)
    lines = table([_listed(memory, now, memory.id in page.archived) for memory in page]) or ["no memories"]
    if page.next_before is not None:
        lines.append(f"more: the same with --before {page.next_before}")
    out.show(page.to_json(), lines)
    return 0


def forget(options: Namespace, out: Output) -> int:
    place = place_of(options, out)
    with routing(place, out) as router:
        memory = router.forget(options.memory)
        away = _links_that(router.status(), lambda link: link["state"] == LinkState.OFFLINE)
    if memory is None:
        raise NothingUnder(options.memory)
    later = [f"  not reached now: {', '.join(away)}; what was sent there is forgotten there later"] if away else []
    undo = f"undo: kingly-memory restore {memory.id}{_place_options(options)}"
    out.show(memory.to_json(), [f"forgotten: {summary(memory)}", *later, undo])
    return 0


def restore(options: Namespace, out: Output) -> int:
    place = place_of(options, out)
    with routing(place, out) as router:
        memory = router.restore(options.memory)
    if memory is None:
        raise NothingUnder(options.memory)
    out.show(memory.to_json(), [f"restored: {summary(memory)}"])
    return 0


def _place_options(options: Namespace) -> str:
    """The options that name the same place again."""
    import shlex

    return "".join(f" --{name} {shlex.quote(value)}" for name, value in named_options(options))


def receipt_lines(receipt: Receipt) -> list[str]:
    """Where the memory is now, and what is still to come."""
    name = f"{receipt.key} ({receipt.id})" if receipt.key else receipt.id
    names = [layer for layer in receipt.layers if layer != "local"] if receipt.remotes else ["the remote"]
    waiting = [label for label, at in receipt.remotes.items() if at["delivery"] == DeliveryState.PENDING]
    later = f"{' and '.join(waiting) or 'the remote'} {'get' if len(waiting) > 1 else 'gets'}"
    here = " and on ".join(["on this machine", *(names if receipt.remotes else ())])
    there = {
        DeliveryState.DELIVERED: " and on ".join(["on this machine", *names]),
        DeliveryState.PENDING: f"{here}; {later} it later ({receipt.reason})",
        DeliveryState.LEASED: "on this machine; on its way to the remote",
        DeliveryState.DEAD: f"on this machine only: {receipt.reason}",
        DeliveryState.LOCAL_ONLY: f"on this machine only: {receipt.reason}",
    }
    ends = [] if receipt.ends_at is None else [f"  ends {receipt.ends_at.isoformat(timespec='seconds')}"]
    stored = "stored" if receipt.revision == 1 else f"stored as revision {receipt.revision}"
    return [f"{stored} {name}", f"  {there[receipt.delivery]}", *ends]


def search_lines(
    results: Results,
    now: datetime,
    explain: Callable[[Hit], Iterable[str]] | None = None,
    legend: Iterable[str] = (),
) -> Iterator[str]:
    """The answer, best first, under what says how it was found; below each hit what `explain` says of it."""
    layers = ", ".join(
        f"{name} {duration(report.took_ms / 1000)}{' (cut short)' if report.cut else ''}"
        for name, report in results.layers.items()
    )
    yield f"{counted(len(results), 'hit')} in {duration(results.took_ms / 1000)}, {results.source}: {layers}"
    if results.failures or results.asked or results.repaired:
        from kingly_memory.cli.showing import notes

        yield from notes(results.failures, results.asked, results.repaired)
    if results.mode not in (None, RetrievalMode.SIMILARITY):
        yield f"  mode {results.mode}: {results.mode_reason}; in that mode's order"
    if results.excluded:
        from kingly_memory.cli.showing import left_out

        yield f"  {left_out(results.excluded)}"
    lines_of = _hit_lines
    if results.shown:
        from kingly_memory.cli.showing import lines, views

        lines_of = partial(lines, results.shown)
        yield f"  {views(results)}"
    yield from legend
    for hit in results:
        yield ""
        yield from lines_of(hit, now)
        yield from _remarks(results, hit)
        if explain is not None:
            yield from explain(hit)


def summary(memory: Memory, most: int = _TITLE_ROOM) -> str:
    """A memory in a few words, on one line."""
    text = f"{memory.title}: {memory.content}" if memory.title else memory.content
    return shortened(one_line(text[:1000]), most)


def _with_scores(results: Results) -> JsonObject:
    """The answer with each hit's figures, also where hits are shown in part."""
    told = results.to_json()
    for shown, hit in zip(told["hits"], results, strict=True):
        shown["scores"] = {name: round(value, 4) for name, value in hit.scores.items()}
    return told


def _search_verified(options: Namespace, place: Place, text: str, out: Output) -> int:
    from kingly_memory.cli import verifying

    if not options.verify:
        raise InvalidInput("source", "goes with --verify")
    if options.prefer_speed or options.detail is not None or options.budget_tokens is not None:
        raise InvalidInput("verify", "does not go with --prefer-speed, --detail or --budget-tokens; leave those out")
    if options.explain:
        raise InvalidInput("explain", "does not go with --verify, which says of each memory why already; leave it out")
    filters = {**_filters(options), "mode": options.mode, "fold": not options.no_fold}
    bars = {"min_confidence": options.min_confidence, "min_similarity": options.min_similarity}
    top_k = options.limit if _wants_mode(options) else filters["limit"]
    del filters["limit"]
    return verifying.search(options, place, text, out, {**filters, **bars, "top_k": top_k})


def _searched_here(options: Namespace, place: Place, text: str, out: Output) -> Results | None:
    """The answer of this machine when that is all there is to ask; None when the remote should be asked."""
    with reading(place, out, meaning=not options.prefer_speed) as reader:
        offline = reader.offline_reasons()
        alone = options.local or options.no_semantic or not place.has_remote or offline is not None
        if not alone and not options.prefer_speed:
            return None
        results = reader.search(text, **{"fold": True, **_shape(options)}, **_filters(options))
        reader.note_used([hit.memory.id for hit in results if not hit.archived])
    if not alone and not results:
        return None
    if offline is None or options.local or options.no_semantic:
        return results
    return replace(results, source=Source.LOCAL_FALLBACK, failures=offline)


def _searched_everywhere(options: Namespace, place: Place, text: str) -> Results:
    here = place.alone() if options.local else place
    # No warnings: the results themselves say who did not answer.
    with routing(here, by_meaning=not options.prefer_speed, reads=True) as router:
        return router.search(
            text,
            prefer_speed=options.prefer_speed,
            include_semantic=not options.no_semantic,
            **_filters(options),
            **_shape(options),
            **(_mode_options(options) if _wants_mode(options) else {}),
        )


def _wants_mode(options: Namespace) -> bool:
    said = (options.mode, options.min_confidence, options.min_similarity)
    return any(one is not None for one in said)


def _mode_options(options: Namespace) -> dict[str, Any]:
    return {
        "mode": options.mode,
        "top_k": options.limit,
        "min_confidence": options.min_confidence,
        "min_similarity": options.min_similarity,
    }


def _shape(options: Namespace) -> dict[str, Any]:
    """How the hits are to be shown, as far as that was said."""
    said = vars(options)
    wanted = {name: said[name] for name in ("detail", "budget_tokens") if said.get(name) is not None}
    return {**wanted, "fold": False} if said.get("no_fold") else wanted


def _told(options: Namespace, results: Results) -> Iterator[str]:
    """The answer in as much detail as was asked for, with what a budget was spent on and why each hit is there."""
    now, legend = datetime.now(UTC), list[str]()
    explanations: list[Callable[[Hit], Iterable[str]]] = []
    if options.budget_tokens is not None:
        from kingly_memory.cli.showing import budget_line, counted_line

        legend.append(budget_line(results, options.budget_tokens))
        explanations.append(lambda hit: [counted_line(results, hit)])
    elif options.detail == "full":
        from kingly_memory.cli.showing import whole

        results = whole(results)
    if options.explain:
        from kingly_memory.cli import explaining

        legend += explaining.legend(results)
        explanations.append(partial(explaining.explanation, results))
    return search_lines(results, now, lambda hit: (line for explain in explanations for line in explain(hit)), legend)


def _filters(options: Namespace) -> dict[str, Any]:
    return {
        "limit": USUAL_LIMIT if options.limit is None else options.limit,
        "types": options.type,
        "tags": options.tag,
        "agent": options.agent,
        "context_id": options.context,
        "since": options.since,
        "until": options.until,
        "include_archived": options.archived,
    }


def _wait_s(options: Namespace, place: Place) -> float | None:
    """Seconds to wait for the remote; None leaves it to the router, which is patient when it must be there."""
    if options.wait is not None:
        return float(options.wait)
    return None if options.require_remote or not place.has_remote else REMOTE_WAIT_S


def standard_input(place: Place, field: str) -> str:
    """All of standard input, byte for byte; what is not UTF-8 becomes U+FFFD. Raises InvalidInput beyond the limit."""
    limit = Settings.from_environment(home=place.home).content_limit_bytes
    read = sys.stdin.buffer.read(limit + 1)
    if len(read) > limit:
        remedy = "that are stored; split it" if field == "content" else "that are read; give the part that matters"
        raise InvalidInput(field, f"has more than the {limit:,} bytes {remedy}")
    return read.decode(errors="replace")


def _metadata(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = error.msg if isinstance(error, json.JSONDecodeError) else "too deep or too long"
        raise InvalidInput("metadata", f"is not JSON ({problem})") from None


def _hit_lines(hit: Hit, now: datetime) -> Iterator[str]:
    memory = hit.memory
    text = f"{memory.title}: {memory.content}" if memory.title else memory.content
    about = [type_told(hit), ago(memory.created_at, now), layers_told(hit), memory.key or memory.id]
    yield shortened(f"{hit.relevance:.2f}  {one_line(text[:1000])}", width())
    yield f"      {' · '.join(about)}"


def _told_of(memory: Memory) -> JsonObject:
    return {**memory.to_json(), "ends_at": moment_text(memory.ends_at)}


def _remarks(results: Results, hit: Hit) -> Iterator[str]:
    """What else is known of a hit: others that say the same, and the verdict on it."""
    repeats = len(results.folded.get(hit.memory.id, ())) + results.more_folded.get(hit.memory.id, 0)
    if repeats:
        yield f"      {repeats + 1} alike (--no-fold shows each)"
    verdict = results.verdicts.get(hit.memory.id)
    if verdict is not None:
        yield from wrapped(f"{verdict['status']} ({verdict['confidence']:.2f}): {verdict['reason']}", " " * 6)


def _details(memory: Memory, remote_id: str | None = None) -> Iterator[str]:
    now = datetime.now(UTC)
    said = {
        "key": memory.key,
        "id": memory.id,
        "remote id": remote_id,
        "title": memory.title,
        "type": memory.type,
        "significance": f"{memory.significance:g}",
        "confidence": f"{memory.confidence:g}",
        "tags": ", ".join(memory.tags),
        "context": memory.scope.context_id,
        "agent": memory.scope.agent,
        "origin": memory.origin,
        "created": f"{memory.created_at.isoformat(timespec='seconds')} ({ago(memory.created_at, now)})",
        "ends": None if memory.ends_at is None else end_line(moment_text(memory.ends_at), memory.lifetime_s),
        "revision": f"{memory.revision}, {ago(memory.updated_at, now)}" if memory.revision > 1 else None,
        "metadata": json.dumps(memory.metadata, ensure_ascii=False) if memory.metadata else None,
    }
    yield from facts([(name, value) for name, value in said.items() if value])
    yield ""
    yield harmless(memory.content)


def _listed(memory: Memory, now: datetime, archived: bool) -> tuple[str, ...]:
    kind = f"{memory.type} (archived)" if archived else memory.type
    return (memory.key or memory.id, kind, ago(memory.created_at, now), summary(memory, width()))
