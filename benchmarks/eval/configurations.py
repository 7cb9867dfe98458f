"""Ways of searching that `eval` compares, as values: a new one is a new line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kingly_memory.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way of searching.

    `hub`: with a hub of its own as the remote. `settings` (fields of Settings) and `search` (keywords of
    `MemoryRouter.search`) differ from the user's while it is asked; `storing` are settings that already hold while the
    memories are stored. `repairs=False` reads without a router and leaves typing errors as they are. `layer` (local or
    remote) counts only what that layer found.
    """

    name: str
    hub: bool = False
    repairs: bool = True
    layer: str | None = None
    search: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    storing: Mapping[str, Any] = field(default_factory=dict)

    @property
    def stored_as(self) -> str:
        """Configurations with the same one can share what was stored."""
        return f"{'hub' if self.hub else 'local'} {sorted(self.storing.items())}"


CONFIGURATIONS = (
    Configuration("local"),
    Configuration("local-no-repair", repairs=False),
    Configuration("prefer", hub=True, search={"prefer_speed": True}),
    Configuration("hub", hub=True),
    Configuration("semantic", storing={"embedder": "wordllama"}),
    Configuration("minilm", storing={"embedder": "minilm"}),
    Configuration("vectors-alone", storing={"embedder": "wordllama"}, settings={"words_weight": 0.0}),
    *(Configuration(how, search={"assist": how}) for how in ("rewrite", "rerank", "both")),
    Configuration("hub-alone", hub=True, layer="remote", settings={"local_weight": 0.0}),
)

USUAL = ("local", "local-no-repair", "prefer", "hub")
"""What is compared when nothing is named; the others answer narrower questions and take their time."""


def chosen(names: Sequence[str] | None) -> tuple[Configuration, ...]:
    """The named configurations in the order given, each once; the usual ones when none is. Raises InvalidInput."""
    known = {one.name: one for one in CONFIGURATIONS}
    for name in names or ():
        if name not in known:
            raise InvalidInput("config", f"{name[:40]!r} is unknown; choose from {', '.join(known)}")
    return tuple(known[name] for name in dict.fromkeys(names or USUAL))
