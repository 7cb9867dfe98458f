"""A process that writes shared documents and logs until it is done or killed, and says what was acknowledged.

`python -m tests.faults.keeper HOME URL NAME SEED COUNT`. Every line it prints is a list as JSON: `["try", verb, text]`
before a change is made, and `["done", what it answered]` after that.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from typing import Any

from kingly_memory import MemoryRouter
from tests.kill.writer import Order, settings_of

PROJECT = "kept"
TALK = "chats/all"
"""The log that everybody appends to and takes from."""


def say(*what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def keep(home: str, url: str, name: str, seed: int, count: int) -> None:
    chance = random.Random(seed)
    async with MemoryRouter.open(home, url, project=PROJECT, settings=settings_of(Order(home, url, seed))) as memory:
        await memory.documents.share("")
        for number in range(count):
            verb = chance.choice(("append", "append", "pop", "put", "put", "delete"))
            key, text = f"k{chance.randrange(4)}", f"{name} {seed} {number}"
            say("try", verb, key if verb == "delete" else f"{key} {text}")
            done: Any = None
            if verb == "append":
                await memory.log(TALK).append([text, f"{text} more"])
            elif verb == "pop":
                done = await memory.log(TALK).pop()
            elif verb == "put":
                await memory.documents.put(name, key, text)
            else:
                await memory.documents.delete(name, key)
            say("done", done)
            if number % 8 == 7:  # else all is said before the first delivery has gone
                await memory.sync(timeout=20)


if __name__ == "__main__":
    _, where, hub, called, *numbers = sys.argv
    asyncio.run(keep(where, hub, called, int(numbers[0]), int(numbers[1])))
