"""How one memory is doing, in lines for a person: its strength, its uses, its tier, why it is in the archive."""

from __future__ import annotations

from datetime import datetime

from kingly_memory.cli.output import counted, duration, facts
from kingly_memory.models import JsonObject


def explanation(told: JsonObject) -> list[str]:
    """What becomes of a memory and why, a fact a line: below `get --explain`."""
    tier, uses, archived = told["tier"], told["uses"], told["archived"]
    used = f", the last {_day(uses['last_used'])}" if uses["accesses"] and uses["last_used"] else ""
    rows = {
        "standing": f"{told['standing']}{', protected from sweeps' if told['protected'] else ''}",
        "strength": strength_line(told["strength"]),
        "uses": f"{uses['accesses']:,}{used}",
        "ends": None if archived else end_line(told["ends_at"], told["lifetime_s"]),
        "tier": f"{tier['name']}: importance {tier['importance']:.2f}, surprise {tier['surprise']:.2f}, "
        f"{counted(tier['successes'], 'success', 'successes')}",
        "archived": None if archived is None else f"by {archived['policy']}: {archived['reason']}",
    }
    remotes = [("remote", _at_remote(one)) for one in told["remotes"]]
    return facts([*((name, text) for name, text in rows.items() if text is not None), *remotes])


def _at_remote(one: JsonObject) -> str:
    called = f", which calls it {one['remote_id']}" if one["remote_id"] else ""
    return f"{one['delivery'].replace('_', ' ')}, {one['endpoint']}{called}"


def strength_line(told: JsonObject) -> str:
    days = told["days_until_forgettable"]
    until = "never forgettable" if days is None else f"forgettable in {days:,.0f} days" if days else "idle for long"
    uses = f"{counted(int(told['accesses']), 'use')}, {counted(told['reinforcements'], 'reinforcement')}"
    return f"{told['strength']:.2f} ({told['state']}; {uses}; idle {told['idle_days']:,.0f} days; {until})"


def end_line(ends_at: str | None, lifetime_s: float | None) -> str:
    """When a memory ends."""
    if ends_at is None:
        return "never"
    told = datetime.fromisoformat(ends_at).isoformat(timespec="seconds")
    return told if lifetime_s is None else f"{told} ({duration(lifetime_s)} after its last use)"


def _day(moment: str) -> str:
    return datetime.fromisoformat(moment).strftime("%Y-%m-%d")
