"""The commands that serve: a hub, agents over MCP, and a page for people."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Output
from kingly_memory.cli.place import place_of
from kingly_memory.dataclass import replace
from kingly_memory.extras import require
from kingly_memory.home.place import hub_store, hub_token, mcp_token
from kingly_memory.models import RemoteUse
from kingly_memory.settings import Settings


def hub(options: Options, out: Output) -> int:
    """Serve until stopped. The token is that of --token-file or KINGLY_HUB_TOKEN; `--home` is the hub's own."""
    require("hub", "`kingly-memory hub`")
    from kingly_memory.hub.serve import run_hub  # starlette and numpy, which no other command needs
    from kingly_memory.page.hub.serve import places

    token, token_file = hub_token() if options.token_file is None else (None, Path(options.token_file))
    run_hub(
        Path(options.home) if options.home else None,
        options.host,
        options.port,
        token=token,
        token_file=token_file,
        tokens_file=Path(options.tokens_file) if options.tokens_file else None,
        store=options.store or hub_store(),
        tls_cert=Path(options.tls_cert) if options.tls_cert else None,
        tls_key=Path(options.tls_key) if options.tls_key else None,
        access_log=options.access_log,
        until_eof=options.until_eof,
        as_json=out.as_json,
        page=places,
    )
    return 0


def mcp(options: Options, out: Output) -> int:
    """Serve until input ends, or over HTTP until stopped. `--agent` is who stores; what others stored is found too."""
    require("mcp", "`kingly-memory mcp`")
    place = replace(place_of(options, out), remote_use=RemoteUse.ADD)  # it is how a host is configured
    settings = Settings.from_environment(home=place.home)
    from kingly_memory.hub.logs import warnings_to_stderr
    from kingly_memory.server.memory_server import run, server_of  # the SDK, which no other command needs
    from kingly_memory.server.tools import chosen

    with warnings_to_stderr():
        server = server_of(place, settings, chosen(options.tools), shared=options.http)
        if not options.http:
            run(server.run_stdio())
            return 0
        from kingly_memory.server.web import serve

        serve(server, place.home, options.port, token=mcp_token(), run=run)
    return 0


def page(options: Options, out: Output) -> int:
    """Serve a page for people until stopped. The link in the first line is a key to it, once."""
    require("page", "`kingly-memory page`")
    place = place_of(options, out)
    settings = Settings.from_environment(home=place.home)
    from kingly_memory.hub.logs import warnings_to_stderr
    from kingly_memory.page.serve import serve  # starlette, which no other command of people needs

    def shown(url: str) -> None:
        sys.stdout.write(f"{json.dumps({'url': url}) if out.as_json else f'kingly-memory page: open {url}'}\n")
        sys.stdout.flush()
        if options.browser:
            import webbrowser

            webbrowser.open(url)

    with warnings_to_stderr():
        serve(place, settings, options.port, shown=shown)
    return 0
