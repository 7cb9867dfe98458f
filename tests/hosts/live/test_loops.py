"""Whole loops with the hosts' own programs, without a user at the terminal: notes stand beside the prompt, the model
calls our tool, and what was said is captured. Run by `make hosts`, which installs them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.hosts.live.fake_models import models

pytestmark = [pytest.mark.hosts, pytest.mark.requirement("N26")]

MODULES = Path(__file__).parents[3] / ".hosts" / "node_modules"
MACHINE = (
    f"{platform.system().lower()}-{ {'x86_64': 'x64', 'aarch64': 'arm64'}.get(platform.machine(), '') or 'arm64' }"
)
PROMPT = "who has to review a deploy? I prefer pathlib to os.path in new modules."
FACT, REPLY = "The canary runs on port 6432", "I went with a queue because webhooks arrive in bursts."
LIMIT_S = 120
PLUGIN = str(Path(__file__).parents[3] / "integrations" / "plugin")


class Host(NamedTuple):
    """`URL` stands for the model's address. `plug_in` are commands of the program that take the place of ours, if any.
    What `prepare` does in the user's folder and the project is what a user of that host has done before."""

    program: str
    options: tuple[str, ...]
    variables: Mapping[str, str]
    prepare: Callable[[Path, Path, str], None] = lambda _home, _work, _url: None
    plug_in: tuple[tuple[str, ...], ...] | None = None


def codex(home: Path, _: Path, url: str) -> None:
    file = home / ".codex" / "config.toml"
    provider = {"name": "fake", "base_url": f"{url}/v1", "env_key": "OPENAI_API_KEY", "wire_api": "responses"}
    lines = [f"{name} = {json.dumps(value)}" for name, value in provider.items()]
    text = 'model_provider = "fake"\nmodel = "gpt-5.5"\n' + file.read_text()
    file.write_text("\n".join([text, "[model_providers.fake]", *lines, ""]))


def gemini(home: Path, *_: object) -> None:
    file = home / ".gemini" / "settings.json"
    file.parent.mkdir()
    settings = {"usageStatisticsEnabled": False}, {"auth": {"selectedType": "gemini-api-key"}}
    file.write_text(json.dumps(dict(zip(("privacy", "security"), settings, strict=True))))


def opencode(_: Path, work: Path, url: str) -> None:
    file = work / "opencode.json"
    provider = {
        "npm": "@ai-sdk/openai-compatible", "name": "fake", "models": {"m": {"name": "m", "tool_call": True}},
        "options": {"baseURL": f"{url}/v1", "apiKey": "x"},
    }  # fmt: skip
    settings = {"model": "fake/m", "small_model": "fake/m", "autoupdate": False, "provider": {"fake": provider}}
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))


CLAUDE_CODE = Host(
    f"@anthropic-ai/claude-code-{MACHINE}/claude",
    ("-p", PROMPT, "--mcp-config", ".mcp.json", "--allowedTools", "mcp__kingly-memory__memory_intelligent_store"),
    {"ANTHROPIC_BASE_URL": "URL", "ANTHROPIC_API_KEY": "x", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
)
CODEX = Host(
    ".bin/codex",
    ("exec", "--dangerously-bypass-hook-trust", "--dangerously-bypass-approvals-and-sandbox", PROMPT),
    {"OPENAI_API_KEY": "x"},
    codex,
)
PLUGGED_IN = "mcp__plugin_kingly-memory_kingly-memory__memory_intelligent_store"
HOSTS = {
    "claude-code": CLAUDE_CODE,
    "claude-code as a plugin": CLAUDE_CODE._replace(
        options=("-p", PROMPT, "--plugin-dir", PLUGIN, "--allowedTools", PLUGGED_IN), plug_in=()
    ),
    "codex": CODEX,
    "codex as a plugin": CODEX._replace(
        plug_in=(("plugin", "marketplace", "add", PLUGIN), ("plugin", "add", "kingly-memory@kingly-memory"))
    ),
    "gemini": Host(
        ".bin/gemini",
        ("-p", PROMPT, "--approval-mode", "yolo", "-m", "gemini-2.5-flash"),
        {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": "URL", "GEMINI_CLI_TRUST_WORKSPACE": "true"},
        gemini,
    ),
    "copilot": Host(
        ".bin/copilot",
        ("-p", PROMPT, "--allow-all-tools"),
        {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": "URL/v1",
            "COPILOT_PROVIDER_API_KEY": "x",
            "COPILOT_MODEL": "gpt-4.1",
        },
    ),
    "opencode": Host(
        f"opencode-{MACHINE}/bin/opencode", ("run", PROMPT), {"OPENCODE_DISABLE_MODELS_FETCH": "1"}, opencode
    ),
}


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_is_told_notes_calls_our_tools_and_has_its_conversation_captured(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    host, home = HOSTS[name], tmp_path_factory.mktemp(name)
    work = home / "work"
    work.mkdir()
    (work / "AGENTS.md").write_text("Remember that I prefer tabs to spaces in all files.\n")
    with models(FACT, REPLY) as server:
        variables = {
            "PATH": f"{Path(__file__).parents[3] / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            **{key: value.replace("URL", server.url) for key, value in host.variables.items()},
        }

        def run(*command: str) -> str:
            done = subprocess.run(
                command, cwd=work, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=LIMIT_S, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        run("git", "init", "--quiet")
        run("kingly-memory", "store", "Deploys need two reviews", "--key", "deploy")
        if host.plug_in is None:
            run("kingly-memory", "config", name, "--write")
        for command in host.plug_in or ():
            run(str(MODULES / host.program), *command)
        host.prepare(home, work, server.url)
        assert REPLY in run(str(MODULES / host.program), *host.options)
        wanted = {FACT, REPLY, "I prefer pathlib to os.path in new modules."}
        found: set[str] = set()
        latest = time.monotonic() + 30  # the worker that captures goes on when the host has ended
        while not wanted <= found and time.monotonic() < latest:
            listed = json.loads(run("kingly-memory", "list", "--json"))["memories"]
            found = {one["content"] for one in listed}
        assert found == {"Deploys need two reviews", *wanted}
        assert any("Deploys need two reviews" in one for one in server.asked)
        assert "nothing needs you" in run("kingly-memory", "doctor")
