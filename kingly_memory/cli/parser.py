"""From declarations to a parser. A wrong command line becomes one sentence, not a screen of usage."""

from __future__ import annotations

import re
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from kingly_memory.cli.commands import BARE, COMMON, GROUPS, Command, commands, parameters_of
from kingly_memory.cli.output import width
from kingly_memory.declare import NOT_GIVEN, Parameter
from kingly_memory.errors import KinglyMemoryError
from kingly_memory.place import DEFAULT_ENDPOINT

if TYPE_CHECKING:
    from argparse import _ActionsContainer

PROGRAM = "kingly-memory"

DESCRIPTION = """\
Memory for agents that keeps working when the network doesn't.

Start with:  kingly-memory demo
Then:        kingly-memory store "Deploys need two reviews" --key deploy
             kingly-memory search "who reviews a deploy"
"""

_COMMON_NAMES = {one.name for one in COMMON}
_DASHED = re.compile(r"-(?!-|h$).+", re.DOTALL)
"""No option of ours begins with a single dash but -h, and -n, which is spelled out before."""
_SHORT = re.compile(r"-n(?:=?(\d+))?")
"""`-n 5`, `-n5` or `-n=5`, for `--limit 5`."""
_SIGNED = re.compile(r"([+-])((?!-|h$).+)")
_SIGNS = {"+": "add", "-": "remove"}
_AT_ARGUMENT = re.compile(r"argument -{0,2}(?P<name>[\w-]+)[^:]*: (?P<problem>.*)", re.DOTALL)


_UNKNOWN_COMMAND = re.compile(r"argument COMMAND: invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL)
"""How argparse words it, with each of 42 names."""


class UsageError(KinglyMemoryError):
    """The command line cannot be understood. `field` is the argument at fault, when it is one."""

    def __init__(self, program: str, message: str) -> None:
        match = _AT_ARGUMENT.fullmatch(message)
        self.field = match["name"].replace("-", "_") if match else None
        self.program = program
        self.problem = message
        told = f"{match['name']}: {match['problem']}" if match else message
        super().__init__(f"{told} (see `{program} --help`)")


class _Formatter(RawDescriptionHelpFormatter):
    """Asks for the width itself: argparse would load shutil for that, with three compression libraries."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=max(width() - 2, 40))


class _Parser(ArgumentParser):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": _Formatter, "allow_abbrev": False, **settings})

    def error(self, message: str) -> NoReturn:
        unknown = _UNKNOWN_COMMAND.match(message)
        raise UsageError(self.prog, self._no_command(unknown[1], unknown[2]) if unknown else message)

    def _no_command(self, said: str, listed: str) -> str:
        """Names the nearest command, or all where there are only a few."""
        from difflib import get_close_matches

        known = [one.strip(" '") for one in listed.split(",")]
        where = self.prog.removeprefix(PROGRAM).strip()
        problem = f"{said!r} is no command" + (f" of {where}" if where else "")
        near = get_close_matches(said, known, n=1)
        if near:
            return f"{problem}; did you mean {near[0]!r}?"
        return f"{problem}; choose one of {', '.join(known)}" if where else problem


def parse(argv: Sequence[str]) -> Namespace:
    """The options of a command line; its `command` says what to do. Raises UsageError; --help exits."""
    known = commands()
    if argv[:1] == ["--version"]:
        argv = ["version", *argv[1:]]
    named = [one for one in known if one.name.partition(" ")[0] in argv]
    argv = _spelled_out(argv, named)
    parser = build(named if named and not {"-h", "--help"} & set(argv) else known)
    defaults = {one.name: one.default for one in COMMON}
    try:
        return parser.parse_args(_with_bare_remote(argv, known), Namespace(**defaults, command=None))
    except UsageError as error:
        said = [text for text in argv if not text.startswith("-")]
        fitting = [one.name for one in named if said[: len(one.name.split())] == one.name.split()]
        if error.program == PROGRAM and fitting:
            # The parser of all commands complains of what it has left over.
            raise UsageError(f"{PROGRAM} {max(fitting, key=len)}", error.problem) from None
        text = next((text for text in argv if _DASHED.fullmatch(text)), None)
        if text is None:
            raise
        problem = f"{text!r} is no option; put -- before a text that begins with a dash"
        raise UsageError(error.program, problem) from None


def build(wanted: Sequence[Command] | None = None) -> ArgumentParser:
    """The parser for the wanted commands: preparing all of them would cost every call several milliseconds."""
    known = commands()
    common = _Parser(add_help=False, argument_default=SUPPRESS)
    _add(common.add_argument_group("options of every command"), COMMON)
    parser = _Parser(prog=PROGRAM, description=DESCRIPTION, parents=[common])
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", prog=PROGRAM)
    groups = {"": verbs}
    for command in known if wanted is None else wanted:
        group, _, verb = command.name.rpartition(" ")
        if group not in groups:
            several = [one for one in known if one.name.startswith(f"{group} ")]
            about = f"{' | '.join(one.name.partition(' ')[2] for one in several)}: {GROUPS.get(group, '')}"
            inner = verbs.add_parser(group, help=about, parents=[common] if group in BARE else [])
            inner.set_defaults(command=next((one for one in several if one.name == BARE.get(group)), None))
            groups[group] = inner.add_subparsers(title="commands", metavar="COMMAND", required=group not in BARE)
        shared = [] if command.is_apart else [common]
        summary = command.summary.replace("%", "%%")
        takes = parameters_of(command)
        usage = " ".join([PROGRAM, command.name, *(positional(one) for one in takes if not one.is_option), "[options]"])
        one = groups[group].add_parser(verb, help=summary, description=command.summary, parents=shared, usage=usage)
        _add(one, takes)
        one.set_defaults(command=command)
    return parser


def described(one: Parameter) -> str:
    """The words for a parameter, with what its declaration says of it."""
    arg, words = one.arg, one.arg.command_words or one.arg.words
    if one.type == "flag" and one.default is True:
        words = f"do not {words}"
    if one.arg.reads_input:
        words += ", or - to read it from standard input"
    if not all(choice in words for choice in arg.choices):
        words += f" ({', '.join(arg.choices)})"
    if (arg.least, arg.most) == (0, 1):
        words = f"0 to 1, {words}"
    default = one.arg.usual if one.default is None else one.default
    if one.is_option and isinstance(default, str | int | float) and not isinstance(default, bool):
        words += f" (default {default:g})" if isinstance(default, float | int) else f" (default {default})"
    if one.is_option and one.type == "texts":
        words += "; may be repeated"
    return f"{words}; or -n N" if one.option == "limit" else words


def metavar(one: Parameter) -> str:
    kinds = {"number": "N", "integer": "N", "object": "JSON"}
    named = one.option.upper().replace("-", "_")
    return one.arg.metavar or (kinds.get(one.type, named) if one.is_option else named)


def positional(one: Parameter) -> str:
    """How usage spells a parameter that is no option."""
    named = f"{metavar(one)}{'…' if one.type == 'texts' or one.arg.is_sentence else ''}"
    return named if one.default is NOT_GIVEN else f"[{named}]"


def _add(parser: _ActionsContainer, parameters: Iterable[Parameter]) -> None:
    for one in parameters:
        settings: dict[str, Any] = {"help": described(one).replace("%", "%%")}
        if one.type == "flag" and one.is_option:
            settings["action"] = "store_false" if one.default is True else "store_true"
        else:
            settings["metavar"] = metavar(one)
        if one.type in ("number", "integer"):
            settings["type"] = _number if one.type == "number" else _whole_number
        if one.is_option:
            # An option of every command may have been given before the command: it has its default from `parse`.
            settings["default"] = SUPPRESS if one.dest in _COMMON_NAMES else one.default
            if one.type == "texts":
                settings["action"] = "append"
            if one.name == "remote" and one in COMMON:
                settings |= {"action": "append", "nargs": "?", "const": True}
            parser.add_argument(f"--{one.option}", dest=one.dest, **settings)
            continue
        if one.default is not NOT_GIVEN:
            settings["default"] = one.default
        is_many = one.type == "texts" or one.arg.is_sentence
        if is_many or one.default is not NOT_GIVEN:
            settings["nargs"] = ("+" if one.default is NOT_GIVEN else "*") if is_many else "?"
        parser.add_argument(one.name, **settings)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text[:40]!r} is not a number") from None


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text[:40]!r} is not a whole number") from None


def _spelled_out(argv: Sequence[str], named: Iterable[Command]) -> Sequence[str]:
    """With the short form of --limit as the long one: argparse would take any text that begins with -n for it. With
    the tags of `tag` as options: -draft would be none."""
    if any(command.name == "tag" for command in named):
        signed = ((text, _SIGNED.fullmatch(text)) for text in argv)
        return [text if tag is None else f"--{_SIGNS[tag[1]]}={tag[2]}" for text, tag in signed]
    if not any(one.option == "limit" for command in named for one in parameters_of(command)):
        return argv
    end = argv.index("--") if "--" in argv else len(argv)
    found = [(text, _SHORT.fullmatch(text)) for text in argv[:end]]
    long = [text if short is None else f"--limit={short[1]}" if short[1] else "--limit" for text, short in found]
    return [*long, *argv[end:]]


def _with_bare_remote(argv: Sequence[str], known: Iterable[Command]) -> list[str]:
    """`--remote` in front of the command takes no address from it: `--remote search x` is not an address `search`."""
    verbs = {command.name.partition(" ")[0] for command in known}
    given = list(argv)
    for index, (option, following) in enumerate(pairwise(given)):
        if option in verbs or option == "--":
            break
        if option == "--remote" and following in verbs:
            given[index] = f"--remote={DEFAULT_ENDPOINT}"
            break
    return given
