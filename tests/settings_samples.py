"""Settings files that this user trusts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from kingly_memory.home.place import user_data_folder
from kingly_memory.home.trust import TrustList, digest, place


def trusted(path: Path) -> Path:
    """The file, once it is on this user's list with the contents that it has now."""
    known = TrustList.read(user_data_folder())
    known.path.parent.mkdir(parents=True, exist_ok=True)
    entries = {**known.entries, place(path): digest(path.read_bytes())}
    known.path.write_text(json.dumps({"trusted": entries}), encoding="utf-8")
    return path


def own(**env: str) -> Mapping[str, str]:
    """An environment in which this user's list is found, and nothing else is said but that."""
    return {"XDG_DATA_HOME": os.environ["XDG_DATA_HOME"], **env}
