"""What is stored comes back to the byte: line ends, marks, NULs, scripts and sizes that other layers would bend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kingly_memory import validation
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.errors import InvalidInput
from tests.store_samples import check_integrity, elsewhere, memory, put

LIMIT = 1_048_576
KIB = 1_024


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fidelity")


@pytest.fixture(scope="module")
def store(home: Path) -> Iterator[DiskStore]:
    store = DiskStore(home, durability="process")
    yield store
    store.close()
    check_integrity(home)


def through(store: DiskStore, content: str) -> str:
    """The content after the door and the disk."""
    draft = validation.draft(content)
    one = memory(draft.content)
    put(store, one)
    found = store.reader.row(one.id)
    assert found is not None
    return found.memory.content


@pytest.mark.requirement("UNI-010")
@given(st.text(st.characters(), min_size=1).filter(str.strip))
@example("\ufeffa\r\nb\rc\n\n  d \t ")
@example("a\x00b\x00\x00")
@example("\ud800 lone \udfff")
@example("👨‍👩‍👧‍👦 \u202eoverride\u202c \U000e0041\U000e007f \u2028\u2029 \x85 \x1f")
@example('{"json": "\'\\\\u0000"}')
def test_any_text_comes_back_as_it_was_accepted(store: DiskStore, content: str) -> None:
    expected = "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in content)
    assert through(store, content) == expected


@pytest.mark.parametrize("unit", ["\r\n", "\r", "\ufeff", "x \r\n", "é\r", "日本\r\n", "\x00", "🎉", '"\\'])
@pytest.mark.parametrize("size", [31 * KIB, 32 * KIB, 33 * KIB, LIMIT])
def test_large_texts_come_back_byte_by_byte(store: DiskStore, unit: str, size: int) -> None:
    width = len(unit.encode())
    content = "x" * (size % width or width) + unit * ((size - 1) // width)
    assert len(content.encode()) == size
    assert through(store, content).encode() == content.encode()


def test_a_byte_more_than_the_limit_is_refused_and_not_cut(store: DiskStore) -> None:
    with pytest.raises(InvalidInput, match=r"1,048,577 bytes, at most 1,048,576"):
        through(store, "x" * (LIMIT + 1))


def test_another_process_reads_the_same_bytes(store: DiskStore, home: Path) -> None:
    one = memory("\ufeff\r\n\x00é日本🎉\u2028" * 50)
    put(store, one)
    script = "answer = store.reader.row(sys.argv[2]).memory.content.encode().hex()"
    assert bytes.fromhex(elsewhere(script, home, one.id)).decode() == one.content
