"""What a page for the hub's operator is made of."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kingly_memory.hub.access import Gate
from kingly_memory.hub.homes import Homes
from kingly_memory.hub.storing import HubStore
from kingly_memory.hub.traffic import Traffic


class Overseen(NamedTuple):
    """A running hub. `home` is its folder, and `where` says where its memories lie, without a password."""

    store: HubStore
    where: str
    homes: Homes
    gate: Gate
    traffic: Traffic
    home: Path
    version: str
