"""One door for secrets: a receipt says how many a memory seems to hold, or they are taken out, on every way in."""

from __future__ import annotations

from pathlib import Path

import pytest

from kingly_memory import Settings, SyncMemoryRouter
from tests.cli_runner import Run
from tests.mcp_sessions import session

pytestmark = pytest.mark.requirement("N25")

SAID = "The deploy password is hunter2."
KEPT = "The deploy password is [redacted secret]."
CLEAN = "Deploys need two reviews."
TOKEN = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"  # made up


@pytest.mark.parametrize(("redacts", "kept", "seems"), [(False, SAID, 1), (True, KEPT, 0)])
def test_every_verb_of_python_says_how_many_secrets_it_kept(
    tmp_path: Path, redacts: bool, kept: str, seems: int
) -> None:
    settings = Settings(redact_secrets=redacts)
    with SyncMemoryRouter.open(tmp_path / "home", remote=False, settings=settings) as memory:
        memory.store(CLEAN, key="edited")
        edited = memory.update("edited", content=SAID)
        stored = [
            memory.store(SAID),
            memory.store(CLEAN, title=SAID),
            memory.store(CLEAN, metadata={"said": [SAID]}),
            memory.store(CLEAN, metadata={"notes": {SAID: 1}}),
            *memory.store_many([{"content": SAID, "key": "one of many"}]),
        ]
        assert memory.store(CLEAN).secrets == 0
        texts = str([memory.get(one.id).to_json() for one in (edited, *stored)])  # type: ignore[union-attr]
    assert [one.secrets for one in (edited, *stored)] == [seems] * 6  # type: ignore[union-attr]
    assert texts.count(kept) == 6
    assert redacts == ("hunter2" not in texts)


@pytest.mark.parametrize("redacts", [False, True])
def test_what_a_memory_is_found_by_stays_and_is_counted(tmp_path: Path, redacts: bool) -> None:
    settings = Settings(redact_secrets=redacts)
    with SyncMemoryRouter.open(tmp_path / "home", remote=False, settings=settings) as memory:
        stored = [memory.store(CLEAN, key=TOKEN), memory.store(CLEAN, tags=[TOKEN], context_id=TOKEN)]
        found = memory.get(TOKEN)
    assert [one.secrets for one in stored] == [1, 2]
    assert found is not None
    assert found.key == TOKEN


def test_metadata_whose_name_makes_them_a_secret_are_redacted(tmp_path: Path) -> None:
    with SyncMemoryRouter.open(tmp_path / "home", settings=Settings(redact_secrets=True), remote=False) as memory:
        memory.store(CLEAN, key="k", metadata={"password": "hunter2sEcret9", "user": "ann", "port": 5432})
        found = memory.get("k")
    assert found is not None
    assert found.metadata == {"password": "[redacted secret]", "user": "ann", "port": 5432}


@pytest.mark.parametrize("redacts", [False, True])
def test_the_command_line_and_a_file_that_is_imported_pass_it_too(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redacts: bool
) -> None:
    monkeypatch.setenv("KINGLY_REDACT_SECRETS", str(int(redacts)))
    told = run("store", SAID, "--key", "said")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text(f"{SAID}\n", encoding="utf-8")
    assert run("import", str(tmp_path / "notes")).code == 0
    assert ("seems to hold 1 secret" in told.out) is not redacts
    assert redacts == ("hunter2" not in run("export").out)


async def test_a_tool_says_how_many_secrets_it_kept(tmp_path: Path) -> None:
    async with session(tmp_path) as host:
        assert (await host.ok("memory_intelligent_store", content=SAID))["secrets"] == 1
        assert "secrets" not in await host.ok("memory_intelligent_store", content=CLEAN)


@pytest.mark.requirement("A18")
def test_the_reason_of_a_task_is_kept_without_secrets(run: Run) -> None:
    run("task", "record", "deploy", "--status", "failed", "--reason", f"401: {SAID}")
    said = run("export").out
    assert "hunter2" not in said
    assert KEPT in said
