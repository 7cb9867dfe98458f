"""What a session was shown is not shown to it again, unless there is a reason."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import SyncMemoryRouter
from kingly_memory.adapters.local.injections import MOST_SESSIONS, InjectionFiles
from kingly_memory.settings import Settings
from tests.cli_runner import ROOT, Run, environment
from tests.hosts.hook_samples import SESSION, entry, event, text, transcript
from tests.hosts.test_hook_process import PATIENT, failures, home_of, hook, noted, store

PROMPT = "who has to review a deploy?"
RULE = "Deploys need two reviews"


def prompted(project: Path, said: str = PROMPT, session: str = SESSION) -> str:
    return noted(hook("UserPromptSubmit", event("UserPromptSubmit", project, prompt=said, session_id=session)))


def begun(project: Path, source: str) -> str:
    return noted(hook("SessionStart", event("SessionStart", project, source=source)))


def log_of(project: Path) -> InjectionFiles:
    return InjectionFiles(home_of(project), project.name)


def router(project: Path, **how: Any) -> SyncMemoryRouter:
    return SyncMemoryRouter.open(home_of(project), settings=Settings(durability="process"), **how)


@pytest.mark.requirement("SMT-052")
def test_a_session_is_told_of_a_memory_once(project: Path) -> None:
    store(project, RULE)
    assert RULE in prompted(project)
    assert prompted(project) == ""
    assert prompted(project, "does a deploy get a review at all?") == ""
    assert RULE in prompted(project, session="another")


def test_what_a_session_has_makes_room_for_what_it_has_not(project: Path) -> None:
    store(project, RULE)
    assert RULE in prompted(project)
    store(project, "The review of a deploy takes a day")
    said = prompted(project)
    assert "takes a day" in said
    assert RULE not in said


@pytest.mark.requirement("P25")
def test_what_each_prompt_got_is_kept_with_why_and_what_it_cost_and_without_a_word(project: Path) -> None:
    store(project, RULE)
    assert RULE in prompted(project)
    assert prompted(project) == ""
    again, first = log_of(project).latest(9)
    assert (again.ids, again.account["left"], again.account["bytes"]) == ((), {"ALREADY": 1}, 0)
    assert (len(first.ids), first.account["occasion"], first.account["left"]) == (1, "prompt", {})
    assert first.account["tokens"] > 20
    assert first.account["ms"] > 1
    [[fits, likeness, weight, relevance, boost]] = first.account["why"]
    assert (0.25 <= fits <= 1, 0 < likeness <= 1, weight, relevance, boost) == (True, True, 1, 1, 0)
    kept = b"".join(file.read_bytes() for file in (home_of(project) / "injected").iterdir())
    assert not [word for word in (*RULE.split(), *PROMPT.split()) if len(word) > 3 and word.encode() in kept]


def test_a_memory_that_was_revised_since_is_shown_again(project: Path) -> None:
    store(project, RULE, key="rule")
    assert RULE in prompted(project)
    store(project, "Deploys need three reviews", key="rule")
    assert "three reviews" in prompted(project)
    assert prompted(project) == ""


@pytest.mark.requirement("N14")
def test_what_has_changed_since_is_marked_when_a_session_starts(project: Path) -> None:
    store(project, "The api listens on port 9091", key="port")
    store(project, "The api listens on port 9191")
    heads = [line for line in begun(project, "startup").split("\n") if re.match(r"\| \[\d", line)]
    assert ["superseded by [1]" in head for head in heads] == [False, True]


@pytest.mark.parametrize("source", ["compact", "clear"])
def test_a_session_that_has_lost_its_context_is_shown_it_again(project: Path, source: str) -> None:
    store(project, RULE)
    assert RULE in prompted(project)
    assert RULE in begun(project, source)
    assert prompted(project) == ""
    assert RULE in begun(project, source)


@pytest.mark.parametrize("source", ["resume", "startup"])
def test_a_session_that_has_it_still_is_not_shown_it_at_its_start(project: Path, source: str) -> None:
    store(project, RULE)
    assert RULE in prompted(project)
    store(project, "The cafeteria opens at noon")
    said = begun(project, source)
    assert "cafeteria" in said
    assert RULE not in said


def test_a_host_that_names_no_session_gets_the_same_every_time(project: Path) -> None:
    store(project, RULE)
    given = {"hook_event_name": "UserPromptSubmit", "cwd": str(project), "prompt": PROMPT}
    assert [RULE in noted(hook("UserPromptSubmit", given)) for _ in range(2)] == [True, True]
    with router(project) as memory:
        [name] = (one.memory.id for one in memory.search("review").hits)
        assert memory.attention.rate(name, useful=True).ratings == 1


@pytest.mark.requirement("SMT-051")
def test_without_focus_ratings_or_log_an_answer_is_the_same_every_time(project: Path) -> None:
    """But for the nonce of its marks."""
    store(project, RULE, "The review of a deploy takes a day", "A deploy without review is taken back")
    said = [prompted(project, session=f"s{index}") for index in range(3)]
    assert len({one.replace(nonce(one), "") for one in said}) == 1


@pytest.mark.requirement("SMT-011")
@pytest.mark.requirement("SMT-052")
def test_what_an_agent_puts_into_focus_comes_first_at_every_prompt_until_it_is_taken_out(project: Path) -> None:
    store(project, "A deploy has to be reviewed", tags=["rules"])
    store(project, "Whoever has to review a deploy takes the blame for that deploy", tags=["people"])
    with router(project, agent="claude-code") as memory:
        plain = order(prompted(project, session="s1"))
        assert sorted(plain) == ["people", "rules"]
        memory.attention.focus(plain[1], 1.0)
        assert order(prompted(project, session="s2")) == [plain[1], plain[0]]
        memory.attention.unfocus(plain[1])
        assert order(prompted(project, session="s3")) == plain


def order(said: str) -> list[str]:
    places = {"rules": said.index("A deploy has to be reviewed"), "people": said.index("Whoever has to review")}
    return sorted(places, key=places.__getitem__)


def nonce(said: str) -> str:
    return said.split("\n")[1].removeprefix("[recalled-notes ").removesuffix("]")


def test_what_the_host_did_not_hear_is_told_again(project: Path) -> None:
    store(project, RULE)
    given = json.dumps(event("UserPromptSubmit", project, prompt=PROMPT)).encode()
    command = "python -m kingly_memory hook UserPromptSubmit >&-"
    env = {**environment(**PATIENT), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(["/bin/sh", "-c", command], input=given, capture_output=True, env=env, check=False)
    assert RULE in prompted(project)


@pytest.mark.parametrize("trouble", ["a file", "open to others", "a link", "a pipe for the session"])
def test_a_log_that_cannot_be_used_keeps_no_answer_back(project: Path, trouble: str, tmp_path: Path) -> None:
    store(project, RULE)
    folder = home_of(project) / "injected"
    if trouble == "a file":
        folder.write_text("in the way")
    elif trouble == "open to others":
        folder.mkdir()
        folder.chmod(0o777)
    elif trouble == "a link":
        folder.symlink_to(tmp_path)
    else:
        log_of(project).note(SESSION, ["x"], 1.0)
        [file] = folder.iterdir()
        file.unlink()
        os.mkfifo(file)
    assert [RULE in prompted(project) for _ in range(2)] == [True, True]
    assert failures(tmp_path / "user") == []


@pytest.mark.parametrize("kind", ["file", "link", "open"])
def test_doctor_says_when_nothing_can_be_remembered(run: Run, project: Path, kind: str, tmp_path: Path) -> None:
    store(project, RULE)
    assert run("doctor").code == 0
    folder = home_of(project) / "injected"
    if kind == "file":
        folder.write_text("in the way")
    elif kind == "link":
        folder.symlink_to(tmp_path)
    else:
        folder.mkdir()
        folder.chmod(0o755)
    ran = run("doctor")
    assert ran.code != 0
    [line] = [one for one in ran.out.splitlines() if one.startswith("problem") and f" hooks: {folder} is " in one]
    assert "shown memories twice" in line


def test_a_pinned_memory_comes_first_however_old_and_light_it_is(project: Path) -> None:
    with router(project) as memory:
        pinned = memory.store("Never deploy on Fridays", significance=0.2, origin="user", tags=["pinned"])
        heavier = memory.store("Ask Ada about releases", significance=0.2, origin="user", tags=["pinned"])
        loose = memory.store("This was pinned once", significance=0.2, origin="user", tags=["pinned"])
        for index in range(30):
            memory.store(f"Weighty rule {index}", significance=0.9, origin="user")
        set_facets(memory, {pinned.id: (1.3, True), heavier.id: (1.5, True), loose.id: (1.5, False)})
    said = begun(project, "startup")
    assert said.index("Ask Ada") < said.index("Never deploy on Fridays") < said.index("Weighty rule")
    assert "pinned once" not in said


def set_facets(memory: SyncMemoryRouter, facets: dict[str, tuple[float, bool]]) -> None:
    def change(transaction: Any) -> None:
        for name, (weight, pinned) in facets.items():
            transaction.set_facet("attention", name, {"weight": weight, "pinned": pinned})

    memory._awaiting._engine.store.write(change).result()


# --- what the assistant draws on ------------------------------------------------------------------------------------


def accesses(project: Path, key: str) -> int:
    with router(project) as memory:
        found = memory.explain(key)
        assert found is not None
        return int(found["strength"]["accesses"])


def test_a_reply_that_says_what_only_the_note_says_counts_as_a_use(project: Path) -> None:
    store(project, "Deploys are reviewed by Ada and by the Lisbon office", key="rule")
    assert "Lisbon" in prompted(project)
    transcript(
        project,
        entry("user", PROMPT, "u1"),
        entry("assistant", text("That would be Ada, together with somebody from the Lisbon office."), "a1"),
    )
    before = accesses(project, "rule")
    for _ in range(2):
        assert hook("Stop", event("Stop", project), "--wait").out == ""
    assert accesses(project, "rule") == before + 1


@pytest.mark.parametrize(
    "reply", ["Everybody has to review a deploy.", "I cannot say who has to review a deploy.", "Ada is on holiday."]
)
def test_a_reply_that_only_says_the_prompts_own_words_counts_as_none(project: Path, reply: str) -> None:
    store(project, "Deploys are reviewed by Ada and by the Lisbon office", key="rule")
    assert "Lisbon" in prompted(project)
    transcript(project, entry("user", PROMPT, "u1"), entry("assistant", text(reply), "a1"))
    before = accesses(project, "rule")
    assert hook("Stop", event("Stop", project), "--wait").out == ""
    assert accesses(project, "rule") == before


# --- the page -------------------------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "integrations" / "hosts.md").read_text(encoding="utf-8")


def test_deleting_the_folder_begins_anew_as_the_page_says(project: Path) -> None:
    store(project, RULE)
    assert RULE in prompted(project)
    [command] = re.findall(r"`(rm -r [^`]+)`", PAGE)
    subprocess.run(command.split(), cwd=project, check=True)
    assert RULE in prompted(project)


def test_the_figures_on_the_page_are_those_of_the_code() -> None:
    for said in (f"holds the {MOST_SESSIONS} sessions", "half of all those"):
        assert said in PAGE.replace("\n", " ")
