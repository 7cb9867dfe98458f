"""Which remotes a router has, what they are called, and which of them a memory is for. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kingly_memory.models import REMOTE_ABOVE, Memory, RemoteUse

UNNAMED = "remote"
"""What the one remote is called that was given without a name."""


def called(label: str) -> str:
    """What a sentence calls the remote."""
    return "the remote" if label == UNNAMED else f"the remote {label}"


EVERYTHING, NOTHING = "*", ""
"""What a policy may say of a remote."""


class Route(NamedTuple):
    """A remote: its stable `name`, which the store knows it by, and the `label` that people gave it. `token_mark` tells
    the token that it is shown from others, and not what it is."""

    name: str
    label: str
    endpoint: str
    token_mark: str = ""

    @property
    def link(self) -> str:
        """Whose link it is: that of all who show the same token. One who shows a wrong one, or none, finds the door
        shut; to the others it is open."""
        return f"{self.name}:{self.token_mark}" if self.token_mark else self.name


class Policy(Protocol):
    """Which memories go to which remotes, by their labels. Whatever it says, 0.3 or less stays on this machine."""

    def remotes_for(self, memory: Memory) -> frozenset[str]:
        """The labels of the remotes the memory is for. Asked at every store: quick, and always the same answer."""
        ...

    def about(self, label: str) -> str:
        """A text that is another one when the answers for that remote may be others: NOTHING, EVERYTHING or rules."""
        ...


@dataclass(frozen=True, slots=True)
class ToFirst:
    """Everything goes to the remote that was named first."""

    first: str = UNNAMED

    def remotes_for(self, memory: Memory) -> frozenset[str]:
        return frozenset((self.first,))

    def about(self, label: str) -> str:
        return EVERYTHING if label == self.first else NOTHING


@dataclass(frozen=True, slots=True)
class Routes:
    """The remotes in the order in which they were named, the policy, and what is done with them."""

    known: tuple[Route, ...]
    policy: Policy = field(default_factory=ToFirst)
    use: RemoteUse = RemoteUse.ENROL
    earlier: bool = False
    """Whether a project that is enrolled also has its earlier memories delivered."""

    @property
    def is_plain(self) -> bool:
        """One remote without a name: everything is shown as if there could be no other."""
        return [route.label for route in self.known] == [UNNAMED]

    def named(self, name: str) -> Route | None:
        return next((route for route in self.known if route.name == name), None)

    def labelled(self, label: str) -> Route | None:
        return next((route for route in self.known if route.label == label), None)

    def of(self, memory: Memory) -> tuple[Route, ...]:
        """The remotes that the memory is for."""
        if memory.significance <= REMOTE_ABOVE:
            return ()
        wanted = self.policy.remotes_for(memory)
        return tuple(route for route in self.known if route.label in wanted)

    def is_for(self, name: str, memory: Memory) -> bool:
        """Whether the policy names that remote for the memory, whatever its significance. One that is not in use here
        is judged by whoever uses it."""
        route = self.named(name)
        return route is None or route.label in self.policy.remotes_for(memory)
