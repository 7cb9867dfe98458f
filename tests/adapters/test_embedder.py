"""The built-in embedder: the same vectors everywhere, and word forms near each other."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.adapters.embed.hashed import TEXT_LIMIT, HashedEmbedder

ROOT = Path(__file__).parents[2]
TEXTS = [
    "The deploy was rolled back at noon",
    "naïve façade",
    "部署回滚",
    "🎉🎉",
    "",
    "x" * 5_000,
    "so be it",
    "it it it",
]

any_text = st.text(st.characters(codec=None), max_size=60)


def cosine(left: str, right: str) -> float:
    one, other = HashedEmbedder().embed([left, right])
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


def vectors_of_another_process(hash_seed: str) -> str:
    script = (
        "from kingly_memory.adapters.embed.hashed import HashedEmbedder\n"
        f"print([[value.hex() for value in vector] for vector in HashedEmbedder().embed({TEXTS!r})])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    return run.stdout.strip()


@pytest.mark.requirement("UNI-006")
@pytest.mark.requirement("UNI-007")
def test_vectors_are_the_same_in_processes_with_different_hash_seeds() -> None:
    here = str([[value.hex() for value in vector] for vector in HashedEmbedder().embed(TEXTS)])
    assert vectors_of_another_process("1") == here
    assert vectors_of_another_process("2") == here


def test_a_known_text_keeps_its_vector_for_as_long_as_the_embedder_keeps_its_name() -> None:
    embedder = HashedEmbedder()
    assert embedder.name == "hashed2-512"
    [vector] = embedder.embed(["ok"])
    assert {at: value for at, value in enumerate(vector) if value} == {23: 0.5, 262: -0.5, 271: 0.5, 283: -0.5}


@given(any_text)
def test_every_text_has_a_vector_of_unit_length(text: str) -> None:
    vector = HashedEmbedder().embed([text])[0]
    assert len(vector) == HashedEmbedder.dimensions
    assert math.isclose(math.hypot(*vector), 1.0)


@given(st.lists(any_text, max_size=4))
def test_a_text_is_embedded_alike_alone_and_in_company(texts: list[str]) -> None:
    embedder = HashedEmbedder()
    assert embedder.embed(texts) == [embedder.embed([text])[0] for text in texts]


@pytest.mark.parametrize(
    ("query", "near", "far"),
    [
        ("deployment rollback", "rolled back the deploys", "lunch was a cheese sandwich"),
        ("databse conection", "the database connection pool", "the garden needs water"),
        ("configure caching", "cache configuration of the proxy", "Anna plays the cello"),
        ("回滚", "昨天部署回滚了", "今天天气很好"),
    ],
)
def test_word_forms_and_typos_are_nearer_than_other_subjects(query: str, near: str, far: str) -> None:
    assert cosine(query, near) > 2 * max(cosine(query, far), 0.05)


def test_function_words_say_little_about_what_a_text_is_about() -> None:
    assert cosine("what is the plan for the garden", "what is the state of the network") < 0.3


def test_what_lies_beyond_the_limit_is_not_read() -> None:
    start = "word " * TEXT_LIMIT
    assert cosine(start, start + "beyond") == pytest.approx(cosine(start, start))
