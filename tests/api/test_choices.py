"""The names that a type checker knows are those that the verbs take."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, get_args

import pytest

from kingly_memory import MemoryRouter, SyncMemoryRouter
from kingly_memory.api.choices import DetailName, ModeName, TypeName
from kingly_memory.models import DEEP_KINDS, KINDS, QUICK_KINDS, MemoryType, RetrievalMode
from kingly_memory.retrieval.modes import AUTO
from kingly_memory.validation import DETAILS


def names(choice: Any) -> Iterator[str]:
    """The texts of a union of Literals, without its enumerations."""
    for one in get_args(choice):
        if isinstance(one, str):
            yield one
        elif not (isinstance(one, type) and issubclass(one, StrEnum)):
            yield from names(one)


@pytest.mark.requirement("N16")
def test_types_modes_and_details_are_the_ones_that_verbs_take() -> None:
    assert {*names(TypeName)} == {*MemoryType, *KINDS, *QUICK_KINDS, *DEEP_KINDS}
    assert {*names(ModeName)} == {*RetrievalMode, AUTO}
    assert {*names(DetailName)} == {*DETAILS}


@pytest.mark.requirement("N16")
@pytest.mark.parametrize("router", [MemoryRouter, SyncMemoryRouter])
def test_store_and_search_say_so(router: type) -> None:
    known = ("TypeName", "ModeName", "DetailName")
    for verb, argument in (("store", "type"), ("search", "types"), ("search", "mode"), ("search", "detail")):
        said = getattr(router, verb).__annotations__[argument]
        assert any(one in said for one in known), (verb, argument, said)
