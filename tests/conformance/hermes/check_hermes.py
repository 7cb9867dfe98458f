"""Hermes' provider over a router: found by Hermes' own loader, driven by its memory manager, over two processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from kingly_memory.integrations.hermes import KinglyMemoryProvider
from kingly_memory.testing import ScriptedRemote
from tests.conformance.programs import ROOT, TEXTS
from tests.conformance.refusals import NOTHING, TOO_LARGE

TURN = """
import json, os, sys
from agent.memory_manager import MemoryManager, build_memory_context_block
from plugins.memory import load_memory_provider

manager = MemoryManager()
manager.add_provider(load_memory_provider("kingly"))
manager.initialize_all("session-" + str(os.getpid()), platform="cli", hermes_home=os.environ["HERMES_HOME"])
print(build_memory_context_block(manager.prefetch_all(sys.argv[1])))
print(json.loads(manager.handle_tool_call("kingly_search", {"query": sys.argv[1]})))
manager.sync_all(sys.argv[1], "Noted.")
manager.flush_pending()
manager.shutdown_all()
"""


def turn(folder: Path, remote: str, text: str) -> str:
    """What stands before a turn, in a process of its own that keeps the turn then."""
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "HERMES_HOME": str(folder),
        "KINGLY_REMOTE": remote,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", TURN, text], cwd=folder, env=environment, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_was_said_in_one_process_stands_before_the_turns_of_the_next_though_the_remote_is_gone(
    tmp_path: Path,
) -> None:
    page = (ROOT / "docs" / "integrations" / "frameworks.md").read_text(encoding="utf-8")
    plugin = tmp_path / "plugins" / "kingly"
    plugin.mkdir(parents=True)
    program = page.split("\n## Hermes\n", 1)[1].split("```py\n", 1)[1].split("```", 1)[0]
    (plugin / "__init__.py").write_text(program, encoding="utf-8")
    with ScriptedRemote() as remote:
        first = turn(tmp_path, remote.url, TEXTS[0])
    second = turn(tmp_path, remote.url, TEXTS[1])
    assert first == "\n{'memories': []}\n"
    assert "<memory-context>" in second
    assert second.count(TEXTS[0]) == 2  # before the turn, and for the tool
    assert (tmp_path / "kingly").is_dir()


def test_users_see_nothing_of_each_other_and_agents_that_work_for_others_write_nothing(tmp_path: Path) -> None:
    def opened(user: str, **how: str) -> KinglyMemoryProvider:
        provider = KinglyMemoryProvider()
        provider.initialize("s", hermes_home=str(tmp_path), user_id=user, **how)
        return provider

    lydia, oskar, cron = opened("lydia"), opened("o/s\nkar"), opened("lydia", agent_context="cron")
    for provider, text in ((lydia, "I prefer night trains to planes."), (cron, "I prefer planes to night trains.")):
        provider.on_pre_compress([{"role": "user", "content": text}])
        provider.on_memory_write("add", "user", text)
    assert "night trains to planes" in lydia.prefetch("Book me a night train or a plane")
    assert "planes to night trains" not in lydia.prefetch("Book me a night train or a plane")
    assert oskar.prefetch("Book me a night train or a plane") == lydia.prefetch(" ") == ""
    kept = json.loads(lydia.handle_tool_call("kingly_store", {"content": "The office is in Bergen"}))
    assert kept["id"]
    assert "content" in json.loads(lydia.handle_tool_call("kingly_store", {}))["error"]
    assert "Bergen" in lydia.handle_tool_call("kingly_search", {"query": "Where is the office?"})
    assert [one["name"] for one in lydia.get_tool_schemas()] == ["kingly_search", "kingly_store"]
    for provider in (lydia, oskar, cron):
        provider.shutdown()


def test_what_cannot_be_done_is_told_to_the_model_in_a_sentence(tmp_path: Path) -> None:
    provider = KinglyMemoryProvider()
    asked = [("kingly_store", {"content": TOO_LARGE}), ("kingly_search", NOTHING), ("another", {})]
    for is_open in (False, True):
        if is_open:
            provider.initialize("nul\0", hermes_home=str(tmp_path), user_id="a.b\ud800")
        for tool, arguments in asked:
            assert "\n" not in json.loads(provider.handle_tool_call(tool, arguments))["error"]
    assert json.loads(provider.handle_tool_call("kingly_search", {"query": "xxx"})) == {"memories": []}
    provider.shutdown()
    assert "closed" in provider.handle_tool_call("kingly_store", {"content": "Oslo"})
