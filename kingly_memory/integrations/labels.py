"""Names that a framework gives, as labels of the room of documents, and back."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from kingly_memory.errors import InvalidInput

_NO_LABEL = re.compile("[%\x00-\x1f\x7f\ud800-\udfff]")
_EMPTY = "%"


def as_label(field: str, name: object) -> str:
    """The name itself; what no label may hold is spelled as in web addresses, a line break as `%0A`. No two names
    become one label. Raises InvalidInput, which names the field."""
    if not isinstance(name, str):
        raise InvalidInput(field, f"expected text, not {type(name).__name__}")
    if not name.strip():
        return quote(name, safe="") or _EMPTY
    return _NO_LABEL.sub(lambda found: quote(found[0], safe="", errors="surrogatepass"), name)


def as_name(label: str) -> str:
    """The name that became this label."""
    if _EMPTY not in label:
        return label
    return "" if label == _EMPTY else unquote(label, errors="surrogatepass")
