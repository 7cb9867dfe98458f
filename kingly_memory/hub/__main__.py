"""`python -m kingly_memory.hub`: the hub without the rest of the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kingly_memory.errors import KinglyMemoryError
from kingly_memory.hub.serve import DEFAULT_HOST, DEFAULT_PORT, run_hub
from kingly_memory.place import hub_token


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m kingly_memory.hub", description="Serve memories over HTTP.", allow_abbrev=False
    )
    parser.add_argument("--home", type=Path, help="folder of the hub's own store")
    parser.add_argument("--host", default=DEFAULT_HOST, help="address to listen on; off loopback a token is required")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="0 takes a free port")
    parser.add_argument("--tokens-file", type=Path, help="JSON object of token: namespace")
    parser.add_argument("--until-eof", action="store_true", help="stop when standard input ends")
    chosen = parser.parse_args(arguments)
    try:
        run_hub(
            chosen.home,
            chosen.host,
            chosen.port,
            token=hub_token(),
            tokens_file=chosen.tokens_file,
            until_eof=chosen.until_eof,
        )
    except KinglyMemoryError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
