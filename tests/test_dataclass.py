"""Our decorator does what that of the standard library does, for a hundredth of its price."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from functools import cached_property
from typing import ClassVar

import pytest

from kingly_memory.dataclass import dataclass, field, fields, replace


@dataclass(frozen=True, slots=True)
class Base:
    name: str
    sizes: list[int] = field(default_factory=list)
    note: str = field(default="", repr=False, compare=False)
    unit: ClassVar[str] = "m"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heavy(Base):
    weight: float

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise ValueError(self.weight)


@dataclass(slots=True)
class Counter:
    count: int = 0


def test_values_are_made_compared_and_shown_by_their_fields() -> None:
    one = Base("a", note="x")
    assert (one.name, one.sizes, one.note) == ("a", [], "x")
    assert repr(one) == "Base(name='a', sizes=[])"
    assert one == Base("a") != Base("b")
    assert one != Heavy("a", weight=1)
    assert one.sizes is not Base("a").sizes
    assert hash(Base("a", ())) == hash(Base("a", (), "other"))  # type: ignore[arg-type]
    assert [each.name for each in fields(Heavy)] == ["name", "sizes", "note", "weight"]


def test_frozen_values_stay_and_others_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Base("a").name = "b"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del Base("a").name
    counter = Counter()
    counter.count += 1
    assert counter == Counter(1)
    with pytest.raises(TypeError):
        hash(counter)


@pytest.mark.parametrize(
    "wrong",
    [
        Base,
        lambda: Base("a", other=1),  # type: ignore[call-arg]
        lambda: Base("a", name="b"),  # type: ignore[misc]
        lambda: Base("a", [], "", 1),  # type: ignore[call-arg]
        lambda: Heavy("a", [], "", 1),  # type: ignore[call-arg]
        lambda: replace(Base("a"), other=1),  # type: ignore[call-arg]
    ],
)
def test_arguments_that_do_not_fit_are_refused(wrong: object) -> None:
    with pytest.raises(TypeError):
        wrong()  # type: ignore[operator]


def test_a_changed_copy_is_checked_like_a_new_value() -> None:
    assert replace(Heavy("a", weight=1), name="b") == Heavy("b", weight=1)
    with pytest.raises(ValueError, match="-1"):
        replace(Heavy("a", weight=1), weight=-1)


def test_the_standard_library_takes_them_for_its_own() -> None:
    one = Heavy("a", [1], weight=2)
    assert dataclasses.is_dataclass(one)
    assert dataclasses.asdict(one) == {"name": "a", "sizes": [1], "note": "", "weight": 2}
    assert dataclasses.replace(one, weight=3) == Heavy("a", [1], weight=3)
    assert copy.deepcopy(one) == one == pickle.loads(pickle.dumps(one))  # noqa: S301
    assert list(inspect.signature(Heavy).parameters) == ["name", "sizes", "note", "weight"]


def test_it_loads_neither_dataclasses_nor_inspect() -> None:
    script = "import sys, kingly_memory.models; print({'dataclasses', 'inspect'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_copy_has_the_fields_and_not_what_a_property_has_kept() -> None:
    @dataclass(frozen=True)
    class Text:
        words: str

        @cached_property
        def length(self) -> int:
            return len(self.words)

    first = Text("one")
    assert first.length == 3
    assert replace(first, words="three").length == 5
    assert replace(first) == first
