"""The verb for configuration: ours, or the part of a host's file that makes it use us."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kingly_memory import intake
from kingly_memory.cli import upkeep
from kingly_memory.cli.output import Output
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject
from kingly_memory.settings import DEFAULT_ENDPOINT

if TYPE_CHECKING:
    from kingly_memory.integrations.hosts import Wish


def config(options: Namespace, out: Output) -> int:
    if options.host is None:
        given = [name for name in ("write", "path", "url") if getattr(options, name)]
        if given:
            raise InvalidInput(given[0], "goes with a host, as in `kingly-memory config claude-code --write`")
        return upkeep.config(options, out)
    return _host_config(options, out)


def _host_config(options: Namespace, out: Output) -> int:
    from kingly_memory.integrations.host_files import printed, write
    from kingly_memory.integrations.hosts import snippets

    path = Path(options.path).expanduser() if options.path else None
    found = snippets(options.host, _wish(options), start=Path.cwd(), path=path)
    if not options.write:
        files: list[JsonObject] = [{"path": str(one.path), "content": one.content} for one in found]
        lines = (line for one in found for line in (f"{one.path}:", *printed(one).split("\n"), ""))
        out.show({"host": options.host, "files": files}, lines)
        return 0
    written = write(found, host=options.host, now=datetime.now(UTC))
    rows: list[JsonObject] = [
        {"path": str(one.path), "changed": one.changed, "backup": None if one.backup is None else str(one.backup)}
        for one in written
    ]
    out.show({"host": options.host, "files": rows}, (line for row in rows for line in _written_lines(row)))
    return 0


def _written_lines(row: JsonObject) -> Iterator[str]:
    if not row["changed"]:
        yield f"{row['path']} says so already"
    elif row["backup"] is None:
        yield f"made {row['path']}"
    else:
        yield f"changed {row['path']}"
        yield f"  as it was: {row['backup']}"


def _wish(options: Namespace) -> Wish:
    from kingly_memory.integrations.hosts import Wish, installed_command

    return Wish(
        command=installed_command(),
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
