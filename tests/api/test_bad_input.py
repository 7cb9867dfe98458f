"""Every parameter of every verb, with what it cannot take: one sentence that names it, and nothing done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kingly_memory import MemoryRouter, SyncMemoryRouter
from kingly_memory.api.declared import VERBS
from kingly_memory.declare import NOT_GIVEN, Parameter, Verb
from kingly_memory.errors import InvalidInput
from kingly_memory.graph import Relation
from kingly_memory.server.tools import read, tool_verbs
from tests.cli_runner import Run

COMMANDS = [one for one in VERBS if one.command is not None]
NO_JSON = {"text": ["canary"], "integer": "5.5", "number": True, "flag": "perhaps", "texts": [1], "object": ["canary"]}
NO_JSON |= {"text or texts": [1], "number or text": True}
"""What is none of a type, as JSON."""


def beyond(one: Parameter) -> Iterator[float]:
    """Figures that are just outside of what it takes."""
    if one.type in ("integer", "number"):
        yield from (limit + by for limit, by in ((one.arg.least, -1), (one.arg.most, 1)) if limit is not None)
        yield from [] if one.type == "integer" else [float("nan")]


# --- the command line -------------------------------------------------------------------------------------------------

NAMES = ("key", "key_or_id", "context_id", "session", "thread_id")


def words(one: Parameter) -> Iterator[str]:
    """What the command line does not take for a parameter."""
    # The most is a tool's; a person may wait longer, and be shown more.
    yield from (str(figure) for figure in beyond(one) if one.arg.most in (None, 1) or not figure > one.arg.most)
    if one.type in ("integer", "number"):
        yield from ("nine", "")
    if one.type == "object":
        yield from ("{", "[" * 100_000)
    if one.arg.choices:
        yield "no-such-choice"
    if one.name in ("since", "until"):
        yield "someday"
    if one.name in NAMES:
        yield from ("a\0b", "k" * 10_000, "")
    if one.name in ("content", "key"):
        yield from ("", " \n\t")


def line(verb: Verb, wrong: Parameter, word: str) -> list[str]:
    """A command line of the verb's example, in which one parameter has that word."""
    example, argv = json.loads(verb.example), str(verb.command).split()
    for one in verb.of("command"):
        said = example.get(one.tool_name)
        if not isinstance(said, str):
            is_needed = one.default is NOT_GIVEN or (one.type == "integer" and not one.is_option)
            said = ("1" if one.type == "integer" else str(one.arg.metavar).partition("|")[0]) if is_needed else None
        if one.name == wrong.name:
            said = word
        if said is not None:
            argv += [f"--{one.option}={said}"] if one.is_option else [said]
    return argv


@pytest.mark.requirement("KNG-085")
@pytest.mark.parametrize("verb", COMMANDS, ids=lambda verb: verb.command)
def test_a_command_refuses_what_its_parameters_cannot_take(run: Run, verb: Verb) -> None:
    for one in verb.of("command"):
        for word in () if one.type == "flag" else words(one):
            ran = run(*line(verb, one, word), "--json")
            names = {one.name, (one.arg.option or one.name).replace("-", "_")}
            assert (ran.code, ran.json["error"]["field"] in names) == (2, True), (one, word[:40], ran.err)
            spelled = f"--{one.option}" if one.is_option else one.arg.metavar or one.name.upper()
            assert ran.err.startswith(f"kingly-memory: {spelled}: "), ran.err
            assert (ran.err.count("\n"), "Traceback" in ran.err) == (1, False)
    assert run("list", "--archived", "--json").json["memories"] == []


# --- the tools --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-085")
@pytest.mark.parametrize("verb", tool_verbs().values(), ids=lambda verb: verb.tool)
def test_a_tool_refuses_what_its_arguments_cannot_be(verb: Verb) -> None:
    example = json.loads(verb.example)
    for one in verb.of("tool"):
        wrong: list[Any] = [*beyond(one), *([] if one.arg.takes_anything else [NO_JSON[one.type]])]
        wrong += ["no-such-choice"] if one.arg.is_closed else []
        for value in wrong:
            with pytest.raises(InvalidInput) as refused:
                read(verb, {**example, one.tool_name: value})
            assert (refused.value.field, "canary" in refused.value.problem) == (one.tool_name, False)
        if one.default is NOT_GIVEN:
            with pytest.raises(InvalidInput, match=f"^{one.tool_name}: is missing$"):
                read(verb, {name: value for name, value in example.items() if name != one.tool_name})


# --- the methods of Python --------------------------------------------------------------------------------------------

PATHS: list[Any] = [5, b"x", "\0", "\ud800", "a" * 300, "~no-such-user/x"]


@pytest.mark.parametrize("wrong", PATHS, ids=lambda one: ascii(one)[:12])
async def test_what_can_be_no_path_is_refused(memory: MemoryRouter, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^file: "):
        await memory.backup(wrong)
    with pytest.raises(InvalidInput, match=r"^home: "):
        MemoryRouter.open(wrong)


@pytest.mark.parametrize("wrong", [5, b"x", "~no-such-user/x"])
def test_what_can_be_no_file_of_a_token_is_refused_and_one_that_cannot_be_read_keeps_nobody_from_storing(
    wrong: Any,
) -> None:
    with pytest.raises(InvalidInput, match=r"^token_file: "):
        MemoryRouter.open(remote="http://127.0.0.1:9", token_file=wrong)
    with SyncMemoryRouter.open(remote="http://127.0.0.1:9", token_file="a" * 300) as memory:
        assert memory.store("x").layers == ("local",)


CALLS: dict[str, Callable[[Any], Any]] = {
    "before": lambda memory: memory.timeline(before=10**30),
    "states": lambda memory: memory.outbox(5),
    "tags": lambda memory: memory.purge(tags=5),
    "whole_project": lambda memory: memory.purge("k", whole_project="no"),
    "settings": lambda memory: memory.open(settings={"durability": "process"}),
    "entities": lambda memory: memory.graph.create_entities([("Ann", "person")]),
    "relations": lambda memory: memory.graph.create_relations(Relation("Ann", "Bob", "knows")),
    "observations": lambda memory: memory.graph.add_observations("Ann"),
    "names": lambda memory: memory.graph.open_nodes(5),
    "query": lambda memory: memory.graph.search_nodes(5),
    "observers": lambda memory: memory.open(observers=5),
    "clock": lambda memory: memory.open(clock=5),
    "items": lambda memory: memory.remember(5),
    "found": lambda memory: memory.plan_notes(5),
    "steps": lambda memory: memory.remember_notes([5]),
    "changes": lambda memory: memory.documents.write(5),
    "places": lambda memory: memory.documents.get_many(["namespace"]),
    "documents": lambda memory: memory.documents.touch(["key"]),
    "agreeing": lambda memory: memory.debate("topic").conclude("done", agreeing=5),
}


@pytest.mark.requirement("KNG-085")
@pytest.mark.parametrize("field", CALLS)
async def test_a_method_refuses_what_its_arguments_cannot_be(memory: MemoryRouter, field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: "):
        await CALLS[field](memory)


@pytest.mark.requirement("KNG-085")
@pytest.mark.parametrize("wrong", [[("namespace",)], [("namespace", "key", "more")], [[]]])
async def test_a_pair_of_another_length_is_refused(memory: MemoryRouter, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^places: expected a namespace and a key"):
        await memory.documents.get_many(wrong)
