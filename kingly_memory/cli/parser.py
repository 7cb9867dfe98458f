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
"""What is no option: also a dash alone, a negative number, and what has a space in it."""
_VALUE = re.compile(rf"{_TEXT.pattern}|-\d.*", re.DOTALL)
"""What an option takes: also what begins like a negative number, of which the option itself says what is wrong."""


_UTF8 = ("key", "key_or_id", "content")
"""What may not have other bytes: two keys would become one. Names of files may."""


class UsageError(KinglyMemoryError):
    """The command line cannot be understood. `field` is the argument at fault, when it is one."""

    def __init__(self, command: str, problem: str, field: str | None = None) -> None:
        self.field = None if field is None else field.replace("-", "_")
        told = problem if field is None else f"{field}: {problem}"
        super().__init__(f"{told} (see `{PROGRAM}{command and ' '}{command} --help`)")


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
        listing = self._known.get(f"{self._name} list")
        if self._options.command is None and listing is not None and not any(map(_is_required, parameters_of(listing))):
            self._command("list")
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
                self._takes |= {one.option: one for one in own if one.is_option}
                # What every command takes may have been said before the command.
                vars(self._options).update({one.dest: one.default for one in own} | vars(self._options))
            return
        of = f" of {self._name}" if self._name else ""
        near = _near(word, self._next())
        others = f"; choose one of {', '.join(self._next())}" if self._name else ""
        self._refuse(f"{word!r} is no command{of}{near or others}")

    def _next(self) -> Sequence[str]:
        return next_words(self._name, self._known)

    def _option(self, name: str, equals: str, value: str) -> None:
        one = self._takes.get(name)
        if one is None:
            near = _near(name, self._takes, "--")
            self._refuse(f"--{name[:40]} is no option{' of ' if self._name else ''}{self._name}{near}")
        if one.type == "flag":
            if equals:
                self._refuse("takes no value", one)
            setattr(self._options, one.dest, one.default is not True)
        elif equals:
            self._keep(one, value)
        # `--remote` before the command takes no address from it: in `--remote search x` it stands alone.
        elif one is REMOTE and self._words and self._options.command is None and self._words[0] in self._next():
            self._keep(one, True)
        elif self._words and _VALUE.fullmatch(self._words[0]):
            self._keep(one, self._words.popleft())
        elif one is REMOTE:
            self._keep(one, True)
        else:
            self._refuse("expected a value", one)

    def _short(self, word: str) -> None:
        short = _LIMIT.fullmatch(word)
        if short is not None and "limit" in self._takes:
            self._option("limit", "=" if short[1] else "", short[1] or "")
        elif "remove" in self._takes and "add" in self._takes:  # tag KEY -draft
            self._keep(self._takes["remove"], word[1:])
        else:
            self._refuse(f"{word!r} is no option; put -- before a text that begins with a dash")

    def _keep(self, one: Parameter, said: str | bool) -> None:
        value: Any = said if said is True else self._meant(one, str(said))
        if one.type == "texts" or one is REMOTE:
            value = [*(getattr(self._options, one.dest) or ()), value]
        setattr(self._options, one.dest, value)

    def _fill(self, command: Command) -> None:
        """Give the texts to what is no option, in its order."""
        left = self._texts
        for one in parameters_of(command):
            if one.is_option:
                continue
            is_many = one.type == "texts" or one.arg.is_sentence
            taken, left = (left, []) if is_many else (left[:1], left[1:])
            if taken:
                values = [self._meant(one, text) for text in taken]
                setattr(self._options, one.dest, values if is_many else values[0])
            elif _is_required(one):
                self._refuse(f"{metavar(one)} is missing")
        if left and (known := self._next()):
            self._refuse(f"{left[0]!r} is no command of {self._name}{_near(left[0], known)}")
        if left:
            self._refuse(f"{left[0][:40]!r} is a word too many; put a text of several words in quotes")

    def _meant(self, one: Parameter, text: str) -> Any:
        kinds: dict[str, tuple[type, str]] = {"number": (float, "a number"), "integer": (int, "a whole number")}
        if one.type not in kinds:
            if one.name in _UTF8 and not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
                self._refuse("has bytes that are no UTF-8", one)
            return text
        kind, what = kinds[one.type]
        try:
            return kind(text)
        except ValueError:
            self._refuse(f"{text[:40]!r} is not {what}", one)

    def _refuse(self, problem: str, one: Parameter | None = None) -> NoReturn:
        raise UsageError(self._name, problem, None if one is None else one.option)


def _is_required(one: Parameter) -> bool:
    return not one.is_option and one.default is NOT_GIVEN


def next_words(begun: str, names: Iterable[str]) -> Sequence[str]:
    """The words that may come next in the name of a command of which that much was said."""
    start = f"{begun} ".lstrip()
    rest = (name.removeprefix(start) for name in names if name.startswith(start))
    return list(dict.fromkeys(name.partition(" ")[0] for name in rest))


def _near(word: str, known: Iterable[str], dashes: str = "") -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {f'{dashes}{near[0]}'!r}?" if near else ""


# --- what is told of commands and parameters --------------------------------------------------------------------------


def help_of(name: str, *, in_full: bool = False) -> str:
    """What `--help` prints of a command, of a group of them, or of the program: that fits a screen, unless a line is
    said of every command, `in_full`."""
    from textwrap import wrap

    known = {one.name: one for one in commands()}
    lines = [f"usage: {PROGRAM} {f'{name} COMMAND'.lstrip()} [options]", ""]
    if (command := known.get(name)) is not None:
        own = parameters_of(command)
        places = [one for one in own if not one.is_option]
        lines[0] = " ".join([f"usage: {PROGRAM} {name}", *map(positional, places), "[options]"])
        lines += [*wrap(command.says, max(width() - 2, 40)), ""]
        lines += _rows((metavar(one), described(one)) for one in places) if places else []
        options = [one for one in own if one.is_option]
        lines += ["options:", *_rows((spelled(one), described(one)) for one in options)] if options else []
        more = [(word, _about(f"{name} {word}", known)) for word in next_words(name, known)]
        lines += ["commands:", *_rows(more)] if more else []
    else:
        lines += [] if name else [DESCRIPTION, ""]
        several = {"commands": " ".join(next_words(name, known))} if name else FOR if in_full else {"every day": DAILY}
        for heading, words in several.items():
            told = ((word, _about(f"{name} {word}".lstrip(), known)) for word in words.split())
            lines += [f"{heading}:", *_rows(told)]
        if not name and not in_full:
            lines += [
                "all commands, of which `help all` says a line each and `help COMMAND` more:",
                *_rows(FOR.items()),
            ]
    if command is None or not command.is_apart:
        lines += ["options of every command:", *_rows((spelled(one), described(one)) for one in COMMON)]
    return "\n".join(lines).rstrip()


def _about(name: str, known: dict[str, Command]) -> str:
    """What a command is for, in few words, or what the commands of a group are about."""
    if name in known:
        return re.split(r"[.:;]\s", known[name].says)[0].removesuffix(".")
    return f"{GROUPS[name][0].upper()}{GROUPS[name][1:]}: {' | '.join(next_words(name, known))}"


def _rows(told: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A name and its words in two columns, and an empty line behind all."""
    from textwrap import wrap

    indent = " " * 24
    for name, words in told:
        begun = f"  {name:<22}"
        first, *more = wrap(words, max(width() - 2, 40), initial_indent=indent, subsequent_indent=indent)
        yield from [begun.rstrip(), first] if len(begun) > len(indent) else [begun + first[len(indent) :]]
        yield from more
    yield ""


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
    default = one.usual
    if one.is_option and default != "" and isinstance(default, str | int | float) and not isinstance(default, bool):
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


def spelled(one: Parameter) -> str:
    """How help and docs spell a parameter."""
    value = metavar(one)
    if not one.is_option:
        return value
    if one.type == "flag":
        return f"--{one.option}"
    return f"--{one.option} [{value}]" if one is REMOTE else f"--{one.option} {value}"
