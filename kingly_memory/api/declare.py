"""Every verb is declared once, as a function with typed and described parameters.

The command line (`cli/`), the MCP tools (`server/`) and the reference pages are derived from these declarations, so a
new verb is one function in one of the files that `FAMILIES` names. Nothing here may load pydantic, mcp or asyncio:
cold commands pay for every import.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from importlib import import_module
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from kingly_memory.dataclass import dataclass
from kingly_memory.errors import InvalidInput
from kingly_memory.models import KINDS, MemoryType
from kingly_memory.validation import shown

FAMILIES = ("memories", "search", "tasks", "threads", "attention", "lifecycle", "remotes", "agents")
"""The files `<family>_verbs.py` of this folder, in the order in which help and docs list their verbs."""

NOT_GIVEN: Any = inspect.Parameter.empty
F = TypeVar("F", bound=Callable[..., Any])
MemoryRouter = Any
"""The blocking router or the awaiting one. What a face was told is any text: the router's verb refuses others."""
Answer = Any
"""What a verb answers: the result, or with the awaiting router something to await."""


class Arg(NamedTuple):
    """What the faces say of a parameter, and what they call it where that is not its own name.

    `choices` are shown, and the verb itself refuses others; those of a Literal the MCP tool refuses already. A text
    names where they are, `module:Enum`, for modules that a cold command should not load.
    """

    words: str
    metavar: str | None = None
    option: str | None = None
    tool: str | None = None
    also: tuple[str, ...] = ()
    """Other names under which the MCP tool takes it."""
    choices: str | Iterable[str] = ()
    least: float | None = None
    most: float | None = None
    only: Literal["command", "tool"] | None = None
    command_words: str | None = None
    """What a person is told instead."""
    usual: Any = None
    """What is meant by None, where a new memory and a new revision of one mean different things by it."""
    tool_default: Any = NOT_GIVEN
    command_default: Any = NOT_GIVEN
    is_sentence: bool = False
    """On the command line: all words up to the next option, joined."""
    reads_input: bool = False
    """On the command line `-` reads it from standard input."""
    takes_anything: bool = False
    """The MCP tool turns what is no text into JSON."""


class Parameter(NamedTuple):
    """A parameter of a verb or of a command."""

    name: str
    type: Any
    arg: Arg
    default: Any = NOT_GIVEN
    is_option: bool = True

    @property
    def option(self) -> str:
        """Its name on the command line, without dashes; `no-…` switches off what is on."""
        name = (self.arg.option or self.name).replace("_", "-")
        return f"no-{name}" if self.type is bool and self.default is True else name

    @property
    def tool_name(self) -> str:
        return self.arg.tool or self.name

    @property
    def choices(self) -> tuple[str, ...]:
        if get_origin(self.type) is Literal:
            return get_args(self.type)
        found = self.arg.choices
        if isinstance(found, str):
            module, _, name = found.partition(":")
            found = getattr(import_module(module), name)
        return tuple(map(str, found))


@dataclass(frozen=True)
class Verb:
    """One verb of the public API with its names in the faces; None where a face does not have it.

    `reads`: it changes nothing; as a function it says so of given arguments. `destroys`: it may replace or take away.
    `repeatable`: the same call again changes nothing more.
    """

    function: Callable[..., Any]
    command: str | None
    tool: str | None
    toolset: str
    title: str
    reads: bool | Callable[..., bool]
    destroys: bool
    repeatable: bool

    @property
    def family(self) -> str:
        return self.function.__module__.rpartition(".")[2].removesuffix("_verbs")

    @property
    def name(self) -> str:
        return self.function.__name__

    def doc(self, section: str = "") -> str:
        """A part of the docstring on one line: what stands before the sections, or one of `Example` and `Answers`."""
        text, *sections = re.split(r"^ *(Example|Answers): ", self.function.__doc__ or "", flags=re.MULTILINE)
        found = {"": text, **dict(zip(sections[::2], sections[1::2], strict=True))}
        return " ".join(found.get(section, "").split())

    @property
    def summary(self) -> str:
        """The first sentence."""
        first, end, _ = self.doc().partition(". ")
        return f"{first}{end.strip()}"

    @property
    def answers(self) -> tuple[str, ...]:
        """The fields of the tool's answer."""
        return tuple(self.doc("Answers").split())

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        signature = list(inspect.signature(self.function).parameters.values())[1:]  # the first one is the router
        hints = get_type_hints(self.function, include_extras=True)
        return tuple(_parameter(one, hints[one.name]) for one in signature)

    def of(self, face: Literal["command", "tool"]) -> list[Parameter]:
        """The parameters that the face has, with its defaults."""
        found = [one for one in self.parameters if one.arg.only in (None, face)]
        own = [one.arg.tool_default if face == "tool" else one.arg.command_default for one in found]
        return [
            one if default is NOT_GIVEN else one._replace(default=default)
            for one, default in zip(found, own, strict=True)
        ]


def _parameter(one: inspect.Parameter, hint: Any) -> Parameter:
    """Reads `Annotated[T, Arg(…)]`, also where the hint is `… | None`; a second Arg replaces the vocabulary's words."""
    plain = _without_none(hint)
    arg = next(found for found in reversed(get_args(plain)) if isinstance(found, Arg))
    return Parameter(one.name, _without_none(get_args(plain)[0]), arg, one.default, one.kind is one.KEYWORD_ONLY)


def _without_none(hint: Any) -> Any:
    if get_origin(hint) not in (Union, UnionType):
        return hint
    several = [one for one in get_args(hint) if one is not NoneType]
    return several[0] if len(several) == 1 else hint


_DECLARED: dict[tuple[str | None, str | None], Verb] = {}


def verb(
    command: str | None = None,
    tool: str | None = None,
    toolset: str = "",
    *,
    title: str = "",
    reads: bool | Callable[..., bool] = False,
    destroys: bool = False,
    repeatable: bool = False,
) -> Callable[[F], F]:
    """Declare the function below as a verb.

    It takes a router and calls one verb of it. It is no coroutine itself unless only tools have it: with the awaiting
    router it answers with something to await, with the blocking one with the result.
    """

    def declare(function: F) -> F:
        _DECLARED[command, tool] = Verb(
            function, command, tool, toolset, title or (command or ""), reads, destroys, repeatable
        )
        return function

    return declare


def verbs() -> Sequence[Verb]:
    """Every verb, by family in the order of `FAMILIES`, whichever was loaded first, and as its file has them."""
    homes = [import_module(f"kingly_memory.api.{family}_verbs").__name__ for family in FAMILIES]
    places = {home: place for place, home in enumerate(homes)}
    return sorted(_DECLARED.values(), key=lambda one: places.get(one.function.__module__, len(places)))


def checked(name: str, text: str, problem: str) -> str:
    """A text that has more than spaces. Raises InvalidInput."""
    if not text.strip():
        raise InvalidInput(name, f"is empty; {problem}")
    return text


def check_project(memory: MemoryRouter, project_id: str | None) -> None:
    """Raise InvalidInput for another project than the server's."""
    if project_id is not None and project_id != memory.project:
        problem = f"{shown(project_id)!r} is not the project of this server ({shown(memory.project)!r})"
        raise InvalidInput("project_id", f"{problem}; leave it out, or start a server with --project for the other")


class NothingUnder(InvalidInput):
    """Nothing in the project has that key or id."""

    def __init__(self, name: str, what: str = "is stored") -> None:
        super().__init__("key_or_id", f"nothing {what} under {shown(name)!r} in this project")


# --- words that several verbs share -----------------------------------------------------------------------------------

KeyOrId = Annotated[str, Arg("key or id of a memory", "KEY_OR_ID")]
ThreadId = Annotated[str, Arg("id of a thread, or key or id of a memory in it", "THREAD", option="thread")]
Types = Annotated[
    list[str], Arg("only these types", "TYPE", option="type", tool="memory_types", choices=(*MemoryType, *KINDS))
]
Tags = Annotated[list[str], Arg("only with all of these tags", "TAG", option="tag")]
OwnTags = Annotated[list[str], Arg("words to filter by", "TAG", option="tag")]
ContextId = Annotated[str, Arg("conversation or task it belongs to; 'current': the last one", "ID", option="context")]
OneContext = Annotated[str, Arg("only this conversation or task", "ID", option="context")]
ByAgent = Annotated[str, Arg("only what this agent stored", only="tool")]
Significance = Annotated[float, Arg("how much it matters; 0.3 or less never leaves this machine", least=0, most=1)]
OwnSignificance = Annotated[
    float, Arg("how much it matters; 0.3 or less never leaves this machine", least=0, most=1, usual=0.5)
]
Facts = Annotated[dict[str, Any], Arg("further facts", "JSON")]
Title = Annotated[str, Arg("a short title", "TEXT")]
Reason = Annotated[str, Arg("why, in a sentence; it is kept", "TEXT")]
Limit = Annotated[int, Arg("how many to show", "N")]
Before = Annotated[int, Arg("go on from this position, which the page before names", "POSITION")]
RemoteName = Annotated[str, Arg("only the remote of this name (default: all of them)", "NAME", option="remote_name")]
ProjectId = Annotated[str, Arg("this server's project; no other one is shown", only="tool")]
