"""The commands that serve (a hub, agents over MCP, a page for people), and those about a running hub: how it is, and
its tokens and quotas, which lie in a file that it looks at."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Answer, Output, table
from kingly_memory.cli.place import place_of
from kingly_memory.dataclass import replace
from kingly_memory.extras import require
from kingly_memory.home.own_files import named_path
from kingly_memory.home.place import hub_home, hub_store, hub_token, mcp_token
from kingly_memory.models import RemoteUse
from kingly_memory.settings import Settings
from kingly_memory.text.writing import ago, counted

_PATIENCE_S = 10.0
_MAKING_ONE = "make one with `kingly-memory hub tokens create NAME`"
_METRIC = re.compile(
    r'^kingly_hub_(requests|request_seconds)_total{method="(\w+)"(?:,status="(\d+)")?} (\S+)$', re.MULTILINE
)


def hub(options: Options, out: Output) -> int:
    """Serve until stopped. The token is that of --token-file or KINGLY_HUB_TOKEN; `--home` is the hub's own."""
    home = _home(options)
    from kingly_memory.hub.serve import run_hub  # starlette and numpy, which no other command needs
    from kingly_memory.page.hub.serve import places

    token, token_file = hub_token() if options.token_file is None else (None, Path(options.token_file))
    tokens_file, tls_cert, tls_key = (
        named_path(name, given) if (given := getattr(options, name)) else None
        for name in ("tokens_file", "tls_cert", "tls_key")
    )
    run_hub(
        home,
        options.host,
        options.port,
        token=token,
        token_file=token_file,
        tokens_file=tokens_file,
        store=options.store or hub_store(),
        tls_cert=tls_cert,
        tls_key=tls_key,
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


# --- a running hub ----------------------------------------------------------------------------------------------------


def hub_status(options: Options, out: Output) -> Answer:
    """Ask a hub how it is, and with a token, where it needs one, what it has answered since its start."""
    import httpx  # few commands speak to a server by themselves

    from kingly_memory.adapters.remote.endpoint import endpoint
    from kingly_memory.adapters.remote.http import why
    from kingly_memory.errors import InvalidInput, RemoteUnavailable
    from kingly_memory.home.secret_file import secret

    try:
        hub = str(endpoint(options.url))
    except InvalidInput as error:
        raise InvalidInput("url", error.problem) from None
    file = options.token_file
    bearer = {"Authorization": f"Bearer {secret(Path(file), 'token_file')}"} if file else {}
    try:
        trusted = httpx.create_ssl_context()  # `trust_env`, off because of proxies, would leave out SSL_CERT_FILE too
        with httpx.Client(
            base_url=options.url, timeout=_PATIENCE_S, trust_env=False, headers=bearer, verify=trusted
        ) as web:
            health, ready, metrics = (web.get(f"/{one}") for one in ("health", "ready?once", "metrics"))
        said = health.json()
        version, embedder = str(said["version"]), said["embedder"]
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, KeyError, TypeError) as problem:
        reason = why(problem)
        found = f" ({reason})" if reason else ""
        raise RemoteUnavailable(f"no hub answers at {hub}{found}; name its address with --url") from None
    methods = _counted(metrics.text) if metrics.status_code == HTTPStatus.OK else {}
    is_ready, state = ready.status_code == HTTPStatus.OK, "ready"
    if not is_ready:
        try:
            state = f"not ready: {ready.json()['error']}"
        except (ValueError, KeyError, TypeError):
            state = "not ready: it does not say why"
    finds = "words" if embedder is None else f"words and meaning ({embedder})"
    lines = [f"{hub} is kingly-hub {version}, {state}, and finds by {finds}"]
    rows = [
        (name, f"{counts['calls']:,}", f"{counts['refused']:,}", f"{counts['ms']:.1f}")
        for name, counts in methods.items()
    ]
    lines += table(rows, ("METHOD", "CALLS", "REFUSED", "MS EACH")) if rows else []
    if metrics.status_code != HTTPStatus.OK:
        is_refused = metrics.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
        refused = f"; the token in {file} was not accepted" if file and is_refused else ""
        lines.append(f"  what it has answered is told only with --token-file{refused}")
    data = {"url": hub, "version": version, "embedder": embedder, "ready": is_ready, "methods": methods}
    return Answer(data, lines)


def _counted(metrics: str) -> dict[str, dict[str, float]]:
    """Calls, those of them that were not answered with success, and milliseconds of each, by method."""
    methods: dict[str, dict[str, float]] = {}
    for name, method, code, value in _METRIC.findall(metrics):
        counts = methods.setdefault(method, {"calls": 0, "refused": 0, "ms": 0.0})
        if name == "requests":
            counts["calls"] += int(value)
            counts["refused"] += int(value) if code != str(HTTPStatus.OK.value) else 0
        else:
            counts["ms"] = float(value) * 1000 / max(counts["calls"], 1)
    return methods


def hub_page(options: Options, out: Output) -> Answer:
    from kingly_memory.page.hub.sessions import LINK_HOLDS, offered

    url = f"{options.url.rstrip('/')}/page?token={offered(_home(options), datetime.now(UTC))}"
    minutes = round(LINK_HOLDS.total_seconds() / 60)
    return Answer({"url": url}, [f"open {url}", f"  it works once, within {minutes} minutes"])


def hub_tokens(options: Options, out: Output) -> Answer:
    from kingly_memory.hub.grants import Grants

    grants = Grants.read(_home(options))
    holders = grants.by_digest.values()
    rows = [
        (holder.holder, may, holder.namespace, ago(datetime.fromisoformat(holder.made_at)))
        for holder in holders
        for may in holder.may
    ]
    none = "no token is left, so nobody is let in" if grants.is_needed else "no token was made"
    lines = table(rows, ("NAME", "MAY", "NAMESPACE", "MADE")) if rows else [f"{none}; {_MAKING_ONE}"]
    limits = [f"{name} may keep {counted(most, 'memory')}" for name, most in grants.quotas.items()]
    data = {"tokens": [one.to_json() for one in holders], "quotas": dict(grants.quotas)}
    return Answer(data, [*lines, *limits])


def hub_tokens_create(options: Options, out: Output) -> Answer:
    from kingly_memory.hub.grants import changing, granted

    home = _home(options)
    grant = granted(options.name, options.role, options.project or (), options.namespace, datetime.now(UTC))
    with changing(home) as grants:
        after, token = grants.made(grant)
        after.write(home)
    out.note(f"{grant.holder} may {' and '.join(grant.may)}")  # beside the token, which is alone on standard output
    if options.role == "write":
        out.note("what its holder forgets stays on the hub; --role forget makes one that may forget there")
    out.note("it is shown this once; give it to the holder as KINGLY_TOKEN, or in a file of mode 0600 as --token-file")
    if not grants.is_needed:
        out.note("from now on the hub answers nobody without a token")
    return Answer({"name": grant.holder, "token": token}, [token])


def hub_tokens_revoke(options: Options, out: Output) -> Answer:
    from kingly_memory.hub.grants import changing

    home = _home(options)
    with changing(home) as grants:
        grants.revoked(options.name).write(home)
    return Answer({"name": options.name, "revoked": True}, [f"{options.name} is let in no more"])


def hub_quota(options: Options, out: Output) -> Answer:
    from kingly_memory.hub.grants import changing

    home = _home(options)
    most = options.memories if isinstance(options.memories, int) else None
    with changing(home) as grants:
        grants.limited(options.namespace, most).write(home)
    limit = "as many memories as there is room for" if most is None else counted(most, "memory")
    return Answer({"namespace": options.namespace, "memories": most}, [f"{options.namespace} may keep {limit}"])


def _home(options: Options) -> Path:
    require("hub", "`kingly-memory hub`")
    return named_path("home", options.home) if options.home else hub_home()
