"""Every action of the page is seen in the store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kingly_memory.adapters.local.trusted import check_trusted
from kingly_memory.page.actions import OFFERED
from tests.page.conftest import HOSTILE, Served, said, served


@pytest.mark.requirement("P25")
def test_an_edit_changes_what_was_changed_and_keeps_every_other_byte(page: Served) -> None:
    with page.store() as store:
        text = f"{HOSTILE}\r\nlast\rline\n"
        store.store(text, key="edited", tags=["a"])
        as_sent = text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
        form = {"key_or_id": "edited", "content": as_sent, "type": "semantic", "significance": "0.5", "tags": "a, b"}
        assert said(page.do("update", **form, if_revision="1")).startswith("Changed")
        after = store.history("edited")[0]
        assert (after.content, after.tags, after.revision) == (text, ("a", "b"), 2)
        again = page.do("update", **{**form, "content": "mine <now>"}, if_revision="1")
        assert again.status_code == 400
        assert "mine &lt;now&gt;</textarea>" in again.text  # nothing that was typed is lost
        assert store.history("edited")[0].revision == 2
        page.do("update", **{**form, "content": "mine now", "tags": ""}, if_revision="2")
        now = store.history("edited")[0]
        assert (now.content, now.tags, now.origin) == ("mine now", (), "user")
        page.do("restore", key_or_id="edited", revision="2")
        assert store.history("edited")[0].content == text


@pytest.mark.requirement("P25")
def test_memories_are_stored_rated_held_archived_forgotten_and_brought_back(page: Served) -> None:
    with page.store() as store:
        page.do("store", content="Typed by a person", key="typed", tags="x, y", significance="0.2")
        stored = store.history("typed")[0]
        assert (stored.tags, stored.significance, stored.origin) == (("x", "y"), 0.2, "user")
        assert "as useful" in said(page.do("attention.rate", thread_id="typed", useful="true"))
        assert said(page.do("reinforce", key_or_id="typed")).startswith("Held")
        page.do("link_memories", source="typed", target="deploy", link_type="supports", strength="0.5")
        assert [one.strength for one in store.links("typed")] == [0.5]
        page.do("archive", key_or_id="typed")
        assert (store.explain("typed") or {})["status"] == "archived"
        page.do("restore", key_or_id="typed")
        page.do("forget", key_or_id="typed")
        assert store.get("typed") is None
        assert "typed" in page.get("/?which=forgotten").text
        page.do("restore", key_or_id="typed")
        assert store.get("typed") is not None


@pytest.mark.requirement("P25")
def test_what_cannot_be_taken_back_is_shown_before_it_is_done(page: Served) -> None:
    with page.store() as store:
        store.store("To be purged", key="doomed")
        asked = page.do("purge", key_or_id="doomed")
        assert "This would be done" in asked.text
        assert "doomed" in asked.text
        assert store.get("doomed") is not None
        assert page.do("purge", key_or_id="doomed", sure="yes").status_code == 200
        assert store.get("doomed") is None
        assert store.restore("doomed") is None
        assert "This would be done" in page.do("sweep").text
        assert page.do("sweep", sure="yes").status_code == 200
        assert page.do("undo_sweep").status_code == 200


@pytest.mark.requirement("P25")
def test_focus_pins_tasks_and_threads_are_changed(page: Served) -> None:
    with page.store() as store:
        assert said(page.do("attention.focus", topic="release", weight="0.7")).startswith("Focus set")
        assert [one.topic for one in store.attention.focused()] == ["release"]
        page.do("attention.unfocus", topic="release")
        assert store.attention.focused() == ()
        pinned = said(page.do("attention.pin", content="Never call before nine", topics="calls"))
        thread = pinned.split()[2]
        assert store.threads.get(thread).pinned
        page.do("threads.rename", thread_id=thread, title="Calling hours")
        assert store.threads.get(thread).title == "Calling hours"
        page.do("attention.unpin", thread_id=thread)
        assert not store.threads.get(thread).pinned
        page.do("record_task_outcome", task="move the office", status="failed", reason="no van", notes="one\ntwo")
        assert store.list(tags=["task_outcome"]).memories[0].metadata["notes"] == ["one", "two"]
        assert "confidence" in page.do("assess_confidence", task="move the office").text


@pytest.mark.requirement("P25")
def test_a_home_from_elsewhere_says_so_until_it_is_trusted(page: Served, tmp_path: Path) -> None:
    copy = tmp_path / "home"
    shutil.copytree(page.home, copy)
    with served(copy) as other:
        other.web.get(other.link)
        assert "This home was not made here" in other.get("/").text
        assert "it was not made here" in other.get("/prompts?prompt=deploy").text
        assert "Trusted: hooks recall" in said(other.do("trust"))
        assert "This home was not made here" not in other.get("/").text
        assert "Put in: 1 memory" in other.get("/prompts?prompt=deploy+reviews").text
    check_trusted(copy)
    assert "This home was not made here" not in page.get("/").text


@pytest.mark.parametrize(
    ("calls", "form", "problem"),
    [
        ("store", {"content": " "}, "content: is missing"),
        ("store", {"content": "x", "significance": "much"}, "is no number"),
        ("store", {"content": "x", "metadata": "{"}, "is no JSON object"),
        ("forget", {"key_or_id": "nobody"}, "nothing is stored under"),
        ("threads.merge", {"thread_a": "a"}, "thread_b: is missing"),
    ],
)
def test_bad_input_is_a_sentence_above_the_form(page: Served, calls: str, form: dict[str, str], problem: str) -> None:
    answer = page.do(calls, **form)
    assert answer.status_code == 400
    assert problem in said(answer)


def test_every_verb_that_changes_memories_has_a_form() -> None:
    assert {
        "update",
        "forget",
        "restore",
        "purge",
        "attention.pin",
        "attention.rate",
        "sync",
        "sweep",
        "undo_sweep",
    } <= OFFERED.keys()
    assert not {"backup", "search", "documents.delete"} & OFFERED.keys()
