"""Our decorator and named tuples do what those of the standard library do, for a fraction of their price."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar

import pytest

from kingly_memory.dataclass import NamedTuple, dataclass, field, fields, replace


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


class Place(NamedTuple):
    """Where."""

    x: int
    y: int = 2
    names: tuple[str, ...] = ()

    @property
    def area(self) -> int:
        return self.x * self.y


class Corner(Place):
    """Of a place."""


class Nothing(NamedTuple):
    pass


def test_named_tuples_are_made_shown_and_changed_by_their_fields() -> None:
    place = Place(3, names=("a",))
    x, *rest = place
    assert (x, rest, place.y, place.area, place[0]) == (3, [2, ("a",)], 2, 6, 3)
    assert repr(place) == "Place(x=3, y=2, names=('a',))"
    assert hash(place) == hash((3, 2, ("a",)))
    assert Place(1, 5) < Place(2)
    assert Place(2) == (2, 2, ())
    assert place._replace(y=4) == Place(3, 4, ("a",))
    assert place._asdict() == {"x": 3, "y": 2, "names": ("a",)}
    assert (Place._fields, Place._field_defaults) == (("x", "y", "names"), {"y": 2, "names": ()})
    match place:
        case Place(x, y=2):
            assert x == 3
        case _:
            pytest.fail("no match")
    assert (repr(Corner(1)), Corner(1)._replace(x=2), Nothing(), Place.__doc__) == (
        "Corner(x=1, y=2, names=())",
        Corner(2),
        (),
        "Where.",
    )


def test_named_tuples_take_nothing_else() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Place()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Place(1, z=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="z"):
        Place(1)._replace(z=2)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Place(1).x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Place(1).z = 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda place: pickle.loads(pickle.dumps(place))])  # noqa: S301
@pytest.mark.parametrize("place", [Place(1, names=("a",)), Corner(1), Nothing()])
def test_a_copied_named_tuple_is_the_same(copied: Callable[[Place], Place], place: Place) -> None:
    assert type(copied(place)) is type(place)
    assert copied(place) == place
