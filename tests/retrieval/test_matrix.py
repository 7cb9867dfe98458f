"""A matrix of vectors, which finds the nearest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.retrieval import matrix as matrices
from kingly_memory.retrieval.matrix import Matrix
from kingly_memory.router.search.meaning import levels

numbers = st.floats(-1, 1, width=32)
vectors = st.lists(numbers, min_size=4, max_size=4).filter(lambda vector: math.hypot(*vector) > 0.01)


def test_vectors_are_compared_in_products_that_no_library_shares_out_among_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From so many products on OpenBLAS wakes threads, which wait for each other where the machine is busy."""
    threaded_from, dot, sizes = 460_800, np.dot, list[int]()

    def noted(rows: Any, vector: Any, **how: Any) -> Any:
        sizes.append(rows.size)
        return dot(rows, vector, **how)

    monkeypatch.setattr(np, "dot", noted)
    matrix = Matrix(512)
    matrix.put({str(number): bytes([number % 100 + 1]) * 512 for number in range(2_000)})
    assert len(matrix.nearest([1.0] * 512, 5)) == 5
    assert sum(sizes) == 2_000 * 512
    assert max(sizes) < threaded_from


@given(st.dictionaries(st.text(max_size=3), vectors, max_size=150), vectors, st.integers(1, 20))
def test_similarities_descend_within_0_and_1_and_a_vector_is_nearest_to_itself(
    stored: dict[str, list[float]], query: list[float], limit: int
) -> None:
    matrix = Matrix(4)
    for name, vector in stored.items():
        matrix.put({name: levels(vector)})
    found = [similarity for _, similarity in matrix.nearest(query, limit)]
    assert len(found) == min(limit, len(stored))
    assert found == sorted(found, reverse=True)
    assert all(0 <= similarity <= 1 for similarity in found)
    for vector in stored.values():  # itself, or one of the same direction
        assert matrix.nearest(vector, 1)[0][1] == pytest.approx(1.0, abs=1e-4)


@given(st.lists(st.tuples(st.integers(0, 9), st.lists(vectors, max_size=3)), max_size=60))
def test_whatever_was_put_and_removed_the_matrix_holds_what_a_plain_dictionary_holds(
    changes: list[tuple[int, list[list[float]]]],
) -> None:
    """A memory has a vector for each of its passages, and is as near as the nearest of them."""
    matrix = Matrix(4)
    expected: dict[str, list[list[float]]] = {}
    for number, passages in changes:
        name = str(number)
        if passages:
            matrix.put({name: b"".join(map(levels, passages))})
            expected[name] = passages
        else:
            matrix.remove(name)
            expected.pop(name, None)
    assert len(matrix) == sum(map(len, expected.values()))
    for name, passages in expected.items():
        for vector in passages:
            found = dict(matrix.nearest(vector, 10))
            assert found.keys() == expected.keys()
            assert found[name] == pytest.approx(1.0, abs=1e-4)
            assert dict(matrix.compared(vector, [name])) == {name: pytest.approx(found[name], abs=1e-6)}
            [(_, share)] = matrix.nearest(vector, 1)
            assert share == pytest.approx(max(found.values()), abs=1e-6)


def test_of_a_memory_of_several_passages_the_nearest_one_is_told() -> None:
    matrix = Matrix(2)
    matrix.put({"short": levels([1.0, 0.0]), "long": levels([1.0, 0.2]) + levels([0.0, 1.0]) + levels([-1.0, 0.0])})
    assert matrix.passages([0.1, 1.0], ["short", "long", "not here"]) == {"long": 1}
    assert [name for name, _ in matrix.nearest([-1.0, 0.1], 1)] == ["long"]
    assert matrix.passages([-1.0, 0.1], ["long"]) == {"long": 2}


@given(st.dictionaries(st.text(max_size=2), vectors, min_size=1, max_size=30), vectors)
def test_vectors_put_together_are_those_put_one_by_one(stored: dict[str, list[float]], query: list[float]) -> None:
    apart, together = Matrix(4), Matrix(4)
    for name, vector in stored.items():
        apart.put({name: levels(vector)})
    for _ in range(2):  # the second time they replace themselves
        together.put({name: levels(vector) for name, vector in stored.items()})
    assert len(together) == len(apart)
    expected = dict(apart.nearest(query, 30))
    assert dict(together.nearest(query, 30)) == pytest.approx(expected, abs=1e-5)
    name = min(stored)
    [(found, similarity)] = together.compared(query, [name, "not here"])
    assert found == name
    assert similarity == pytest.approx(expected[name], abs=1e-5)


def test_among_many_vectors_a_look_at_their_signs_finds_those_that_comparing_all_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever was put, replaced and removed meanwhile."""
    chance = np.random.default_rng(1)
    subjects = chance.normal(3.0, 1.0, (301, 100))  # far from the middle, as vectors of a model are

    def about(number: int) -> list[float]:
        told: list[float] = (subjects[number // 20] + chance.normal(0.0, 0.5, 100)).tolist()
        return told

    matrix = Matrix(100)
    matrix.put({f"m{number}": levels(about(number)) for number in range(6_000)})
    matrix.weigh()  # what comes behind it is few enough that the mean stays
    for number in range(0, 6_000, 19):
        matrix.remove(f"m{number}")
    matrix.put({f"m{number}": levels(about(number + 7)) for number in range(1, 6_000, 19)})
    questions = [about(number) for number in range(0, 6_000, 60)]
    exact = [matrix.nearest(question, 10) for question in questions]
    monkeypatch.setattr(matrices, "_MANY", 1_000)
    monkeypatch.setattr(matrices, "_LEAST_COMPARED", 400)
    compared: list[int] = []
    similarities = Matrix._similarities

    def noted(matrix: Matrix, vector: Sequence[float], positions: Any = None) -> Any:
        compared.append(len(matrix) if positions is None else len(positions))
        return similarities(matrix, vector, positions)

    monkeypatch.setattr(Matrix, "_similarities", noted)
    found = [matrix.nearest(question, 10) for question in questions]
    assert max(compared) < 600
    shared = [dict(one).keys() & dict(other).keys() for one, other in zip(found, exact, strict=True)]
    assert sum(map(len, shared)) > 990
    for names, one, other in zip(shared, map(dict, found), map(dict, exact), strict=True):
        assert [one[name] for name in names] == pytest.approx([other[name] for name in names])
