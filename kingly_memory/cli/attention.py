"""What the commands about attention print: focus, pins, ratings, and the notes that a prompt gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Answer, Output, ago, counted, facts, one_line, shortened, table
from kingly_memory.cli.place import arguments, command, place_of, routing, warnings_on
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput
from kingly_memory.settings import Settings

if TYPE_CHECKING:
    from kingly_memory.attention.focus import Focus
    from kingly_memory.attention.injection import Considered, Injection
    from kingly_memory.models import Memory
    from kingly_memory.router.attention.verbs import Pinned


def focus(options: Options, out: Output) -> Answer:
    """Without a topic it lists what is in focus."""
    if options.topic is None and options.weight is not None:
        raise InvalidInput("weight", "belongs to a topic; name it")
    with routing(place_of(options, out), out, reads=options.topic is None) as router:
        if options.topic is None:
            active = router.attention.focused()
            return Answer({"active_focus": [one.told() for one in active]}, _focus_lines(active))
        weight = {} if options.weight is None else {"weight": options.weight}
        done = router.attention.focus(options.topic, **weight)
    return Answer(done.to_json(), [done.message])


def pin_lines(pinned: Pinned, options: Options) -> list[str]:
    title = [] if pinned.title is None else [f"  title  {pinned.title}"]
    return [pinned.message, *title, f"  unpin  {command(options, 'unpin', pinned.thread_id)}"]


def _focus_lines(active: tuple[Focus, ...]) -> list[str]:
    rows, now = [], datetime.now(UTC)
    for one in active:
        remarks = (["for everyone"] if one.for_everyone else []) + ([f"(thread {one.thread})"] if one.thread else [])
        rows.append((one.topic, f"{one.weight:g}", "" if one.since is None else ago(one.since, now), " ".join(remarks)))
    return table(rows, ("TOPIC", "WEIGHT", "SET", "")) if rows else ["nothing is in focus"]


_HEADS = ("", "PRIORITY", "SHARED", "MEMORY", "WHY")
_LEGEND = (
    ("PRIORITY", "similarity × weight × relevance + boost; the best come first, as long as there is room"),
    ("", "similarity: how well it answers, as a search has it; weight: of its thread, by pins;"),
    ("", "relevance: of its thread, by ratings; boost: by what is in focus"),
    ("SHARED", "telling words that it has in common with the prompt, of those of the shorter one of the two:"),
    ("", "two at least and 25%, or half, let it in, and so does a boost"),
)
_NAME = 32


def inject(options: Options, out: Output) -> Answer:
    """As the prompt hook: on this machine, by words as they are written."""
    from kingly_memory.adapters.local.trusted import check_trusted
    from kingly_memory.app import parts
    from kingly_memory.app.reading import open_reader
    from kingly_memory.hosts.hooks import AGENT
    from kingly_memory.router.attention.inject import checked, injected

    place = place_of(options, out)
    if place.agent is None:
        place = replace(place, agent=AGENT)
    said = arguments(options.command.verb, options, place)
    prompt, budget, session = checked(said["prompt"], options.budget_tokens, options.session)
    settings = Settings.from_environment(home=place.home)
    check_trusted(place.home)
    with warnings_on(out), closing(open_reader(place, settings, repairs=False)) as reader:
        found = injected(
            prompt,
            reader.surroundings(),
            budget=budget,
            budget_s=settings.local_search_s,
            session=session,
            log=parts.injections(place),
            explain=options.explain,
        )
    if not found.text and not out.as_json:
        out.note(f"nothing is put in{_why(found)}")
    return Answer(found.to_json(), _lines(found, prompt, options.explain))


def _why(found: Injection) -> str:
    """What kept out those that were looked at."""
    kept_out = Counter(why.value for why in found.left_out.values())
    return "".join(f"{', ' if number else ': '}{count} × {why}" for number, (why, count) in enumerate(kept_out.items()))


def _lines(found: Injection, prompt: str, explain: bool) -> Iterator[str]:
    if found.text:
        yield found.text
    if explain:
        yield from [""] if found.text else []
        yield from _explained(found, prompt)


def _explained(found: Injection, prompt: str) -> Iterator[str]:
    from kingly_memory.writing import estimated_tokens

    seen = counted(len(found.considered), "memory")
    tokens = estimated_tokens(found.text)
    yield f"{seen} looked at, {len(found.put_in):,} put in, about {counted(tokens, 'token')} in all"
    if found.asked is not None:
        yield f"looked up: {found.asked}"
    if found.considered:
        yield ""
        yield from table(_rows(found.considered, found.asked or prompt), _HEADS, is_whole=True)
        yield ""
        yield from facts(_LEGEND)


def _rows(considered: Sequence[Considered], asked: str) -> list[tuple[str, ...]]:
    """In the order of priority, which is that of the notes."""
    rows: list[tuple[str, ...]] = []
    number = 0
    for one in considered:
        number += one.is_in
        place = one.priority
        made_of = f"{place.similarity:.2f} × {place.weight:g} × {place.relevance:.3g} + {place.boost:.2g}"
        rows.append(
            (
                f"[{number}]" if one.is_in else "out",
                f"{place.total:.2f} = {made_of}",
                _shared(one.memory, asked),
                shortened(one_line(_name(one.memory)), _NAME),
                one.why,
            )
        )
    return rows


def _name(memory: Memory) -> str:
    """A key that would be cut, as those of imports, names nothing."""
    key = memory.key
    return key if key is not None and len(key) <= _NAME else memory.title or memory.content


def _shared(memory: Memory, prompt: str) -> str:
    from kingly_memory.attention.pertinence import asked, common
    from kingly_memory.router.attention.candidates import wording_of

    shared, shorter = common(asked(prompt), wording_of(memory))
    return f"{shared:,} of {counted(shorter, 'word')}"
