"""Which remotes a router has and a project sends to, what people call them, and which memories go there."""

from __future__ import annotations

from typing import NamedTuple

from kingly_memory.dataclass import dataclass
from kingly_memory.models import REMOTE_ABOVE, JsonObject, Memory, RemoteUse
from kingly_memory.ports import Transaction

UNNAMED = "remote"
"""The label of a single remote that was given without a name."""


def called(label: str) -> str:
    """What a sentence calls the remote."""
    return "the remote" if label == UNNAMED else f"the remote {label}"


def added_to(transaction: Transaction, space: str) -> dict[str, JsonObject]:
    """What is known of each remote that this project sends to, in use now or not (`known_remotes`)."""
    found = {}
    for name in transaction.owners("remote"):
        facet = transaction.facet("remote", name)
        if facet is not None and space in facet["projects"]:
            found[name] = facet
    return found


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
    """The remotes in the order in which they were named, and what is done with them.

    `earlier` says that memories which a project had before a remote was added are delivered too.
    """

    known: tuple[Route, ...]
    use: RemoteUse = RemoteUse.ADD
    earlier: bool = False

    @property
    def is_plain(self) -> bool:
        """One remote without a name: nothing is said of names then."""
        return [route.label for route in self.known] == [UNNAMED]

    def of(self, memory: Memory) -> tuple[Route, ...]:
        """The remotes that the memory is sent to: all, or none where it is not significant."""
        return self.known if memory.significance > REMOTE_ABOVE else ()
