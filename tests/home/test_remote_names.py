"""Naming remotes, and whose token is whose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.errors import InvalidInput
from kingly_memory.home.place import DEFAULT_ENDPOINT, Place
from kingly_memory.home.remote_names import variable

labels = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,10}", fullmatch=True).filter(
    lambda one: (
        one.lower() not in {"local", "vectors", "all", "first", "none", "file"}
        and not one.lower().startswith(("file-", "file_"))
    )
)


def place(remote: Any = None, token: Any = None, token_file: Any = None, **environment: str) -> Place:
    return Place.resolve("home", remote, token, environment=environment, token_file=token_file, start=Path("/"))


def tokens(remote: Any = None, token: Any = None, token_file: Any = None, **environment: str) -> list[tuple[str, Any]]:
    """The remotes in order, each with what it is shown."""
    return [(one.label, one.token or one.token_file) for one in place(remote, token, token_file, **environment).remotes]


def addresses(remote: Any = None, **environment: str) -> list[tuple[str, str | None]]:
    return [(one.label, one.address) for one in place(remote, **environment).remotes]


@pytest.mark.parametrize(
    ("remote", "told", "found"),
    [
        (None, None, []),
        (False, "http://a", []),
        (None, "http://a", [("remote", "http://a")]),
        (True, "http://a", [("remote", DEFAULT_ENDPOINT)]),
        ("http://a/?x=1,y=2", None, [("remote", "http://a/?x=1,y=2")]),
        ("team=http://a", "http://b", [("team", "http://a")]),
        ("team=http://a,home=https://b/x?y=z", None, [("team", "http://a"), ("home", "https://b/x?y=z")]),
        (None, " team = http://a ,  home = http://b ", [("team", "http://a"), ("home", "http://b")]),
        (["team=http://a", "home=http://b"], "lab=http://c", [("team", "http://a"), ("home", "http://b")]),
        ({"team": "http://a", "home": True}, None, [("team", "http://a"), ("home", DEFAULT_ENDPOINT)]),
        ([True], None, [("remote", DEFAULT_ENDPOINT)]),
        ([], "http://a", []),
    ],
)
def test_one_address_or_several_by_name(remote: Any, told: str | None, found: list[tuple[str, str]]) -> None:
    assert addresses(remote, **({} if told is None else {"KINGLY_REMOTE": told})) == found


@pytest.mark.parametrize(
    ("remote", "sentence"),
    [
        (["team=http://a", "http://b"], "each needs a name, as in team=http://localhost:8000"),
        (["http://a", "http://b"], "each needs a name"),
        ("my team=http://a", "'my team' is no name for a remote"),
        ({"my team": "http://a"}, "'my team' is no name for a remote"),
        (["a-b=http://a", "A_B=http://b"], "the names 'a-b' and 'A_B' cannot be told apart"),
        ("local=http://a", "'local' cannot be a remote's name"),
        ("file-server=http://a", "'file-server' cannot be a remote's name"),
    ],
)
def test_names_that_cannot_be_told_apart_are_refused(remote: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        place(remote)


@pytest.mark.requirement("KNG-090")
@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"KINGLY_TOKEN": "T"}, [("team", "T"), ("home", None)]),
        ({"KINGLY_TOKEN": "T", "KINGLY_TOKEN_TEAM": "A"}, [("team", "A"), ("home", None)]),
        ({"KINGLY_TOKEN": "T", "KINGLY_TOKEN_HOME": "B"}, [("team", "T"), ("home", "B")]),
        ({"KINGLY_TOKEN_FILE_HOME": "/b"}, [("team", None), ("home", Path("/b"))]),
        ({"KINGLY_TOKEN_FILE": "/a", "KINGLY_TOKEN_HOME": "B"}, [("team", Path("/a")), ("home", "B")]),
    ],
)
def test_each_has_its_own_token_and_a_plain_one_is_the_first_ones(
    told: dict[str, str], found: list[tuple[str, Any]]
) -> None:
    assert tokens("team=http://a, home=http://b", **told) == found
    assert tokens(KINGLY_REMOTE="team=http://a, home=http://b", **told) == found


@pytest.mark.parametrize("remote", ["home=http://b", "http://b", {"home": "http://b"}, ["lab=http://c"]])
def test_the_token_of_the_first_in_the_environment_is_not_shown_to_who_takes_its_place(remote: Any) -> None:
    [(_, shown)] = tokens(remote, KINGLY_REMOTE="team=http://a, home=http://b", KINGLY_TOKEN="T")
    assert shown is None


def test_tokens_may_be_given_by_name() -> None:
    both = {"team": "http://a", "home": "http://b"}
    assert tokens(both, {"home": "B"}) == [("team", None), ("home", "B")]
    assert tokens(both, "A", KINGLY_TOKEN_TEAM="other") == [("team", "A"), ("home", None)]
    assert tokens(both, None, "/a", KINGLY_TOKEN_TEAM="other") == [("team", Path("/a")), ("home", None)]
    with pytest.raises(InvalidInput, match="token: 'hom' is no remote of those that are named"):
        tokens(both, {"hom": "B"})


@given(st.lists(labels, min_size=2, max_size=5, unique_by=variable))
def test_no_token_is_ever_shown_to_two_remotes(several: list[str]) -> None:
    told = {f"KINGLY_TOKEN_{variable(label)}": f"token of {label}" for label in several}
    remotes = {label: f"http://{number}" for number, label in enumerate(several)}
    assert tokens(remotes, KINGLY_TOKEN="plain", **told) == [(label, f"token of {label}") for label in several]


def test_a_place_tells_no_token() -> None:
    assert "secret" not in repr(place({"team": "http://a", "home": "http://b"}, {"team": "secret1", "home": "secret2"}))


def test_a_number_is_no_remote() -> None:
    with pytest.raises(InvalidInput, match="expected an address"):
        place(5)
