"""The official conformance suite of the Model Context Protocol against `mcp --http`, and against a server on the same
transport and behind the same gate that has what the suite calls. What came of it is written into
docs/integrations/index.md."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli_runner import ROOT, environment
from tests.conformance.node import npm
from tests.conformance.test_frameworks import note
from tests.conformance.test_packages import LIMIT_S

PACKAGE, VERSION = "@modelcontextprotocol/conformance", "0.2.0-alpha.12"
NODE = "22.23.3"
REVISIONS = ("2025-11-25", "2026-07-28")
NAMES = {"product": "MCP: `mcp --http`", "fixtures": "MCP: transport and gate"}
EXPECTED: dict[str, dict[str, list[str]]] = tomllib.loads(
    Path(__file__).with_name("mcp_suite.toml").read_text(encoding="utf-8")
)

pytestmark = pytest.mark.conformance


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that begins every run. The suite needs a newer Node than many machines have."""
    processor = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    node = f"node-{sys.platform}-{processor}"
    packages = npm(tmp_path_factory.mktemp("suite") / "npm", f"{PACKAGE}@{VERSION}", f"{node}@{NODE}")
    (packages / node / "bin" / "node").chmod(0o755)
    return [str(packages / node / "bin" / "node"), str(packages / PACKAGE / "dist" / "index.js")]


def required(suite: list[str], revision: str) -> set[str]:
    """The scenarios for servers that the revision requires."""
    text = (Path(suite[1]).parents[1] / "requirements" / f"{revision}.yaml").read_text(encoding="utf-8")
    listed = re.search(r"^server:\n((?:  - .*\n)+)", text, re.MULTILINE)
    assert listed is not None
    return set(re.findall(r"- (\S+)", listed[1]))


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("server", NAMES)
def test_what_fails_of_the_suite_is_what_is_known_to(
    suite: list[str], server: str, revision: str, tmp_path: Path
) -> None:
    serve = [sys.executable, "-m", "tests.conformance.mcp_served", server, str(tmp_path / "home")]
    with subprocess.Popen(
        serve, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(environment())
    ) as serving:
        try:
            assert serving.stdout is not None
            url = f"http://127.0.0.1:{int(serving.stdout.readline())}/mcp"
            asked = ["server", "--url", url, "--requirements", revision, "-o", str(tmp_path / "found")]
            run = subprocess.run([*suite, *asked], capture_output=True, text=True, timeout=LIMIT_S, check=False)
        finally:
            serving.kill()
    wanted, failed = required(suite, revision), set()
    for scenario in wanted:
        [report] = tmp_path.glob(f"found/server-{scenario}-20*/checks.json")
        checks = json.loads(report.read_text(encoding="utf-8"))
        failed |= {scenario} if any(one["status"] == "FAILURE" for one in checks) else set()
    known = {reason: wanted & {*names} for reason, names in EXPECTED[server].items()}
    assert failed == set().union(*known.values()), run.stdout
    told = {reason: ", ".join(f"`{one}`" for one in sorted(names)) for reason, names in known.items() if names}
    why = "; ".join(f"{names} {reason}" for reason, names in told.items())
    name = f"{NAMES[server]}, {revision}"
    note(name, f"| {name} | conformance {VERSION} | {len(wanted - failed)} of {len(wanted)} scenarios | {why} |")
