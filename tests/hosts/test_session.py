"""The whole way of a user: the configuration that we write starts the server, and an agent works through an outage."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from kingly_memory.hub.process import HubProcess
from tests.cli_runner import Run, environment, put_on_path, runner
from tests.mcp_sessions import Session


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    put_on_path(tmp_path / "bin", monkeypatch)
    return runner(capsys, monkeypatch)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubProcess]:
    with HubProcess(tmp_path / "hub") as process:
        yield process


def server_in(file: Path, **changes: str) -> StdioServerParameters:
    """What a host starts that reads this file."""
    [entry] = json.loads(file.read_text(encoding="utf-8"))["mcpServers"].values()
    env = {**environment(**changes), **entry.get("env", {})}
    return StdioServerParameters(command=entry["command"], args=entry["args"], env=env)


async def works(agent: Session, step: str, source: str) -> None:
    """Store, search, read the context and ask for confidence: all of it answers, and says where from."""
    stored = await agent.ok("memory_intelligent_store", key=step, content=f"the {step} is ready", context_id="release")
    assert stored["success"]
    found = await agent.ok("memory_hybrid_search", query=f"is the {step} ready")
    assert (found["source"], found["results"][0]["key"]) == (source, step)
    context = await agent.ok("memory_get_working_context")
    assert (context["context_id"], context["source"]) == ("release", source)
    assert f"the {step} is ready" in [item["content"] for item in context["local_state"]]
    await agent.ok("record_task_outcome", task="ship the release", status="completed")
    assessed = await agent.ok("assess_task_confidence", task_description="ship the release")
    assert assessed["memory_informed"]
    assert assessed["source"] == source


@pytest.mark.requirement("KNG-043")
@pytest.mark.requirement("KNG-046")
@pytest.mark.requirement("KNG-078")
async def test_the_written_configuration_starts_an_agent_that_works_with_the_hub_up_hung_gone_and_back(
    run: Run, hub: HubProcess, isolated_environment: Path
) -> None:
    (isolated_environment / ".git").mkdir()
    assert run("config", "claude-code", "--write").code == 0
    parameters = server_in(isolated_environment / ".mcp.json", KINGLY_REMOTE=hub.url, KINGLY_REMOTE_SEARCH_S="1")
    async with Client(parameters) as client:
        agent = Session(client)
        await agent.ok("memory_intelligent_store", key="first", content="the first contact", wait=10)
        await works(agent, "branch", "hybrid")
        assert hub.pid is not None
        os.kill(hub.pid, signal.SIGSTOP)
        await works(agent, "database", "local_fallback")
        os.kill(hub.pid, signal.SIGCONT)
        hub.kill()
        await works(agent, "canary", "local_fallback")
        hub.start()
        assert run("sync", "--remote", hub.url).code == 0
        await works(agent, "dashboard", "hybrid")
        assert run("status", "--remote", hub.url, "--json").json["outbox"]["dead"] == 0
