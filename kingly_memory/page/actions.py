"""What can be done on the page: the verbs of the API, whose forms and whose reading of them follow from what `declare`
says of each parameter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kingly_memory.api.declared import VERBS
from kingly_memory.declare import NOT_GIVEN, Parameter, Verb
from kingly_memory.errors import InvalidInput, KinglyMemoryError
from kingly_memory.models import Memory
from kingly_memory.page.asked import Asked, View, facts, section
from kingly_memory.page.html import Child, Html, el

_FILES = {"backup", "list"}
"""What writes a file of this machine has no form, and `list` changes nothing."""
UNDO_SWEEP = Verb("undo_sweep", None, None, "", "Take back the last sweep", "Bring back what it archived.", tuple)
TRUST = Verb("trust", None, None, "", "Trust this home", "Hooks recall what it holds from now on.", tuple)
"""Done by the page itself: it is about the home, and not about a memory."""
OFFERED: Mapping[str, Verb] = {
    UNDO_SWEEP.calls: UNDO_SWEEP,
    **{
        one.calls: one
        for one in VERBS
        if one.command
        and one.reads is not True
        and not re.search(r":|^documents\.", one.calls)
        and one.calls not in _FILES
    },
}
"""Every verb that changes something, by what it calls. What a browser sends for another one is refused."""
_OF_AN_AUTHOR = ("store", "update", "attention.pin")
_LISTED = ("TAG", "TOPIC", "POLICY")
"""Several of these stand on one line with commas, of all else one a line."""
_DONE = {
    "forget": "Forgotten, here and on remotes as they answer.",
    "restore": "It is back.",
    "store": "Stored.",
    "update": "Changed; its history has what it said before.",
    "archive": "Put into the archive.",
    "reinforce": "Held: its lifetime begins anew.",
    "link_memories": "Linked.",
}


def form(
    asked: Asked,
    calls: str,
    fields: Sequence[str] = (),
    *,
    button: str | None = None,
    given: Mapping[str, Any] | None = None,
    fixed: Mapping[str, str | Sequence[str]] | None = None,
    back: str | None = None,
    buttons: Child = None,
) -> Html:
    """The form of a verb: those `fields` of its parameters, holding what is `given`; `fixed` ones are out of sight."""
    verb = TRUST if calls == TRUST.calls else OFFERED[calls]
    known = {one.name: one for one in verb.parameters}
    hidden = {"seal": asked.seal, "in": asked.here, "back": back or asked.itself, **(fixed or {})}
    stem = f"{calls}-{'-'.join(str(one)[-12:] for one in (fixed or {}).values())}"
    return el(
        "form",
        (
            el("input", type="hidden", name=name, value=one)
            for name, said in hidden.items()
            for one in ([said] if isinstance(said, str) else said)
        ),
        (_field(known[name], (given or {}).get(name), f"{stem}-{name}") for name in fields),
        el("p", buttons or el("button", button or title(verb), class_="danger" if calls == "purge" else None)),
        method="post",
        action=f"/do/{calls}",
        class_="fields" if fields else "one",
    )


def title(verb: Verb) -> str:
    return verb.title if verb.title[:1].isupper() else verb.says.split(".")[0].split(":")[0]


def _field(one: Parameter, given: Any, name: str) -> Html:
    arg, kind = one.arg, one.type
    shown = "" if given is None else given
    if kind == "texts" and not isinstance(shown, str):
        shown = (", " if arg.metavar in _LISTED else "\n").join(shown)
    elif kind == "object" and given is not None and not isinstance(given, str):
        shown = json.dumps(given, ensure_ascii=False, indent=1)
    words = f"{(arg.command_words or arg.words).capitalize()}" + (
        "; with commas between" if arg.metavar in _LISTED else ""
    )
    said = {"id": name, "name": one.name, "aria_describedby": f"{name}-says"}
    if kind == "flag":
        field = el("input", type="checkbox", value="true", checked=shown is True or shown == "true", **said)
    elif arg.choices and kind == "text":
        options = [el("option", each, value=each, selected=each == str(shown)) for each in arg.choices]
        field = el("select", el("option", "—", value="") if one.default is not NOT_GIVEN else None, options, **said)
    elif kind in ("number", "integer"):
        step = "1" if kind == "integer" else "any"
        field = el("input", type="number", min=arg.least, max=arg.most, step=step, value=str(shown), **said)
    elif kind == "object" or one.name == "content" or (kind == "texts" and arg.metavar not in _LISTED):
        rows = str(min(max(str(shown).count("\n") + 2, 4), 24))
        field = el("textarea", str(shown), rows=rows, dir="auto", spellcheck="true", **said)
    else:
        field = el("input", type="text", value=str(shown), dir="auto", **said)
    label = el("label", one.name.replace("_", " "), for_=name)
    return el("div", label, field, el("small", words, id=f"{name}-says"), class_="field")


def read(verb: Verb, posted: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What a form says of the verb's parameters. Raises InvalidInput."""
    said = {one.name: _read(one, posted[one.name]) for one in verb.parameters if one.name in posted}
    for one in verb.parameters:
        if one.default is NOT_GIVEN and said.get(one.name) is None:
            raise InvalidInput(one.name, f"is missing; say {one.arg.words}")
    return said


def _read(one: Parameter, said: Sequence[str]) -> Any:
    text = said[0]
    if one.type == "texts":
        cut = r"[\n,]" if one.arg.metavar in _LISTED else r"\n"
        return [part.strip() for each in said for part in re.split(cut, each) if part.strip()]
    if one.type == "flag":
        return text == "true"
    if not text.strip():
        return None
    try:
        if one.type in ("number", "integer"):
            return (int if one.type == "integer" else float)(text)
        return json.loads(text) if one.type == "object" else text.replace("\r\n", "\n")
    except (ValueError, RecursionError):
        kind = "JSON object" if one.type == "object" else "number"
        raise InvalidInput(one.name, f"{text[:40]!r} is no {kind}") from None


async def do(asked: Asked, verb: Verb, posted: Mapping[str, Sequence[str]]) -> str | View:
    """Do it, and say what was done; or show what it would do and ask. What cannot be done is said above the same form,
    which still holds what was typed."""
    try:
        said = read(verb, posted)
        if verb.calls == "update":
            said = _changed(said, (await asked.memory.history(said["key_or_id"]))[:1])
        if verb.calls in _OF_AN_AUTHOR:
            said["origin"] = "user" if asked.memory.agent is None else "agent"
        asks_first = any(one.name == "dry_run" for one in verb.parameters) and "sure" not in posted
        said = {name: value for name, value in said.items() if value != [] or verb.calls == "update"}
        result = verb.found(await verb.call(asked.memory, {**said, "dry_run": True} if asks_first else said), said)
    except KinglyMemoryError as error:
        return View(title(verb), _again(asked, verb, posted, str(error)), 400)
    if asks_first:
        return View(title(verb), _sure(asked, verb, posted, result))
    told = str(getattr(result, "message", "")) or _DONE.get(verb.calls)
    if told:
        return told
    back = el("p", el("a", "Go on", href=own(_first(posted, "back"))))
    return View(title(verb), el("div", el("h1", f"Done: {title(verb)}"), facts(result), back))


_HELD = ("content", "type", "significance", "confidence", "tags", "title", "metadata")


def _changed(said: Mapping[str, Any], now: Sequence[Memory]) -> dict[str, Any]:
    """Without what the form only repeats, as a browser repeats a text: an edit of the tags must not touch it."""
    held = {name: getattr(one, name) for one in now for name in _HELD}
    if held:
        text = re.sub(r"\r\n?", "\n", held["content"]).replace("\0", "\N{REPLACEMENT CHARACTER}")
        held |= {"content": text, "tags": [*held["tags"]]}
    return {name: value for name, value in said.items() if name not in held or value != held[name]}


def _kept(verb: Verb, posted: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    names = {one.name for one in verb.parameters}
    return {name: said for name, said in posted.items() if name in names}


def _again(asked: Asked, verb: Verb, posted: Mapping[str, Sequence[str]], problem: str) -> Html:
    kept, back = _kept(verb, posted), _first(posted, "back")
    given = {name: "\n".join(said) if len(said) > 1 else said[0] for name, said in kept.items()}
    said = el("p", "That was not done: ", problem, role="alert", class_="alert")
    return _asking(verb, back, said, form(asked, verb.calls, [*kept], given=given, button="Try again", back=back))


def _sure(asked: Asked, verb: Verb, posted: Mapping[str, Sequence[str]], result: Any) -> Html:
    back, fixed = _first(posted, "back"), {**_kept(verb, posted), "sure": "yes"}
    would = section("This would be done", facts(result))
    return _asking(
        verb, back, el("p", verb.says), would, form(asked, verb.calls, fixed=fixed, button="Do it", back=back)
    )


def _asking(verb: Verb, back: str, *body: Child) -> Html:
    """Something that was not done yet, with the way back."""
    leave = el("p", el("a", "Back, and leave it as it is", href=own(back)))
    return el("div", el("h1", title(verb)), body, leave)


def own(address: str) -> str:
    """An address of this page, whatever a form said."""
    return address if re.match(r"/(?![/\\])[^\x00-\x20\x7f\\]*$", address) else "/"


def _first(posted: Mapping[str, Iterable[str]], name: str) -> str:
    return next(iter(posted.get(name, ())), "")
