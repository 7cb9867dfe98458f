"""The command line: find the command, run it, and word whatever goes wrong in one sentence and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from itertools import takewhile
from typing import Any, cast

from kingly_memory.cli.commands import (
    AT_ITS_OWN_PACE,
    COMMON,
    FILES,
    NAMED,
    NAMES_ELSEWHERE,
    Command,
    Options,
    commands,
    parameters_of,
)
from kingly_memory.cli.output import Answer, Output, facts
from kingly_memory.cli.parser import PROGRAM, UsageError, called, help_of, parse
from kingly_memory.cli.place import answered, elsewhere, whole_ids
from kingly_memory.declare import Verb
from kingly_memory.errors import InvalidInput, InvalidSetting, KinglyMemoryError, NothingUnder
from kingly_memory.models import JsonObject

NAMES_A_MEMORY = ("KEY_OR_ID", "FROM", "TO", "THREAD", "OTHER", "THOUGHT")
"""What stands for such an argument in the help: the beginning of an id will do."""
FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
BROKEN_PIPE = 141
"""128 + SIGPIPE: what a shell reports for a program that wrote to a closed pipe."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 failed, 2 bad input, 130 interrupted, 141 closed pipe."""
    given = sys.argv[1:] if argv is None else list(argv)
    out = Output("--json" in takewhile(lambda one: one != "--", given))
    options = Options(command=None)
    try:
        options = parse(given)
        if options.help is not None or options.command is None:
            out.show({"help": options.help or help_of("")}, (options.help or help_of("")).split("\n"))
            code = 0
        else:
            is_typed = "-" in given and sys.stdin.isatty()
            out.is_idle = is_typed or options.command.name.partition(" ")[0] in AT_ITS_OWN_PACE
            with out.clock(options.command.name):
                code = _run(options.command, options, out)
        out.flush()
    except BrokenPipeError:
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # the last stop before the user, who gets a sentence
        if sys.flags.dev_mode:
            raise
        return _failed(error, options.command, out)
    return code


def _run(command: Command, options: Options, out: Output) -> int:
    for parameter in parameters_of(command):
        if parameter.arg.metavar in NAMES_A_MEMORY:
            setattr(options, parameter.dest, whole_ids(getattr(options, parameter.dest), options, out))
    own = of_the_family(command)
    if command.name in NAMES_ELSEWHERE:
        moved = elsewhere(options, out)
        if moved is not None and (moved.is_all or command.name == "status"):
            out.note(f"{moved.what}; {moved.to_do}")
    done = _shown(command, options, out) if own is None else own(options, out)
    if isinstance(done, Answer):
        out.show(done.data, done.lines)
        return done.code
    return int(done)  # it has shown what there was


def _shown(command: Command, options: Options, out: Output) -> Answer:
    """What every verb does that has no function of its own here: call it, and show what it answers."""
    from kingly_memory.plain import plain  # what a file prints by itself does without

    result = answered(options, out)
    data, lines = plain(result), of_the_family(command, "_lines")
    if not isinstance(data, dict):
        data = {NAMED.get(command.name) or cast("Verb", command.verb).name: data}
    if lines is None:
        from kingly_memory.cli.printing import PRINTED

        lines = PRINTED.get(command.name)
    if lines is not None:
        printed = lines(result, options)
        return Answer(data, [printed] if isinstance(printed, str) else printed)
    if hasattr(result, "message"):
        return Answer(data, [result.message])
    return Answer(data, facts(data.items()))


def of_the_family(command: Command, ending: str = "") -> Any:
    """What the command has in its file, if anything."""
    file = FILES.get(command.name) or FILES.get(command.name.partition(" ")[0])
    name = "import_" if command.name == "import" else f"{command.name.replace(' ', '_')}{ending}"
    return None if file is None else getattr(import_module(f"kingly_memory.cli.{file}"), name, None)


# --- what went wrong --------------------------------------------------------------------------------------------------


def _failed(error: Exception, command: Command | None, out: Output) -> int:
    message = sentence(error, command)
    facts: JsonObject = {"type": type(error).__name__, "message": message}
    if (field := getattr(error, "field", None)) is not None:
        facts["field"] = field
    if (receipt := getattr(error, "receipt", None)) is not None:
        facts["receipt"] = receipt.to_json()
    with suppress(OSError):  # nobody reads, or there is no room for it
        out.note(message)
        if out.as_json:
            out.data({"error": facts})
        out.flush()
    return BAD_INPUT if isinstance(error, InvalidInput | InvalidSetting | UsageError) else FAILED


def sentence(error: Exception, command: Command | None) -> str:
    if isinstance(error, NothingUnder) and command is not None:
        listing = f"{command.name.partition(' ')[0]} list"
        listing = listing if any(one.name == listing for one in commands()) else "list"
        return f"{error.problem}; `{PROGRAM} {listing}` shows what is there"
    if isinstance(error, InvalidInput | InvalidSetting) and command is not None:
        named = {one.dest: one.option for one in COMMON}  # which variables may have given
        named |= {"top_k": "--limit", "ground_truth": "--source"}
        for parameter in parameters_of(command):
            named |= dict.fromkeys((parameter.dest, parameter.option), called(parameter))
        unnamed = error.field if isinstance(error, InvalidInput) else f"setting {error.field}"
        return f"{named.get(error.field, unnamed)}: {error.problem}"
    if isinstance(error, KinglyMemoryError):
        return str(error)
    if isinstance(error, PermissionError) and error.filename:
        to_do = "make it, and the folders it lies in, yours to read and write (chmod u+rwX)"
        return f"{error.filename} is closed to you (Permission denied); {to_do}"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename} cannot be used ({error.strerror})"
    return f"something unexpected happened ({type(error).__name__}: {error}); `python -X dev` shows where"
