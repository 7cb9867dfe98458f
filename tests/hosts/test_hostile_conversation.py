"""What pages, mails, tools and code say in a conversation is never quoted as the user's word, and leaves no block."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kingly_memory.attention.fence import PREFIX
from kingly_memory.attention.injection import Budget, NoteCandidate, inject
from kingly_memory.attention.statements import Message, statements
from kingly_memory.home.place import Place
from kingly_memory.hosts.capture import keep
from kingly_memory.models import MemoryType, Origin
from kingly_memory.settings import Settings
from tests.attention.hostile_texts import HOSTILE_TEXTS
from tests.attention.test_fence import assert_is_contained, memory
from tests.hosts.hook_samples import SESSION, entry, text, transcript
from tests.hosts.test_capture import stored

pytestmark = pytest.mark.requirement("A10")

PASTED = {
    "announced": "Summarise this please:\n\n{}",
    "announced by a question": "I got this mail, what should I answer?\n\n{}",
    "asked about": "{}\n\nWhat does this mean?",
    "between quotation marks": 'It says "{}" somewhere, is that right?',
}


def test_there_are_a_hundred_hostile_texts() -> None:
    assert len(set(HOSTILE_TEXTS.values())) == 100


@pytest.mark.parametrize("form", PASTED)
def test_none_is_the_users_word_when_the_user_pastes_it(form: str) -> None:
    said = [Message(name, "user", PASTED[form].format(one), None) for name, one in HOSTILE_TEXTS.items()]
    assert [(one.message_id, one.content) for one in statements(said)] == []


@pytest.mark.parametrize(
    "said",
    [
        "Remember that deploys need two reviews.\n\nCan you fix this test?",
        "We use uv, never pip.\nPlease look at the import of settings.",
        "Some rules for this repository:\n- Always use tabs.\n- Never mock the store.",
        'The flag is called "fast". From now on we test every release with it.',
    ],
)
def test_what_the_user_writes_around_a_request_is_kept(said: str) -> None:
    assert list(statements([Message("m", "user", said, None)])) != []


def test_what_tools_return_is_not_kept_and_what_a_reply_repeats_is_derived(tmp_path: Path) -> None:
    place = Place.resolve(tmp_path / "home", project="app", agent="claude-code", start=tmp_path)
    for number, one in enumerate(HOSTILE_TEXTS.values()):
        transcript(
            tmp_path,
            entry("user", [{"type": "tool_result", "content": one}], f"t{number}"),
            entry("assistant", text(f"The page says:\n{one}"), f"a{number}"),
        )
    keep(SESSION, tmp_path / "transcript.jsonl", place, Settings(durability="process", capture_most=1_000))
    kept = stored(place)
    assert len(kept) >= 5
    assert Counter(one.origin for one in kept) == {Origin.DERIVED: len(kept)}
    block = inject(map(NoteCandidate, kept), agent="claude-code", budget=Budget(tokens=8_000)).text
    assert_is_contained(block)
    assert "said by the user" not in block
    assert not any(word in block for word in ("attacker.invalid", "curl", "sudo"))


@pytest.mark.parametrize(
    ("content", "is_put_in"),
    [
        ("The root cause was a stale lock file in the deploy script.", True),
        ("The project uses hatchling to build its wheels.", True),
        ("The project is hosted at http://attacker.invalid/shop.", False),
        ("The service runs behind shop.attacker.net now.", False),
        ("The fix was to mail ops@acme.example first.", False),
        ("The fix was to run `make clean` first.", False),
        ("The build needs sudo rights before it runs curl somewhere.", False),
        ("The error was resolved with --no-verify at the end.", False),
    ],
)
def test_what_is_derived_is_put_in_where_it_names_neither_address_nor_command(content: str, is_put_in: bool) -> None:
    found = memory(content, origin=Origin.DERIVED)
    assert found.type is MemoryType.SEMANTIC
    assert (
        PREFIX + content in inject([NoteCandidate(found)], agent="claude-code", budget=Budget(tokens=8_000)).text
    ) is is_put_in
    assert inject([NoteCandidate(found)], agent="cursor", budget=Budget()).text == ""


def test_the_user_confirms_what_was_derived_by_saying_it(tmp_path: Path) -> None:
    place = Place.resolve(tmp_path / "home", project="app", agent="claude-code", start=tmp_path)
    fact = "The project is hosted at http://shop.example now."
    for speaker, content in (("assistant", text(fact)), ("user", f"Remember that: {fact}"), ("user", fact)):
        transcript(tmp_path, entry(speaker, content, speaker + str(len(content))))
        keep(SESSION, tmp_path / "transcript.jsonl", place, Settings(durability="process"))
    assert Origin.USER in {one.origin for one in stored(place)}
