"""What the page about a hub says, to each viewer of the projects that they may read: figures and names, and nothing of
what memories say."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote

from kingly_memory.errors import StoreError
from kingly_memory.hub.documents import documents_of
from kingly_memory.hub.grants import ANYBODY, EVERY
from kingly_memory.hub.methods import wire_name
from kingly_memory.hub.server import Overseen
from kingly_memory.hub.traffic import Failure
from kingly_memory.models import JsonObject, project_and_user
from kingly_memory.page.html import Child, Html, el, join
from kingly_memory.page.hub.sessions import Viewer
from kingly_memory.page.view import View, facts, section, table, verbatim, when
from kingly_memory.ports import HOME, INCARNATION
from kingly_memory.text.writing import counted, duration

_MEANS = {
    0: "the caller left before the answer",
    400: "it made no sense",
    401: "a wrong token, or none",
    403: "its role does not allow that",
    404: "no such address, method or memory",
    408: "its body came too slowly",
    413: "its body was too long",
    421: "the hub was called by a foreign name",
    422: "a parameter was wrong",
    429: "the quota is used up",
    500: "trouble of the hub's own",
    501: "MCP is not installed here",
    503: "the store did not answer, there was too much at once, or the hub was stopping",
}
_WRONG_TOKEN, _FORBIDDEN, _OWN_TROUBLE = 401, 403, 500
_FULL = 0.9
"""Of a quota, from which on somebody should know."""
_DAY_S = 86_400
_MOST_SILENT = 5
_MOST_ROWS = 200
_AUDIT_LINES, _AUDIT_BYTES = 100, 65_536


class Looked(NamedTuple):
    """One look at a hub."""

    hub: Overseen
    viewer: Viewer
    now: datetime


class Place(NamedTuple):
    """Where something lies, by a scope of the store; the project is empty where it is kept for every project."""

    namespace: str
    project: str
    user: str | None
    is_documents: bool

    @classmethod
    def of(cls, scope: str) -> Place | None:
        """None for what is no scope of a namespace."""
        own, user = project_and_user(scope)
        parts = (own or "").split("/")
        if len(parts) < 2:  # noqa: PLR2004
            return None
        return cls(unquote(parts[0]), unquote(parts[1]), None if user is None else unquote(user), len(parts) > 2)  # noqa: PLR2004

    @property
    def words(self) -> Html:
        return el("bdi", self.project) if self.project else el("i", "for every project")


# --- overview ---------------------------------------------------------------------------------------------------------


def overview(looked: Looked) -> View:
    """How the hub is, what needs somebody, what it answered and what failed."""
    hub, viewer = looked.hub, looked.viewer
    try:
        kept, size = _kept(looked), hub.store.reader.size_bytes()
        seen = _homes(looked)
        title, trouble = "The hub is ready", None
    except StoreError as error:
        kept, size, seen = {}, 0, []
        title, trouble = "The hub's store does not answer", str(error) if viewer.is_admin else ""
    memories = sum(counts["memories"] for counts in kept.values())
    figures: dict[str, Any] = {
        "version": hub.version,
        "running for": duration(hub.traffic.uptime_s),
        "keeps": f"{counted(memories, 'memory')} in {counted(len(kept), 'project')}",
    }
    if viewer.is_admin:
        figures |= {"lies in": hub.where, "takes": _size(size)}
    loads = [
        (_call(load.method), f"{load.calls:,}", f"{load.refused:,}", f"{load.ms_each:.1f}", _size(load.sent_bytes))
        for load in hub.traffic.loads()
    ]
    failures = [
        (
            when(looked.now - timedelta(minutes=minutes), looked.now),
            _call(failure.method),
            _why(failure),
            el("bdi", failure.holder or "—"),
            f"{number:,}",
        )
        for failure, (number, minutes) in _failures(looked).items()
    ]
    needs = [] if trouble is not None else _needs(looked, kept, seen)
    return View.of(
        title,
        el("p", trouble, role="alert", class_="alert") if trouble else None,
        [el("p", need, class_="alert") for need in needs],
        el("p", "Nothing here needs you.") if not needs and trouble is None else None,
        facts(figures),
        section(
            "What failed in the last hour",
            table("Calls that were not answered with success", ("last", "call", "why", "token", "how often"), failures),
        ),
        section(
            "What it has answered",
            table("Calls since the start", ("call", "calls", "failed", "ms each", "answers"), loads),
        ),
    )


def _needs(looked: Looked, kept: Mapping[tuple[str, str], Counter[str]], seen: list[_Seen]) -> list[Child]:
    """What somebody should do something about."""
    failures = _failures(looked)
    own = sum(number for failure, (number, _) in failures.items() if failure.status >= _OWN_TROUBLE)
    wrong = sum(number for failure, (number, _) in failures.items() if failure.status == _WRONG_TOKEN)
    found: list[Child] = []
    if own:
        reason = "failed for a reason of the hub's own in the last hour; its standard error says which."
        found.append(f"{counted(own, 'call')} {reason}")
    if wrong:
        found.append(f"{counted(wrong, 'call')} of the last hour came with a wrong token or none.")
    for name, (has, most) in _quotas(looked).items():
        if most is not None and has >= most * _FULL:
            found.append(["Namespace ", el("bdi", name), f" keeps {has:,} of the {most:,} memories that it may."])
    for home in [home for home in seen if _is_silent(looked, home)][:_MOST_SILENT]:
        last = when(home.entry["at"], looked.now)
        found.append(
            [_machine(home.entry), " called last ", last, ", and is ", _behind(home), " in ", home.place.words, "."]
        )
    return found


def _failures(looked: Looked) -> dict[Failure, tuple[int, int]]:
    grant = looked.viewer.grant
    if grant is None or grant is ANYBODY:
        return looked.hub.traffic.failures()
    is_admin = looked.viewer.is_admin
    return {
        failure: counts
        for failure, counts in looked.hub.traffic.failures().items()
        if (failure.namespace is None and is_admin)
        or (failure.namespace == grant.namespace and (is_admin or failure.holder == grant.holder))
    }


# --- projects ---------------------------------------------------------------------------------------------------------


def projects(looked: Looked) -> View:
    last: dict[tuple[str, str], str] = {}
    for home in _homes(looked, is_counted=False):
        key = home.place.namespace, home.place.project
        last[key] = max(last.get(key, ""), home.entry.get("delivered_at", ""))
    rows = [
        (
            *_namespace(looked, namespace),
            Place(namespace, project, None, False).words,
            f"{counts['memories']:,}",
            f"{counts['documents']:,}",
            f"{counts['users']:,}",
            when(last.get((namespace, project)) or None, looked.now),
        )
        for (namespace, project), counts in sorted(_kept(looked).items(), key=lambda each: -each[1]["memories"])
    ]
    heads = (*_heading(looked), "project", "memories", "documents", "users", "last change")
    quotas = [
        (
            el("bdi", name),
            f"{has:,}",
            "no limit" if most is None else f"{most:,}",
            "" if most is None else f"{has / max(most, 1):.0%}",
        )
        for name, (has, most) in _quotas(looked).items()
    ]
    return View.of(
        "Projects",
        _more(rows),
        table("What is kept, most first", heads, rows[:_MOST_ROWS]),
        section(
            "Quotas",
            table("Memories and documents of a namespace", ("namespace", "keeps", "may keep", "full"), quotas),
            el("p", "On the hub's machine, ", el("code", "kingly-memory hub quota NAMESPACE NUMBER"), " sets one."),
        )
        if looked.viewer.is_admin
        else None,
    )


def _kept(looked: Looked) -> dict[tuple[str, str], Counter[str]]:
    """What each project keeps, by namespace and project."""
    found: dict[tuple[str, str], Counter[str]] = {}
    users: dict[tuple[str, str], set[str]] = {}
    for scope, number in looked.hub.store.reader.counted_spaces().items():
        place = Place.of(scope)
        if place is not None and looked.viewer.sees(place.namespace, place.project):
            project = place.namespace, place.project
            found.setdefault(project, Counter())["documents" if place.is_documents else "memories"] += number
            users.setdefault(project, set()).update([place.user] if place.user else [])
    for project, names in users.items():
        found[project]["users"] = len(names)
    return found


def _quotas(looked: Looked) -> dict[str, tuple[int, int | None]]:
    """Of each namespace, how much it keeps and how much it may."""
    if not looked.viewer.is_admin:
        return {}
    most = looked.hub.gate.access.quotas
    kept = Counter(dict.fromkeys((name for name in most if looked.viewer.opens(name)), 0))
    for (namespace, _), counts in _kept(looked).items():
        kept[namespace] += counts["memories"] + counts["documents"]
    return {name: (number, most.get(name)) for name, number in sorted(kept.items())}


# --- machines ---------------------------------------------------------------------------------------------------------


class _Seen(NamedTuple):
    """What the hub knows of a home in one place. `behind`: how many memories or documents have changed since it read
    the feed, -1 where it has to read all of it anew, None where it has never read."""

    entry: JsonObject
    place: Place
    behind: int | None


def homes(looked: Looked) -> View:
    found = _homes(looked)
    is_admin = looked.viewer.is_admin
    rows = [
        (
            _machine(home.entry),
            join(home.place.words, _user(looked, home.place)),
            el("b", _behind(home), class_="mark") if _is_silent(looked, home) else _behind(home),
            when(home.entry["at"], looked.now),
            f"{home.entry['delivered']:,}",
            when(home.entry.get("delivered_at"), looked.now),
            *((el("bdi", home.entry["token"]),) if is_admin else ()),
            *_namespace(looked, home.place.namespace),
        )
        for home in found[:_MOST_ROWS]
    ]
    token = ("token",) if is_admin else ()
    heads = ("machine", "project", "takes in", "last call", "delivered", "last delivery", *token, *_heading(looked))
    says = (
        "A machine asks what is new once a minute while it is connected; until then it may be some changes behind. "
        "The four digits behind its name stand for the folder of its memory. What only searches or writes takes in "
        "nothing."
    )
    return View.of(
        "Machines",
        _more(found),
        table("Who has called, the latest first", heads, rows),
        says=says,
    )


def _homes(looked: Looked, *, is_counted: bool = True) -> list[_Seen]:
    """What is known of homes in places that the viewer sees, the one that called last first."""
    reader = looked.hub.store.reader
    incarnation = (reader.facet(HOME, INCARNATION) or {}).get("id", "")

    def behind(scope: str, until: str | None) -> int | None:
        if until is None or not is_counted:
            return None
        mark, _, number = until.rpartition(".")
        return reader.changed_since(scope, int(number)) if mark == incarnation else -1

    found = []
    for entry in looked.hub.homes.seen():
        place = Place.of(entry["scope"])
        if place is not None and looked.viewer.sees(place.namespace, place.project):
            scope = entry["scope"]
            both = (behind(scope, entry.get("until")), behind(documents_of(scope), entry.get("documents_until")))
            numbers = [number for number in both if number is not None]
            found.append(_Seen(entry, place, None if not numbers else -1 if -1 in numbers else sum(numbers)))
    return found


def _behind(home: _Seen) -> str:
    if home.behind is None:
        return "nothing"
    if home.behind < 0:
        return "all anew"
    return f"{counted(home.behind, 'change')} behind" if home.behind else "up to date"


def _is_silent(looked: Looked, home: _Seen) -> bool:
    """Whether it lacks something and has not asked for a day."""
    age_s = (looked.now - datetime.fromisoformat(home.entry["at"])).total_seconds()
    return bool(home.behind) and age_s > _DAY_S


def _machine(entry: JsonObject) -> Html:
    return el("bdi", entry["home"]) if entry["home"] else el("i", "unnamed client")


def _user(looked: Looked, place: Place) -> Child:
    """Who a user is concerns admins."""
    if place.user is None:
        return None
    return [" · ", el("bdi", place.user) if looked.viewer.is_admin else "a user"]


# --- tokens and changes -----------------------------------------------------------------------------------------------


def tokens(looked: Looked) -> View:
    used: dict[tuple[str, str], str] = {}
    for entry in looked.hub.homes.seen():
        who = entry["namespace"], entry["token"]
        used[who] = max(used.get(who, ""), entry["at"])
    access = looked.hub.gate.access
    rows = [
        (
            el("bdi", grant.holder),
            *_namespace(looked, grant.namespace),
            el("bdi", ", ".join(grant.may)),
            when(grant.made_at, looked.now) if grant.made_at else "not here",
            when(used.get((grant.namespace, grant.holder)), looked.now),
        )
        for grant in access.tokens.values()
        if looked.viewer.opens(grant.namespace)
    ]
    none = (
        "This hub asks for no token: whoever reaches it on this machine may do everything."
        if not access.is_needed
        else None
    )
    commands = (
        "kingly-memory hub tokens create NAME --role write --project PROJECT\nkingly-memory hub tokens revoke NAME"
    )
    heads = ("holder", *_heading(looked), "may", "made", "last used")
    return View.of(
        "Tokens",
        el("p", none) if none else None,
        table("Who is let in", heads, rows),
        section(
            "To make one, or to take one back",
            verbatim(commands, "commands", "diff"),
            says="On the hub's machine, with --home where its home is not the usual one. The hub obeys at once. "
            "Each role includes those before it: read, write, forget, purge, admin.",
        ),
    )


def changes(looked: Looked) -> View:
    """The end of the audit."""
    rows = [
        (
            when(change["at"], looked.now),
            el("bdi", str(change["token"])),
            *_namespace(looked, str(change["namespace"])),
            el("i", "for every project") if change["project"] == EVERY else el("bdi", str(change["project"])),
            el("bdi", str(change["user"] or "")),
            el("code", wire_name(str(change["method"]))),
            f"{len(change['memories']):,}",
        )
        for change in reversed(_audit(looked))
    ]
    heads = ("when", "token", *_heading(looked), "project", "user", "what", "memories")
    file = looked.hub.home / "audit" / "changes.jsonl"
    says = (
        f"The end of {file}, which has every change with the ids of its memories. A hub that asks for no token notes "
        "nobody."
    )
    return View.of(
        "Changes",
        table("Who changed what, the latest first", heads, rows),
        says=says,
    )


def _audit(looked: Looked) -> list[JsonObject]:
    """The last lines of the namespaces that the viewer sees."""
    found: list[JsonObject] = []
    with suppress(OSError), (looked.hub.home / "audit" / "changes.jsonl").open("rb") as file:
        begin = max(file.seek(0, os.SEEK_END) - _AUDIT_BYTES, 0)
        file.seek(begin)
        lines = file.read().splitlines()[1 if begin else 0 :]
        for line in lines:
            with suppress(ValueError, KeyError, TypeError):  # a line that a crash has torn
                entry = json.loads(line)
                if (
                    looked.viewer.opens(str(entry["namespace"]))
                    and {"at", "token", "project", "user", "method", "memories"} <= entry.keys()
                ):
                    found.append(entry)
    return found[-_AUDIT_LINES:]


# --- pieces -----------------------------------------------------------------------------------------------------------


def _heading(looked: Looked) -> tuple[str, ...]:
    return ("namespace",) if looked.viewer.grant is None else ()


def _namespace(looked: Looked, words: str) -> tuple[Child, ...]:
    """A column for whoever sees several."""
    return (el("bdi", words),) if looked.viewer.grant is None else ()


def _more(rows: list[Any]) -> Html | None:
    return el("p", f"The first {_MOST_ROWS} of {len(rows):,}.") if len(rows) > _MOST_ROWS else None


def _call(method: str) -> Html:
    """Whose body was not read, since nobody was let in, has no method yet."""
    return el("i", "another address, or not let in") if method == "other" else el("code", method)


def _why(failure: Failure) -> str:
    if failure.status == _FORBIDDEN and failure.holder is None:
        return "403 a page of another server called"
    return f"{failure.status or ''} {_MEANS.get(failure.status, '')}".strip()


def _size(size: int) -> str:
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"
