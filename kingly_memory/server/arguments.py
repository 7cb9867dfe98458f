"""The arguments that tools share: what a host's model reads of them, and what is accepted besides."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field

from kingly_memory.cognition.experience.items import LATEST_YEAR
from kingly_memory.intake import DETAILS, MOST_IN_A_MODE, MOST_TOKENS, MOST_VERIFIED, RESULTS_LIMIT
from kingly_memory.models import KINDS, MemoryType

BUDGET_TOKENS = 2_000
"""What a search may take of a host's context unless it is told: ten usual memories, whole."""
MOST_GOT = 20
LONGEST_WAIT_S = 60.0
"""A host gives up on a call about then."""


def number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("expected a number")
    return value


def _json(value: object) -> object:
    """Some hosts send lists and objects as JSON in a text."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _several(value: object) -> object:
    found = _json(value)
    return [found] if isinstance(found, str) else found


def _listed(value: object) -> object:
    """A text is one source, also where it begins like JSON; a list in a text is a list."""
    found = _json(value)
    return found if isinstance(found, list) else [value] if isinstance(value, str) else value


def _named(value: object) -> object:
    """Wrong ones are refused here: of two forms that are accepted, each would have something to say."""
    found = _json(value)
    several = found if isinstance(found, list) else [found]
    if not 1 <= len(several) <= MOST_GOT or not all(isinstance(one, str) for one in several):
        raise ValueError(f"expected a key or id, or a list of 1 to {MOST_GOT} of them")
    return found


def _text(value: object) -> object:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


Number = Annotated[float, BeforeValidator(number)]
Share = Annotated[float, Field(ge=0, le=1), BeforeValidator(number)]
Names = Annotated[list[str], BeforeValidator(_several)]
Texts = Annotated[list[str], BeforeValidator(_listed)]
Metadata = Annotated[dict[str, Any], BeforeValidator(_json)]
Text = Annotated[str, BeforeValidator(_text)]
"""Anything that is no text becomes JSON."""

_KINDS = [*MemoryType, *KINDS]
"""What a model is offered. The seed's other names are accepted too."""
MemoryKind = Annotated[
    str,
    Field(
        description="semantic: a fact; procedural: how something is done; episodic: what happened; working: only for "
        "this task",
        json_schema_extra={"enum": _KINDS},
    ),
]
MemoryKinds = Annotated[
    list[Annotated[str, Field(json_schema_extra={"enum": _KINDS})]],
    BeforeValidator(_several),
]
KeyOrId = Annotated[str, Field(description="Key or id of a memory")]
KeysOrIds = Annotated[
    str | Annotated[list[str], Field(min_length=1, max_length=MOST_GOT)],
    BeforeValidator(_named),
    Field(description=f"Key or id, or a list of up to {MOST_GOT}"),
]
BudgetTokens = Annotated[
    Annotated[int, Field(ge=1, le=MOST_TOKENS), BeforeValidator(number)],
    Field(description="Most tokens of the results, about"),
]
Detail = Annotated[
    str,
    Field(
        description="How much of each memory; titles cost least",
        json_schema_extra={"enum": [*DETAILS]},
    ),
]
ContextId = Annotated[str | None, Field(description="Conversation or task it belongs to; 'current': the last one")]
Significance = Annotated[Share, Field(description="How much it matters; 0.3 or less never leaves this machine")]
Tags = Annotated[Names | None, Field(description="Words to filter by")]
Limit = Annotated[int, Field(ge=1, le=RESULTS_LIMIT, description="How many at most"), BeforeValidator(number)]
TopK = Annotated[
    Annotated[int, Field(ge=1, le=MOST_IN_A_MODE), BeforeValidator(number)] | None,
    Field(description="How many at most; left out, as many as suit the mode"),
]
Most = Annotated[int, Field(ge=0, le=RESULTS_LIMIT), BeforeValidator(number)]
Year = Annotated[int, Field(ge=0, le=LATEST_YEAR), BeforeValidator(number)]
MostVerified = Annotated[
    int,
    Field(ge=1, le=MOST_VERIFIED, description="How many at most, all statuses together"),
    BeforeValidator(number),
]
Seconds = Annotated[float, Field(ge=0), BeforeValidator(number)]
Wait = Annotated[
    Annotated[float, Field(ge=0, le=LONGEST_WAIT_S), BeforeValidator(number)] | None,
    Field(description="Seconds to wait for the remote's acknowledgement"),
]
Task = Annotated[
    str,
    Field(
        description="What is to be done, in a sentence",
        validation_alias=AliasChoices("task_description", "taskDescription", "task"),
    ),
]
