"""What an agent is told of its memory before it decides (seed 001, §6.1 and §8.2), and what is kept of the agent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from kingly_memory.cognition.experience.cognitive import TOP_K, CognitiveMemory
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject

HEADING = "=== YOUR MEMORY ==="


def prompt_block(memory: CognitiveMemory, year: int, top_k: int = TOP_K) -> str:
    """The part of a prompt that says what the agent remembers in that year. Raises InvalidInput."""
    return f"{HEADING}\n{memory.format_for_prompt(year, top_k)}"


def prepare_context(state: Any, memory: CognitiveMemory, year: int, top_k: int = TOP_K) -> JsonObject:
    """What an agent decides on: `{state, retrieved_memories, year}`, the state as it was given. Raises InvalidInput."""
    return {"state": state, "retrieved_memories": memory.retrieve(top_k, year), "year": year}


def serialize_agent(state: Any, memory: CognitiveMemory) -> JsonObject:
    """An agent as JSON: its state (a dataclass or a mapping) and its memory, which `CognitiveMemory.restore` takes.
    Raises InvalidInput for a state that JSON cannot hold."""
    plain = asdict(state) if is_dataclass(state) and not isinstance(state, type) else state
    if not isinstance(plain, Mapping):
        raise InvalidInput("state", f"expected a dataclass or a mapping, not {type(state).__name__}")
    try:
        held = json.loads(json.dumps(dict(plain), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput("state", f"cannot be kept as JSON ({error})") from None
    return {"state": held, "memory": memory.serialize()}
