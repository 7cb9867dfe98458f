"""The commands about configuration: our settings, and the files of hosts."""

from __future__ import annotations

import platform
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from kingly_memory import validation
from kingly_memory.app import parts
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Answer, Output, table
from kingly_memory.cli.place import place_of
from kingly_memory.dataclass import replace
from kingly_memory.errors import ExtraMissing, InvalidInput
from kingly_memory.extras import require
from kingly_memory.home.place import DEFAULT_ENDPOINT
from kingly_memory.models import JsonObject
from kingly_memory.settings import Settings, given_settings, settings_by_name, unknown_variables, written
from kingly_memory.version import __version__

if TYPE_CHECKING:
    from kingly_memory.hosts.config import Wish
    from kingly_memory.hosts.config_files import Written


def config(options: Options, out: Output) -> Answer:
    if options.host is None:
        given = [name for name in ("write", "remove", "path", "absolute") if getattr(options, name)]
        if given:
            raise InvalidInput(given[0], "goes with a host, as in `kingly-memory config claude-code --write`")
        return _settings(options, out)
    from kingly_memory.hosts import config_text
    from kingly_memory.hosts.config import SERVER, Wish, installed_command, is_found_by_name, project_of, snippets
    from kingly_memory.hosts.config_files import remove, write

    start, now = Path.cwd(), datetime.now(UTC)
    path = Path(options.path).expanduser() if options.path else None
    if options.remove:
        if options.write:
            raise InvalidInput("remove", "does the contrary of --write; leave one of them out")
        wanted_files = snippets(options.host, Wish(("kingly-memory",)), start=start, path=path)
        taken = remove(wanted_files, project=project_of(start), now=now)
        return _answered(options, taken)
    if options.everywhere:
        raise InvalidInput("everywhere", "is not written for a host, which works in one project; leave it out")
    # A remote that cannot be used is refused here, and not where the host starts; its token may be put there later.
    place_of(options.but(token_file=None), out)
    command = installed_command()
    wish = Wish(
        command=command,
        shared=command if options.absolute else (SERVER,),
        variables=dict(_variables(options)),
        options=() if options.token_file is None else ("--token-file", _absolute(options.token_file)),
    )
    wanted_files = snippets(options.host, wish, start=start, path=path)
    shared = next((one.path for one in wanted_files if one.is_shared), None)
    for field, problem in () if shared is None or options.absolute else _unfit(shared, wish, options):
        if options.write:
            raise InvalidInput(field, problem)
        out.note(problem)
    if shared is not None and not options.absolute and is_found_by_name() and wish.command != (SERVER,):
        out.note(f"only this environment has the command {SERVER}: start {options.host} from a shell that has it too")
    if any("hooks" not in one.content for one in wanted_files):
        try:
            require("mcp", "`kingly-memory mcp`, which the host starts,")
        except ExtraMissing as missing:  # the hooks work without it, and it can be installed later
            out.note(str(missing))
    if options.write:
        return _answered(options, write(wanted_files, host=options.host, project=project_of(start), now=now))
    out.note("this is what --write would write; nothing was written")
    files: list[JsonObject] = [{"path": str(one.path), "content": one.content} for one in wanted_files]
    texts = ((one.path, config_text.written(one.content, one.format)) for one in wanted_files)
    lines = (line for path, text in texts for line in (f"{path}:", *text.split("\n"), ""))
    return Answer({"host": options.host, "files": files}, lines)


def _unfit(file: Path, wish: Wish, options: Options) -> Iterator[tuple[str, str]]:
    """What keeps a file that is shared with the project from being written: paths of this machine in it, and what keeps
    the host from starting us by name."""
    from kingly_memory.hosts.config import SERVER, is_found_by_name

    for field in ("home", "token_file"):
        if getattr(options, field) is not None:
            option = f"--{field.replace('_', '-')}"
            problem = (
                f"{file} is shared with the project, and {option} would put a path of this machine into it: leave"
                f" {option} out, or add --absolute to write it all the same"
            )
            yield field, problem
    if not is_found_by_name():
        problem = (
            f"{file} is shared with the project, so it names the command {SERVER}, and your shell does not find this"
            f" installation by that name: put {Path(sys.executable).parent} on your PATH or install it as a command of"
            f" your user, then try again; --absolute writes {wish.command[0]} there all the same"
        )
        yield "path", problem


def _answered(options: Options, files: Iterable[Written]) -> Answer:
    """What became of each file."""
    rows, lines = [], []
    for file in files:
        rows.append({name: str(value) if isinstance(value, Path) else value for name, value in file._asdict().items()})
        if file.deleted:
            line = f"deleted {file.path}, which held nothing else"
        elif not file.changed:
            line = f"{file.path} {'holds nothing of Kingly Memory' if options.remove else 'says so already'}"
        elif options.remove:
            line = f"took Kingly Memory out of {file.path}"
        else:
            line = f"{'made' if file.backup is None else 'changed'} {file.path}"
        lines += [line, *([] if file.backup is None else [f"  as it was: {file.backup}"])]
    return Answer({"host": options.host, "files": rows}, lines)


def _variables(options: Options) -> Iterator[tuple[str, str]]:
    """The options of every command that were given, as what a host sets for us."""
    if options.home is not None:
        yield "KINGLY_HOME", _absolute(options.home)
    for name in ("project", "user", "agent"):
        if (value := getattr(options, name)) is not None:
            yield f"KINGLY_{name.upper()}", validation.required(name, value)
    if options.remote is not None:
        yield "KINGLY_REMOTE", ", ".join(DEFAULT_ENDPOINT if one is True else one for one in options.remote)


def _absolute(path: str) -> str:
    """A path that means the same from everywhere."""
    return str(Path(path).expanduser().absolute())


def _settings(options: Options, out: Output) -> Answer:
    place = place_of(options, out)
    if unknown := unknown_variables():
        out.note(f"nothing reads {', '.join(unknown)}")
    settings, given = Settings.from_environment(home=place.home), given_settings(home=place.home)
    settings = replace(settings, embedder=parts.shown_embedder(settings.embedder))
    rows = [
        (name, written(attrgetter(name)(settings)), given[name].by if name in given else "default")
        for name in settings_by_name()
    ]
    shown = [(name, "-" if value is None else str(value), source) for name, value, source in rows]
    data = [{"name": name, "value": value, "from": source} for name, value, source in rows]
    return Answer({"settings": data}, table(shown, ("SETTING", "VALUE", "FROM")))


def version(options: Options, out: Output) -> Answer:
    versions = {"version": __version__, "python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    return Answer(versions, [f"kingly-memory {__version__}"])
