"""docs/integrations/hosts.md says what hooks do: its examples are run, its table is the table of the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

from kingly_memory.attention.statements import WORTH, judged
from kingly_memory.hosts.config import HOSTS
from kingly_memory.hosts.hooks import EVENTS
from kingly_memory.settings import Settings
from tests.cli_runner import ROOT, Run, process

PAGE = (ROOT / "docs" / "integrations" / "hosts.md").read_text(encoding="utf-8")


def masked(text: str) -> str:
    """Without what differs from run to run."""
    return re.sub(r"\d{4}-\d\d-\d\d", "DATE", re.sub(r"[0-9a-f]{32}", "NONCE", text))


def test_the_notes_on_the_page_are_those_of_a_real_run(run: Run, project: Path) -> None:
    run("store", "Deploys need two reviews", "--key", "deploy.rule")
    given = b'{"prompt": "who has to review a deploy?"}'
    ran = process("hook", "UserPromptSubmit", stdin=given, KINGLY_HOOK_DEADLINE_S="600")
    notes = json.loads(ran.out)["hookSpecificOutput"]["additionalContext"]
    assert f"```\n{masked(notes)}\n```" in masked(PAGE)


def test_what_doctor_says_on_the_page_is_what_it_says(run: Run, project: Path) -> None:
    assert process("hook", "Stop", stdin=b"no JSON").out == ""
    [line] = [one for one in run("doctor").out.splitlines() if one.startswith("problem")]
    assert line in PAGE


def test_the_table_of_what_is_kept_is_that_of_the_code() -> None:
    rows = re.findall(r"\| (user|assistant) \| (\w+) \| (.+?) \| (\w+) \| ([\d.]+) \|", PAGE)
    said = {(who, sort): (kind, float(significance)) for who, sort, _, kind, significance in rows}
    assert said == {key: (worth.type, worth.significance) for key, worth in WORTH.items()}
    for who, sort, example, _, _ in rows:
        assert judged(example, who)[1] == sort


def test_every_event_host_and_setting_is_on_the_page() -> None:
    assert [name for name in (*EVENTS, *HOSTS) if f"`{name}`" not in PAGE] == []
    named = set(re.findall(r"KINGLY_([A-Z_]+)", PAGE)) - {"AGENT", "REDACT_SECRETS"}
    assert {name.lower() for name in named} == {"hook_tokens", "hook_deadline_s", "capture_most"}
    defaults = Settings()
    assert (defaults.hook_tokens, defaults.hook_deadline_s, defaults.capture_most) == (1_000, 0.3, 50)
