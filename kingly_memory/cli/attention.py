"""What the commands about attention print: pins, and the notes that a prompt gets."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Answer, Output
from kingly_memory.cli.place import arguments, place_of, warnings_on
from kingly_memory.dataclass import replace
from kingly_memory.settings import Settings

if TYPE_CHECKING:
    from kingly_memory.attention.injection import Injection


def inject(options: Options, out: Output) -> Answer:
    """As the prompt hook: on this machine, by words as they are written."""
    from kingly_memory.adapters.local.trusted import check_trusted
    from kingly_memory.app import parts
    from kingly_memory.app.reading import open_reader
    from kingly_memory.hosts.hooks import HOST
    from kingly_memory.router.attention.candidates import checked, injected

    place = place_of(options, out)
    if place.agent is None:
        place = replace(place, agent=HOST)
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
