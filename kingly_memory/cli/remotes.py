"""The verbs about the remotes that a home knows."""

from __future__ import annotations

from argparse import Namespace

from kingly_memory.cli.output import Output, counted, table
from kingly_memory.cli.place import place_of, reading, routing


def remotes_list(options: Namespace, out: Output) -> int:
    with reading(place_of(options, out), out) as reader:
        known = reader.remotes()
    rows = [
        (
            one.label or "-",
            "yes" if one.in_use else "no",
            f"{one.delivered:,}",
            f"{one.waiting:,}",
            f"{one.dead:,}",
            one.endpoint,
        )
        for one in known
    ]
    heads = ("NAME", "IN USE", "DELIVERED", "WAITING", "DEAD", "ADDRESS")
    lines = table(rows, heads, is_whole=True) if rows else ["no remote is known; name one with --remote"]
    out.show({"remotes": [one.to_json() for one in known]}, lines)
    return 0


def remotes_forget(options: Namespace, out: Output) -> int:
    with routing(place_of(options, out), out) as router:
        gone = router.forget_remote(options.address)
    told = [
        f"{gone.endpoint} is forgotten; {counted(gone.waiting, 'memory')} waited for it; all stay on this machine",
        *([f"  it keeps the {counted(gone.delivered, 'memory')} that it has got"] if gone.delivered else []),
        "  named again, it is sent everything above 0.3 again",
    ]
    out.show({"forgotten": gone.to_json()}, told)
    return 0
