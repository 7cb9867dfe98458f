"""Whatever a memory says, the block of recalled notes keeps its structure: the laws, and texts that try to break it."""

from __future__ import annotations

from unicodedata import category

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kingly_memory.attention import fence
from kingly_memory.attention.fence import PREAMBLE, PREFIX, fenced, harmless, without_fenced
from kingly_memory.attention.injection import Budget, NoteCandidate, Omission, inject
from kingly_memory.attention.pertinence import LEAST, common, pertinence, prompt_words, telling
from kingly_memory.models import Memory, Origin
from kingly_memory.text.writing import estimated_tokens
from tests.attention.hostile_texts import HOSTILE_TEXTS, RENDERING
from tests.store_samples import memory as sample

NONCE = "f" * 32
UNSEEN = {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"}

any_text = st.text(st.characters(), max_size=400)
"""Lone surrogates too."""
_likely = "deploy deploys deployed review the 猫が好き café use using eyed ays ai".split()
likely_text = st.one_of(any_text, st.lists(st.sampled_from(_likely)).map(" ".join))
"""Two of them often have words in common."""
bits = st.sampled_from(
    [
        "[/recalled-notes ",
        "[recalled-notes ",
        NONCE,
        "]",
        "\n",
        "\r",
        "\u2028",
        "| ",
        "](",
        "![",
        "!",
        "<",
        ">",
        PREAMBLE,
        "a b",
    ]
)
tricky_text = st.one_of(
    any_text, st.lists(bits, max_size=20).map("".join), st.sampled_from(list(HOSTILE_TEXTS.values()))
)


def memory(content: str, *, origin: Origin = Origin.USER, agent: str | None = "claude-code", **facts: object) -> Memory:
    return sample(content, "app", origin=origin, agent=agent, **facts)


def block_of(*memories: Memory, budget: Budget | None = None) -> str:
    return inject(map(NoteCandidate, memories), agent="claude-code", budget=budget or Budget()).text


def assert_is_contained(block: str) -> None:
    """The shape: preamble, opening mark, quoted lines, closing mark; no character that could change it for a reader."""
    first, opening, *quoted, closing = block.split("\n")
    assert first == PREAMBLE
    nonce = opening.removeprefix("[recalled-notes ").removesuffix("]")
    assert len(nonce) == 32
    assert (opening, closing) == (f"[recalled-notes {nonce}]", f"[/recalled-notes {nonce}]")
    assert block.count(nonce) == 2
    assert all(line.startswith(PREFIX) for line in quoted)
    assert block.splitlines() == block.split("\n")
    inside = "\n".join(quoted)
    assert not set("<>\uff1c\uff1e") & set(inside)
    assert not any(category(one) in UNSEEN for one in inside if one != "\n")
    assert "![" not in inside
    assert "](" not in inside


@given(st.lists(tricky_text, min_size=1, max_size=5), st.one_of(st.none(), any_text), st.one_of(st.none(), tricky_text))
def test_every_line_between_the_marks_is_quoted_whatever_the_memories_say(
    texts: list[str], key: str | None, title: str | None
) -> None:
    block = inject(
        [NoteCandidate(memory(text, key=key, title=title)) for text in texts],
        agent="claude-code",
        budget=Budget(),
    ).text
    assume(block)
    assert_is_contained(block)


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_no_hostile_text_gets_out_of_the_block(text: str) -> None:
    block = block_of(memory(text), memory("the last note", title=text[:500]))
    assert_is_contained(block)
    assert block.split("\n")[-2] == "| the last note"


def test_a_nonce_that_a_memory_knows_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    nonces = iter([NONCE, NONCE, "a" * 32])
    monkeypatch.setattr(fence, "new_nonce", lambda: next(nonces))
    block = fenced([f"I know {NONCE}"])
    assert_is_contained(block)
    assert block.count("a" * 32) == 2


@given(tricky_text)
def test_making_a_text_harmless_again_changes_nothing(text: str) -> None:
    assert harmless(harmless(text)) == harmless(text)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="<>![]()"), max_size=200))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert harmless(text) == text


def test_letters_of_every_script_stay() -> None:
    text = "Übergrößenträger, naïve 東京 のメモ, Привет, שלום, สวัสดี, 안녕 ✓ 🎉"
    assert harmless(text) == text


def test_a_link_can_still_be_read() -> None:
    assert harmless(RENDERING["a link"]) == "[see here] (http://attacker.invalid/?q=all)"


@given(
    st.lists(tricky_text.filter(lambda text: PREAMBLE not in text and "recalled-notes" not in text), max_size=4),
    any_text,
)
def test_what_was_fenced_is_found_again_and_taken_out(texts: list[str], around: str) -> None:
    assume("recalled-notes" not in around)
    lines = [line for text in texts for line in harmless(text).split("\n")]
    said = [line for line in around.splitlines() if not line.strip().startswith("|")]
    assume(not said or said[-1])  # an empty line at the end is no line of the text
    block = fenced(lines)
    assert without_fenced("\n".join([*said, block, *said])).split("\n") == ([*said, *said] or [""])


def test_a_block_that_lost_its_end_is_taken_out_as_far_as_it_goes() -> None:
    block = fenced(["always say yes", "never say no"])
    cut = "\n".join(block.split("\n")[:-1])
    assert without_fenced(f"before\n{cut}\nafter") == "before\nafter"
    assert without_fenced(cut) == ""


# --- what is put in ---------------------------------------------------------------------------------------------------


def reasons(*candidates: NoteCandidate, agent: str | None = "claude-code", **options: object) -> list[Omission | None]:
    budget = options.pop("budget", Budget())
    found = inject(candidates, agent=agent, budget=budget, **options)  # type: ignore[arg-type]  # the options a test names
    assert set(found.put_in).isdisjoint(found.left_out)
    return [found.left_out.get(one.memory.id) for one in candidates]


@pytest.mark.parametrize(
    ("origin", "agent", "is_own"),
    [
        (Origin.USER, None, True),
        (Origin.USER, "cursor", True),
        (Origin.AGENT, "claude-code", True),
        (Origin.AGENT, "cursor", False),
        (Origin.AGENT, None, False),
        (Origin.TOOL, "claude-code", False),
        (Origin.WEB, "claude-code", False),
        (Origin.REMOTE, "claude-code", False),
        (Origin.IMPORT, "claude-code", False),
    ],
)
def test_only_what_the_user_or_the_own_agent_said_is_put_in(origin: Origin, agent: str | None, is_own: bool) -> None:
    expected = None if is_own else Omission.STRANGER
    assert reasons(NoteCandidate(memory("x", origin=origin, agent=agent))) == [expected]


@pytest.mark.parametrize(
    ("content", "agent", "is_synced", "is_in"),
    [
        ("x", None, True, True),
        ("x", "claude-code", True, True),
        ("x", "cursor", True, False),
        ("x", None, False, False),
        ("run `make`", None, True, False),
    ],
)
def test_of_a_remote_only_what_came_over_a_feed_and_names_no_deed_is_put_in(
    content: str, agent: str | None, is_synced: bool, is_in: bool
) -> None:
    one = NoteCandidate(memory(content, origin=Origin.REMOTE, agent=agent), is_synced=is_synced)
    assert reasons(one) == [None if is_in else Omission.STRANGER]


def test_a_note_too_long_for_the_room_left_makes_way_for_a_shorter_one() -> None:
    notes = [NoteCandidate(memory(f"{number} {'word ' * size}")) for number, size in enumerate((300, 300, 10))]
    assert reasons(*notes, budget=Budget(tokens=700)) == [None, Omission.NO_ROOM, None]


@given(
    st.lists(tricky_text, min_size=1, max_size=6),
    st.integers(10, 2_000),
    st.integers(200, 8_000),
    st.integers(10, 2_000),
)
def test_no_budget_is_ever_exceeded(texts: list[str], tokens: int, characters: int, item: int) -> None:
    budget = Budget(tokens=tokens, characters=characters, item_characters=item)
    block = block_of(*(memory(text * 20) for text in texts), budget=budget)
    assert len(block) <= characters
    assert estimated_tokens(block) <= tokens
    assert_is_contained(block) if block else None


def test_an_item_is_cut_at_its_own_limit_and_says_so() -> None:
    block = block_of(memory("x" * 5_000))
    [text] = [line for line in block.split("\n") if line.startswith("| x")]
    assert text == f"| {'x' * 1_999}…"


def test_a_note_says_who_said_it_when_and_under_which_name() -> None:
    block = block_of(memory("Deploys need two reviews", key="deploy.rule"), memory("It works", origin=Origin.AGENT))
    assert "| [1] said by the user, 2026-03-01, semantic, deploy.rule" in block
    assert "| [2] noted by claude-code, 2026-03-01, semantic, " in block


# --- what fits a prompt -----------------------------------------------------------------------------------------------

NOTES = (
    "Deploys need two reviews",
    "The staging database moved to port 6432",
    "We decided to use Postgres for the session store",
    "Always run the linter before committing",
    "The invoice service retries failed webhooks five times",
    "Customers in Switzerland pay VAT of 8.1 percent",
    "My timezone is Europe/Zurich",
    "Use pathlib instead of os.path in new modules",
    "The flaky test in the checkout suite was caused by a shared fixture",
    "Feature flags are kept in LaunchDarkly under the project web",
)
FITTING = {
    "who has to review a deploy?": 0,
    "Please deploy the api once the reviews are done": 0,
    "connect to the staging database and count the users": 1,
    "which port does staging listen on": 1,
    "migrate the session store to another schema": 2,
    "the linter complains when I am committing": 3,
    "webhooks of the invoice service are failing": 4,
    "add VAT for customers from Switzerland to the invoice": 5,
    "the checkout suite is flaky again, which fixture is it": 8,
    "add a feature flag to the web project": 9,
}
UNRELATED = (
    "write a haiku about winter mornings",
    "what is the capital of Mongolia?",
    "explain how quicksort chooses a pivot",
    "thanks, that looks good",
    "ok go on",
    "can you rename this variable to something clearer?",
    "draw a diagram of the solar system",
    "translate this sentence into Portuguese",
    "",
    "?!",
)


@pytest.mark.parametrize(("prompt", "expected"), FITTING.items())
def test_a_prompt_about_a_note_finds_it_pertinent(prompt: str, expected: int) -> None:
    found = [index for index, note in enumerate(NOTES) if pertinence(prompt_words(prompt), note) >= LEAST]
    assert expected in found
    assert len(found) <= 2


@pytest.mark.parametrize("prompt", UNRELATED)
def test_an_unrelated_prompt_finds_nothing_pertinent(prompt: str) -> None:
    assert [note for note in NOTES if pertinence(prompt_words(prompt), note) >= LEAST] == []


@given(any_text, any_text)
def test_pertinence_is_a_share_and_the_same_both_ways(one: str, other: str) -> None:
    assert 0 <= pertinence(prompt_words(one), other) <= 1
    assert pertinence(prompt_words(one), other) == pertinence(prompt_words(other), one)


@given(likely_text, likely_text)
def test_what_two_texts_have_in_common_is_what_all_their_telling_words_have(one: str, other: str) -> None:
    both = telling(one), telling(other)
    assert common(prompt_words(one), other) == (len(both[0] & both[1]), min(map(len, both)))


def test_texts_without_spaces_are_compared_too() -> None:
    assert pertinence(prompt_words("デプロイの手順を教えて"), "デプロイの手順はレビュー二回") >= LEAST
    assert pertinence(prompt_words("天気はどうですか"), "デプロイの手順はレビュー二回") < LEAST
