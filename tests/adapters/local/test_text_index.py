"""Finding by words and by pieces: the index says what the rows say, and no project hears of another's words."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from string import ascii_lowercase
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.adapters.local import rows, transaction
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.models import MemoryStatus
from kingly_memory.ports import Transaction
from kingly_memory.router.search.local import LocalSearch
from kingly_memory.text.writing import stem
from tests.store_samples import (
    NOON_S,
    ask,
    check_integrity,
    contents,
    match,
    memory,
    put,
    saving,
    soon,
    stored_contents,
)

# --- in step ------------------------------------------------------------------------------------------------------


def test_index_follows_revisions_statuses_and_erasure(store: DiskStore, home: Path) -> None:
    one = memory("violet 日本語", title="umbrella", tags=("weather", 'a "quoted" tag'))
    put(store, one)
    found = [match(store, term) for term in ("violet", "umbrella", "weather", "quoted")]
    assert [contents(each) for each in found] == [[one.content]] * 4
    two = replace(one, content="crimson", title=None, tags=(), revision=2)
    put(store, two)
    assert [len(match(store, term).found) for term in ("violet", "umbrella", "weather", "crimson")] == [0, 0, 0, 1]
    put(store, two, status=MemoryStatus.FORGOTTEN)
    assert match(store, "crimson").found == ()
    put(store, two, status=MemoryStatus.ARCHIVED)
    assert match(store, "crimson").found == ()
    assert contents(match(store, "crimson", include_archived=True)) == ["crimson"]
    store.write(lambda tx: tx.erase(one.id)).result()
    assert match(store, "crimson", include_archived=True).found == ()
    check_integrity(home)


def test_index_is_in_step_when_one_batch_stores_changes_and_erases(store: DiskStore, home: Path) -> None:
    """Within a batch a row may be indexed at its end, not at all, or dropped before: all in one commit."""
    old, kept, gone = memory("old 日本語"), memory("kept"), memory("gone 日本語")

    def change(tx: Transaction) -> None:
        tx.save(kept, MemoryStatus.LIVE)
        tx.save(gone, MemoryStatus.LIVE)
        tx.save(replace(kept, content="kept twice", revision=2), MemoryStatus.LIVE)
        tx.erase(gone.id)
        tx.save(replace(old, content="renewed", revision=2), MemoryStatus.LIVE)
        tx.save(replace(old, content="renewed 中文", revision=3), MemoryStatus.LIVE)

    def failing(tx: Transaction) -> None:
        change(tx)
        tx.erase(old.id)
        raise LookupError

    put(store, old)
    failed = store.write(failing)
    store.write(change).result()
    assert isinstance(failed.exception(), LookupError)
    assert [len(match(store, word).found) for word in ("old", "gone", "twice", "renewed")] == [0, 0, 1, 1]
    assert contents(store.reader.containing(ask(), ["中文"], 5, soon())) == ["renewed 中文"]
    check_integrity(home)


@pytest.mark.requirement("UNI-002")
def test_words_behind_a_nul_are_found_and_gone_with_it(store: DiskStore, home: Path) -> None:
    said = "before\0behind 日本\0中文", "C:\\u0000ther \\\0\\u0000 lasting", "long\0" + "word. " * 500 + "\0deep"
    kept = [memory(one, title="violet\0umbrella") for one in said]
    put(store, *kept)
    words = "before", "behind", "u0000ther", "lasting", "deep"
    assert [contents(match(store, stem(word))) for word in words] == [[said[at]] for at in (0, 0, 1, 1, 2)]
    assert len(match(store, "umbrella").found) == 3
    assert contents(store.reader.containing(ask(), ["中文"], 5, soon())) == [said[0]]
    check_integrity(home)
    put(
        store,
        replace(kept[0], content="revised", title=None, revision=2),
        replace(kept[2], content="short", revision=2),
    )
    assert [len(match(store, stem(word)).found) for word in words] == [0, 0, 1, 1, 0]
    check_integrity(home)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["save", "forget", "erase", "fail"]), st.text(min_size=1)),
        max_size=12,
    )
)
def test_index_says_what_the_rows_say_after_any_changes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str, str]]
) -> None:
    home = tmp_path_factory.mktemp("steps")
    store = DiskStore(home, durability="process")
    some = [memory() for _ in range(4)]

    def stepping(number: int, step: str, text: str, revision: int) -> None:
        one = replace(some[number], content=text.encode(errors="replace").decode(), revision=revision)

        def change(tx: Transaction) -> None:
            if step == "erase":
                tx.erase(one.id)
            else:
                tx.save(one, MemoryStatus.FORGOTTEN if step == "forget" else MemoryStatus.LIVE)
            if step == "fail":
                raise LookupError

        futures.append(store.write(change))

    futures = [store.write(saving(some[0]))]
    for revision, (number, step, text) in enumerate(steps, start=2):
        stepping(number, step, text, revision)
    store.close()
    assert all(future.done() for future in futures)
    check_integrity(home)


# --- scope --------------------------------------------------------------------------------------------------------

words = st.text(ascii_lowercase, min_size=4, max_size=8)
texts = st.lists(words, min_size=1, max_size=5).map(" ".join)


@given(own=st.lists(texts, max_size=3), foreign=st.lists(texts, min_size=1, max_size=3), typo=st.integers(0, 3))
def test_no_project_finds_counts_or_is_repaired_towards_words_of_another(
    shared: DiskStore, own: list[str], foreign: list[str], typo: int
) -> None:
    a, b = memory().id, memory().id  # as project names that no other example has
    put(shared, *(memory(text, a) for text in own), *(memory(text, b, tags=(text,), title=text) for text in foreign))
    asked = {word for text in foreign for word in text.split()}
    search = LocalSearch(shared.reader)
    for text in [*foreign, *(word[:typo] + "x" + word[typo + 1 :] for word in asked)]:
        answer = search.search(ask(text, a), now_s=NOON_S, budget_s=60)
        assert {hit.memory.scope.project for hit in answer.hits} <= {a}
        assert all(match(shared, word, project=a).found for word in answer.repaired.values())
    unknown = [word for word in asked if not match(shared, word, project=a).found]
    assert set(shared.reader.frequencies(ask(project=a), unknown, 10).rows_with.values()) <= {0}
    assert sum(shared.reader.counts(a).values()) == len(own)
    assert sorted(stored_contents(shared, a)) == sorted(own)


@given(
    st.text(ascii_lowercase, min_size=1, max_size=8),
    st.sampled_from(["", "s", "es", "ed", "ing"]),
    st.sampled_from(list(MemoryStatus)),
)
def test_no_word_finds_the_scope_token_that_it_looks_like(
    shared: DiskStore, agent: str, ending: str, status: MemoryStatus
) -> None:
    """The stemmer takes words with another ending for the same, in tokens too; accents it drops."""
    project = uuid4().hex
    put(shared, memory("東京", project=project, agent=agent, tags=(agent,)), status=status)
    row = shared.reader.page(ask(project=project), tuple(MemoryStatus), 1, None)[0]
    for token in [rows.status_token(status), *rows.columns(row.memory, status, 0.0)[-1].split()]:
        for word in (token, stem(token), token + ending, stem(token) + ending, "é" + token, token.upper()):
            assert match(shared, word, project=project, include_archived=True).found == ()


# --- hostile questions --------------------------------------------------------------------------------------------

HOSTILE = [
    '"',
    '""',
    "' OR 1=1 --",
    "needle AND haystack",
    "needle OR",
    "NOT needle",
    "NEAR(needle haystack)",
    "needle*",
    "^needle",
    "title : needle",
    "scope:needle",
    "{title body} : needle",
    "- needle",
    "needle + haystack",
    "\x00",
    "nee\x00dle",
    "(((((",
    "%",
    "_",
    "\\",
    "🎉",
    "👨‍👩‍👧‍👦",
    "\u202eneedle",
    "x" * 1_000_000,
    "needle " * 100_000,
    "",
    " ",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:16]))
def test_any_text_is_a_sensible_question(store: DiskStore, text: str) -> None:
    put(store, memory("needle"), memory("haystack"), memory("needle", project="beta"))
    answer = LocalSearch(store.reader).search(ask(text), now_s=NOON_S, budget_s=60)
    assert {hit.memory.content for hit in answer.hits} <= {"needle", "haystack"}
    assert {hit.memory.scope.project for hit in answer.hits} <= {"alpha"}
    assert {one.row.memory.content for one in match(store, text).found} <= {"needle"}


def test_term_is_a_phrase_and_never_an_expression(store: DiskStore) -> None:
    put(store, memory("needle"), memory("haystack"), memory("secret hunter2"), memory("the password is hunter2"))
    assert [len(match(store, term).found) for term in ("needle OR haystack", "need*", "title:needle")] == [0, 0, 0]
    assert contents(match(store, "secret:hunter2")) == ["secret hunter2"]


def test_wildcards_in_pieces_are_letters(store: DiskStore) -> None:
    put(store, memory("100% 完成"), memory("100x 完成"), memory("a_b 完成"), memory("a\\b 完成"))
    for piece in ("0%", "a_b", "a\\b", "% 完成", "_b 完"):
        found = contents(store.reader.containing(ask(), [piece], 9, soon()))
        assert found == [one for one in ("100% 完成", "a_b 完成", "a\\b 完成") if piece in one]


# --- scripts without word breaks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("東京", ["東京都の天気", "明日は東京へ行く"]),
        ("東", ["東京都の天気", "明日は東京へ行く"]),
        ("天気予報", []),
        ("京都の天", ["東京都の天気"]),
        ("ความจำ", ["ผมมีความจำดี"]),
        ("จำ", ["ผมมีความจำดี"]),
        ("기억", ["나는 기억한다"]),
        ("カタカナ", ["これはカタカナです"]),
        ("🎉", ["we shipped 🎉", "出荷した 🎉"]),
        ("→", ["a → b"]),
    ],
)
def test_pieces_of_unbroken_scripts_are_found(store: DiskStore, asked: str, expected: list[str]) -> None:
    put(store, memory("東京都の天気"), memory("明日は東京へ行く"), memory("ผมมีความจำดี"), memory("나는 기억한다"))
    put(store, memory("これはカタカナです"), memory("we shipped 🎉"), memory("出荷した 🎉"), memory("a → b"))
    put(store, *(memory(text, project="beta") for text in ("東京", "🎉", "기억")))
    answer = LocalSearch(store.reader).search(ask(asked), now_s=NOON_S, budget_s=60)
    assert sorted(hit.memory.content for hit in answer.hits) == sorted(expected)


@pytest.mark.requirement("N13")
@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("办公室什么时候有人打扫？", "王阿姨每周三下午来打扫办公室。"),
        ("合同要签几份？", "客户要求合同用中英文两种语言各签一份。"),
        ("会議室の鍵は誰に頼めばいいですか？", "会議室の鍵は受付の佐藤さんが管理しています。"),
        ("กาแฟร้านไหนอร่อยที่สุด", "ร้านกาแฟที่ชอบอยู่หน้าตลาด"),
        ("회의실예약은어디서하나요", "회의실 예약은 포털에서 한다"),
    ],
)
def test_a_question_without_spaces_finds_what_answers_it_in_other_words(
    store: DiskStore, asked: str, answer: str
) -> None:
    texts = ["王阿姨每周三下午来打扫办公室。", "客户要求合同用中英文两种语言各签一份。"]
    texts += ["会議室の鍵は受付の佐藤さんが管理しています。", "ร้านกาแฟที่ชอบอยู่หน้าตลาด", "회의실 예약은 포털에서 한다"]
    put(store, *map(memory, texts), memory("明日は雨です"), memory("今天下雨"), memory("rain"))
    hits = LocalSearch(store.reader).search(ask(asked), now_s=NOON_S, budget_s=60).hits
    assert hits[0].memory.content == answer


def test_pieces_are_those_of_the_content_alone(store: DiskStore) -> None:
    put(store, memory("雨", metadata={"说": "办公室"}), memory("办公室"))
    assert contents(store.reader.containing(ask(), ["办公", "公室"], 9, soon())) == ["办公室"]


def test_of_memories_in_such_scripts_those_that_hold_most_of_the_question_come_first(store: DiskStore) -> None:
    put(store, memory("数据库每天备份到机房"), *(memory(f"备份 {number}") for number in range(60)))
    found = store.reader.containing(ask(), ["数据库", "备份", "机房"], 3, soon()).found
    assert found[0].row.memory.content == "数据库每天备份到机房"


# --- deadline -----------------------------------------------------------------------------------------------------


def test_search_past_its_deadline_ends_at_once_and_says_so(store: DiskStore) -> None:
    put(store, *(memory(f"common word {number} 東京") for number in range(300)))
    past = time.monotonic() - 1
    assert store.reader.matches(ask(), ["common"], 300, 0, past).cut
    assert store.reader.containing(ask(), ["東"], 300, past).cut
    assert store.reader.containing(ask(), ["→"], 300, past).cut
    answer = LocalSearch(store.reader).search(ask("common word"), now_s=NOON_S, budget_s=-1.0)
    assert (answer.cut, answer.hits) == (True, ())
    assert len(match(store, "common", limit=300).found) == 300


@given(text=st.text(st.characters(codec="ascii"), max_size=60))
def test_a_text_teaches_the_same_words_whatever_script_stands_beside_it(text: str) -> None:
    plain, other = set(transaction._words(memory(text))), set(transaction._words(memory(f"{text} \u3042")))
    assert plain == other - {"\u3042"} == set(re.split(r"[\W_]+", text.lower())) - {""}


@pytest.mark.parametrize(
    "text", ["a kettle\0 that whistles", 'a "kettle" \\ \\u0041', "a\x01kettle\x1f\x7f", "kettle\n\tß 東京 \U0001f600"]
)
def test_the_index_holds_just_what_the_records_say(store: DiskStore, home: Path, text: str) -> None:
    put(store, memory(text), memory("a kettle", title=text), memory("a kettle", tags=(text, "b")))
    check_integrity(home)
    archived = memory(text, title="it is put away in the change that stores it")

    def change(transaction: Transaction) -> None:
        transaction.save(archived, MemoryStatus.LIVE)
        transaction.set_status([archived.id], MemoryStatus.ARCHIVED)

    store.write(change).result()
    check_integrity(home)
    assert [found.row.memory.id for found in match(store, "away", include_archived=True).found] == [archived.id]
    assert match(store, "away").found == ()


def test_the_vocabulary_has_words_of_four_to_forty_letters(store: DiskStore) -> None:
    put(store, memory(f"a cat sees {'x' * 40} {'x' * 41}"))
    assert [store.reader.vocabulary(length, 9) for length in (1, 3, 4, 40, 41)] == [[], [], ["sees"], ["x" * 40], []]
