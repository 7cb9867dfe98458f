"""Whether a reply draws on a note: honest for short notes, and deaf to what only repeats the question."""

from __future__ import annotations

import pytest

from kingly_memory.attention.pertinence import draws_on

DEPLOYS = "Deploys need two reviews"


@pytest.mark.parametrize(
    ("note", "asked", "reply"),
    [
        ("Use tabs", "how shall I indent?", "I use tabs as you like."),
        ("Use tabs", "tabs or spaces?", "Tabs it is."),
        ("Prefer pathlib", "how do I join paths?", "With pathlib, as you prefer."),
        ("Never push to main on Fridays", "release now?", "It is Friday, so I will not push to main today."),
        (DEPLOYS, "who has to review a deploy?", "Deploys need two reviews, so two people."),
    ],
)
def test_a_reply_that_says_what_the_note_says_draws_on_it(note: str, asked: str, reply: str) -> None:
    assert draws_on(note, asked, reply)


@pytest.mark.parametrize(
    ("note", "asked", "reply"),
    [
        ("Use tabs", "how shall I indent?", "With four spaces."),
        ("Prefer pathlib", "how do I join paths?", "Most people prefer os.path."),
        ("User prefers dark mode", "which theme?", "I set the theme to dark."),
        (DEPLOYS, "who has to review a deploy?", "I cannot say."),
        (DEPLOYS, "who has to review a deploy?", "I cannot say who may review that."),
        ("well, do it", "what?", "well, do it"),
        ("", "what?", ""),
    ],
)
def test_a_reply_that_says_little_of_the_note_does_not(note: str, asked: str, reply: str) -> None:
    assert not draws_on(note, asked, reply)
