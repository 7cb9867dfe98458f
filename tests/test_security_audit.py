"""The audit of dependencies: a finding stops a change, what is accepted has its reason, no network is no verdict."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tools import audit
from tools.audit import NoVerdict, accepted, asked_of_pip_audit, main

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
PINNED = {
    name.lower().replace("_", "-"): version
    for name, version in re.findall(r"^([\w.-]+)==(\S+)", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE)
}


def report(name: str, version: str, *vulns: Mapping[str, Any]) -> Mapping[str, Any]:
    fine = {"name": "anyio", "version": "4.0", "vulns": []}
    return {"dependencies": [fine, {"name": name, "version": version, "vulns": list(vulns)}], "fixes": []}


def said(found: Mapping[str, Any], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main([str(CONSTRAINTS)], lambda _: found)
    return code, capsys.readouterr().out


def test_an_advisory_that_nobody_accepted_stops_the_change(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = said(
        report("httpx", "0.28.1", {"id": "GHSA-1", "aliases": ["CVE-1"], "fix_versions": ["0.29"]}), capsys
    )
    assert code == 1
    assert out.splitlines() == [
        "audit: httpx 0.28.1  GHSA-1, CVE-1  mended in 0.29",
        "audit: 2 dependencies, 1 with an advisory that is not accepted",
    ]


@pytest.mark.parametrize(("name", "alias"), [("CVE-2025-69872", "PYSEC-1"), ("PYSEC-1", "GHSA-w8v5-vhqr-4h9v")])
def test_an_accepted_advisory_is_shown_with_its_reason(
    capsys: pytest.CaptureFixture[str], name: str, alias: str
) -> None:
    code, out = said(report("diskcache", "5.6.3", {"id": name, "aliases": [alias], "fix_versions": []}), capsys)
    assert code == 0
    assert "accepted: diskcache 5.6.3" in out
    assert "it unpickles what it finds" in out


@pytest.mark.parametrize(("package", "version"), [("diskcache", "5.6.4"), ("othercache", "5.6.3")])
def test_what_is_accepted_counts_for_one_version_of_one_package(
    capsys: pytest.CaptureFixture[str], package: str, version: str
) -> None:
    code, _ = said(report(package, version, {"id": "CVE-2025-69872", "aliases": [], "fix_versions": []}), capsys)
    assert code == 1


def test_one_advisory_under_two_names_is_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    twice = ({"id": "GHSA-1", "aliases": ["CVE-1"]}, {"id": "CVE-1", "aliases": ["GHSA-1"]})
    assert "1 with an advisory" in said(report("httpx", "1", *twice), capsys)[1]


def test_without_an_answer_one_line_says_why_and_nothing_fails(capsys: pytest.CaptureFixture[str]) -> None:
    def unreachable(_: Path) -> Mapping[str, Any]:
        raise NoVerdict(audit.UNREACHABLE)

    assert main([str(CONSTRAINTS)], unreachable) == 0
    assert capsys.readouterr().out == "audit: left out: the database of advisories cannot be reached\n"


@pytest.mark.parametrize(
    ("out", "err", "why"),
    [
        ("", "requests.exceptions.ConnectionError: no", audit.UNREACHABLE),
        ("", "usage: no such option", audit.SILENT),
        ("no JSON", "", audit.SILENT),
    ],
)
def test_a_run_that_ends_without_a_report_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, out: str, err: str, why: str
) -> None:
    monkeypatch.setattr(audit, "find_spec", lambda _: object())
    done = subprocess.CompletedProcess([], 1, out, err)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    with pytest.raises(NoVerdict) as none:
        asked_of_pip_audit(CONSTRAINTS)
    assert str(none.value) == why


def test_a_run_that_takes_too_long_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("pip-audit", 1)

    monkeypatch.setattr(audit, "find_spec", lambda _: object())
    monkeypatch.setattr(subprocess, "run", late)
    with pytest.raises(NoVerdict):
        asked_of_pip_audit(CONSTRAINTS)


def test_without_pip_audit_the_process_says_so_in_one_line() -> None:
    script = "import sys; sys.modules['pip_audit'] = None; from tools.audit import main; sys.exit(main(['x']))"
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "audit: left out: pip-audit is not installed\n", "")


def test_what_is_accepted_is_pinned_has_a_reason_and_is_held_by_a_test() -> None:
    known = accepted()
    assert {"CVE-2025-69872"} <= {name for one in known for name in one.ids}
    for one in known:
        assert PINNED[one.package] == one.version, "an advisory of what is not pinned any more is nobody's"
        assert len(one.reason) > 20
        assert (ROOT / one.held_by).is_file()
        assert all(re.fullmatch(r"(CVE|GHSA|PYSEC|OSV)-[\w-]+", name) for name in one.ids)


def test_a_check_asks_for_an_audit() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    check = makefile.split("\ncheck:")[1].split("\n\n")[0]
    assert "audit" in check
    assert "tools/audit.py constraints.txt" in makefile
