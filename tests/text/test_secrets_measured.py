"""Redaction catches what it is for and leaves ordinary lines alone, by figures."""

from __future__ import annotations

from collections import Counter

import pytest

from kingly_memory.text.redaction import redact
from tests.secret_samples import LINES, ordinary, secrets


def test_the_set_has_thirty_kinds_each_plain_and_awkward() -> None:
    kinds = Counter(one.kind for one in secrets())
    assert len(kinds) == 30
    assert set(kinds.values()) == {2}
    assert all(piece in one.text for one in secrets() for piece in one.pieces)


@pytest.mark.requirement("A18")
def test_nineteen_of_twenty_secrets_are_caught() -> None:
    missed = [one for one in secrets() if any(piece in redact(one.text).text for piece in one.pieces)]
    assert len(missed) <= len(secrets()) * 0.05, [(one.kind, one.manner) for one in missed]


@pytest.mark.requirement("A18")
def test_of_ten_thousand_ordinary_lines_twenty_at_most_are_changed() -> None:
    changed = [line for line in ordinary() if redact(line).count]
    assert len(changed) <= LINES * 0.002, changed[:30]
