"""The commands about documents and logs, as a person and a program see them."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import split

import pytest

from kingly_memory import SyncMemoryRouter
from tests.cli_runner import Run


def test_documents_are_put_read_found_and_deleted(run: Run, tmp_path: Path) -> None:
    place = ("--home", str(tmp_path / "home"), "--project", "app")
    assert run("documents", "list", *place).out == "no document\n"
    put = run("documents", "put", "users/lydia", "profile", '{"city": "Oslo", "orders": 3}', *place)
    assert put.out == "users/lydia profile has version 1\n"
    assert ", until 20" in run("documents", "put", "users/lydia", "draft", "on its way", "--ttl", "1h", *place).out
    assert run("documents", "get", "users/lydia", "draft", *place).out == "on its way\n"
    assert run("documents", "get", "users/lydia", "profile", "--json", *place).json["value"] == {
        "city": "Oslo",
        "orders": 3,
    }
    assert "profile" not in run("documents", "search", "on", "the", "way", *place).out
    found = run("documents", "search", "--filter", '{"orders": {"$gt": 2}}', "--prefix", "users", "--json", *place)
    assert [one["key"] for one in found.json["search"]] == ["profile"]
    told = run("documents", "search", "--filter", '{"orders": {"$gt": "a"}}', *place).out.splitlines()
    assert (told[0], "a number is never compared with a text" in told[1]) == ("no document", True)
    assert run("documents", "namespaces", *place).out == "users/lydia\n"
    conflict = run("documents", "put", "users/lydia", "profile", "x", "--if-version", "7", *place)
    assert (conflict.code, "has version 1, not version 7" in conflict.err) == (1, True)
    assert run("documents", "delete", "users/lydia", "draft", *place).out == "deleted draft\n"
    assert run("documents", "delete", "users/lydia", "draft", *place).out == "there was no draft in users/lydia\n"
    gone = run("documents", "get", "users/lydia", "draft", *place)
    there = "`kingly-memory documents list` shows what is there"
    assert gone.code == 2
    assert gone.err == f"kingly-memory: nothing is stored under 'draft' in the namespace 'users/lydia'; {there}\n"


def test_items_of_a_session_are_appended_shown_and_taken_off(run: Run, tmp_path: Path) -> None:
    place = ("--home", str(tmp_path / "home"), "--project", "app")
    item = {"role": "user", "content": "Où est mon colis ?"}
    assert run("log", "append", "chat", json.dumps(item), "plain", *place).out == "appended 2 items to chat\n"
    shown = run("log", "show", "chat", "--json", *place).json["show"]
    assert [one["item"] for one in shown] == [item, "plain"]
    assert run("log", "pop", "chat", *place).out == "plain\n"
    assert run("log", "list", *place).out.splitlines()[1].split()[:2] == ["chat", "1"]
    assert run("log", "clear", "chat", *place).out == "removed 1 item of chat\n"
    assert run("log", "show", "chat", *place).out == "chat has no item\n"
    assert run("log", "pop", "chat", *place).code == 2


def test_a_search_shows_of_a_long_document_where_it_was_found(run: Run) -> None:
    text = f"{'Nothing of interest. ' * 60}The ferry leaves from pier 9. {'And on. ' * 60}"
    run("documents", "put", "notes", "long", text)
    run("documents", "put", "notes", "fields", json.dumps({"padding": "x" * 300, "port": "of the ferry"}))
    assert [line.count("ferry") for line in run("documents", "search", "ferry").out.splitlines()] == [0, 1, 1]
    assert run("documents", "search").out.count("ferry") == 0


def test_namespaces_whose_paths_look_alike_are_told_apart(run: Run) -> None:
    with SyncMemoryRouter.open() as memory:
        memory.documents.put(("a", "b"), "k", 1)
        memory.documents.put(("a/b",), "k", 1)
    assert run("documents", "namespaces").out.splitlines() == ["a/b", '["a/b"]']
    assert [line.split()[0] for line in run("documents", "list").out.splitlines()[1:]] == ["a/b", '["a/b"]']


def test_status_says_how_many_documents_and_log_items_there_are(run: Run) -> None:
    assert "documents" not in run("status").out
    run("documents", "put", "n", "k", "x")
    run("log", "append", "s", "one", "two")
    assert "documents   3 documents and log items" in run("status").out.splitlines()
    assert run("status", "--json").json["documents_held"] == 3


@pytest.mark.parametrize("argv", [("list", "users"), ("search", "users")])
def test_documents_belong_to_no_agent(run: Run, argv: tuple[str, ...]) -> None:
    assert run("documents", *argv, "--agent", "planner").out == "no document\n"


def test_documents_are_listed_page_by_page(run: Run, tmp_path: Path) -> None:
    place = ("--home", str(tmp_path / "home"), "--project", "app")
    for namespace, key in (("a", "k"), ("a/b", "k"), ("a/b", "l/m"), ("b", "k")):
        run("documents", "put", namespace, key, "x", *place)
    seen: list[str] = []
    after: list[str] = []
    while len(seen) < 9:
        told = run("documents", "list", "--limit", "2", *after, *place).out
        page = [" ".join(line.split()[:2]) for line in told.splitlines()[1:] if "--after" not in line]
        seen += page
        if "--after" not in told:
            break
        run("documents", "put", "a", f"new {len(seen)}", "x", *place)
        after = split(told.partition("the same with ")[2])
    assert seen == ["a k", "a/b k", "a/b l/m", "b k"]
    for wrong, problem in (("{", "is not JSON"), ('["a"]', "is no document"), ("[1, 2]", "is no document")):
        refused = run("documents", "list", "--after", wrong, *place)
        assert (refused.code, problem in refused.err) == (2, True)


def test_a_value_of_several_megabytes_is_read_and_a_larger_one_is_refused_as_a_value(run: Run) -> None:
    large = b"x" * (2 * 2**20)
    assert run("documents", "put", "n", "large", "-", stdin=large).code == 0
    assert len(run("documents", "get", "n", "large", "--json").json["value"]) == len(large)
    refused = run("documents", "put", "n", "larger", "-", stdin=b"x" * (16 * 2**20 + 1))
    assert (refused.code, refused.err) == (
        2,
        "kingly-memory: VALUE: has more than the 16,777,216 bytes that are stored; split it\n",
    )


def test_a_log_shows_at_least_one_item(run: Run) -> None:
    run("log", "append", "s", "x")
    assert run("log", "show", "s", "-n", "0").err.startswith("kingly-memory: --limit: 0 is outside 1")
