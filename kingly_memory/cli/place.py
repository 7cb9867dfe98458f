"""From options to a place, and from a place to a reader or a router. Commands reach the store only through here."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kingly_memory import validation
from kingly_memory.cli.commands import OF_REMOTES, Options
from kingly_memory.cli.output import Output, one_line
from kingly_memory.dataclass import NamedTuple, replace
from kingly_memory.declare import Verb
from kingly_memory.errors import InvalidInput, KinglyMemoryError
from kingly_memory.home.own_files import is_made
from kingly_memory.home.place import DEFAULT_ENDPOINT, HOME_FOLDER, HUB_LOCK, Place
from kingly_memory.models import DeliveryState, JsonObject, LinkState, Receipt, RemoteUse, project_and_user
from kingly_memory.settings import Settings, inert
from kingly_memory.text.writing import counted

if TYPE_CHECKING:
    from kingly_memory.app.reading import LocalReader
    from kingly_memory.blocking import SyncMemoryRouter
    from kingly_memory.home.remote_names import RemotePlace

_DAYS_AGO = {"today": 0, "yesterday": 1}
_BEGINNING = re.compile(r"[0-9a-f]{6,8}|[0-9a-f]{8}-[0-9a-f-]{0,26}")
"""Of an id."""
HIDDEN = "\u2026"
"""In the place of what may be a secret in an address."""
VECTORS_WAIT_S = 1.0
"""How long a search by meaning waits for its vectors."""


def place_of(options: Options, out: Output) -> Place:
    """Where the command works and for whom. Remotes that --remote names are used by this command alone; those of
    KINGLY_REMOTE and of `remotes add` are the home's. Raises InvalidInput for an address that cannot be used, and
    InvalidSetting when the record of the added remotes cannot be read and the command is one of `OF_REMOTES`."""
    place, faults = resolved_place(options)
    for label, error in faults:
        raise InvalidInput(error.field, error.problem if label is None else f"{label}: {error}")
    if place.unread is not None:
        if options.command.name.partition(" ")[0] in OF_REMOTES:
            raise place.unread
        out.note(f"{place.unread}; until then this machine alone is used")
    for folder in inert(place.home):
        out.note(str(folder))
    verb = options.command.verb
    if verb is not None and verb.reads and options.home is not None and not is_made(place.home):
        out.note(f"there is no home at {place.home}: nothing was stored there")
    return place


def resolved_place(options: Options) -> tuple[Place, list[tuple[str | None, InvalidInput]]]:
    """The place, in which remotes that can never be reached have no address, and what is wrong with each of those, with
    its name if it has one."""
    token_of(options)  # a file that cannot serve is refused before anything is done
    place = named_place(options, remote=options.remote, token_file=options.token_file)
    if options.everywhere:
        if options.project is not None:
            raise InvalidInput("everywhere", "is every project, and --project names one; leave one of them out")
        place = replace(place, project=None)
    if options.remote is not None:
        place = replace(place, remote_use=RemoteUse.ONCE)
    if not place.has_remote:
        return place, []
    from kingly_memory.adapters.remote.endpoint import endpoint

    faults: list[tuple[str | None, InvalidInput]] = []

    def checked(remote: RemotePlace) -> RemotePlace:
        try:
            endpoint(remote.address)
        except InvalidInput as error:
            faults.append((remote.label if len(place.remotes) > 1 else None, error))
            return replace(remote, address=None)
        return remote

    return replace(place, remotes=tuple(map(checked, place.remotes))), faults


def named_place(options: Options, **remotes: Any) -> Place:
    """The home that is named and for whom, with these remotes. Raises InvalidInput."""
    project, agent, user = (validation.label(one, getattr(options, one)) for one in ("project", "agent", "user"))
    return Place.resolve(home=options.home, project=project, agent=agent, user=user, **remotes)


def arguments(verb: Verb, options: Options, place: Place) -> dict[str, Any]:
    """The arguments of the verb, as the command line gives them. Raises InvalidInput."""
    fields: dict[str, Any] = {}
    for parameter in verb.of("command"):
        value = getattr(options, parameter.dest)
        if parameter.arg.reads_input and value in ("-", ["-"]):
            value = standard_input(parameter.name)
        elif parameter.arg.metavar == "FILE" and value == "-":
            raise InvalidInput(parameter.name, "nothing is written to standard output; name a file")
        elif parameter.arg.is_sentence:
            value = " ".join(value)
        elif parameter.type == "object" and value is not None:
            try:
                value = json.loads(value)
            except (ValueError, RecursionError) as error:
                problem = error.msg if isinstance(error, json.JSONDecodeError) else "too deep or too long"
                raise InvalidInput(parameter.name, f"is not JSON ({problem})") from None
        elif parameter.type == "flag" and not parameter.is_option:
            yes, _, no = str(parameter.arg.metavar).partition("|")
            if value not in (yes, no):
                raise InvalidInput(parameter.option, f"{value[:40]!r} is unknown; say {yes} or {no}")
            value = value == yes
        elif parameter.name in ("since", "until") and value:
            value = moment(parameter.option, value, datetime.now(UTC))
        fields[parameter.name] = value
    if verb.has_author:
        fields["origin"] = getattr(options, "origin", None) or author(place)
    if verb.calls in ("search", "list", "weak"):
        fields["agent"] = options.agent
    return fields


def moment(option: str, text: str, now: datetime) -> str:
    """`7d` (ago), `today` and `yesterday` as a date or time; what else is said the verb reads. Raises InvalidInput."""
    if text in _DAYS_AGO:
        return (now - timedelta(days=_DAYS_AGO[text])).date().isoformat()
    length_s = validation.length_s(text) if text[-1:].isalpha() else None
    try:
        if length_s is not None:
            return (now - timedelta(seconds=length_s)).isoformat()
        validation.moment(option, text)
    except (InvalidInput, OverflowError):
        raise InvalidInput(option, f"{text[:40]!r} is no date or time; say 2026-11-23, yesterday, or 7d") from None
    return text


def author(place: Place) -> str:
    """Who speaks on the command line: a person, unless an agent is named."""
    return "agent" if place.agent else "user"


def whole_ids(named: str | list[str] | None, options: Options, out: Output) -> str | list[str] | None:
    """The names, with whole ids in the place of beginnings of ids. A beginning must fit one memory alone."""
    if isinstance(named, list):
        return [str(whole_ids(one, options, out)) for one in named]
    if named is None or not _BEGINNING.fullmatch(named):
        return named
    with reading(place_of(options, out), out) as reader:
        ids = [] if reader.readable(named) is not None else reader.ids_beginning(named)
    if len(ids) > 1:
        raise InvalidInput("key_or_id", f"the ids of {len(ids)} memories or more begin with {named!r}; write more")
    return ids[0] if ids else named


def standard_input(field: str) -> str:
    """All of standard input. Raises InvalidInput beyond the limit, and for what is to be stored and is not UTF-8; in a
    question such bytes become U+FFFD."""
    is_stored = field in ("content", "value")
    limit = validation.CONTENT_LIMIT_BYTES
    if field == "value":  # of a document
        from kingly_memory.documents import MOST_BYTES

        limit = MOST_BYTES
    read = sys.stdin.buffer.read(limit + 1)
    if len(read) > limit:
        remedy = "that are stored; split it" if is_stored else "that are read; give the part that matters"
        raise InvalidInput(field, f"has more than the {limit:,} bytes {remedy}")
    try:
        return read.decode("utf-8-sig", "strict" if is_stored else "replace")
    except UnicodeDecodeError as error:
        raise InvalidInput(field, f"is not UTF-8 (byte {error.start + 1:,}); convert it first, as with iconv") from None


def command(options: Options, verb: str, *names: str) -> str:
    """The command that does something further in the same place, for a shell."""
    from shlex import join

    given = [(name, getattr(options, name)) for name in ("home", "project", "user")]
    given += [("remote", _shown_remote(one)) for one in options.remote or ()]
    flags = ["--everywhere"] if options.everywhere else []
    named = [text for name, value in given if isinstance(value, str) for text in (f"--{name}", value)]
    ends = ["--"] if any(name.startswith("-") for name in names) else []
    return one_line(join(["kingly-memory", *verb.split(), *flags, *named, *ends, *names]))


def _shown_remote(remote: str | bool) -> str:
    """A remote as --remote has named it; URL in the place of an address that holds a secret."""
    if isinstance(remote, bool):
        return DEFAULT_ENDPOINT
    if "/" not in remote:
        return remote  # the name of one that was added
    from kingly_memory.adapters.remote.endpoint import endpoint
    from kingly_memory.home.remote_names import named

    [(_, address)] = named(remote, DEFAULT_ENDPOINT)
    with suppress(InvalidInput):
        checked = endpoint(address)
        if str(checked) == checked.url("") and checked.credentials is None:
            return remote
    return remote.replace(address, "URL")


def adding(endpoint: str) -> str:
    """The command that adds the remote, of whose address a part may not be shown."""
    return f"kingly-memory remotes add NAME {'URL' if HIDDEN in endpoint else endpoint}"


def links_of(status: JsonObject) -> dict[str | None, JsonObject]:
    """The link to each remote by its name, None for the only one, with its `outbox`."""
    links: dict[str | None, JsonObject] = status.get("remotes") or {
        None: {**status["link"], "outbox": status["outbox"]}
    }
    return links


def is_about_a_token(link: JsonObject) -> bool:
    """Whether nothing is delivered, by what the status says of the link, until somebody has looked at the token."""
    return link["state"] == LinkState.OFFLINE and "token" in without_address(link["last_error"] or "")


def without_address(reason: str) -> str:
    """What went wrong, without the address before it, which may be another spelling of the one that is shown."""
    return re.sub(r"\Ahttps?://\S+: ", "", reason)


def token_of(options: Options) -> str | None:
    """The token in --token-file; it is never taken from the command line, which every process can read."""
    if options.token_file is None:
        return None
    from kingly_memory.home.secret_file import secret

    return secret(Path(options.token_file), "token_file", InvalidInput)


@contextmanager
def reading(place: Place, out: Output, **how: Any) -> Iterator[LocalReader]:
    """The store for reading on this machine: no background task, no remote, nothing written. `how` is as in
    `open_reader`."""
    from kingly_memory.app.reading import open_reader

    with warnings_on(out), closing(open_reader(place, **how)) as reader:
        yield reader


@contextmanager
def asked(
    options: Options, out: Output, *, reads: bool | None = None, of_embedder: bool = False, **more: Any
) -> Iterator[tuple[Any, Any]]:
    """What the command's verb answers, and what it was asked, which is open as long as the block: a reader where that
    has the verb, else a router. `more` are arguments that the command line does not give. Raises NothingUnder where
    nothing has the name that was given."""
    place, verb = place_of(options, out), options.command.verb
    fields = {**arguments(verb, options, place), **more}
    from kingly_memory.app.reading import LocalReader

    if hasattr(LocalReader, verb.calls):  # then no router is loaded
        opened: Any = reading(place, out)
    else:
        only_reads = verb.only_reads(fields) if reads is None else reads
        makes = reads is None and verb.reads is not True  # else it answers also where nothing can be written down
        opened = routing(place, out, reads=only_reads, makes=makes, of_embedder=of_embedder)
    with opened as memory:
        yield verb.found(verb.call(memory, fields), fields), memory


def answered(options: Options, out: Output, **how: Any) -> Any:
    """The same where nothing more is asked. Its receipt, if it has one, is of the end of the command."""
    with asked(options, out, **how) as (result, _):
        pass
    if isinstance(result, Receipt):
        return by_now(result, options, out)
    if (receipt := getattr(result, "receipt", None)) is not None:  # of a thought
        return replace(result, receipt=by_now(receipt, options, out))
    return result


def by_now(receipt: Receipt, options: Options, out: Output) -> Receipt:
    """The receipt after its router was closed, which gives deliveries a moment: what waited may be there."""
    place = place_of(options, out)
    if receipt.delivery is not DeliveryState.PENDING or not place.has_remote:  # without, it waits for one of before
        return receipt
    with reading(place, out) as reader:
        now = reader.receipt(receipt.id)
    return receipt if now is None else replace(now, sightings=receipt.sightings, secrets=receipt.secrets)


class Elsewhere(NamedTuple):
    """What other projects of the home have, and what to do about it."""

    what: str
    to_do: str
    is_all: bool
    """True when the project itself has nothing."""


def elsewhere(options: Options, out: Output) -> Elsewhere | None:
    """What lies in the home under other names than that of its folder, which may have been another one before. Who
    names a project is not asked whether he means it; who names a user hears of what is that user's alone."""
    place, _ = resolved_place(options)
    if place.project is None or not place.is_named_by_folder or not (place.home / "store").is_dir():
        return None
    held = Counter[str]()
    with suppress(KinglyMemoryError), reading(place, out) as reader:  # the command says what is wrong
        for space, count in reader.rows.counted_spaces().items():
            project, user = project_and_user(space)
            if project == place.project or (project is not None and place.user in (None, user)):
                held[project] += count
    is_all = not held.pop(place.project, 0)
    is_shared = place.home.parts[-2:] != HOME_FOLDER.parts  # by projects that have folders elsewhere
    if not held or (is_shared and not is_all):
        return None
    whole, many = options.but(project=None), counted(held.total(), "memory")
    if len(held) == 1:
        [name] = held
        theirs = f"{many} under {name!r}"
    else:
        name = "NAME"
        theirs = f"{many} of {len(held)} other projects (`{command(whole, 'projects list')}`)"
    to_do = command(whole, "projects rename" if is_all else "projects merge", name, place.project)
    to_do = f"if its folder was called {name} before: `{to_do}`"
    if (place.home / HUB_LOCK).exists():
        to_do = f"it is a hub's: `{command(options.but(project=name), 'list')}` shows what is there"
    nothing = f"project {place.project!r} has no memories, and " if is_all else ""
    return Elsewhere(f"{nothing}this home holds {theirs}", to_do, is_all)


@contextmanager
def routing(
    place: Place,
    out: Output | None = None,
    *,
    by_meaning: bool = False,
    reads: bool = False,
    makes: bool | None = None,
    of_embedder: bool = False,
) -> Iterator[SyncMemoryRouter]:
    """The router, with its warnings as notes on `out`, if there is one. What only `reads` sends remotes nothing but its
    question. Raises InvalidInput where it `makes` a home, as all does that not only reads, and none can be made.

    Only `by_meaning` it has vectors, and where these are light: the memories that other commands store get theirs from
    whoever searches next. What is `of_embedder` has them whatever they cost, and waits for none.
    """
    from kingly_memory.app import parts
    from kingly_memory.blocking import SyncMemoryRouter

    if makes or (makes is None and not reads):
        parts.makeable(place)
    if reads:
        place = replace(place, remote_use=RemoteUse.ASK)
    settings = Settings.from_environment(home=place.home)
    if by_meaning:
        by_meaning = parts.light_meaning(settings) is not None
    if not (by_meaning or of_embedder):
        settings = replace(settings, embedder="none")
    with warnings_on(out), SyncMemoryRouter.at(place, settings=settings) as router:
        if by_meaning:
            router.await_vectors(VECTORS_WAIT_S)
        yield router


class _Notes(logging.Handler):
    """Shows warnings as notes, or keeps them quiet where the answer says the same."""

    def __init__(self, out: Output | None) -> None:
        super().__init__(logging.WARNING)
        self._noted = out

    def emit(self, record: logging.LogRecord) -> None:
        if self._noted is not None:
            self._noted.note(record.getMessage())


@contextmanager
def warnings_on(out: Output | None) -> Iterator[None]:
    log = logging.getLogger("kingly_memory")
    handler = _Notes(out)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
