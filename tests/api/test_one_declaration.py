"""A verb that is declared once is in every face: as a command, as a tool, and on both reference pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pytest

from kingly_memory.api.declared import VERBS
from kingly_memory.cli import commands, main
from kingly_memory.declare import Arg, answered, example, verb
from kingly_memory.server import tools
from kingly_memory.server.tools import TOOLSETS, tool_verbs
from tests.cli_runner import Run
from tests.mcp_sessions import session
from tools import declared
from tools.blocking import table
from tools.reference import cli_reference, tools_reference


@verb("shout", "memory_shout", "memory", "Shout", reads=True)
@example('{"key_or_id": "deploy"}', "")
def shout(
    memory: Any,
    key_or_id: Annotated[str, Arg("what to say aloud", "KEY_OR_ID")],
    times: Annotated[int, Arg("how often", least=1, most=3)] = 1,
    volume: float = 1.0,
) -> Any:
    """Say a memory aloud. Nobody is woken.

    That is for Python alone.
    """
    return memory.explain(key_or_id)


@pytest.fixture
def loud(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more verb, as long as the test runs."""
    found = declared.declared(f"{__name__}:shout", shout, shout.__dict__["declared"])
    for face in (commands, tools):
        monkeypatch.setattr(face, "VERBS", (*VERBS, found))


def test_the_table_is_what_is_declared() -> None:
    assert declared.TARGET.read_text(encoding="utf-8") == table(), "run: python -m tools.blocking"


@pytest.mark.parametrize("command", commands.OWN, ids=lambda one: one.name)
def test_a_command_that_is_no_verb_is_done_by_the_function_of_its_name(command: commands.Command) -> None:
    done_by = main.of_the_family(command)
    assert done_by.__name__.removesuffix("_") == command.name.replace(" ", "_")


@pytest.mark.usefixtures("loud")
def test_a_new_verb_is_a_command(run: Run, tmp_path: Path) -> None:
    place = ("--home", str(tmp_path / "home"), "--project", "app")
    run("store", "Deploys need two reviews", "--key", "deploy", *place)
    told = run("shout", "--help").out
    assert "how often (default 1)" in told
    assert "volume" not in told
    assert run("shout", "deploy", "--json", *place).json["status"] == "live"
    assert "status" in run("shout", "deploy", *place).out
    assert run("shout", "deploy", "--times", "x").err.startswith("kingly-memory: --times: 'x' is not a whole number")
    assert "nothing is stored under 'nobody'" in run("shout", "nobody", *place).err


@pytest.mark.usefixtures("loud")
async def test_a_new_verb_is_a_tool(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        await client.ok("memory_intelligent_store", content="Deploys need two reviews", key="deploy")
        assert (await client.ok("memory_shout", key_or_id="deploy"))["status"] == "live"
        assert (await client.error("memory_shout", key_or_id="deploy", times=9)).startswith("times: should be less")
        [tool] = [one for one in (await client.client.list_tools()).tools if one.name == "memory_shout"]
    assert (tool.title, tool.description) == ("Shout", "Say a memory aloud. Nobody is woken.")
    assert tool.input_schema["properties"]["times"]["maximum"] == 3


@pytest.mark.usefixtures("loud")
def test_a_new_verb_is_on_the_reference_pages() -> None:
    command, tool = "\n".join(cli_reference()), "\n".join(tools_reference())
    assert (
        "## shout\n\n    kingly-memory shout KEY_OR_ID [--times N]\n\nSay a memory aloud. Nobody is woken.\n" in command
    )
    assert "#### memory_shout\n\nSay a memory aloud. Nobody is woken. *Reads only.*" in tool
    assert 'memory_shout {"key_or_id": "deploy"}' in tool


def test_every_verb_says_what_it_does_and_what_it_takes() -> None:
    for one in VERBS:
        assert one.says.endswith("."), one.name
        assert all(parameter.arg.words for parameter in one.parameters), one.name
    assert {one.toolset for one in tool_verbs().values()} == set(TOOLSETS) - {"graph"}
    assert len(tool_verbs()) == sum(one.tool is not None for one in VERBS)


async def test_tools_answer_with_the_fields_that_they_declare(tmp_path: Path) -> None:
    tried = set()
    async with session(tmp_path / "home", agent="H001") as client:
        for key in ("deploy", "outage-march"):
            await client.ok("memory_intelligent_store", key=key, content=f"Two reviews: {key}", context_id="deploy-42")
        await client.ok("memory_intelligent_store", content="Login", context_id="login")
        for name, one in tool_verbs().items():
            result = await client.client.call_tool(name, json.loads(one.example))
            if not result.is_error:
                tried.add(name)
                fields = set(result.structured_content or {})
                known = {declared: answered(declared)[0] for declared in one.answers}
                assert {field for declared, field in known.items() if declared[-1] not in "?…"} <= fields, name
                assert "…" in known or fields <= set(known.values()), name
    assert len(tried) >= 25, sorted(set(tool_verbs()) - tried)
