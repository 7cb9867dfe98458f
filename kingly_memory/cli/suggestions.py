"""The verb that says what might be done about threads."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from math import inf

from kingly_memory.attention.suggestions import COMPACT
from kingly_memory.cli.output import Output, counted, one_line
from kingly_memory.cli.place import command, place_of, routing
from kingly_memory.models import JsonObject


def suggestions(options: Namespace, out: Output) -> int:
    with routing(place_of(options, out), out, reads=True) as router:
        told = router.threads.suggestions(options.context_text, within=inf).to_json()
    out.show(told, suggestion_lines(told, partial(command, options)))
    return 0


def suggestion_lines(told: JsonObject, command: Callable[..., str]) -> Iterator[str]:
    """Each suggestion, and below it the command that does it here."""
    health = told["health"]
    yield one_line(health["recommendation"].replace(COMPACT, f"`{command('compact')}`"))
    yield (
        f"  {counted(health['active_threads'], 'active thread')}; pressure {health['context_pressure']:.2f}, "
        f"utilisation {health['utilisation']:.2f}"
    )
    if told["unread"]:
        yield f"  {counted(told['unread'], 'older thread')} not looked at"
    for one in told["merge_candidates"]:
        names = [one["thread_a"], one["thread_b"]]
        yield f"merge   {one_line(' and '.join(names))}: {one['similarity']:.2f} alike. {one_line(one['reason'])}"
        yield f"        {command('threads merge', *names)}"
    yield from _more(told, "merge_candidates", "to merge")
    for one in told["split_candidates"]:
        yield f"split   {one_line(one['thread_id'])}: {one_line(one['reason'])}"
        yield f"        {command('threads split', one['thread_id'])}"
    yield from _more(told, "split_candidates", "to split")
    for one in told["recall_hints"]:
        count = counted(one["thread_count"], "thread")
        yield f"recall  {one_line(one['topic'])}: {count}, last mentioned {one['last_mentioned']}"
        yield f"        {command('threads recall', one['topic'])}"


def _more(told: JsonObject, name: str, what: str) -> Iterator[str]:
    hidden = told["more"][name]
    if hidden:
        yield f"        and {hidden:,} more {what}"
