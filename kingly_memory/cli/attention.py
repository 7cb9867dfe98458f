"""What the commands about attention print: focus, pins, ratings, and the notes that a prompt gets."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Answer, Output, ago, table
from kingly_memory.cli.place import arguments, command, place_of, routing, warnings_on
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput
from kingly_memory.settings import Settings

if TYPE_CHECKING:
    from kingly_memory.attention.focus import Focus
    from kingly_memory.attention.injection import Injection
    from kingly_memory.router.attention.verbs import Pinned


def focus(options: Options, out: Output) -> Answer:
    """Without a topic it lists what is in focus."""
    if options.topic is None and options.weight is not None:
        raise InvalidInput("weight", "belongs to a topic; name it")
    with routing(place_of(options, out), out, reads=options.topic is None) as router:
        if options.topic is None:
            active = router.attention.focused()
            return Answer({"active_focus": [one.to_json() for one in active]}, _focus_lines(active))
        weight = {} if options.weight is None else {"weight": options.weight}
        done = router.attention.focus(options.topic, **weight)
    return Answer(done.to_json(), [done.message])


def pin_lines(pinned: Pinned, options: Options) -> list[str]:
    title = [] if pinned.title is None else [f"  title  {pinned.title}"]
    return [pinned.message, *title, f"  unpin  {command(options, 'unpin', pinned.thread_id)}"]


def _focus_lines(active: tuple[Focus, ...]) -> list[str]:
    now = datetime.now(UTC)
    rows = [(one.topic, f"{one.weight:g}", "" if one.since is None else ago(one.since, now)) for one in active]
    return table(rows, ("TOPIC", "WEIGHT", "SET")) if rows else ["nothing is in focus"]


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
        )
    if not found.text and not out.as_json:
        out.note(f"nothing is put in{_why(found)}")
    return Answer(found.to_json(), [found.text] if found.text else [])


def _why(found: Injection) -> str:
    """What kept out those that were looked at."""
    kept_out = Counter(why.value for why in found.left_out.values())
    return "".join(f"{', ' if number else ': '}{count} × {why}" for number, (why, count) in enumerate(kept_out.items()))
