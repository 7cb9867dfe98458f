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
from kingly_memory.page.html import Child, Html, el
from kingly_memory.page.view import PageRequest, View, facts, section, select

_FILES = {"backup", "list"}
"""What writes a file of this machine has no form, and `list` changes nothing."""
UNDO_SWEEP = Verb("undo_sweep", None, None, "", "Take back the last sweep", "Bring back what it archived.", tuple)
TRUST = Verb("trust", None, None, "", "Trust this home", "Hooks recall what it holds from now on.", tuple)
"""Done by the page itself: it is about the home, and not about a memory."""
OFFERED: Mapping[str, Verb] = {
    UNDO_SWEEP.calls: UNDO_SWEEP,
    **{
        verb.calls: verb
        for verb in VERBS
        if verb.command
        and verb.reads is not True
        and not re.search(r":|^documents\.", verb.calls)
        and verb.calls not in _FILES
    },
}
"""Every verb that changes something, by what it calls. What a browser sends for another one is refused."""
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
    request: PageRequest,
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
    hidden = {"seal": request.seal, "in": request.here, "back": back or request.itself, **(fixed or {})}
    stem = f"{calls}-{'-'.join(str(value)[-12:] for value in (fixed or {}).values())}"
    return el(
        "form",
        (
            el("input", type="hidden", name=name, value=value)
            for name, values in hidden.items()
            for value in ([values] if isinstance(values, str) else values)
        ),
        (_field(known[name], (given or {}).get(name), f"{stem}-{name}") for name in fields),
        el("p", buttons or el("button", button or title(verb), class_="danger" if calls == "purge" else None)),
        method="post",
        action=f"/do/{calls}",
        class_="fields" if fields else "one",
    )


def title(verb: Verb) -> str:
    return verb.title if verb.title[:1].isupper() else verb.says.split(".")[0].split(":")[0]


def _field(parameter: Parameter, given: Any, name: str) -> Html:
    arg, kind = parameter.arg, parameter.type
    shown = "" if given is None else given
    if kind == "texts" and not isinstance(shown, str):
        shown = (", " if arg.metavar in _LISTED else "\n").join(shown)
    elif kind == "object" and given is not None and not isinstance(given, str):
        shown = json.dumps(given, ensure_ascii=False, indent=1)
    words = f"{(arg.command_words or arg.words).capitalize()}" + (
        "; with commas between" if arg.metavar in _LISTED else ""
    )
    attributes: dict[str, str] = {"id": name, "name": parameter.name, "aria_describedby": f"{name}-says"}
    if kind == "flag":
        field = el("input", type="checkbox", value="true", checked=shown is True or shown == "true", **attributes)
    elif arg.choices and kind == "text":
        unsaid = {} if parameter.default is NOT_GIVEN else {"": "—"}
        options = {**unsaid, **{each: each for each in arg.choices}}
        field = select(options=options, chosen=str(shown), **attributes)
    elif kind in ("number", "integer"):
        step = "1" if kind == "integer" else "any"
        field = el("input", type="number", min=arg.least, max=arg.most, step=step, value=str(shown), **attributes)
    elif kind == "object" or parameter.name == "content" or (kind == "texts" and arg.metavar not in _LISTED):
        rows = str(min(max(str(shown).count("\n") + 2, 4), 24))
        field = el("textarea", str(shown), rows=rows, dir="auto", spellcheck="true", **attributes)
    else:
        field = el("input", type="text", value=str(shown), dir="auto", **attributes)
    label = el("label", parameter.name.replace("_", " "), for_=name)
    return el("div", label, field, el("small", words, id=f"{name}-says"), class_="field")


def read(verb: Verb, posted: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What a form says of the verb's parameters. Raises InvalidInput."""
    values = {
        parameter.name: _read(parameter, posted[parameter.name])
        for parameter in verb.parameters
        if parameter.name in posted
    }
    for parameter in verb.parameters:
        if parameter.default is NOT_GIVEN and values.get(parameter.name) is None:
            raise InvalidInput(parameter.name, f"is missing; say {parameter.arg.words}")
    return values


def _read(parameter: Parameter, texts: Sequence[str]) -> Any:
    text = texts[0]
    if parameter.type == "texts":
        cut = r"[\n,]" if parameter.arg.metavar in _LISTED else r"\n"
        return [part.strip() for each in texts for part in re.split(cut, each) if part.strip()]
    if parameter.type == "flag":
        return text == "true"
    if not text.strip():
        return None
    try:
        if parameter.type in ("number", "integer"):
            return (int if parameter.type == "integer" else float)(text)
        return json.loads(text) if parameter.type == "object" else text.replace("\r\n", "\n")
    except (ValueError, RecursionError):
        kind = "JSON object" if parameter.type == "object" else "number"
        raise InvalidInput(parameter.name, f"{text[:40]!r} is no {kind}") from None


async def do(request: PageRequest, verb: Verb, posted: Mapping[str, Sequence[str]]) -> str | View:
    """Do it, and say what was done; or show what it would do and ask. What cannot be done is said above the same form,
    which still holds what was typed."""
    try:
        arguments = read(verb, posted)
        if verb.calls == "update":
            arguments = _changed(arguments, (await request.memory.history(arguments["key_or_id"]))[:1])
        if verb.has_author:
            arguments["origin"] = "user" if request.memory.agent is None else "agent"
        asks_first = any(parameter.name == "dry_run" for parameter in verb.parameters) and "sure" not in posted
        arguments = {name: value for name, value in arguments.items() if value != [] or verb.calls == "update"}
        result = verb.found(
            await verb.call(request.memory, {**arguments, "dry_run": True} if asks_first else arguments), arguments
        )
    except KinglyMemoryError as error:
        return View(title(verb), _again(request, verb, posted, str(error)), 400)
    if asks_first:
        return View(title(verb), _sure(request, verb, posted, result))
    message = str(getattr(result, "message", "")) or _DONE.get(verb.calls)
    if message:
        return message
    back = el("p", el("a", "Go on", href=own(_first(posted, "back"))))
    return View(title(verb), el("div", el("h1", f"Done: {title(verb)}"), facts(result), back))


_HELD = ("content", "type", "significance", "confidence", "tags", "title", "metadata")


def _changed(arguments: Mapping[str, Any], now: Sequence[Memory]) -> dict[str, Any]:
    """Without what the form only repeats, as a browser repeats a text: an edit of the tags must not touch it."""
    held = {name: getattr(memory, name) for memory in now for name in _HELD}
    if held:
        text = re.sub(r"\r\n?", "\n", held["content"]).replace("\0", "\N{REPLACEMENT CHARACTER}")
        held |= {"content": text, "tags": [*held["tags"]]}
    return {name: value for name, value in arguments.items() if name not in held or value != held[name]}


def _kept(verb: Verb, posted: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    names = {one.name for one in verb.parameters}
    return {name: values for name, values in posted.items() if name in names}


def _again(request: PageRequest, verb: Verb, posted: Mapping[str, Sequence[str]], problem: str) -> Html:
    kept, back = _kept(verb, posted), _first(posted, "back")
    given = {name: "\n".join(values) if len(values) > 1 else values[0] for name, values in kept.items()}
    alert = el("p", "That was not done: ", problem, role="alert", class_="alert")
    return _not_done(verb, back, alert, form(request, verb.calls, [*kept], given=given, button="Try again", back=back))


def _sure(request: PageRequest, verb: Verb, posted: Mapping[str, Sequence[str]], result: Any) -> Html:
    back, fixed = _first(posted, "back"), {**_kept(verb, posted), "sure": "yes"}
    would = section("This would be done", facts(result))
    return _not_done(
        verb, back, el("p", verb.says), would, form(request, verb.calls, fixed=fixed, button="Do it", back=back)
    )


def _not_done(verb: Verb, back: str, *body: Child) -> Html:
    """Something that was not done yet, with the way back."""
    leave = el("p", el("a", "Back, and leave it as it is", href=own(back)))
    return el("div", el("h1", title(verb)), body, leave)


def own(address: str) -> str:
    """An address of this page, whatever a form said."""
    return address if re.match(r"/(?![/\\])[^\x00-\x20\x7f\\]*$", address) else "/"


def _first(posted: Mapping[str, Iterable[str]], name: str) -> str:
    return next(iter(posted.get(name, ())), "")
