"""The set that `redaction` is measured with is what it says it is."""

from __future__ import annotations

from collections import Counter

from tests.secret_samples import LINES, ordinary, secrets


def test_the_set_has_thirty_kinds_each_plain_and_awkward_and_ten_thousand_lines() -> None:
    kinds = Counter(one.kind for one in secrets())
    assert len(kinds) == 30
    assert set(kinds.values()) == {2}
    assert all(piece in one.text for one in secrets() for piece in one.pieces)
    lines = list(ordinary())
    assert len(lines) == LINES == 10_000
    assert lines == list(ordinary())
