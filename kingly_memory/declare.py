"""A verb is declared once, above the method that does it: what the faces call it, and in few words what it takes.

The command line, the MCP tools and both reference pages are derived from that. `python -m tools.blocking` reads the
declarations with the signatures and writes `api/declared.py`, a plain table: a cold command pays for every import.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal, TypeVar

from kingly_memory.dataclass import NamedTuple
from kingly_memory.errors import NothingUnder

NOT_GIVEN: Any = ...
F = TypeVar("F", bound=Callable[..., Any])
Type = Literal["text", "integer", "number", "flag", "texts", "object", "text or texts", "number or text"]


class Arg(NamedTuple):
    """What the faces say of a parameter, in `Annotated[T, Arg(…)]`. A parameter without it is for Python alone.

    What must be given is positional on the command line, everything else is an option.
    """

    words: str
    metavar: str | None = None
    option: str | None = None
    """Its name on the command line, where that is not its own."""
    tool: str | None = None
    """Its name as an argument of the MCP tool, where that is not its own."""
    also: tuple[str, ...] = ()
    """Other names under which the MCP tool takes it."""
    choices: tuple[str, ...] = ()
    """What is shown; the verb itself refuses others."""
    is_closed: bool = False
    """The tool takes those choices and no others, whatever the verb takes."""
    least: float | None = None
    most: float | None = None
    only: Literal["command", "tool"] | None = None
    type: Type | None = None
    """What the faces take, where the signature does not say it."""
    command_words: str | None = None
    """What the help of the command says instead."""
    usual: Any = None
    """What is meant by None, where a new memory and a new revision of one mean different things by it."""
    tool_default: Any = NOT_GIVEN
    command_default: Any = NOT_GIVEN
    is_positional: bool = False
    """It is positional on the command line although it may be left out."""
    is_sentence: bool = False
    """On the command line it takes all words up to the next option as one text."""
    reads_input: bool = False
    """On the command line `-` reads it from standard input."""
    takes_anything: bool = False
    """The MCP tool turns what is no text into JSON."""


class Parameter(NamedTuple):
    """A parameter of a verb or of a command."""

    name: str
    type: Type
    arg: Arg
    default: Any = NOT_GIVEN
    is_option: bool = True

    @property
    def option(self) -> str:
        """Its name on the command line, without dashes; `no-…` switches off what is on."""
        name = (self.arg.option or self.name).replace("_", "-")
        return f"no-{name}" if self.type == "flag" and self.default is True else name

    @property
    def dest(self) -> str:
        """Where the parser puts it; `--remote` of every command is another one than the `remote` of a verb."""
        return "remote_label" if self.name == "remote" and self.arg.option else self.name

    @property
    def usual(self) -> Any:
        """The value that holds where the parameter is left out, as help and schemas show it."""
        return self.arg.usual if self.default is None else self.default

    @property
    def tool_name(self) -> str:
        return self.arg.tool or self.name


class Verb(NamedTuple):
    """One verb of the public API with its names in the faces; None where a face does not have it."""

    calls: str
    """`store` and `threads.merge` are methods of the router, `module:function` is a function that takes it first."""
    command: str | None
    tool: str | None
    toolset: str
    title: str
    says: str
    """The first paragraph of the docstring."""
    takes: Callable[[], tuple[Parameter, ...]]
    """Its parameters, which are made when they are asked for: a command needs those of one verb."""
    example: str = "{}"
    answers: tuple[str, ...] = ()
    """The fields of the tool's answer: `name`; `name=field` of what the verb answers; `name?`, which is left out where
    it says nothing; `…` for all that there are."""
    reads: bool | str = False
    """It changes nothing; or the flag with which that is so, or `not` and the flag without which it is."""
    destroys: bool = False
    """It may replace or take away."""
    repeatable: bool = False
    """The same call again changes nothing more."""

    @property
    def name(self) -> str:
        return self.calls.replace(":", ".").rpartition(".")[2]

    @property
    def has_author(self) -> bool:
        """Whether it takes who speaks as `origin`, which faces say themselves."""
        return self.calls in ("store", "update", "attention.pin")

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self.takes()

    def of(self, face: Literal["command", "tool"]) -> list[Parameter]:
        """The parameters that the face has, with its defaults."""
        found = [one for one in self.parameters if one.arg.only in (None, face)]
        own = [parameter.arg.tool_default if face == "tool" else parameter.arg.command_default for parameter in found]
        return [
            parameter if default is NOT_GIVEN else parameter._replace(default=default)
            for parameter, default in zip(found, own, strict=True)
        ]

    def only_reads(self, arguments: dict[str, Any]) -> bool:
        """Whether the call with these arguments changes nothing."""
        if isinstance(self.reads, bool):
            return self.reads
        *without, flag = self.reads.split()
        return bool(arguments[flag]) is not bool(without)

    def answer_of(self, result: dict[str, Any]) -> dict[str, Any]:
        """What the tool answers of a result's fields."""
        if not self.answers or "…" in self.answers:
            return result
        fields = ((*answered(one), one.endswith("?")) for one in self.answers)
        return {
            name: result[source]
            for name, source, is_optional in fields
            if source in result and not (is_optional and result[source] is None)
        }

    def found(self, result: Any, arguments: dict[str, Any]) -> Any:
        """The result of the call. Raises NothingUnder where nothing has the name that was given."""
        if result is None or (result == () and self.name == "history"):
            name = next(field for field in ("key_or_id", "key", "session") if field in arguments)
            raise NothingUnder(arguments[name], field=name, namespace=arguments.get("namespace"))
        return result

    def call(self, memory: Any, arguments: dict[str, Any]) -> Any:
        """Call the verb of a router, blocking or awaiting. An argument that is None was not given, and the
        verb's own default holds."""
        given = {name: value for name, value in arguments.items() if value is not None}
        if ":" in self.calls:
            module, _, name = self.calls.partition(":")
            return getattr(import_module(module), name)(memory, **given)
        for part in self.calls.split("."):
            memory = getattr(memory, part)
        return memory(**given)


def answered(declared: str) -> tuple[str, str]:
    """A field of a tool's answer, as `Verb.answers` names it, and the field of the verb's result that it is."""
    name, _, source = declared.rstrip("?").partition("=")
    return name, source or name


class Declared(NamedTuple):
    """What `verb` says of the function below it, besides its signature and docstring."""

    command: str | None
    tool: str | None
    toolset: str
    title: str
    effect: dict[str, Any]


def verb(
    command: str | None = None,
    tool: str | None = None,
    toolset: str = "",
    title: str = "",
    *,
    reads: bool | str = False,
    destroys: bool = False,
    repeatable: bool = False,
) -> Callable[[F], F]:
    """Declare the method below as a verb, or a function that takes a router first; see `Verb` for the words."""
    effect = {"reads": reads, "destroys": destroys, "repeatable": repeatable}

    def declare(function: F) -> F:
        function.__dict__["declared"] = Declared(command, tool, toolset, title, effect)
        return function

    return declare


def example(call: str, answers: str) -> Callable[[F], F]:
    """The JSON of a call of the tool, and the fields of its answer as in `Verb.answers`."""

    def declare(function: F) -> F:
        function.__dict__["example"] = call, tuple(answers.split())
        return function

    return declare


KEY_OR_ID = Arg("key or id of a memory", "KEY_OR_ID")
THREAD_ID = Arg("id of a thread, or key or id of a memory in it", "THREAD", option="thread")
CONTEXT = Arg("conversation or task it belongs to; 'current': the last one", "ID", option="context")
OWN_TAGS = Arg("words to filter by", "TAG", option="tag")
SIGNIFICANCE = Arg("how much it matters; 0.3 or less never leaves this machine", least=0, most=1)
FACTS = Arg("further facts", "JSON")
LIMIT = Arg("how many to show", "N", command_default=20)
BEFORE = Arg("go on from this position, which the page before names", "POSITION")
