"""From the table of commands to a parser. A wrong command line becomes one sentence, not a screen of usage."""

from __future__ import annotations

import re
from argparse import SUPPRESS, ArgumentParser, Namespace, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Any, NoReturn

from kingly_memory.cli.commands import BARE, COMMANDS, COMMON, COMMON_DEFAULTS, GROUPS, Argument, Command
from kingly_memory.cli.failures import UsageError
from kingly_memory.cli.output import width
from kingly_memory.settings import DEFAULT_ENDPOINT

PROGRAM = "kingly-memory"

DESCRIPTION = """\
Memory for agents that keeps working when the network doesn't.

Start with:  kingly-memory demo
Then:        kingly-memory store "Deploys need two reviews" --key deploy
             kingly-memory search "who reviews a deploy"
"""


_DASHED = re.compile(r"-(?!-|h$).+", re.DOTALL)
"""No option of ours begins with a single dash but -h, and -n, which is spelled out before."""

_SHORT = re.compile(r"-n(?:=?(\d+))?")
"""`-n 5`, `-n5` or `-n=5`, for `--limit 5`."""


class _Formatter(RawDescriptionHelpFormatter):
    """Asks for the width itself: argparse would load shutil for that, with three compression libraries."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=max(width() - 2, 40))


class _Parser(ArgumentParser):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": _Formatter, "allow_abbrev": False, **settings})

    def error(self, message: str) -> NoReturn:
        raise UsageError(self.prog, message)


def parse(argv: Sequence[str]) -> Namespace:
    """The options of a command line; `command_function` names what does it. Raises UsageError; --help exits."""
    named = [command for command in COMMANDS if command.name.partition(" ")[0] in argv]
    argv = _spelled_out(argv, named)
    parser = build(named if named and not {"-h", "--help"} & set(argv) else COMMANDS)
    try:
        return parser.parse_args(_with_bare_remote(argv), Namespace(**COMMON_DEFAULTS, command_function=None))
    except UsageError as error:
        if error.program == PROGRAM and (meant := _meant(named, argv)) is not None:
            raise UsageError(f"{PROGRAM} {meant.name}", error.problem) from None
        text = next((text for text in argv if _DASHED.fullmatch(text)), None)
        if text is None:
            raise
        raise UsageError(
            error.program, f"{text!r} is no option; put -- before a text that begins with a dash"
        ) from None


def _meant(named: Iterable[Command], argv: Sequence[str]) -> Command | None:
    """The command that stands there, word by word: the parser of all commands complains of what it has left over."""
    said = [text for text in argv if not text.startswith("-")]
    fitting = [one for one in named if said[: len(one.name.split())] == one.name.split()]
    return max(fitting, key=lambda one: len(one.name), default=None)


def build(wanted: Collection[Command] = COMMANDS) -> ArgumentParser:
    """The parser for the wanted commands: preparing all of them would cost every call several milliseconds."""
    common = _Parser(add_help=False, argument_default=SUPPRESS)
    _add(common, COMMON)
    parser = _Parser(
        prog=PROGRAM,
        description=DESCRIPTION,
        parents=[common],
    )
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", prog=PROGRAM)
    groups: dict[str, _SubParsersAction[_Parser]] = {"": verbs}
    for command in wanted:
        group, _, verb = command.name.rpartition(" ")
        if group not in groups:
            is_bare = group in BARE
            inner = verbs.add_parser(group, help=_group_summary(group), parents=[common] if is_bare else [])
            inner.set_defaults(command_function=_bare(group))
            groups[group] = inner.add_subparsers(title="commands", metavar="COMMAND", required=not is_bare)
        shared = [] if command.is_apart else [common]
        one = groups[group].add_parser(verb, help=command.summary, description=command.summary, parents=shared)
        _add(one, command.arguments)
        one.set_defaults(command_function=command.target)
    return parser


def _bare(group: str) -> str | None:
    """The function of a group that may be said without any of its verbs."""
    return next((command.target for command in COMMANDS if command.name == BARE.get(group)), None)


def _add(parser: ArgumentParser, arguments: Iterable[Argument]) -> None:
    for one in arguments:
        parser.add_argument(one.name, help=one.help.replace("%", "%%"), **one.settings)


def _group_summary(group: str) -> str:
    inner: list[Command] = [command for command in COMMANDS if command.name.startswith(f"{group} ")]
    return f"{' | '.join(command.name.partition(' ')[2] for command in inner)}: {GROUPS[group]}"


def _spelled_out(argv: Sequence[str], named: Iterable[Command]) -> Sequence[str]:
    """With the short form of --limit as the long one: argparse would take any text that begins with -n for it."""
    if not any(argument.name == "--limit" for command in named for argument in command.arguments):
        return argv
    end = argv.index("--") if "--" in argv else len(argv)
    return [*map(_long, argv[:end]), *argv[end:]]


def _long(text: str) -> str:
    match = _SHORT.fullmatch(text)
    if match is None:
        return text
    return "--limit" if match[1] is None else f"--limit={match[1]}"


def _with_bare_remote(argv: Sequence[str]) -> list[str]:
    """`--remote` in front of the command takes no address from it: `--remote search x` is not an address `search`."""
    verbs = {command.name.partition(" ")[0] for command in COMMANDS}
    given = list(argv)
    for index, (option, following) in enumerate(pairwise(given)):
        if option in verbs or option == "--":
            break
        if option == "--remote" and following in verbs:
            given[index] = f"--remote={DEFAULT_ENDPOINT}"
            break
    return given
