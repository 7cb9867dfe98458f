"""Word pieces: the same numbers as the package `tokenizers` gives for the same file."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

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
