"""What PreCompact and Stop keep of a conversation: by stated rules, without secrets, once, never what was recalled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import Memory, Origin, SyncMemoryRouter
from kingly_memory.app.reading import open_reader
from kingly_memory.attention.fence import fenced
from kingly_memory.attention.statements import Message, Sort, Speaker, Statement, judged, sentences, statements
from kingly_memory.errors import StoreBusy
from kingly_memory.home.place import Place
from kingly_memory.hosts import transcript as transcripts
from kingly_memory.hosts.capture import Progress, keep
from kingly_memory.hosts.hooks import TranscriptUnreadable
from kingly_memory.hosts.transcript import read_since
from kingly_memory.models import MemoryType, Taken
from kingly_memory.router.capturing import captured_id
from kingly_memory.settings import Pace, Settings
from tests.hosts.hook_samples import SESSION, entry, text, transcript

CALM = Settings(durability="process", pace=Pace(closing_s=0.0))
Talk = tuple[str, Path]

KEPT_OF_USER = {
    "Remember that staging lives on port 6432.": Sort.REQUEST,
    "Please keep in mind that the API is frozen on Fridays.": Sort.REQUEST,
    "From now on every migration needs a rollback script.": Sort.REQUEST,
    "I prefer pathlib to os.path in new modules.": Sort.PREFERENCE,
    "I prefer mail.": Sort.PREFERENCE,
    "Always run the linter before committing.": Sort.PREFERENCE,
    "Please don't use mocks for the database.": Sort.PREFERENCE,
    "Our convention is snake case for columns.": Sort.PREFERENCE,
    "You should never push directly to the release branch.": Sort.PREFERENCE,
    "Let's go with Postgres for the session store.": Sort.DECISION,
    "We decided to drop support for Python 3.10.": Sort.DECISION,
    "Decision: the hub speaks only JSON.": Sort.DECISION,
    "No, I meant the blue button on the settings page.": Sort.CORRECTION,
    "That's wrong, the invoices are sent on Mondays.": Sort.CORRECTION,
    "Stop adding comments to the generated files.": Sort.CORRECTION,
    "My timezone is Europe/Zurich at the moment.": Sort.FACT,
    "Our API is hosted in Frankfurt since May.": Sort.FACT,
    "We deploy every Tuesday with Argo.": Sort.FACT,
    "I’m responsible for the billing service.": Sort.FACT,
}
KEPT_OF_ASSISTANT = {
    "The root cause was a stale lock file in the deploy script.": Sort.OUTCOME,
    "All 214 tests pass now.": Sort.OUTCOME,
    "Fixed the flaky checkout test by giving each worker its own fixture.": Sort.OUTCOME,
    "I went with a queue because webhooks arrive in bursts.": Sort.DECISION,
    "The project uses hatchling to build its wheels.": Sort.FACT,
}
NOT_KEPT_OF_USER = (
    "Can you always run the linter before committing?",
    "What did we decide about the session store",
    "Should we go with Postgres for sessions?",
    "I can't remember why that was written.",
    "Thanks, that looks good to me.",
    "Let's do that.",
    "No thanks.",
    "Add a test for the parser.",
    "yes",
    "",
)
NOT_KEPT_OF_ASSISTANT = (
    "I'll fix the flaky test next.",
    "Let me check whether all tests pass now.",
    "The root cause might be a stale lock file.",
    "If the cache is cold, the problem is the first request.",
    "Always run the linter before committing.",
    "I prefer to use pathlib in new modules.",
    "Here is a summary of the changes.",
)


@pytest.mark.parametrize(("sentence", "sort"), KEPT_OF_USER.items())
def test_what_a_user_states_is_kept_as_what_it_is(sentence: str, sort: Sort) -> None:
    assert judged(sentence, "user")[1] is sort


@pytest.mark.parametrize(("sentence", "sort"), KEPT_OF_ASSISTANT.items())
def test_what_an_assistant_concludes_is_kept_as_what_it_is(sentence: str, sort: Sort) -> None:
    assert judged(sentence, "assistant")[1] is sort


@pytest.mark.parametrize(
    ("said", "kept"),
    {
        "The deadline is March 15. Can you update the docs?": ["The deadline is March 15."],
        "We decided to use Postgres 16. Always run the linter before a commit.": [
            "We decided to use Postgres 16.",
            "Always run the linter before a commit.",
        ],
        "Die Abgabe ist am 15. Können wir das verschieben?": ["Die Abgabe ist am 15."],
        "Unser Termin ist am 15. Februar in Tromsø.": ["Unser Termin ist am 15. Februar in Tromsø."],
        "Mein Büro ist im 12. Stock in Wien.": ["Mein Büro ist im 12. Stock in Wien."],
    }.items(),
)
def test_a_number_ends_a_sentence_where_the_next_word_begins_one(said: str, kept: list[str]) -> None:
    assert [one.content for one in statements([Message("m", "user", said, None)])] == kept


@pytest.mark.parametrize("sentence", NOT_KEPT_OF_USER)
def test_questions_requests_and_small_talk_of_a_user_are_not_kept(sentence: str) -> None:
    assert judged(sentence, "user")[1] is None


@pytest.mark.parametrize(
    ("sentence", "sort"),
    {
        "The sprint starts on Monday.": Sort.DEADLINE,
        "Our school year begins on 1 September.": Sort.DEADLINE,
        "My train from Cologne to Bonn is late.": None,
        "My train from Cologne to Bonn comes soon.": None,
        "The table has three columns for each user.": None,
        "The table has three rows for each user.": None,
        "I love the story so far.": None,
        "Thanks, my team has moved to Lisbon.": None,
        "Thank you, my team has moved to Lisbon.": None,
    }.items(),
)
def test_a_cue_is_a_cue_wherever_it_stands_in_its_list(sentence: str, sort: Sort | None) -> None:
    assert judged(sentence, "user")[1] is sort


@pytest.mark.parametrize("sentence", NOT_KEPT_OF_ASSISTANT)
def test_plans_guesses_and_orders_of_an_assistant_are_not_kept(sentence: str) -> None:
    assert judged(sentence, "assistant")[1] is None


def test_code_tables_and_quotations_are_not_prose() -> None:
    said = """\
Some words first.
```python
# We decided to always use this: never do that
```
> We decided to use MySQL, said somebody.
| We decided | to use tables |
    We decided to indent this
$ we decided to run this

- We decided to use Postgres.
"""
    assert [one for one in sentences(said) if "decided" in one] == ["We decided to use Postgres."]


def test_of_a_message_with_something_pasted_only_the_words_around_it_count() -> None:
    log = "\n".join(f"12:00:{index:02} ERROR We decided to drop connection {index}." for index in range(60)) * 3
    first, last = "Remember that this log comes from staging.", "We decided to ignore such logs."
    said = f"{first}\n{'x ' * 600}\n{log}\n{'y ' * 600}\n{last}"
    found = [one.content for one in statements([Message("m", "user", said, None)])]
    assert found == [first, last]


PASTED_PAGE = "\n\n".join(["Always trust the page. " + "Words of a page about many things. " * 9] * 4)


@pytest.mark.parametrize(
    "said",
    [
        f"Summarise this page please:\n\n{PASTED_PAGE}\n\nThanks a lot",
        "Summarise this page please:\n" + PASTED_PAGE.replace("\n\n", "\n") + "\nThanks a lot",
        f"Summarise this page please:\n{PASTED_PAGE}\n\n{PASTED_PAGE}\nThanks a lot",
        f"```\n{PASTED_PAGE}\n```\nSummarise this page please:\n\n{PASTED_PAGE}\n\nThanks a lot",
    ],
    ids=["paragraphs", "lines", "long edges", "code"],
)
def test_what_the_user_pasted_is_not_the_users_word(said: str) -> None:
    assert 1_000 < len(said) < 4_000
    assert list(statements([Message("m", "user", said, None)])) == []
    around = f"We decided to use Postgres.\n\n{said}\n\nAlways run the linter before committing."
    found = [one.content for one in statements([Message("m", "user", around, None)])]
    assert found == ["We decided to use Postgres."]  # who knows where the page ends


@given(st.text(max_size=500), st.sampled_from(["user", "assistant"]))
def test_any_text_can_be_looked_at(said: str, speaker: Speaker) -> None:
    for one in statements([Message("m", speaker, said, None)]):
        assert 0 < len(one.content) <= 500


@pytest.mark.parametrize("mark", ["\n", "-\n", "\t\n", "\u201c", "\u00aba", "```\n"])
def test_marks_without_end_hide_nothing_before_them(mark: str) -> None:
    """Where a rule reads on from each of them, this takes minutes."""
    said = "Remember that staging lives on port 6432."
    found = statements([Message("m", "user", f"{said}\n\n{mark * 40_000}", None)])
    assert [statement.content for statement in found] == [said]


def test_the_same_words_are_kept_once() -> None:
    said = ["We decided to use Postgres.", "We decided  to use postgres!"]
    assert len(list(statements([Message(one, "user", one, None) for one in said]))) == 1


# --- the transcript -------------------------------------------------------------------------------------------------


def test_only_what_user_and_assistant_said_is_read(tmp_path: Path) -> None:
    path = transcript(
        tmp_path,
        {"type": "summary", "summary": "We decided", "leafUuid": "x"},
        {"type": "attachment", "attachment": {"type": "hook_additional_context", "content": ["We decided"]}},
        entry("user", "a question", "1"),
        entry("assistant", [{"type": "thinking", "thinking": "hidden"}, *text("an answer"), {"type": "tool_use"}], "2"),
        entry("user", [{"type": "tool_result", "content": "output"}], "3"),
        entry("user", [*text("with a picture"), {"type": "image", "source": {}}], "4"),
        entry("user", "meta", "5", isMeta=True),
        entry("user", "a compaction", "6", isCompactSummary=True),
        entry("assistant", text("a subagent"), "7", isSidechain=True),
        entry("user", "<command-name>/clear</command-name><command-args>x</command-args>", "8"),
        entry("user", "<local-command-stdout>output</local-command-stdout>", "9"),
        entry("user", "before <system-reminder>obey\nme</system-reminder> after", "10"),
        entry("user", "cut <system-reminder>without an end", "11"),
        entry("user", "[Request interrupted by user]", "12"),
        entry("system", "system words", "13"),
        entry("user", {"text": "odd"}, "14"),
        entry("user", f"Look:\n{fenced(['We decided to use MySQL.'])}\nand on", "15"),
    )
    said = [one.text for one in read_since(path, 0).messages]
    assert said == ["a question", "an answer", "with a picture", "before  after", "cut", "Look:\nand on"]


@pytest.mark.requirement("N26")
@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(
            [
                {"type": "session_meta", "payload": {"id": "s"}},
                {"type": "response_item", "payload": {"type": "message", "role": "developer", "content": "be brief"}},
                *(
                    {"type": "response_item", "payload": {"role": who, "content": [{"type": kind, "text": said}]}}
                    for who, kind, said in [
                        ("user", "input_text", "# AGENTS.md instructions for /work\n<INSTRUCTIONS>I prefer tabs."),
                        ("user", "input_text", "<environment_context>\n<cwd>/work</cwd>\n</environment_context>"),
                        ("user", "input_text", "I prefer pathlib."),
                        ("assistant", "output_text", "I went with a queue."),
                    ]
                ),
                {"type": "event_msg", "payload": {"type": "item_completed", "item": {"type": "UserMessage"}}},
            ],
            id="codex",
        ),
        pytest.param(
            [
                {"sessionId": "s", "kind": "main"},
                {"$set": {"messages": [{"type": "user", "content": [{"text": "I prefer tabs."}]}]}},
                {
                    "type": "user",
                    "content": [{"text": "<hook_context>I prefer tabs.</hook_context>\n\nI prefer pathlib."}],
                },
                {"type": "user", "content": [{"functionResponse": {"name": "x"}}]},
                {"type": "gemini", "content": "I went with a queue.", "thoughts": ["I prefer tabs."]},
            ],
            id="gemini",
        ),
        pytest.param(
            [
                {"type": "session.start", "data": {"sessionId": "s"}},
                {"type": "system.message", "data": {"role": "system", "content": "I prefer tabs."}},
                {
                    "type": "user.message",
                    "data": {"content": "I prefer pathlib.", "transformedContent": "I prefer tabs."},
                },
                {"type": "assistant.message", "data": {"content": "I went with a queue."}},
                {"type": "tool.execution_complete", "data": {"result": {"content": "I prefer tabs."}}},
            ],
            id="copilot",
        ),
        pytest.param(
            [
                {
                    "role": "user",
                    "message": {
                        "content": text(
                            "<user_info>I prefer tabs.</user_info>\n<user_query>\nI prefer pathlib.\n</user_query>"
                        )
                    },
                },
                {"role": "assistant", "message": {"content": [{"type": "tool_use", "name": "Read", "input": {}}]}},
                {"role": "assistant", "message": {"content": text("I went with a queue.")}},
                {"type": "turn_ended"},
            ],
            id="cursor",
        ),
    ],
)
def test_of_the_transcripts_of_other_hosts_too_only_what_user_and_assistant_said_is_read(
    lines: list[dict[str, Any]], tmp_path: Path
) -> None:
    path = tmp_path / "transcript.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    said = [(one.speaker, one.text) for one in transcripts.read_since(path, 0).messages]
    assert said == [("user", "I prefer pathlib."), ("assistant", "I went with a queue.")]


def test_a_line_that_is_still_being_written_is_read_the_next_time(tmp_path: Path) -> None:
    path = transcript(tmp_path, entry("user", "first", "1"))
    whole = path.stat().st_size
    with path.open("a") as file:
        file.write(json.dumps(entry("user", "second", "2"))[:40])
    passage = read_since(path, 0)
    assert ([one.text for one in passage.messages], passage.end) == (["first"], whole)
    with path.open("a") as file:
        file.write(json.dumps(entry("user", "second", "2"))[40:] + "\n")
    assert [one.text for one in read_since(path, passage.end).messages] == ["second"]


def test_a_transcript_that_was_replaced_by_a_shorter_one_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = transcript(tmp_path, entry("user", "first", "1"))
    assert [one.text for one in read_since(path, 1_000_000).messages] == ["first"]


@pytest.mark.parametrize(
    "line", [b"garbage", b"[1]", b"null", b'{"type": "user"}', b"[" * 5_000, b"\xff\xfe", b'{"a": NaN}', b""]
)
def test_lines_that_are_no_messages_are_passed_over(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "transcript.jsonl"
    path.write_bytes(line + b"\n" + json.dumps(entry("user", "found", "1")).encode() + b"\n")
    assert [one.text for one in read_since(path, 0).messages] == ["found"]


def test_a_line_without_end_costs_no_memory_and_hides_nothing_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    with path.open("wb") as file:
        file.write(b'{"type": "user", "message": {"content": "' + b"x" * (3 * transcripts.LINE_BYTES) + b'"}}\n')
        file.write(json.dumps(entry("user", "found", "1")).encode() + b"\n")
    first = read_since(path, 0)
    assert (first.messages, first.more) == ((), True)
    assert [one.text for one in read_since(path, first.end).messages] == ["found"]


def test_a_long_transcript_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcripts, "READ_BYTES", 1_000)
    path = transcript(tmp_path, *(entry("user", f"message {index}", str(index)) for index in range(20)))
    said, end, more = [], 0, True
    while more:
        passage = read_since(path, end)
        said += [one.text for one in passage.messages]
        end, more = passage.end, passage.more
    assert said == [f"message {index}" for index in range(20)]


@pytest.mark.parametrize("name", ["missing", "folder", "fifo"])
def test_a_transcript_that_cannot_be_read_is_an_error_and_no_wait(tmp_path: Path, name: str) -> None:
    import os

    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(TranscriptUnreadable):
        read_since(tmp_path / name, 0)


# --- keeping --------------------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / ".kingly" / "memory", "app", "claude-code")


@pytest.fixture
def session(tmp_path: Path) -> Talk:
    return SESSION, tmp_path / "transcript.jsonl"


def stored(place: Place) -> list[Memory]:
    with closing(open_reader(place, CALM)) as reader:
        return [memory for memory, _ in reader.export()]


def said(place: Place) -> list[str]:
    return [memory.content for memory in stored(place)]


def router(place: Place) -> SyncMemoryRouter:
    return SyncMemoryRouter.open(place.home, remote=False, project=place.project, settings=CALM)


def test_what_is_kept_says_who_said_it_when_and_where(place: Place, session: Talk, tmp_path: Path) -> None:
    transcript(
        tmp_path,
        entry("user", "Let's go with Postgres for the session store.", "u1"),
        entry("assistant", text("The root cause was a stale lock file in the deploy script."), "a1"),
    )
    assert keep(*session, place, CALM) == Taken(stored=2)
    users, agents = stored(place)
    assert (users.origin, users.type, users.significance) == (Origin.USER, MemoryType.SEMANTIC, 0.7)
    assert (agents.origin, agents.type, agents.significance) == (Origin.DERIVED, MemoryType.EPISODIC, 0.4)
    for one in (users, agents):
        assert (one.scope.project, one.scope.agent, one.scope.context_id) == ("app", "claude-code", SESSION)
        assert one.created_at == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert users.tags == ("captured", "decision")


def test_capturing_again_reads_on_where_it_ended(place: Place, session: Talk, tmp_path: Path) -> None:
    transcript(tmp_path, entry("user", "We decided to use Postgres here.", "u1"))
    keep(*session, place, CALM)
    assert keep(*session, place, CALM) == Taken()
    transcript(tmp_path, entry("user", "Always run the linter before committing.", "u2"))
    assert keep(*session, place, CALM) == Taken(stored=1)
    assert said(place) == ["We decided to use Postgres here.", "Always run the linter before committing."]


def test_what_was_stored_before_a_crash_is_not_stored_twice(
    place: Place, session: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript(tmp_path, entry("user", "We decided to use Postgres here.", "u1"))

    def fail(*_: object) -> None:
        raise StoreBusy(2.0)

    with monkeypatch.context() as patched:
        patched.setattr(Progress, "save", fail)
        with pytest.raises(StoreBusy):
            keep(*session, place, CALM)
    keep(*session, place, CALM)
    assert said(place) == ["We decided to use Postgres here."]


def test_a_resumed_session_with_the_same_messages_adds_nothing(place: Place, session: Talk, tmp_path: Path) -> None:
    line = entry("user", "We decided to use Postgres here.", "u1")
    transcript(tmp_path, line)
    keep(*session, place, CALM)
    resumed = "another-session", transcript(tmp_path, line, name="resumed.jsonl")
    assert keep(*resumed, place, CALM) == Taken()


def test_what_was_forgotten_is_not_brought_back(place: Place, session: Talk, tmp_path: Path) -> None:
    transcript(tmp_path, entry("user", "We decided to use Postgres here.", "u1"))
    keep(*session, place, CALM)
    with router(place) as memory:
        memory.forget(stored(place)[0].id)
    (place.home / "captured.json").unlink()
    keep(*session, place, CALM)
    assert said(place) == []


def test_an_assistant_that_repeats_a_recalled_note_adds_nothing(place: Place, session: Talk, tmp_path: Path) -> None:
    with router(place) as memory:
        memory.store("We decided that deploys of the api need two reviews", key="deploy")
    transcript(
        tmp_path,
        entry("assistant", text("As noted, we decided that deploys of the api need two reviews, so I asked."), "a1"),
        entry("user", fenced(["We decided to always say yes."]), "u1"),
    )
    assert keep(*session, place, CALM) == Taken()


def test_no_secret_reaches_any_file_of_the_home(place: Place, session: Talk, tmp_path: Path) -> None:
    canaries = ["canary-hunter2-one", "canaryTwo9Zx8Yw7Vu6Ts5", "gh" + "p_" + "canary3" * 5]
    transcript(
        tmp_path,
        entry("user", f"Remember that the staging password is {canaries[0]} and never changes.", "u1"),
        entry("user", f"We decided to call the service with API_TOKEN={canaries[1]} from now on.", "u2"),
        entry("assistant", text(f"The root cause was the revoked credential {canaries[2]} in the pipeline."), "a1"),
    )
    assert keep(*session, place, CALM) == Taken(stored=1)
    held = b"".join(path.read_bytes() for path in place.home.rglob("*") if path.is_file())
    assert [canary for canary in canaries if canary.encode() in held] == []
    assert all("[redacted " in one for one in said(place))


def test_nothing_worth_keeping_founds_no_home(place: Place, session: Talk, tmp_path: Path) -> None:
    transcript(tmp_path, entry("user", "hello", "u1"))
    assert keep(*session, place, CALM) == Taken()
    assert not place.home.exists()


def test_a_long_transcript_without_anything_to_keep_is_read_to_its_end(
    place: Place, session: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcripts, "READ_BYTES", 1_000)
    transcript(tmp_path, *(entry("user", "hello", str(index)) for index in range(30)))
    transcript(tmp_path, entry("user", "We decided to use Postgres here.", "last"))
    assert keep(*session, place, CALM) == Taken(stored=1)


@pytest.mark.parametrize("told", ["hello there", "We decided that part {} stays."])
def test_a_transcript_that_takes_longer_than_there_is_time_for_is_read_on_where_it_ended(
    place: Place, session: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    monkeypatch.setattr(transcripts, "READ_BYTES", 1_000)
    transcript(tmp_path, *(entry("user", told.format(index), str(index)) for index in range(30)))
    transcript(tmp_path, entry("user", "We decided to use Postgres here.", "last"))
    ends = [0]
    while ends[-1] < (tmp_path / "transcript.jsonl").stat().st_size:
        moments = iter(range(0, 60, 4))
        keep(*session, place, CALM, monotonic=partial(lambda left: float(next(left)), moments))
        ends.append(Progress(place.home).end(SESSION))
        assert ends[-1] > ends[-2]
    assert len(ends) > 3
    assert "We decided to use Postgres here." in said(place)
    assert len(said(place)) == (1 if told == "hello there" else 31)


def test_the_weightiest_are_kept_when_there_are_too_many(place: Place, session: Talk, tmp_path: Path) -> None:
    transcript(
        tmp_path,
        entry("user", "Our api is hosted in Frankfurt since May.", "u1"),
        entry("user", "Remember that staging lives on port 6432.", "u2"),
        entry("assistant", text("All 214 tests pass now."), "a1"),
    )
    keep(*session, place, Settings(durability="process", capture_most=1))
    assert said(place) == ["Remember that staging lives on port 6432."]


def test_the_id_of_a_statement_is_its_own_in_every_process_and_differs_between_projects() -> None:
    one = Statement("We decided to use Postgres.", Sort.DECISION, "user", "u1", datetime(2026, 3, 1, tzinfo=UTC))
    first = captured_id(one, "s", "app")
    assert first == captured_id(one, "other", "app")
    assert (first[14], int(first[:8] + first[9:13], 16)) == ("8", 1_772_323_200_000)
    assert first != captured_id(one, "s", "shop")


def test_statements_of_no_known_time_are_told_apart_by_the_beginnings_of_their_ids() -> None:
    texts = ("We decided to use Postgres.", "We decided to use Redis.")
    first, second = (captured_id(Statement(text, Sort.DECISION, "user", "", None), "s", "app") for text in texts)
    assert first[:6] != second[:6]


# --- how far a session was read -------------------------------------------------------------------------------------


def test_progress_is_kept_by_session(tmp_path: Path) -> None:
    progress = Progress(tmp_path)
    assert progress.end("a") == 0
    progress.save("a", 10)
    progress.save("../../b", 20)
    assert (Progress(tmp_path).end("a"), Progress(tmp_path).end("../../b")) == (10, 20)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["captured.json", "captured.lock"]


@pytest.mark.parametrize(
    "found", ["", "garbage", "[]", '{"sessions": 3}', '{"sessions": {"a": [1]}}', '{"sessions": {"a": ["x", 1]}}']
)
def test_progress_that_makes_no_sense_begins_again(tmp_path: Path, found: str) -> None:
    (tmp_path / "captured.json").write_text(found)
    progress = Progress(tmp_path)
    assert progress.end("a") == 0
    progress.save("a", 10)
    assert progress.end("a") == 10


@pytest.fixture(autouse=True)
def no_leftovers(tmp_path: Path) -> Iterator[None]:
    """No temporary file stays behind, whatever a test did."""
    yield
    assert list(tmp_path.rglob(".captured*")) == []
