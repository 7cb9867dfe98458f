"""Look for known weaknesses in the pinned dependencies.

Usage: audit.py CONSTRAINTS. Exits with 1 when an advisory applies that tools/accepted_advisories.toml does not accept.
Where the advisories cannot be asked for (no network, no pip-audit) it says so in one line and exits with 0: that is
no verdict, and no reason to stop work.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ACCEPTED = Path(__file__).with_name("accepted_advisories.toml")
NOT_INSTALLED = "pip-audit is not installed"
UNREACHABLE = "the database of advisories cannot be reached"
SILENT = "pip-audit gave no answer"

_DEADLINE_S = 120
_CALL_S = 5
_NETWORK = ("ConnectionError", "ConnectTimeout", "ReadTimeout", "NameResolution", "ProxyError", "SSLError", "HTTPError")


class NoVerdict(Exception):
    """Nobody could be asked; the text says why."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """An advisory that is lived with, for one version of one package."""

    ids: frozenset[str]
    package: str
    version: str
    reason: str
    held_by: str


@dataclass(frozen=True, slots=True)
class Finding:
    """An advisory that applies to what is pinned, under all its names."""

    package: str
    version: str
    names: tuple[str, ...]
    mended_in: tuple[str, ...]

    def is_accepted_by(self, exception: Accepted) -> bool:
        return (self.package.lower(), self.version) == (
            exception.package,
            exception.version,
        ) and not exception.ids.isdisjoint(self.names)

    def __str__(self) -> str:
        mended = f"mended in {', '.join(self.mended_in)}" if self.mended_in else "no version mends it"
        return f"{self.package} {self.version}  {', '.join(self.names)}  {mended}"


Ask = Callable[[Path], Mapping[str, Any]]
"""The report of pip-audit on a file of constraints. Raises NoVerdict."""


def accepted(path: Path = ACCEPTED) -> list[Accepted]:
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return [Accepted(**{**entry, "ids": frozenset(entry["ids"])}) for entry in table["accepted"]]


def findings(report: Mapping[str, Any]) -> Iterator[Finding]:
    """Each advisory of a report once, whatever it is called."""
    for dependency in report["dependencies"]:
        seen: set[str] = set()
        for advisory in dependency.get("vulns", ()):
            names = (advisory["id"], *advisory.get("aliases", ()))
            if seen.isdisjoint(names):
                yield Finding(dependency["name"], dependency["version"], names, tuple(advisory.get("fix_versions", ())))
            seen.update(names)


def verdict(report: Mapping[str, Any], known: Sequence[Accepted]) -> tuple[list[str], int]:
    """What to say of a report, and the exit code."""
    lines, open_ones = [], 0
    for finding in findings(report):
        reason = next((exception.reason for exception in known if finding.is_accepted_by(exception)), None)
        open_ones += reason is None
        lines.append(f"audit: {finding}" if reason is None else f"audit: accepted: {finding}: {reason}")
    checked = sum("version" in dependency for dependency in report["dependencies"])
    lines.append(f"audit: {checked} dependencies, {open_ones} with an advisory that is not accepted")
    return lines, 1 if open_ones else 0


def asked_of_pip_audit(constraints: Path) -> Mapping[str, Any]:
    """One process of pip-audit: it resolves nothing, installs nothing, and asks for each pinned version."""
    if find_spec("pip_audit") is None:
        raise NoVerdict(NOT_INSTALLED)
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(constraints), "--no-deps", "--disable-pip"]
    command += ["--format", "json", "--progress-spinner", "off", "--vulnerability-service", "osv"]
    try:
        done = subprocess.run(  # noqa: S603  # this interpreter, arguments of our own
            [*command, "--timeout", str(_CALL_S)], capture_output=True, text=True, timeout=_DEADLINE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise NoVerdict(UNREACHABLE) from None
    try:
        report: Mapping[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise NoVerdict(UNREACHABLE if any(sign in done.stderr for sign in _NETWORK) else SILENT) from None
    return report


def main(arguments: Sequence[str], ask: Ask = asked_of_pip_audit) -> int:
    try:
        report = ask(Path(arguments[0]))
    except NoVerdict as why:
        print(f"audit: left out: {why}")
        return 0
    lines, code = verdict(report, accepted())
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
