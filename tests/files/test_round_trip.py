"""An export of an import is the export again, byte for byte."""

from __future__ import annotations

import os
import random
from datetime import timedelta
from pathlib import Path

import pytest

from kingly_memory import SyncMemoryRouter
from kingly_memory.testing import ManualClock
from tests.cli_runner import Run

MEMORIES = 10_000 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 300
WORDS = ("deploy", "Größe", "東京", "🦊\u2028", "a\r\nb", "\ufeffmark", "naïve", '{"json": "1"}', "#tag", "x\x1fy")


def filled(home: Path, number: int) -> None:
    """A project with everything that an export carries."""
    dice = random.Random(7)
    clock = ManualClock()
    with SyncMemoryRouter.open(home, False, project="app", clock=clock) as memory:
        ids: list[str] = []
        while len(ids) < number:
            some = []
            for place in range(len(ids), min(len(ids) + 500, number)):
                said: dict[str, object] = {"content": f"{place} " + " ".join(dice.choices(WORDS, k=dice.randint(1, 9)))}
                said |= {"key": f"key {place}"} if place % 3 else {}
                said |= {"origin": "user", "title": "Größe 🦊"} if place % 5 == 0 else {}
                said |= {"context_id": f"context {place % 17}"} if place % 4 == 0 else {}
                said |= {"tags": dice.sample(("ops", "b/c", "東"), 2)} if place % 6 == 0 else {}
                said |= {"metadata": {"n": [place, 0.1, None, {"é": True}]}} if place % 7 == 0 else {}
                said |= {"ttl": 3_600 if place % 8 else "30d"} if place % 10 == 0 else {}
                said |= {"type": dice.choice(("working", "episodic", "procedural"))} if place % 9 == 0 else {}
                said |= {"significance": dice.choice((0.1, 0.3, 0.95, 1.0))} if place % 11 == 0 else {}
                some.append(said)
            ids += [one.id for one in memory.store_many(some)]
            clock.jump(61.5)
        for one in ids[::10]:
            memory.update(one, content=f"said anew of {one}")
        for one in ids[::50]:
            memory.update(one, tags=["third"], metadata={"again": "✓"})
        for source, target in zip(ids[::13], ids[1::29], strict=False):
            memory.link_memories(source, target, "supports" if source < target else "related", 0.25, "weil 🦊")
        for one in ids[3::40]:
            memory.reinforce(one)
        for place in range(5):
            pinned = memory.attention.pin(f"Release {place} needs two reviews", weight_boost=0.2)
            memory.inject(f"who reviews release {place}?", session="s")
            memory.attention.rate(pinned.thread_id, bool(place % 2), reason="Größe")
        gone = ids[7::60]
        for one in {*ids[1::37]}.difference(gone):
            memory.archive(one)
        memory.forget_many(gone)
        memory.threads.rename("context 4", "Vier")
        memory.threads.merge("context 4", "context 8")
        for place in range(number // 10):
            index = (True, False, ["city"])[place % 3]
            value = {"city": f"Oslo {place}", "né": [None, 2.5, "x"]}
            memory.documents.put(("users", f"u{place % 7}", "a/b"), f"{place}", value, index=index)
            memory.documents.put("brief", f"{place}", "ends", ttl="7d")
            memory.log(f"chat {place % 3}").append([f"turn {place}", {"role": "user", "n": place}])
            clock.jump(0.25)
        for place in range(0, number // 10, 4):
            memory.documents.put("brief", f"{place}", {"later": place})
        clock.jump(timedelta(hours=3).total_seconds())
    with SyncMemoryRouter.open(home, False, project="app", agent="planner", clock=clock) as memory:
        for one in [each for each in ids[2::70] if each not in gone]:
            memory.update(one, content="the planner says otherwise")


@pytest.mark.requirement("N6")
def test_an_export_of_a_trusted_import_is_the_same_byte_for_byte(run: Run, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    filled(first, MEMORIES)
    files = [tmp_path / "first.jsonl", tmp_path / "second.jsonl"]
    assert run("export", str(files[0]), "--home", str(first), "--project", "app").code == 0
    taken = run("import", str(files[0]), "--trust", "--home", str(second), "--project", "app", "--json")
    assert (taken.code, taken.json["problems"]) == (0, [])
    assert run("export", str(files[1]), "--home", str(second), "--project", "app").code == 0
    before, after = (file.read_bytes() for file in files)
    assert [one for one in zip(before.splitlines(), after.splitlines(), strict=True) if one[0] != one[1]] == []
    assert before == after
    again = run("import", str(files[0]), "--trust", "--home", str(second), "--project", "app", "--json").json
    assert again["stored"] == again["revised"] == 0
    assert not {"links", "documents", "items"} & again.keys()
    counts = (
        before.count(f'{beginning}"'.encode()) for beginning in ('"revision_of', '"pinned', '"useful', '"found_by')
    )
    assert all(counts)
