"""Saving the memory of one agent to a file, and loading it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from kingly_memory.adapters.files.atomic import replacing
from kingly_memory.adapters.files.reading import json_value, opened
from kingly_memory.cognition.agent_memory import CognitiveMemory, ExperienceRules
from kingly_memory.errors import InvalidInput

LARGEST_BYTES = 64 * 1_048_576
"""A file is read whole, so it may not be larger than this."""


def save_agent_memory(memory: CognitiveMemory, path: str | os.PathLike[str]) -> None:
    """Write all of a memory to a file of mode 0600, in the place of what was there: whoever reads it, whenever the
    process ends, finds the old file or the new one. Raises InvalidInput, and then leaves the old one."""
    target = Path(path)
    text = json.dumps(memory.serialize(), ensure_ascii=False, indent=1)
    if len(text.encode()) >= LARGEST_BYTES:
        raise InvalidInput("file", f"{target} would have more than the {LARGEST_BYTES:,} bytes that are read again")
    with replacing(target) as file:
        file.write(text + "\n")


def load_agent_memory(
    path: str | os.PathLike[str],
    *,
    rules: ExperienceRules | None = None,
    now: Callable[[], datetime] | None = None,
) -> CognitiveMemory:
    """The memory that `save_agent_memory` wrote, under its own rules unless said. Raises InvalidInput for others."""
    source = Path(path)
    with opened(source) as file:
        content = file.read(LARGEST_BYTES + 1)
    if len(content) > LARGEST_BYTES:
        raise InvalidInput("file", f"{source} has more than the {LARGEST_BYTES:,} bytes that are read")
    try:
        return CognitiveMemory.restore(json_value(content), rules=rules, now=now)
    except InvalidInput as error:
        raise InvalidInput("file", f"{source} cannot be used: {error}") from None
