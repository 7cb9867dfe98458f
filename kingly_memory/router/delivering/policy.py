"""The setting `remote_policy` as a policy: `first`, `all`, or rules, of which the first that fits a memory decides.

tag:private=home, project:work=team, procedural=team+home, tag:secret=none, *=all
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kingly_memory.errors import InvalidSetting
from kingly_memory.models import KINDS, Memory, MemoryType
from kingly_memory.router.delivering.routes import EVERYTHING, NOTHING, UNNAMED, Policy, ToFirst

log = logging.getLogger("kingly_memory.router")

FIRST, ALL, NONE, ANY = "first", "all", "none", "*"
_TYPES = {**{kind.value: kind for kind in MemoryType}, **KINDS}
_FIELDS = ("tag", "project", "agent")


class Rule(NamedTuple):
    """Memories with that `value` in that `field` (`type`, `tag`, `project` or `agent`; `*` for all) go there."""

    field: str
    value: str
    remotes: frozenset[str]

    def fits(self, memory: Memory) -> bool:
        if self.field == "tag":
            return self.value in memory.tags
        if self.field == "type":
            return self.value == memory.type.value
        if self.field == "project":
            return self.value == memory.scope.project
        return self.field == ANY or self.value == memory.scope.agent

    def __str__(self) -> str:
        what = {ANY: ANY, "type": self.value}.get(self.field, f"{self.field}:{self.value}")
        return f"{what}={'+'.join(sorted(self.remotes)) or NONE}"


@dataclass(frozen=True, slots=True)
class Rules:
    """The first rule that fits decides; what none fits stays on this machine."""

    rules: tuple[Rule, ...]

    @property
    def named(self) -> frozenset[str]:
        """Every remote that some memories may go to."""
        return frozenset().union(*(rule.remotes for rule in self.rules))

    def remotes_for(self, memory: Memory) -> frozenset[str]:
        return next((rule.remotes for rule in self.rules if rule.fits(memory)), frozenset())

    def about(self, label: str) -> str:
        """The rules as far as they matter for it."""
        told = [rule._replace(remotes=rule.remotes & {label}) for rule in self.rules]
        if not any(rule.remotes for rule in told):
            return NOTHING
        if told[0].field == ANY:
            return EVERYTHING
        return ", ".join(map(str, told))


def policy(text: str, labels: Sequence[str]) -> Policy:
    """What the setting says for remotes of those names, in the order in which they were named. Raises InvalidSetting.

    A rule may name remotes that are not in use: to those, nothing is sent.
    """
    found = read(text, labels)
    unknown = sorted(found.named - set(labels)) if isinstance(found, Rules) else []
    if unknown:
        known = "the one there is has no name" if list(labels) == [UNNAMED] else f"there is {', '.join(labels)}"
        log.warning("remote_policy names %s, and no remote is called so (%s)", ", ".join(unknown), known)
    return found


def read(text: str, labels: Sequence[str]) -> Rules | ToFirst:
    """See `policy`, which also warns of remotes that are not in use."""
    said = text.strip()
    if said in ("", FIRST):
        return ToFirst(labels[0])
    if said == ALL:
        return Rules((Rule(ANY, ANY, frozenset(labels)),))
    given = [_rule(part.strip(), labels) for part in said.split(",") if part.strip()]
    return Rules(_that_matter(given))


def _that_matter(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """All up to the one that fits everything."""
    found: list[Rule] = []
    for rule in rules:
        found.append(rule)
        if rule.field == ANY:
            break
    return tuple(found)


def _rule(part: str, labels: Sequence[str]) -> Rule:
    what, equals, where = (one.strip() for one in part.rpartition("="))
    if not equals or not what or not where:
        raise InvalidSetting(
            "remote_policy", f"{part[:80]!r} is no rule; write first, all, or rules such as tag:private=home, *=team"
        )
    return Rule(*_condition(what), _remotes(where, labels))


def _condition(what: str) -> tuple[str, str]:
    if what == ANY:
        return ANY, ANY
    if what in _TYPES:
        return "type", _TYPES[what].value
    field, colon, value = what.partition(":")
    if not colon or field not in _FIELDS or not value.strip():
        raise InvalidSetting(
            "remote_policy",
            f"{what[:80]!r} is no type and no tag:, project: or agent: with a name; "
            f"choose {', '.join(MemoryType)}, one of those, or *",
        )
    return field, value.strip()


def _remotes(where: str, labels: Sequence[str]) -> frozenset[str]:
    if where == NONE:
        return frozenset()
    if where == ALL:
        return frozenset(labels)
    return frozenset(labels[0] if one.strip() == FIRST else one.strip() for one in where.split("+") if one.strip())
