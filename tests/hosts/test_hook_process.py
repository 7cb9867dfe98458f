"""`kingly-memory hook` as a host runs it: the answer or silence, always code 0, never a word on standard error."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import SyncMemoryRouter
from kingly_memory.app.reading import open_reader
from kingly_memory.cli.hook import run
from kingly_memory.cli.main import main
from kingly_memory.home.place import Place
from kingly_memory.hosts import hook_log
from kingly_memory.settings import Settings
from tests.attention.hostile_texts import HOSTILE_TEXTS
from tests.cli_runner import Ran, environment, process
from tests.hosts.hook_samples import SESSION, entry, event, text, transcript

PATIENT = {"KINGLY_HOOK_DEADLINE_S": "600", "KINGLY_LOCAL_SEARCH_S": "30"}
"""What is measured here is what hooks say, not whether a loaded machine lets them say it in time."""
HEAVY = (
    *("argparse", "asyncio", "httpx", "pydantic", "mcp", "numpy", "tenacity", "diskcache", "rapidfuzz", "shutil"),
    *("logging", "traceback", "kingly_memory.attention.statements"),
)


def home_of(project: Path) -> Path:
    return project / ".kingly" / "memory"


def store(project: Path, *contents: str, **facts: Any) -> None:
    agent = facts.pop("agent", None)
    with SyncMemoryRouter.open(home_of(project), agent=agent, settings=Settings(durability="process")) as memory:
        for content in contents:
            memory.store(content, **{"origin": "user", **facts})


def hook(name: str, given: object, *arguments: str, **changes: str) -> Ran:
    """In this process: what a process of its own adds is tested below."""
    said = given if isinstance(given, bytes) else json.dumps(given).encode()
    out = TextIOWrapper(BytesIO())
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in {**PATIENT, **changes}.items():
            patch.setenv(variable, value)
        patch.setattr(sys, "stdin", TextIOWrapper(BytesIO(said)))
        patch.setattr(sys, "stdout", out)
        code = run(["hook", name, *arguments], time.monotonic())
    out.seek(0)
    return Ran(code, out.read(), "")


def noted(ran: Ran) -> str:
    """The notes in a hook's answer; "" when it said nothing."""
    assert (ran.code, ran.err) == (0, "")
    return ran.json["hookSpecificOutput"]["additionalContext"] if ran.out else ""


def failures(user_home: Path) -> list[dict[str, Any]]:
    log = user_home / "data" / "kingly" / "hooks.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.fixture
def user_home(tmp_path: Path) -> Path:
    return tmp_path / "user"


@pytest.mark.requirement("N27")
@pytest.mark.parametrize(
    ("host", "named", "answered"),
    [
        ("codex", "UserPromptSubmit", lambda said: said["hookSpecificOutput"]["additionalContext"]),
        ("gemini", "BeforeAgent", lambda said: said["hookSpecificOutput"]["additionalContext"]),
        ("copilot", "UserPromptSubmit", lambda said: said["additionalContext"]),
        ("cursor", "beforeSubmitPrompt", lambda said: said["additional_context"] if said["continue"] else ""),
        ("vscode", "UserPromptSubmit", lambda said: said["hookSpecificOutput"]["additionalContext"]),
        ("opencode", "UserPromptSubmit", lambda said: said["hookSpecificOutput"]["additionalContext"]),
    ],
)
def test_each_host_is_answered_in_its_own_shape_and_is_the_agent_who_speaks(
    host: str, named: str, answered: Callable[[Any], str], project: Path
) -> None:
    store(project, "Deploys of the depot need two reviews", agent=host, origin="agent")
    store(project, "Deploys of the depot need a rest", agent="somebody", origin="agent")
    prompt = "<hook_context>about other things</hook_context>\n\nwho reviews deploys of the depot?"
    given = json.dumps(event(named, project, prompt=prompt)).encode()
    said = json.loads(process("hook", "UserPromptSubmit", host, stdin=given, KINGLY_HOOK_DEADLINE_S="600").out)
    assert said.get("hookSpecificOutput", {}).get("hookEventName", named) == named
    assert ("need two reviews" in answered(said), "need a rest" in answered(said)) == (True, False)


@pytest.mark.requirement("N26")
@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("cursor", {"conversation_id": SESSION, "workspace_roots": ["{work}"], "hook_event_name": "stop"}),
        ("vscode", {"sessionId": SESSION, "cwd": "{work}", "hookEventName": "Stop"}),
    ],
)
def test_a_host_may_have_its_own_words_for_session_and_folder(
    host: str, named: dict[str, Any], project: Path, tmp_path: Path
) -> None:
    """As their documentation has them: neither host has a program that runs without a window."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".git").mkdir(parents=True)
    path = transcript(project, {"role": "user", "message": {"content": text("We decided to use Postgres here.")}})
    given = json.dumps({**named, "transcript_path": str(path)}).replace("{work}", str(elsewhere)).encode()
    assert hook("Stop", given, host, "--wait").out == ""
    with closing(open_reader(Place.resolve(start=elsewhere))) as reader:
        assert [one.content for one, _ in reader.export()] == ["We decided to use Postgres here."]


@pytest.mark.requirement("N26")
def test_a_host_without_transcripts_hands_over_what_was_said(project: Path) -> None:
    said = "Let's go with Postgres for the session store."
    entries = [
        {"id": "m1", "role": "user", "timestamp": "2026-03-01T10:00:00Z", "message": {"content": said}},
        {"id": "m2", "role": "tool", "message": {"content": "We decided to use MySQL."}},
        {"id": "m3", "role": "assistant", "message": {"content": "x" * 100_000}},
        "We decided to use MySQL.",
    ]
    given = {"session_id": SESSION, "cwd": str(project), "transcript": entries}
    for _ in range(2):
        assert hook("Stop", given, "opencode", "--wait").out == ""
    with closing(open_reader(Place.resolve(start=project))) as reader:
        [(memory, _)] = reader.export()
    assert (memory.content, memory.scope.context_id) == (said, SESSION)
    assert memory.created_at == datetime(2026, 3, 1, 10, tzinfo=UTC)


def test_the_folder_of_the_session_says_which_project_is_meant(project: Path, tmp_path: Path) -> None:
    store(project, "Deploys need two reviews")
    inner, elsewhere = project / "src" / "deep", tmp_path / "elsewhere"
    inner.mkdir(parents=True)
    (elsewhere / ".git").mkdir(parents=True)
    prompt = "who has to review a deploy?"
    assert noted(hook("UserPromptSubmit", event("UserPromptSubmit", inner, prompt=prompt)))
    assert hook("UserPromptSubmit", event("UserPromptSubmit", elsewhere, prompt=prompt)).out == ""


def test_another_project_of_the_same_home_stays_unseen(project: Path) -> None:
    store(project, "Deploys need two reviews")
    given = event("UserPromptSubmit", project, prompt="who has to review a deploy?")
    assert hook("UserPromptSubmit", given, KINGLY_PROJECT="other").out == ""
    assert hook("UserPromptSubmit", given, "--project", "other").out == ""
    assert noted(hook("UserPromptSubmit", given, "--home", str(home_of(project))))


def test_only_the_user_and_the_own_agent_are_quoted(project: Path) -> None:
    store(project, "Deploys by the user need two reviews")
    store(project, "Deploys by this agent need reviews", origin="agent", agent="claude-code")
    store(project, "Deploys by another agent need reviews", origin="agent", agent="cursor")
    store(project, "Deploys from the web need reviews", origin="web")
    given = event("UserPromptSubmit", project, prompt="who has to review a deploy?")
    said = noted(hook("UserPromptSubmit", given))
    assert [one for one in ("the user", "this agent", "another agent", "the web") if f"Deploys by {one}" in said] == [
        "the user",
        "this agent",
    ]
    assert "web" not in said
    assert "Deploys by another agent" in noted(hook("UserPromptSubmit", given, KINGLY_AGENT="cursor"))


def test_a_file_that_speaks_in_the_users_name_is_not_quoted(project: Path, tmp_path: Path) -> None:
    lines = [
        {"content": f"Deploys need no review, says {origin}", "origin": origin, "agent": "claude-code"}
        for origin in ("user", "agent")
    ]
    file = tmp_path / "gift.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["import", str(file)]) == 0
    prompt = event("UserPromptSubmit", project, prompt="which review do deploys need?")
    assert (noted(hook("UserPromptSubmit", prompt)), noted(hook("SessionStart", event("SessionStart", project)))) == (
        "",
        "",
    )


def test_a_session_starts_with_its_own_then_the_weightiest_then_the_latest(project: Path) -> None:
    store(project, "Said in this session before", context_id=SESSION)
    store(project, "An important rule", significance=0.9)
    store(project, "A rule of some weight", significance=0.75)
    store(project, *(f"Small talk {index}" for index in range(25)))
    store(project, "The latest word", significance=0.6)
    said = noted(hook("SessionStart", event("SessionStart", project, source="compact")))
    expected = (
        "Said in this session",
        "An important rule",
        "A rule of some weight",
        "The latest word",
        "Small talk 24",
    )
    order = [said.index(one) for one in expected]
    assert order == sorted(order)


def test_a_session_after_a_compaction_gets_back_what_was_captured_before_it(project: Path) -> None:
    transcript(project, entry("user", "Let's go with Postgres for the session store.", "u1"))
    assert hook("PreCompact", event("PreCompact", project, trigger="auto")).out == ""
    assert "go with Postgres" in noted(hook("SessionStart", event("SessionStart", project, source="compact")))


def test_a_stop_that_was_put_off_or_capturing_switched_off_captures_nothing(project: Path) -> None:
    transcript(project, entry("user", "Let's go with Postgres for the session store.", "u1"))
    assert hook("Stop", event("Stop", project, stop_hook_active=True), "--wait").out == ""
    assert hook("Stop", event("Stop", project), "--wait", KINGLY_CAPTURE_MOST="0").out == ""
    assert not home_of(project).exists()


@pytest.mark.parametrize("name", ["UserPromptSubmit", "SessionStart"])
def test_recalling_makes_no_home(name: str, project: Path, user_home: Path) -> None:
    assert hook(name, event(name, project, prompt="who has to review a deploy?")).out == ""
    assert not home_of(project).parent.exists()
    assert failures(user_home) == []


def test_two_sessions_of_two_hosts_capture_into_one_home_at_once(project: Path, user_home: Path) -> None:
    calls = []
    for index in range(8):
        name = f"transcript-{index}.jsonl"
        transcript(
            project, entry("user", f"We decided that service {index} uses port 80{index}.", f"u{index}"), name=name
        )
        given = event("Stop", project, session_id=f"s{index}", transcript_path=str(project / name))
        calls.append(started(("Stop", "--wait"), given, KINGLY_AGENT="claude-code" if index % 2 else "cursor"))
    assert [ended(call) for call in calls] == [("", "", 0)] * 8
    assert failures(user_home) == []
    reader = open_reader(Place.resolve(start=project))
    assert sorted(memory.content for memory, _ in reader.export()) == [
        f"We decided that service {index} uses port 80{index}." for index in range(8)
    ]
    reader.close()


def test_many_prompts_at_once_are_all_answered(project: Path, user_home: Path) -> None:
    store(project, "Deploys need two reviews")
    prompt = "who has to review a deploy?"
    given = [event("UserPromptSubmit", project, prompt=prompt, session_id=f"s{index}") for index in range(16)]
    calls = [started(("UserPromptSubmit",), one) for one in given]
    answers = [ended(call) for call in calls]
    assert all("Deploys need two reviews" in out and (err, code) == ("", 0) for out, err, code in answers)
    assert failures(user_home) == []


def started(arguments: Sequence[str], given: object, **changes: str) -> subprocess.Popen[bytes]:
    call = subprocess.Popen(
        [sys.executable, "-m", "kingly_memory", "hook", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**PATIENT, **changes),
    )
    assert call.stdin is not None
    call.stdin.write(json.dumps(given).encode())
    call.stdin.close()
    call.stdin = None
    return call


def ended(call: subprocess.Popen[bytes]) -> tuple[str, str, int]:
    out, err = call.communicate(timeout=60)
    return out.decode(), err.decode(), call.returncode


# --- whatever goes wrong --------------------------------------------------------------------------------------------


BAD_INPUT = {
    "nothing": b"",
    "no JSON": b"who reviews a deploy?",
    "a list": b"[1, 2]",
    "bytes": b"\xff\xfe\x00",
    "deep JSON": b"[" * 100_000,
    "another event": json.dumps({"hook_event_name": "Stop", "prompt": "x"}).encode(),
    "nothing known": b"{}",
    "wrong types": json.dumps({"prompt": 7, "cwd": ["x"], "session_id": {}, "transcript_path": 3}).encode(),
    "hostile paths": json.dumps({"prompt": "x", "cwd": "/\0/../..", "transcript_path": "/dev/zero"}).encode(),
    "a surrogate": b'{"prompt": "review \\ud800 deploys", "cwd": "/\\udfff"}',
    "a huge prompt": json.dumps({"prompt": "deploys reviews " * 200_000}).encode(),
    "too much": b'{"prompt": "' + b"x" * 9_000_000 + b'"}',
}


@pytest.mark.requirement("KNG-085")
@pytest.mark.parametrize("name", ["UserPromptSubmit", "Stop"])
@pytest.mark.parametrize("given", BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_is_silence(name: str, given: bytes, project: Path) -> None:
    """Of the events that recall and of those that capture one each: the input is read before they part."""
    ran = hook(name, given)
    assert (ran.code, ran.out, ran.err) == (0, "", "")


@pytest.mark.parametrize(
    "arguments",
    [["hook", "Unknown"], ["hook", "--bogus"], ["hook", "Stop", "PreCompact"], ["hook", "Stop", "--home"],
     ["hook", "--home", "x", "Stop"], ["hook", ""], ["--oops", "hook", "UserPromptSubmit"],
     ["--home", "hook", "hook", "UserPromptSubmit", "--oops"], ["--remote", "hook", "--oops"],
     ["surplus", "hook", "Stop"]],
    ids=str,
)  # fmt: skip
def test_a_wrong_command_line_is_silence_and_no_veto(arguments: list[str], project: Path) -> None:
    """A host takes other exit codes than 0 for a veto, wherever the wrong word stands."""
    ran = process(*arguments, stdin=b"{}", **PATIENT)
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_a_failure_of_a_command_line_that_cannot_be_read_is_that_of_no_event(project: Path) -> None:
    run(["hook", "--bogus"], time.monotonic())
    assert [one.event for one in hook_log.failures(datetime.now(UTC))] == [""]


def test_an_event_that_only_the_json_names_is_answered(project: Path) -> None:
    store(project, "Deploys need two reviews")
    given = json.dumps(event("UserPromptSubmit", project, prompt="who has to review a deploy?")).encode()
    assert "Deploys need two reviews" in noted(process("hook", stdin=given, **PATIENT))
    transcript(project, entry("user", "Let's go with Postgres for the session store.", "u1"))
    assert process("hook", "--wait", stdin=json.dumps(event("Stop", project)).encode(), **PATIENT).out == ""
    with closing(open_reader(Place.resolve(start=project))) as reader:
        assert "Let's go with Postgres for the session store." in [one.content for one, _ in reader.export()]


HOMELESS = """
import os, pwd, sys
def nobody(_):
    raise KeyError("no such user")
pwd.getpwuid = nobody
os.environ.pop("HOME", None)
os.environ.pop("XDG_DATA_HOME", None)
sys.argv = ["kingly-memory", "hook", *sys.argv[1:]]
from kingly_memory.cli.entry import run
run()"""


def test_a_user_without_a_home_is_silence_and_in_time(project: Path) -> None:
    """Nothing can be noted, and the thread that watches the deadline must end the process all the same."""
    for arguments, given, patience in (
        (["UserPromptSubmit"], b"no JSON", "600"),
        (["--oops"], b"", "600"),
        (["UserPromptSubmit"], None, "0.05"),
    ):
        with subprocess.Popen(
            [sys.executable, "-c", HOMELESS, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(KINGLY_HOOK_DEADLINE_S=patience),
        ) as call:
            if given is None:
                assert call.wait(timeout=60) == 0
            out, err = call.communicate(given, timeout=60)
            assert (call.returncode, out, err) == (0, b"", b"")


@pytest.mark.parametrize("read_from", [False, True])
def test_a_pipe_in_the_place_of_the_log_holds_nobody_up(project: Path, user_home: Path, read_from: bool) -> None:
    folder = user_home / "data" / "kingly"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "hooks.jsonl")
    reader = os.open(folder / "hooks.jsonl", os.O_RDWR | os.O_NONBLOCK) if read_from else None
    try:
        with started(("UserPromptSubmit",), "no object") as call:
            assert call.wait(timeout=60) == 0
        assert hook_log.failures(datetime.now(UTC)) == []
        if reader is not None:
            with pytest.raises(BlockingIOError):
                os.read(reader, 1)
    finally:
        if reader is not None:
            os.close(reader)


@pytest.mark.requirement("KNG-085")
def test_a_damaged_setting_or_store_is_silence_and_a_line_in_the_log(project: Path, user_home: Path) -> None:
    store(project, "Deploys need two reviews")
    given = event("UserPromptSubmit", project, prompt="CANARY who has to review a deploy?")
    assert hook("UserPromptSubmit", given, KINGLY_LIFETIMES="working=soon").out == ""
    home_of(project).joinpath("store", "cache.db").chmod(0o666)
    assert hook("UserPromptSubmit", given).out == ""
    assert hook("Unknown", given).out == ""
    setting, untrusted, unknown = failures(user_home)
    assert "KINGLY_LIFETIMES" in setting["problem"]
    assert (untrusted["event"], untrusted["home"]) == ("UserPromptSubmit", str(home_of(project)))
    assert "other users may write to it" in untrusted["problem"]
    assert unknown["event"] == "Unknown"
    log = (user_home / "data" / "kingly" / "hooks.jsonl").read_text()
    assert "CANARY" not in log
    assert "Deploys" not in log
    for file in home_of(project).joinpath("store").iterdir():
        file.chmod(0o600)
    hook("UserPromptSubmit", given)
    assert [one.event for one in hook_log.failures(datetime.now(UTC))] == ["Unknown"], "the others are over"


def test_a_transcript_that_is_not_there_is_silence_and_a_line_in_the_log(project: Path, user_home: Path) -> None:
    assert hook("Stop", event("Stop", project), "--wait").out == ""
    [failure] = failures(user_home)
    assert "transcript cannot be read" in failure["problem"]


def test_a_host_that_keeps_its_end_open_is_not_waited_for(project: Path, user_home: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "kingly_memory", "hook", "UserPromptSubmit"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(KINGLY_HOOK_DEADLINE_S="0.05"),
    ) as call:
        assert call.wait(timeout=60) == 0
        assert call.stdout is not None
        assert call.stderr is not None
        assert (call.stdout.read(), call.stderr.read()) == (b"", b"")
    [failure] = failures(user_home)
    assert "longer than its deadline" in failure["problem"]


def test_a_host_that_does_not_listen_is_no_error(project: Path) -> None:
    store(project, "Deploys need two reviews")
    given = json.dumps(event("UserPromptSubmit", project, prompt="who has to review a deploy?"))
    line = f"{shlex.join([sys.executable, '-m', 'kingly_memory', 'hook', 'UserPromptSubmit'])} >&-; echo $?"
    done = subprocess.run(
        ["/bin/sh", "-c", line], input=given.encode(), capture_output=True, env=environment(**PATIENT), check=False
    )
    assert (done.stdout, done.stderr) == (b"0\n", b"")


@pytest.mark.parametrize("is_after_a_failure", [False, True])
def test_the_prompt_hook_loads_nothing_heavy(project: Path, is_after_a_failure: bool) -> None:
    if is_after_a_failure:
        hook_log.note("UserPromptSubmit", "it took longer than its deadline and was ended")
    store(project, "Deploys need two reviews")
    script = f"""
import sys, time
from kingly_memory.cli.hook import run
run(["hook", "UserPromptSubmit"], time.monotonic())
print(sorted(set({HEAVY!r}) & set(sys.modules)))"""
    given = json.dumps(event("UserPromptSubmit", project, prompt="who has to reviwe a deploy?"))
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=given,
        env=environment(**PATIENT),
        capture_output=True,
        text=True,
        check=True,
    )
    answer, loaded = done.stdout.splitlines()
    assert "Deploys need two reviews" in answer
    assert loaded == "[]"


def test_hostile_memories_stay_between_the_marks_of_a_real_answer(project: Path) -> None:
    store(project, *(f"deploy review note. {one}" for one in HOSTILE_TEXTS.values() if one.strip()))
    said = noted(hook("UserPromptSubmit", event("UserPromptSubmit", project, prompt="deploy review note")))
    _, opening, *quoted, closing = said.split("\n")
    assert closing == opening.replace("[", "[/")
    assert said.splitlines() == said.split("\n")
    assert all(line.startswith("| ") for line in quoted)
    assert len(quoted) > 20
