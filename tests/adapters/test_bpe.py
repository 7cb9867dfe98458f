"""Word pieces: the same numbers as the package `tokenizers` gives for the same file."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from kingly_memory.adapters.embed import wordllama
from kingly_memory.adapters.embed.bpe import BpeTokenizer

ROOT = Path(__file__).parents[2]
ODD = (
    *("", " ", "   ", "\t\n\r\n", "a  b", "x²", "①½٣", "e\u0301", "👩\u200d👩\u200d👧"),
    *("\x00\ufffe\U0010fffd", "<s>a</s><unk>", "< s>"),
)


@cache
def both() -> tuple[BpeTokenizer, Tokenizer]:
    found = wordllama.folder()
    assert found is not None
    file = found / "tokenizers" / "l2_supercat_tokenizer_config.json"
    return BpeTokenizer(file), Tokenizer.from_file(str(file))


def differing(texts: list[str]) -> list[str]:
    own, library = both()
    return [text for text in texts if own.encode(text) != library.encode(text, add_special_tokens=False).ids]


@pytest.mark.parametrize("around", ["{0}", "x{0}", "{0}{0}{0}", "{0}\n{0}1{0}"])
def test_every_piece_of_the_vocabulary_has_the_same_numbers(around: str) -> None:
    _, library = both()
    assert differing([around.format(piece).replace("\u2581", " ") for piece in library.get_vocab()]) == []


def test_texts_in_many_languages_and_signs_have_the_same_numbers() -> None:
    pages = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))]
    spoken = [
        str(text)
        for line in (ROOT / "benchmarks" / "languages.jsonl").read_text(encoding="utf-8").splitlines()
        for text in json.loads(line).values()
    ]
    runs = [sign * count for sign in "-=*.#_ax0 \u2581" for count in range(1, 70)]
    assert differing([*ODD, *pages, *spoken, *runs]) == []


@given(st.text(max_size=60) | st.text("<s>/unk ab-_=²0\n\u2581", max_size=60))
def test_any_text_has_the_same_numbers(text: str) -> None:
    assert differing([text]) == []


@given(st.lists(st.text("ab", min_size=2, max_size=5), min_size=1, unique=True), st.text("ab", min_size=1, max_size=14))
def test_the_pieces_are_those_of_merging_one_pair_after_the_other(pieces: list[str], text: str) -> None:
    """Of few letters a piece and its neighbour are often alike, as they hardly are in the real vocabulary."""
    numbers = {piece: number for number, piece in enumerate(["\u2581", "a", "b", *pieces])}
    with NamedTemporaryFile("w", encoding="utf-8") as file:
        json.dump({"vocab": numbers, "merges": []}, file)
        file.flush()
        own = BpeTokenizer(Path(file.name))
    parts = list(f"\u2581{text}")
    while pairs := [
        (numbers[left + right], at) for at, (left, right) in enumerate(pairwise(parts)) if left + right in numbers
    ]:
        _, at = min(pairs)
        parts[at : at + 2] = ["".join(parts[at : at + 2])]
    assert own.encode(text) == [numbers[part] for part in parts]
