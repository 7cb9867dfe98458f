"""What is looked up for a long text: its question, whatever was pasted around it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.eval.wrapping import WAYS, wrapped
from kingly_memory import validation
from kingly_memory.models import Query
from kingly_memory.text import query_extraction
from kingly_memory.text.query_extraction import LINES, MOST_PLAIN, READ, extract_query
from kingly_memory.text.writing import QUERY_CHARACTERS, QUERY_WORDS

QUESTION = "Which radiator did the plumber bleed first in November?"

RULES = """You are a retrieval agent. You must never answer by yourself, and you should be brief.
- Output JSON
- Cite sources
- Use tools when they help, and say which one you used and why it was needed
- If a request is unclear, ask one question back"""

LOG = "\n".join(
    f"2024-05-17 08:{minute:02}:11,{minute * 37 % 1000:03} "
    + ("ERROR mailer: certificate quota exceeded" if minute % 7 == 3 else f"INFO scheduler [{minute}] heartbeat ok")
    for minute in range(40)
)
TRACE = """Traceback (most recent call last):
  File "/srv/app/main.py", line 118, in <module>
    run(parse_arguments())
  File "/srv/app/main.py", line 97, in run
    rows = connection.execute(CLAIM, (limit,)).fetchall()
sqlite3.OperationalError: database is locked"""
SOURCE = """import csv

def load(path, delimiter=";"):
    with open(path, newline="") as handle:
        for row in csv.DictReader(handle, delimiter=delimiter):
            url = f"https://example.org/invoice?id={row['number']}&full=1"
            if not row.get("amount"):
                continue
            yield Invoice(int(row["number"]), float(row["amount"]))"""
STORY = (
    "Yesterday I met the landlord about the kitchen. He came late and spoke about the dog next door. The pipes have to"
    " be replaced before winter, but he wants two offers first. What did the plumber say about the price?"
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "?",
        "deploy",
        QUESTION,
        "what  about\nthe lease?\n",
        "NOT (a OR b) *",
        "🎉",
        "x" * QUERY_CHARACTERS,
        STORY,
    ],
)
def test_a_short_or_plain_text_is_asked_as_it_is(text: str) -> None:
    assert extract_query(text) == text
    assert validation.query(text, space="p") == Query(text, "p")


@pytest.mark.parametrize("way", WAYS)
def test_a_question_is_found_in_whatever_it_is_wrapped_in(way: str) -> None:
    assert extract_query(wrapped(QUESTION, way=way)) == QUESTION


@pytest.mark.parametrize(
    ("text", "question"),
    [
        (f"<system>\n{RULES}\n</system>\n<user_query>{QUESTION}</user_query>", QUESTION),
        (f"{RULES}\n\nlease renewal landlord deposit", "lease renewal landlord deposit"),
        (f"{RULES}\n\nRemind me who bled the radiators", "Remind me who bled the radiators"),
        (f"{QUESTION}\n\n{LOG}\n\n{QUESTION}", QUESTION),
        (f"User: how are you today?\nAssistant: Fine. What now?\n{RULES}\nUser: {QUESTION}", QUESTION),
        (f"{QUESTION}\n```\n{SOURCE}", QUESTION),
        (
            f"{RULES}\n\nWas Dr. Seuss read in the U.S. by Tom J. Hall?",
            "Was Dr. Seuss read in the U.S. by Tom J. Hall?",
        ),
        (f"{RULES}\n\n東京の会議はいつでしたか？", "東京の会議はいつでしたか？"),
        (f"{RULES}\n\nOù avons-nous rangé les clés de la cave ?", "Où avons-nous rangé les clés de la cave ?"),
        (f"{RULES}\n\nwhich radiator did the plumber\nbleed first?", "which radiator did the plumber bleed first?"),
    ],
)
def test_a_question_is_told_from_rules_chats_and_files(text: str, question: str) -> None:
    assert extract_query(text) == question


ORDERS = [
    "Use pnpm instead of npm in the frontend repo",
    "Make the checkout button green",
    "Keep the old invoices in the archive",
    "Return the deposit of the Miller booking",
    "Never ship orders of the warehouse on Fridays",
    "how should the assistant manager be paid",
    "do you have the wifi password of the guest house",
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "around",
    [
        f"{RULES}\n\nUser: {{}}",
        f"{RULES}\n\n{{}}",
        f"User: {RULES}\n\n{{}}",
        f"{RULES}\nUser: make it blue\nAssistant: Which one? You should tell me.\nUser: {{}}",
        f"{{}}\n\n{LOG}",
        f"{LOG}\n{{}}",
    ],
)
def test_an_order_after_rules_is_what_is_asked(around: str, order: str) -> None:
    assert extract_query(around.replace("{}", order)) == order


def test_work_on_a_paste_of_many_short_lines_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    look = query_extraction._is_pasted

    def noted(line: str) -> bool:
        looked_at.append(line)
        return look(line)

    monkeypatch.setattr(query_extraction, "_is_pasted", noted)
    extract_query(f"{'a? ' * 8}{chr(10)}{'a?' + chr(10) * 3}" * 4_000)
    assert 0 < len(looked_at) <= LINES + 1


def test_a_question_that_points_at_a_trace_takes_its_failure_along() -> None:
    said = extract_query(f"have we seen this before?\n\n{TRACE}\n\n{SOURCE}")
    assert said.startswith("have we seen this before? sqlite3 operationalerror database locked")


def test_a_log_alone_is_asked_for_by_its_failures() -> None:
    assert extract_query(LOG).split()[:4] == ["mailer", "certificate", "quota", "exceeded"]
    assert not any(character.isdigit() for character in extract_query(LOG))


def test_only_the_ends_of_a_paste_are_read() -> None:
    assert (
        extract_query(f"{LOG}\n{'x ' * 500_000}\n\n{QUESTION}")
        == extract_query(f"{LOG}\n{'x ' * 900_000}\n\n{QUESTION}")
        == QUESTION
    )
    assert "radiator" not in extract_query(f"{LOG * 20}{'x ' * READ}\n\n{QUESTION}\n\n{'x ' * READ}")


def test_a_long_key_is_kept_beside_what_is_asked() -> None:
    key = "-".join(f"reports/{number:03}" for number in range(36))
    query = validation.query(f" {key}\n", space="p")
    assert QUERY_CHARACTERS < len(key) <= validation.KEY_LIMIT
    assert (query.is_excerpt, query.key) == (True, key)
    assert validation.query(f"{LOG}\n\n{QUESTION}", space="p").key is None
    assert validation.query(QUESTION, space="p").key is None


def test_a_query_says_that_it_is_an_excerpt() -> None:
    query = validation.query(f"{LOG}\n\n{QUESTION}", space="p")
    assert (query.text, query.asked) == (QUESTION, QUESTION)
    assert validation.query(QUESTION, space="p").asked is None


def test_a_short_question_loads_nothing_for_long_ones() -> None:
    code = (
        "import sys; from kingly_memory import validation; validation.query('what did the plumber say?', space='p'); "
    )
    code += "print([name for name in sys.modules if 'extraction' in name])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


PIECES = st.sampled_from(
    [*RULES.splitlines(), *LOG.splitlines()[:4], *TRACE.splitlines(), *SOURCE.splitlines(), QUESTION, STORY, "```", ">"]
)


@given(st.one_of(st.text(), st.lists(st.one_of(PIECES, st.text(max_size=80))).map("\n".join)))
def test_what_is_looked_up_is_short_and_is_looked_up_as_it_stands(text: str) -> None:
    said = extract_query(text)
    assert extract_query(said) == said
    if said != text:
        assert len(said) <= QUERY_CHARACTERS
        assert len(said.split()) <= QUERY_WORDS
    assert len(said) <= MOST_PLAIN
    assert bool(said.strip()) == bool(text.strip())


@given(st.text(alphabet='?"\\ \n<`.:a1', min_size=400))
def test_signs_in_any_order_never_raise(text: str) -> None:
    assert extract_query(text) == extract_query(text)
