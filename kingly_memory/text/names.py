"""How names are spelled: keys, tags, projects, users, agents and contexts."""

from __future__ import annotations

import re


def spelled(name: str) -> str:
    """The name in the one spelling in which it is stored and looked up. Files on macOS are called by letters and
    accents apart, where a keyboard types both as one (NFC); and what is no UTF-8 in the name of a folder is U+FFFD."""
    if not isinstance(name, str) or name.isascii():  # type: ignore[redundant-expr]  # no text is refused elsewhere
        return name
    from unicodedata import normalize

    return normalize("NFC", re.sub("[\ud800-\udfff]", "\ufffd", name))
