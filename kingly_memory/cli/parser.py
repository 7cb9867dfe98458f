"""From a command line to a command with its options, or to one sentence that says what is wrong with it.

Everything is read from the declarations, and what is printed for `--help` too. argparse would take as long to load and
to set up as a search takes.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from kingly_memory.cli.commands import COMMON, DAILY, FOR, GROUPS, REMOTE, Command, Options, commands, parameters_of
from kingly_memory.cli.output import width
from kingly_memory.declare import NOT_GIVEN, Parameter
from kingly_memory.errors import KinglyMemoryError

PROGRAM = "kingly-memory"

DESCRIPTION = "Memory for agents that keeps working when the network doesn't. `kingly-memory demo` shows how."

_LIMIT = re.compile(r"-n(?:=?(\d+))?")
"""`-n 5`, `-n5` or `-n=5`, for `--limit 5`."""
_TEXT = re.compile(r"-?|[^-].*|-\d*\.?\d+|-.* .*", re.DOTALL)
"""Matches a word that is no option: also a dash alone, a negative number, and a word with a space."""
_VALUE = re.compile(rf"{_TEXT.pattern}|-\d.*", re.DOTALL)
"""Matches the value of an option. Also a malformed negative number, which the option then refuses by name."""


_UTF8 = ("key", "key_or_id", "content", "project", "user", "agent", "context_id", "namespace", "session")
"""Arguments that must be UTF-8, because other bytes would make two keys, users or projects one. Names of files may have
other bytes."""


class UsageError(KinglyMemoryError):
    """The command line cannot be understood. `field` is the argument at fault, when it is one."""

    def __init__(self, command: str, problem: str, parameter: Parameter | None) -> None:
        self.field = None if parameter is None else parameter.option.replace("-", "_")
        sentence = problem if parameter is None else f"{called(parameter)}: {problem}"
        super().__init__(f"{sentence} (see `{PROGRAM}{command and ' '}{command} --help`)")


def parse(argv: Sequence[str]) -> Options:
    """What a command line says: its `command`, None where none is named, with all options; or `help`, what is to be
    printed instead. Raises UsageError."""
    if argv[:1] in (["--version"], ["-V"]):
        argv = ["version", *argv[1:]]
    elif argv[:1] == ["help"]:
        argv = ["--help", "all"] if argv[1:] == ["all"] else [*argv[1:], "--help"]
    return _Line(argv).read()


class _Line:
    """A command line that is read word by word. Options may stand before and after the command."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = deque(words)
        self._known = {one.name: one for one in commands()}
        self._name = ""
        """The command, or the group of it, as far as it was said."""
        self._takes = {one.option: one for one in COMMON}
        self._texts: list[str] = []
        self._options = Options(**{one.dest: one.default for one in COMMON}, command=None, help=None)

    def read(self) -> Options:
        while self._words:
            word = self._words.popleft()
            if word in ("-h", "--help"):
                self._options.help = help_of(self._name, in_full="all" in self._words)
                return self._options
            if word == "--":
                self._texts.extend(self._words)
                break
            if word.startswith("--") and " " not in word.partition("=")[0]:
                self._option(*word[2:].partition("="))
            elif not _TEXT.fullmatch(word):
                self._short(word)
            elif self._options.command is None or (not self._texts and word in self._next()):
                self._command(word)
            elif word.startswith("+") and "add" in self._takes:
                self._keep(self._takes["add"], word[1:])
            else:
                self._texts.append(word)
        for word in ("list", "status"):  # what a group does by itself
            shows = self._known.get(f"{self._name} {word}")
            if self._options.command is None and shows is not None and not any(map(_is_required, parameters_of(shows))):
                self._command(word)
        if self._options.command is not None:
            self._fill(self._options.command)
        elif self._name or self._texts:
            self._refuse(f"COMMAND is missing; choose one of {', '.join(self._next())}")
        return self._options

    def _command(self, word: str) -> None:
        name = f"{self._name} {word}".lstrip()
        if word in self._next():
            self._name, command = name, self._known.get(name)
            if command is not None:
                own = parameters_of(command)
                self._options.command = command
                self._takes = {} if command.is_apart else self._takes
                self._takes |= {parameter.option: parameter for parameter in own if parameter.is_option}
                # What every command takes may have been said before the command.
                vars(self._options).update(
                    {parameter.dest: parameter.default for parameter in own} | vars(self._options)
                )
            return
        of = f" of {self._name}" if self._name else ""
        near = _near(word, self._next())
        choices = f"; choose one of {', '.join(self._next())}" if self._name else ""
        self._refuse(f"{word!r} is no command{of}{near or choices}")

    def _next(self) -> Sequence[str]:
        return next_words(self._name, self._known)

    def _option(self, name: str, equals: str, value: str) -> None:
        parameter = self._takes.get(name)
        if parameter is None:
            near = _near(name, self._takes, "--")
            self._refuse(f"--{name[:40]} is no option{' of ' if self._name else ''}{self._name}{near}")
        if parameter.type == "flag":
            if equals:
                self._refuse("takes no value", parameter)
            setattr(self._options, parameter.dest, parameter.default is not True)
        elif equals:
            self._keep(parameter, value)
        # `--remote` before the command takes no address from it: in `--remote search x` it stands alone.
        elif parameter is REMOTE and self._words and self._options.command is None and self._words[0] in self._next():
            self._keep(parameter, True)
        elif self._words and _VALUE.fullmatch(self._words[0]):
            self._keep(parameter, self._words.popleft())
        elif parameter is REMOTE:
            self._keep(parameter, True)
        else:
            self._refuse("expected a value", parameter)

    def _short(self, word: str) -> None:
        short = _LIMIT.fullmatch(word)
        if short is not None and "limit" in self._takes:
            self._option("limit", "=" if short[1] else "", short[1] or "")
        elif "remove" in self._takes and "add" in self._takes:  # tag KEY -draft
            self._keep(self._takes["remove"], word[1:])
        else:
            self._refuse(f"{word!r} is no option; put -- before a text that begins with a dash")

    def _keep(self, parameter: Parameter, given: str | bool) -> None:
        value: Any = given if given is True else self._meant(parameter, str(given))
        if parameter.type == "texts" or parameter is REMOTE:
            value = [*(getattr(self._options, parameter.dest) or ()), value]
        setattr(self._options, parameter.dest, value)

    def _fill(self, command: Command) -> None:
        """Give the texts to the positional parameters, in their order."""
        left = self._texts
        if len(left) == 1 and "://" in left[0] and command.name == "remotes add":
            self._refuse("NAME is missing; it stands before the URL, as in `remotes add team URL`")
        for parameter in parameters_of(command):
            if parameter.is_option:
                continue
            is_many = parameter.type == "texts" or parameter.arg.is_sentence
            taken, left = (left, []) if is_many else (left[:1], left[1:])
            if taken:
                values = [self._meant(parameter, text) for text in taken]
                setattr(self._options, parameter.dest, values if is_many else values[0])
            elif _is_required(parameter):
                self._refuse(f"{metavar(parameter)} is missing")
        if left and (subcommands := self._next()):
            self._refuse(f"{left[0]!r} is no command of {self._name}{_near(left[0], subcommands)}")
        if left:
            self._refuse(f"{left[0][:40]!r} is a word too many; put a text of several words in quotes")

    def _meant(self, parameter: Parameter, text: str) -> Any:
        kinds: dict[str, tuple[type, str]] = {"number": (float, "a number"), "integer": (int, "a whole number")}
        if parameter.type not in kinds:
            if not text and parameter.arg.metavar in ("FILE", "PATH"):
                self._refuse("is empty", parameter)  # an unset variable; it would be the current folder
            if (
                parameter.name in _UTF8
                and not text.isascii()
                and any("\ud800" <= letter <= "\udfff" for letter in text)
            ):
                self._refuse("has bytes that are no UTF-8", parameter)
            return text
        kind, what = kinds[parameter.type]
        try:
            return kind(text)
        except ValueError:
            self._refuse(f"{text[:40]!r} is not {what}", parameter)

    def _refuse(self, problem: str, parameter: Parameter | None = None) -> NoReturn:
        raise UsageError(self._name, problem, parameter)


def _is_required(parameter: Parameter) -> bool:
    return not parameter.is_option and parameter.default is NOT_GIVEN


def next_words(begun: str, names: Iterable[str]) -> Sequence[str]:
    """The words that may come next in the name of a command that begins so."""
    start = f"{begun} ".lstrip()
    rest = (name.removeprefix(start) for name in names if name.startswith(start))
    return list(dict.fromkeys(name.partition(" ")[0] for name in rest))


_ELSEWHERE = {
    **dict.fromkeys(("add", "new", "save", "remember"), "store"),
    **dict.fromkeys(("find", "query", "recall"), "search"),
    **dict.fromkeys(("show", "read", "cat"), "get"),
    **dict.fromkeys(("delete", "remove", "rm"), "forget"),
}
"""What other programs call our commands."""


def _near(word: str, names: Iterable[str], dashes: str = "") -> str:
    from difflib import get_close_matches

    choices = list(names)
    meant = [_ELSEWHERE[word]] if _ELSEWHERE.get(word) in choices else []
    near = meant or get_close_matches(word, choices, n=1)
    return f"; did you mean {f'{dashes}{near[0]}'!r}?" if near else ""


# --- what is told of commands and parameters --------------------------------------------------------------------------


def help_of(name: str, *, in_full: bool = False) -> str:
    """What `--help` prints of a command, of a group of them, or of the program: that fits a screen, unless a line is
    said of every command, `in_full`."""
    from textwrap import wrap

    by_name = {one.name: one for one in commands()}
    lines = [f"usage: {PROGRAM} {f'{name} COMMAND'.lstrip()} [options]", ""]
    if (command := by_name.get(name)) is not None:
        own = parameters_of(command)
        places = [one for one in own if not one.is_option]
        lines[0] = " ".join([f"usage: {PROGRAM} {name}", *map(positional, places), "[options]"])
        lines += [*wrap(command.says, max(width() - 2, 40)), ""]
        lines += _rows((metavar(one), described(one)) for one in places) if places else []
        options = [one for one in own if one.is_option]
        lines += ["options:", *_rows((spelled(one), described(one)) for one in options)] if options else []
        more = [(word, _about(f"{name} {word}", by_name)) for word in next_words(name, by_name)]
        lines += ["commands:", *_rows(more)] if more else []
    else:
        lines += [] if name else [DESCRIPTION, ""]
        sections = (
            {"commands": " ".join(next_words(name, by_name))} if name else FOR if in_full else {"every day": DAILY}
        )
        for heading, words in sections.items():
            about = ((word, _about(f"{name} {word}".lstrip(), by_name)) for word in words.split())
            lines += [f"{heading}:", *_rows(about)]
        if not name and not in_full:
            lines += [
                "all commands, of which `help all` says a line each and `help COMMAND` more:",
                *_rows(FOR.items()),
            ]
    if command is None or not command.is_apart:
        lines += ["options of every command:", *_rows((spelled(one), described(one)) for one in COMMON)]
    return "\n".join(lines).rstrip()


def _about(name: str, by_name: dict[str, Command]) -> str:
    """What a command is for, in few words, or what the commands of a group are about."""
    if name in by_name:
        return re.split(r"[.:;]\s", by_name[name].says)[0].removesuffix(".")
    return f"{GROUPS[name][0].upper()}{GROUPS[name][1:]}: {' | '.join(next_words(name, by_name))}"


def _rows(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A name and its words in two columns, and an empty line behind all."""
    from textwrap import wrap

    indent = " " * 24
    for name, words in rows:
        begun = f"  {name:<22}"
        first, *more = wrap(words, max(width() - 2, 40), initial_indent=indent, subsequent_indent=indent)
        yield from [begun.rstrip(), first] if len(begun) > len(indent) else [begun + first[len(indent) :]]
        yield from more
    yield ""


def described(parameter: Parameter) -> str:
    """The words for a parameter, with what its declaration says of it."""
    arg, words = parameter.arg, parameter.arg.command_words or parameter.arg.words
    if parameter.type == "flag" and parameter.default is True:
        words = f"do not {words}"
    if parameter.arg.reads_input:
        words += ", or - to read it from standard input"
    if not all(choice in words for choice in arg.choices):
        words += f" ({', '.join(arg.choices)})"
    if (arg.least, arg.most) == (0, 1):
        words = f"0 to 1, {words}"
    default = parameter.usual
    if (
        parameter.is_option
        and default != ""
        and isinstance(default, str | int | float)
        and not isinstance(default, bool)
    ):
        words += f" (default {default:g})" if isinstance(default, float | int) else f" (default {default})"
    if parameter.is_option and parameter.type == "texts":
        words += "; may be repeated"
    return f"{words}; or -n N" if parameter.option == "limit" else words


def metavar(parameter: Parameter) -> str:
    kinds = {"number": "N", "integer": "N", "object": "JSON"}
    named = parameter.option.upper().replace("-", "_")
    return parameter.arg.metavar or (kinds.get(parameter.type, named) if parameter.is_option else named)


def positional(parameter: Parameter) -> str:
    """How usage spells a parameter that is no option."""
    named = f"{metavar(parameter)}{'…' if parameter.type == 'texts' or parameter.arg.is_sentence else ''}"
    return named if parameter.default is NOT_GIVEN else f"[{named}]"


def called(parameter: Parameter) -> str:
    """What a sentence about it begins with."""
    return f"--{parameter.option}" if parameter.is_option else metavar(parameter)


def spelled(parameter: Parameter) -> str:
    """How help and docs spell a parameter."""
    value = metavar(parameter)
    if not parameter.is_option:
        return value
    if parameter.type == "flag":
        return f"--{parameter.option}"
    return f"--{parameter.option} [{value}]" if parameter is REMOTE else f"--{parameter.option} {value}"
