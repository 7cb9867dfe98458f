"""A bundle of the Open Knowledge Format, written and read: conformant, and with all that others put into it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]

from kingly_memory import SyncMemoryRouter
from tests.cli_runner import Run

pytestmark = pytest.mark.requirement("N20")

ORDERS = """---
type: BigQuery Table
title: Orders
tags: [sales, orders]
generated: { by: human:ann, at: 2026-05-28T14:30:00Z }
verified: { by: process:nightly, at: 2026-06-26T02:00:00Z }
sources:
  - resource: https://wiki.example/orders
    usage_count: 7
owner_team: depot
---

# Schema

One row per order, see [customers](../people/customers.md) and [nothing](/gone.md).
"""


def tops(folder: Path) -> dict[str, dict[str, object]]:
    """What stands at the top of each concept's file. OKF asks for YAML with a type in each."""
    found = {}
    for path in sorted(folder.rglob("*.md")):
        if path.name not in ("index.md", "log.md"):
            found[path.relative_to(folder).as_posix()] = yaml.safe_load(path.read_text().split("---\n")[1])
    assert all(one["type"] for one in found.values())
    return found


def test_an_export_is_conformant_and_its_import_is_the_same_memories(run: Run, tmp_path: Path) -> None:
    run(
        "store",
        "Deploys need two reviews",
        "--key",
        "deploy.rule",
        "--title",
        "a: *b &c ---",
        "--tag",
        "ops",
        "--significance",
        "0.9",
    )
    run(
        "store",
        "  The api: *Tuesdays*\n\n# Related\n\nIt is quiet.",
        "--key",
        "deploy.day",
        "--type",
        "procedural",
    )
    run("store", "The door code changes in May", "--ttl", "30d")
    run("link", "deploy.rule", "deploy.day")
    assert "3 concepts" in run("export", str(tmp_path / "out"), "--layout", "okf").out
    told = tops(tmp_path / "out")
    assert set(told) == {
        "semantic/a-b-c.md",
        "procedural/deploy-day.md",
        "semantic/the-door-code-changes-in-may.md",
    }
    assert "stale_after" in told["semantic/the-door-code-changes-in-may.md"]
    assert "okf_version: '0.2'" in (tmp_path / "out" / "index.md").read_text()
    assert "* [deploy.day](/procedural/deploy-day.md)" in (tmp_path / "out" / "semantic" / "a-b-c.md").read_text()
    assert "is there already" in run("export", str(tmp_path / "out"), "--layout", "okf").err

    before = {one["id"]: one for one in run("list", "--json").json["memories"]}
    other = ("--home", str(tmp_path / "other"))
    for stored, links in ((3, 1), (0, 0)):
        taken = run("import", str(tmp_path / "out"), *other, "--json").json
        assert (taken["format"], taken["stored"], taken.get("links", 0), taken["problems"]) == (
            "okf",
            stored,
            links,
            [],
        )
    after = {one["id"]: one for one in run("list", *other, "--json").json["memories"]}
    same = ("key", "content", "type", "significance", "tags", "ends_at", "created_at", "updated_at")
    assert {name: [one[what] for what in same] for name, one in after.items()} == {
        name: [one[what] for what in same] for name, one in before.items()
    }
    assert {one["origin"] for one in after.values()} == {"import"}


def test_what_others_say_at_the_top_is_kept_and_written_again(run: Run, tmp_path: Path) -> None:
    for name, text in (
        ("tables/orders.md", ORDERS),
        ("people/customers.md", "---\ntype: Note\nstatus: deprecated\n---\nCustomers have a number"),
        ("index.md", '---\nokf_version: "0.2"\n---\n# All\n\n* [Orders](tables/orders.md)'),
        ("broken.md", "---\ntitle: no type\n---\ntext"),
        ("bomb.md", "---\ntype: &a [x]\nb: [*a, *a]\n---\ntext"),
    ):
        (tmp_path / "shop" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "shop" / name).write_text(text)
    taken = run("import", str(tmp_path / "shop"), "--json").json
    assert (taken["stored"], taken["links"]) == (2, 1)
    assert sorted(Path(one["path"]).name for one in taken["problems"]) == ["bomb.md", "broken.md"]
    [orders] = run("list", "--json").json["memories"]
    assert (orders["title"], orders["tags"], orders["confidence"]) == ("Orders", ["sales", "orders"], 0.7)
    assert orders["created_at"].startswith("2026-05-28T14:30:00")
    run("export", str(tmp_path / "out"), "--layout", "okf")
    told = tops(tmp_path / "out")["tables/orders.md"]
    assert (told["type"], told["owner_team"]) == ("BigQuery Table", "depot")
    assert told["sources"] == [{"resource": "https://wiki.example/orders", "usage_count": 7}]
    assert told["generated"] == {"by": "human:ann", "at": "2026-05-28T14:30:00+00:00"}


def test_a_path_of_a_bundle_leads_nowhere_else(tmp_path: Path, run: Run) -> None:
    with SyncMemoryRouter.open(tmp_path / "home", False, project="app") as memory:
        for path in ("../../up.md", "/etc/up.md", "a/../../up.md", "index.md", "x\x00.md"):
            memory.store("Parcels go up", metadata={"okf": {"path": path}})
    run(
        "export",
        str(tmp_path / "deep" / "er" / "out"),
        "--layout",
        "okf",
        "--home",
        str(tmp_path / "home"),
        "--project",
        "app",
    )
    written = [path.relative_to(tmp_path / "deep" / "er" / "out").parts for path in tmp_path.rglob("*.md")]
    assert sorted(one[:-1] for one in written) == [(), (), *[("semantic",)] * 5]
