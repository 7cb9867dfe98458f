"""HTML that is put together from elements. A text is escaped wherever it stands: `Html` is no text, and only this file
makes one, so that nobody can forget it."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

_VOID = frozenset("br hr img input link meta".split())
_ADDRESSES = frozenset("action href src".split())
_OWN = ("/", "#", "?")
"""How an address begins that leads to this server. No other one is ever written, whatever a memory says."""
_CONTROLS = dict.fromkeys((*range(32), 127), "\N{SYMBOL FOR SUBSTITUTE}")
_DIRECTIONS = (0x061C, 0x200B, *range(0x200E, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x206A), 0xFEFF)
_SEEN = {
    **{code: mark for code, mark in _CONTROLS.items() if chr(code) not in "\t\n\r"},
    **{code: f"[U+{code:04X}]" for code in _DIRECTIONS},
}
"""What a reader cannot see, or what turns the order of a line around, is named where it stands."""


class Html:
    """Markup in which every text is escaped. `str(…)` of it is for the answer alone."""

    __slots__ = ("_markup",)

    def __init__(self, markup: str, *, made_here: object) -> None:
        if made_here is not _HERE:
            raise TypeError("only `el` and `join` make Html")
        self._markup = markup

    def __str__(self) -> str:
        return self._markup


_HERE = object()
Child: TypeAlias = "Html | str | int | float | Iterable[Child] | None"


def el(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    """An element. An attribute that is None or False is left out, and `class_` is `class`. What a field of a form holds
    stays as it is, since it comes back. Raises ValueError for an address that leads elsewhere."""
    markup = ""
    for key, value in attributes.items():
        attribute = key.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if attribute.startswith("on") or attribute == "style":
            raise ValueError(f"{attribute} has no place in a page without inline script and style")
        text = "" if value is True else f"{value:.1f}" if isinstance(value, float) else str(value)
        if attribute in _ADDRESSES and (not text.startswith(_OWN) or text.startswith(("//", "/\\"))):
            raise ValueError(f"{attribute} leads to another server")
        markup += f' {attribute}="{escape(text)}"'
    if name in _VOID:
        return Html(f"<{name}{markup}>", made_here=_HERE)
    if name == "textarea":  # browsers drop the first line end behind the tag
        inner = "\n" + escape("".join(str(one) for one in children))
    else:
        inner = "".join(map(_inner, children))
    return Html(f"<{name}{markup}>{inner}</{name}>", made_here=_HERE)


def join(*children: Child) -> Html:
    return Html("".join(map(_inner, children)), made_here=_HERE)


def document(*children: Child) -> bytes:
    """A whole page."""
    return f"<!doctype html>{el('html', *children, lang='en')}".encode(errors="replace")


def _inner(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return str(child)
    if isinstance(child, str):
        return escape(child.translate(_SEEN), quote=False)
    if isinstance(child, int | float):
        return str(child)
    return "".join(map(_inner, child))
