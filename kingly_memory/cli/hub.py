"""The verb that runs a hub."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from kingly_memory.cli.output import Output
from kingly_memory.cli.place import token_of
from kingly_memory.extras import require
from kingly_memory.settings import hub_token


def hub(options: Namespace, out: Output) -> int:
    """Serve until stopped. The token is that of --token-file or KINGLY_HUB_TOKEN; `--home` is the hub's own."""
    require("hub", "`kingly-memory hub`")
    from kingly_memory.hub.serve import run_hub  # starlette and numpy, which no other command needs

    run_hub(
        Path(options.home) if options.home else None,
        options.host,
        options.port,
        token=token_of(options) or hub_token(),
        tokens_file=Path(options.tokens_file) if options.tokens_file else None,
        as_json=out.as_json,
    )
    return 0
