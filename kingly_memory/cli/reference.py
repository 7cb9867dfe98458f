"""docs/cli.md and docs/settings.md, written from the table of commands and from the settings.

`python -m kingly_memory.cli.reference > docs/cli.md`, and `… reference settings > docs/settings.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from kingly_memory.cli.commands import COMMON, Command, commands, parameters_of
from kingly_memory.cli.parser import described, positional, spelled
from kingly_memory.dataclass import fields
from kingly_memory.declare import Parameter
from kingly_memory.settings import PUBLIC, TABLES, written

_HEAD = """\
# The command line

```
kingly-memory store "Deploys need two reviews" --key deploy.rule
kingly-memory search "who reviews a deploy"
kingly-memory search --help
```

The program is also called `kingly`, or `python -m kingly_memory`. This page is generated from the declarations:
`python -m kingly_memory.cli.reference > docs/cli.md`.

Where a memory is named by its id, the first six characters or more will do, as long as they fit one memory alone.
Errors are one sentence on standard error; with `--json` also `{"error": {"type", "field"?, "message"}}` on standard
output. The exit code is 0, 2 for input that cannot be accepted, 1 for any other failure, 130 after Ctrl-C.

## Options of every command

They may stand before or after the command. `hub` takes only those that its section names.
"""


_SETTINGS_HEAD = """\
# Settings

```
export KINGLY_REMOTE_SEARCH_S=0.3      # for what this shell starts
kingly-memory config                   # every setting, and where its value comes from
```

Each is a field of `Settings` and an environment variable. Times are in seconds, sizes in bytes; in a file and in the
environment a time may have a unit, as in `90s`, `30m`, `12h`, `7d` or `2w`. This page is generated:
`python -m kingly_memory.cli.reference settings > docs/settings.md`.

A file may say them too: `.kingly/config.toml`, `.yaml` or `.yml` beside the memories, or the one that `KINGLY_CONFIG`
names; [lifecycle.md](lifecycle.md#switching-it-on-and-off) shows one. The environment wins over it.
Such a file in a project is obeyed once you have run `kingly-memory trust`, and until its contents change: a cloned
repository may have brought it along. Until then commands name it and go on without it. A file in your own data folder
(`~/.local/share/kingly`) needs no trust, nor does one outside of every project that `KINGLY_CONFIG` names.

Where a router works is not a setting but an argument, or one of `KINGLY_HOME`, `KINGLY_REMOTE`, `KINGLY_TOKEN`,
`KINGLY_PROJECT`, `KINGLY_USER` and `KINGLY_AGENT`. Several remotes have names, and tokens in `KINGLY_TOKEN_<NAME>`:
[remotes.md](remotes.md#several-remotes). `KINGLY_TOKEN_FILE` names a file with the token, of mode 0600, which is read
again when the token is refused. The hub's token is `KINGLY_HUB_TOKEN` or in `KINGLY_HUB_TOKEN_FILE`, that of the MCP
server over HTTP `KINGLY_MCP_TOKEN`. A language model that checks memories is named by `KINGLY_LLM_URL` (that of an
OpenAI-compatible endpoint, such as `http://localhost:11434/v1`), `KINGLY_LLM_MODEL` and, if it wants one,
`KINGLY_LLM_TOKEN`.

| field | variable | default | meaning |
|---|---|---|---|"""

_TABLES_HEAD = """\
## Tables

Two settings are tables of keys. Keys that you do not name keep their defaults. In Python each is a value:

```python
from kingly_memory import Settings
from kingly_memory.settings import Lifetimes

settings = Settings(lifetimes=Lifetimes(working=3600, semantic=90 * 86400))
```

In a settings file each is a table, and in the environment one variable:

```toml
[lifetimes]
working = "1h"
semantic = "90d"
```

```bash
export KINGLY_LIFETIMES="working=1h, semantic=90d"
```"""


def settings_reference() -> str:
    """The page as Markdown."""
    rows = (
        f"| `{one.name}` | `KINGLY_{one.name.upper()}` | {written(one.default)} | {one.metadata['meaning']} |"
        for one in PUBLIC
        if one.name not in TABLES
    )
    return "\n".join([_SETTINGS_HEAD, *rows, "", _TABLES_HEAD, *(line for name in TABLES for line in _table(name)), ""])


def _table(name: str) -> Iterator[str]:
    kind = type(TABLES[name])
    yield from ["", f"### {name}", "", kind.__doc__ or "", ""]
    yield from [f"`{kind.__name__}` in Python, `KINGLY_{name.upper()}` in the environment.", ""]
    yield from ["| key | default | meaning |", "|---|---|---|"]
    for one in fields(kind):
        yield f"| `{one.name}` | {written(one.default)} | {one.metadata['meaning']} |"


def cli_reference() -> str:
    """The page as Markdown."""
    return "\n".join([_HEAD, *_options(COMMON), "", *(line for one in commands() for line in _section(one))])


def _section(command: Command) -> Iterator[str]:
    parameters = parameters_of(command)
    yield f"## {command.name}"
    yield ""
    yield f"    kingly-memory {' '.join([command.name, *map(_usage, parameters)])}"
    yield ""
    yield command.says
    yield ""
    if parameters:
        yield from [*_options(parameters), ""]


def _options(parameters: Iterable[Parameter]) -> list[str]:
    rows = (f"| `{spelled(one)}` | {_cell(described(one))} |" for one in parameters)
    return ["| argument | meaning |", "|---|---|", *rows]


def _usage(one: Parameter) -> str:
    return f"[{spelled(one)}]" if one.is_option else positional(one)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(settings_reference() if sys.argv[1:] == ["settings"] else cli_reference())
