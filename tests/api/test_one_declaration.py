"""A verb that is declared once is in every face: as a command, as a tool, and on both reference pages."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from kingly_memory.api import declare
from kingly_memory.api.declare import verbs
from kingly_memory.cli.reference import cli_reference
from kingly_memory.server.reference import tools_reference
from kingly_memory.server.tools import TOOLSETS, tool_verbs
from tests.cli_runner import runner
from tests.mcp_sessions import session

SOURCE = '''
from __future__ import annotations
from typing import Annotated, Any
from kingly_memory.api.declare import Arg, verb


@verb("shout", "memory_shout", "memory", title="Shout", reads=True)
def shout(
    memory: Any,
    key_or_id: Annotated[str, Arg("what to say aloud", "KEY_OR_ID")],
    *,
    times: Annotated[int, Arg("how often", least=1, most=3)] = 1,
) -> Any:
    """Say a memory aloud. Nobody is woken.

    Example: {"key_or_id": "deploy"}
    """
    return memory.explain(key_or_id)
'''


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module that declares one more verb, as long as the test runs."""
    verbs()
    before = dict(declare._DECLARED)
    module = ModuleType("kingly_memory.api.loud_verbs")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(SOURCE, "loud_verbs.py", "exec"), module.__dict__)  # noqa: S102  # our own source
    yield
    declare._DECLARED.clear()
    declare._DECLARED.update(before)


@pytest.mark.usefixtures("declared")
def test_a_new_verb_is_a_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = runner(capsys, monkeypatch)
    place = ("--home", str(tmp_path / "home"), "--project", "app")
    run("store", "Deploys need two reviews", "--key", "deploy", *place)
    assert "how often (default 1)" in run("shout", "--help").out
    assert run("shout", "deploy", "--json", *place).json["standing"] == "live"
    assert "standing" in run("shout", "deploy", *place).out
    assert run("shout", "deploy", "--times", "x").err.startswith("kingly-memory: times: 'x' is not a whole number")
    assert "nothing is stored under 'nobody'" in run("shout", "nobody", *place).err


@pytest.mark.usefixtures("declared")
async def test_a_new_verb_is_a_tool(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        await client.ok("memory_intelligent_store", content="Deploys need two reviews", key="deploy")
        assert (await client.ok("memory_shout", key_or_id="deploy"))["standing"] == "live"
        assert (await client.error("memory_shout", key_or_id="deploy", times=9)).startswith("times: should be less")
        [tool] = [one for one in (await client.client.list_tools()).tools if one.name == "memory_shout"]
    assert (tool.title, tool.description) == ("Shout", "Say a memory aloud. Nobody is woken.")
    assert tool.input_schema["properties"]["times"]["maximum"] == 3


@pytest.mark.usefixtures("declared")
def test_a_new_verb_is_on_the_reference_pages() -> None:
    command, tool = cli_reference(), tools_reference()
    assert "## shout\n\n    kingly-memory shout KEY_OR_ID [--times N]\n\nSay a memory aloud.\n" in command
    assert "#### memory_shout\n\nSay a memory aloud. Nobody is woken. *Reads only.*" in tool
    assert 'memory_shout {"key_or_id": "deploy"}' in tool


def test_every_verb_says_what_it_does_and_what_it_takes() -> None:
    for verb in verbs():
        assert verb.summary.endswith("."), verb.name
        assert all(one.arg.words for one in verb.parameters), verb.name
    assert {str(verb.toolset) for verb in tool_verbs().values()} == set(TOOLSETS)
    assert len(tool_verbs()) == sum(verb.tool is not None for verb in verbs())


def test_a_cold_command_reads_the_declaration_of_its_own_verb_alone() -> None:
    from kingly_memory.cli.parser import parse

    read = [verb for verb in verbs() if "parameters" in vars(verb)]
    parse(["get", "deploy"])
    assert {verb.name for verb in verbs() if "parameters" in vars(verb)} - {verb.name for verb in read} <= {"get"}


SPARSE = {"ends_at", "memories", "missing", "asked", "considered"}
"""Fields that an answer has only where there is something to say."""


async def test_tools_answer_with_the_fields_that_they_declare(tmp_path: Path) -> None:
    answered = set()
    async with session(tmp_path / "home", agent="H001") as client:
        for key in ("deploy", "outage-march"):
            await client.ok("memory_intelligent_store", key=key, content=f"Two reviews: {key}", context_id="deploy-42")
        await client.ok("memory_intelligent_store", content="Login", context_id="login")
        for name, verb in tool_verbs().items():
            result = await client.client.call_tool(name, json.loads(verb.doc("Example")))
            if not result.is_error:
                answered.add(name)
                fields = set(result.structured_content or {})
                declared = set(verb.answers)
                assert declared - fields - {"…"} <= SPARSE, name
                assert "…" in declared or fields <= declared, name
    assert len(answered) >= 25, sorted(set(tool_verbs()) - answered)
