"""Which remotes a router has, what people call them, and which memories go to which of them. Pure.

The setting `remote_policy` is `first`, `all`, or a list of rules. The first rule that fits a memory decides:

    tag:private=home, project:work=team, procedural=team+home, tag:secret=none, *=all
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kingly_memory.dataclass import dataclass
from kingly_memory.errors import InvalidSetting
from kingly_memory.models import KINDS, REMOTE_ABOVE, Memory, MemoryType, RemoteUse

UNNAMED = "remote"
"""The label of a single remote that was given without a name."""

EVERYTHING, NOTHING = "*", ""
"""What `Policy.about` answers for a remote that gets all memories above 0.3, and for one that gets none."""

_TYPES = {**{one.value: one for one in MemoryType}, **KINDS}


def called(label: str) -> str:
    """What a sentence calls the remote."""
    return "the remote" if label == UNNAMED else f"the remote {label}"


class Rule(NamedTuple):
    """Memories with this `value` in this `field` (`type`, `tag`, `project`, `agent`, or `*` for all) go there."""

    field: str
    value: str
    remotes: frozenset[str]

    def fits(self, memory: Memory) -> bool:
        if self.field == "tag":
            return self.value in memory.tags
        own = {"type": memory.type.value, "project": memory.scope.project, "agent": memory.scope.agent}
        return self.field == "*" or own[self.field] == self.value

    def __str__(self) -> str:
        what = self.value if self.field in ("*", "type") else f"{self.field}:{self.value}"
        return f"{what}={'+'.join(sorted(self.remotes)) or 'none'}"


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules in their order. A memory that no rule fits stays on this machine, and so does significance 0.3 or less."""

    rules: tuple[Rule, ...] = (Rule("*", "*", frozenset((UNNAMED,))),)

    @property
    def named(self) -> frozenset[str]:
        """Every remote that a rule names, in use or not."""
        return frozenset().union(*(rule.remotes for rule in self.rules))

    def remotes_for(self, memory: Memory) -> frozenset[str]:
        """The labels of the remotes that the memory is for."""
        return next((rule.remotes for rule in self.rules if rule.fits(memory)), frozenset())

    def about(self, label: str) -> str:
        """The rules as far as they concern one remote. The text changes when the answers for this remote may change."""
        rules = [rule._replace(remotes=rule.remotes & {label}) for rule in self.rules]
        if not any(rule.remotes for rule in rules):
            return NOTHING
        return EVERYTHING if rules[0].field == "*" else ", ".join(map(str, rules))


def policy(text: str, labels: Sequence[str]) -> Policy:
    """Read the setting, for remotes of these labels in the order in which they were named. Raises InvalidSetting.

    A rule may name a remote that is not in use: nothing is sent there (see `Policy.named`).
    """
    text = text.strip()
    if text in ("", "first", "all"):
        return Policy((Rule("*", "*", frozenset(labels if text == "all" else labels[:1])),))
    rules: list[Rule] = []
    for part in filter(None, map(str.strip, text.split(","))):
        rule = _rule(part, labels)
        if not any(one.field == "*" for one in rules):  # nothing gets past a rule for all
            rules.append(rule)
    return Policy(tuple(rules))


def _rule(part: str, labels: Sequence[str]) -> Rule:
    what, _, where = (one.strip() for one in part.rpartition("="))
    if not what or not where:
        example = "write first, all, or rules such as tag:private=home, *=team"
        raise InvalidSetting("remote_policy", f"{part[:80]!r} is no rule; {example}")
    special = {"none": frozenset[str](), "all": frozenset(labels)}
    names = (labels[0] if one.strip() == "first" else one.strip() for one in where.split("+") if one.strip())
    remotes = special[where] if where in special else frozenset(names)
    field, _, value = what.partition(":")
    if what == "*":
        return Rule("*", "*", remotes)
    if what in _TYPES:
        return Rule("type", _TYPES[what].value, remotes)
    if field in ("tag", "project", "agent") and value.strip():
        return Rule(field, value.strip(), remotes)
    raise InvalidSetting(
        "remote_policy",
        f"{what[:80]!r} is no type and no tag:, project: or agent: with a name; "
        f"choose {', '.join(MemoryType)}, one of those, or *",
    )


class Route(NamedTuple):
    """A remote: the stable `name` that the store knows it by, and the `label` that people gave it. `token_mark` tells
    one token from another without saying what it is."""

    name: str
    label: str
    endpoint: str
    token_mark: str = ""

    @property
    def link(self) -> str:
        """The row of the link. It is kept per token, so one bad token does not block processes with a good one."""
        return f"{self.name}:{self.token_mark}" if self.token_mark else self.name


@dataclass(frozen=True, slots=True)
class Routes:
    """The remotes in the order in which they were named, the policy, and what is done with them.

    `earlier` says that memories which a project had before it was enrolled at a remote are delivered too.
    """

    known: tuple[Route, ...]
    policy: Policy = Policy()
    use: RemoteUse = RemoteUse.ENROL
    earlier: bool = False

    @property
    def is_plain(self) -> bool:
        """One remote without a name: nothing is said of names then."""
        return [route.label for route in self.known] == [UNNAMED]

    def named(self, name: str) -> Route | None:
        return next((route for route in self.known if route.name == name), None)

    def labelled(self, label: str) -> Route | None:
        return next((route for route in self.known if route.label == label), None)

    def of(self, memory: Memory) -> tuple[Route, ...]:
        """The remotes that the memory is sent to."""
        if memory.significance <= REMOTE_ABOVE:
            return ()
        labels = self.policy.remotes_for(memory)
        return tuple(route for route in self.known if route.label in labels)

    def is_for(self, name: str, memory: Memory) -> bool:
        """Whether the policy names this remote for the memory, whatever its significance. True for a remote that is not
        in use here: the process that delivers there has its own policy."""
        route = self.named(name)
        return route is None or route.label in self.policy.remotes_for(memory)
