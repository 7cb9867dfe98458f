"""The verb for configuration: ours, or the part of a host's file that makes it use us."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kingly_memory import intake
from kingly_memory.cli import upkeep
from kingly_memory.cli.output import Output
from kingly_memory.cli.place import place_of
from kingly_memory.errors import ExtraMissing, InvalidInput
from kingly_memory.extras import require
from kingly_memory.models import JsonObject
from kingly_memory.settings import DEFAULT_ENDPOINT

if TYPE_CHECKING:
    from kingly_memory.hosts.config import Wish
    from kingly_memory.hosts.config_files import Written


def config(options: Namespace, out: Output) -> int:
    if options.host is None:
        given = [name for name in ("write", "remove", "path", "url", "absolute") if getattr(options, name)]
        if given:
            raise InvalidInput(given[0], "goes with a host, as in `kingly-memory config claude-code --write`")
        return upkeep.config(options, out)
    return _remove(options, out) if options.remove else _host_config(options, out)


def _host_config(options: Namespace, out: Output) -> int:
    from kingly_memory.hosts.config import project_of, snippets
    from kingly_memory.hosts.config_files import printed, write

    # A remote that cannot be used is refused here, and not where the host starts; its token may be put there later.
    place_of(Namespace(**{**vars(options), "token_file": None}), out)
    wish = _wish(options)
    found = snippets(options.host, wish, start=Path.cwd(), path=_path(options))
    shared = next((one.path for one in found if one.is_shared), None)
    if shared is not None and not options.absolute:
        _check_paths(shared, options, out)
        _check_name(shared, wish, options, out)
    if wish.url is None and any("hooks" not in one.content for one in found):
        try:
            require("mcp", "`kingly-memory mcp`, which the host starts,")
        except ExtraMissing as missing:  # the hooks work without it, and it can be installed later
            out.note(str(missing))
    if not options.write:
        files: list[JsonObject] = [{"path": str(one.path), "content": one.content} for one in found]
        lines = (line for one in found for line in (f"{one.path}:", *printed(one).split("\n"), ""))
        out.show({"host": options.host, "files": files}, lines)
        return 0
    rows = [_row(one) for one in write(found, host=options.host, project=project_of(Path.cwd()), now=datetime.now(UTC))]
    out.show({"host": options.host, "files": rows}, (line for row in rows for line in _written_lines(row)))
    return 0


def _remove(options: Namespace, out: Output) -> int:
    from kingly_memory.hosts.config import Wish, project_of, snippets
    from kingly_memory.hosts.config_files import remove

    if options.write:
        raise InvalidInput("remove", "does the contrary of --write; leave one of them out")
    found = snippets(options.host, Wish(("kingly-memory",)), start=Path.cwd(), path=_path(options))
    rows = [
        {**_row(one), "deleted": one.deleted}
        for one in remove(found, project=project_of(Path.cwd()), now=datetime.now(UTC))
    ]
    out.show({"host": options.host, "files": rows}, (line for row in rows for line in _removed_lines(row)))
    return 0


def _path(options: Namespace) -> Path | None:
    return Path(options.path).expanduser() if options.path else None


def _check_paths(file: Path, options: Namespace, out: Output) -> None:
    """Say which options would put a path of this machine into the file. Raises InvalidInput instead of writing it."""
    for field in ("home", "token_file"):
        if getattr(options, field) is not None:
            option = f"--{field.replace('_', '-')}"
            problem = (
                f"{file} is shared with the project, and {option} would put a path of this machine into it: leave"
                f" {option} out, or add --absolute to write it all the same"
            )
            if options.write:
                raise InvalidInput(field, problem)
            out.note(problem)


def _check_name(file: Path, wish: Wish, options: Namespace, out: Output) -> None:
    """Say what keeps the host from starting us by name. Raises InvalidInput instead of writing what cannot work."""
    from kingly_memory.hosts.config import SERVER, is_found_by_name

    if not is_found_by_name():
        problem = (
            f"{file} is shared with the project, so it names the command {SERVER}, and your shell does not find this"
            f" installation by that name: put {Path(sys.executable).parent} on your PATH or install it as a command of"
            f" your user, then try again; --absolute writes {wish.command[0]} there all the same"
        )
        if options.write:
            raise InvalidInput("path", problem)
        out.note(problem)
    elif wish.command != (SERVER,):
        out.note(f"only this environment has the command {SERVER}: start {options.host} from a shell that has it too")


def _row(written: Written) -> JsonObject:
    backup = None if written.backup is None else str(written.backup)
    return {"path": str(written.path), "changed": written.changed, "backup": backup}


def _removed_lines(row: JsonObject) -> Iterator[str]:
    if row["deleted"]:
        yield f"deleted {row['path']}, which held nothing else"
    elif not row["changed"]:
        yield f"{row['path']} holds nothing of Kingly Memory"
    else:
        yield f"took Kingly Memory out of {row['path']}"
        yield f"  as it was: {row['backup']}"


def _written_lines(row: JsonObject) -> Iterator[str]:
    if not row["changed"]:
        yield f"{row['path']} says so already"
    elif row["backup"] is None:
        yield f"made {row['path']}"
    else:
        yield f"changed {row['path']}"
        yield f"  as it was: {row['backup']}"


def _wish(options: Namespace) -> Wish:
    from kingly_memory.hosts.config import SERVER, Wish, installed_command

    command = installed_command()
    return Wish(
        command=command,
        shared=command if options.absolute else (SERVER,),
        variables=dict(_variables(options)),
        options=() if options.token_file is None else ("--token-file", _absolute(options.token_file)),
        url=options.url,
    )


def _variables(options: Namespace) -> Iterator[tuple[str, str]]:
    """The options of every command that were given, as what a host sets for us."""
    if options.home is not None:
        yield "KINGLY_HOME", _absolute(options.home)
    if options.project is not None:
        yield "KINGLY_PROJECT", intake.required("project", options.project)
    if options.agent is not None:
        yield "KINGLY_AGENT", intake.required("agent", options.agent)
    if options.remote is not None:
        yield "KINGLY_REMOTE", ", ".join(DEFAULT_ENDPOINT if one is True else one for one in options.remote)


def _absolute(path: str) -> str:
    """A path that means the same from everywhere."""
    return str(Path(path).expanduser().absolute())
