"""The commands about a running hub: how it is, and its tokens and quotas, which lie in a file that it looks at."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Answer, Output, ago, table
from kingly_memory.extras import require
from kingly_memory.home.place import hub_home
from kingly_memory.text.writing import counted

_PATIENCE_S = 10.0
_METRIC = re.compile(
    r'^kingly_hub_(requests|request_seconds)_total{method="(\w+)"(?:,status="(\d+)")?} (\S+)$', re.MULTILINE
)


def status(options: Options, out: Output) -> Answer:
    """Ask a hub how it is, and with a token, where it needs one, what it has answered since its start."""
    import httpx  # few commands speak to a server by themselves

    from kingly_memory.errors import RemoteUnavailable
    from kingly_memory.home.secret_file import secret

    file = options.token_file
    bearer = {"Authorization": f"Bearer {secret(Path(file), 'token_file')}"} if file else {}
    try:
        with httpx.Client(base_url=options.url, timeout=_PATIENCE_S, trust_env=False, headers=bearer) as web:
            health, ready, metrics = (web.get(f"/{one}") for one in ("health", "ready", "metrics"))
        version = str(health.json()["version"])
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError):
        raise RemoteUnavailable(f"no hub answers at {options.url}; name its address with --url") from None
    told = _counted(metrics.text) if metrics.status_code == HTTPStatus.OK else {}
    is_ready = ready.status_code == HTTPStatus.OK
    lines = [f"{options.url} is kingly-hub {version}, {'ready' if is_ready else 'not ready: ' + _reason(ready.text)}"]
    rows = [(name, f"{one['calls']:,}", f"{one['refused']:,}", f"{one['ms']:.1f}") for name, one in told.items()]
    lines += table(rows, ("METHOD", "CALLS", "REFUSED", "MS EACH")) if rows else []
    if metrics.status_code != HTTPStatus.OK:
        lines.append("  what it has answered is told with --token-file alone")
    return Answer({"url": options.url, "version": version, "ready": is_ready, "methods": told}, lines)


def _counted(metrics: str) -> dict[str, dict[str, float]]:
    """Calls, those of them that were not answered with success, and milliseconds of each, by method."""
    found: dict[str, dict[str, float]] = {}
    for name, method, code, value in _METRIC.findall(metrics):
        one = found.setdefault(method, {"calls": 0, "refused": 0, "ms": 0.0})
        if name == "requests":
            one["calls"] += int(value)
            one["refused"] += int(value) if code != str(HTTPStatus.OK.value) else 0
        else:
            one["ms"] = float(value) * 1000 / max(one["calls"], 1)
    return found


def _reason(body: str) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return "it does not say why"


def page(options: Options, out: Output) -> Answer:
    from kingly_memory.page.hub.sessions import LINK_HOLDS, offered

    url = f"{options.url.rstrip('/')}/page?token={offered(_home(options), datetime.now(UTC))}"
    minutes = round(LINK_HOLDS.total_seconds() / 60)
    return Answer({"url": url}, [f"open {url}", f"  it works once, within {minutes} minutes"])


def listed(options: Options, out: Output) -> Answer:
    from kingly_memory.hub.grants import Grants

    found = Grants.read(_home(options))
    told = [one.to_json() for one in found.by_digest.values()]
    rows = [
        (
            one.holder,
            _roles(role.word, project),
            one.namespace,
            ago(datetime.fromisoformat(one.made_at), datetime.now(UTC)),
        )
        for one in found.by_digest.values()
        for project, role in one.roles.items()
    ]
    lines = (
        table(rows, ("NAME", "MAY", "NAMESPACE", "MADE"))
        if rows
        else [
            f"{'no token is left, so nobody is let in' if found.is_needed else 'no token was made'};"
            " make one with `kingly-memory hub tokens create NAME`"
        ]
    )
    limits = [f"{name} may keep {counted(most, 'memory')}" for name, most in found.quotas.items()]
    return Answer({"tokens": told, "quotas": dict(found.quotas)}, [*lines, *limits])


def create(options: Options, out: Output) -> Answer:
    from kingly_memory.hub.grants import changing, granted

    home = _home(options)
    grant = granted(options.name, options.role, options.project or (), options.namespace, datetime.now(UTC))
    with changing(home) as grants:
        after, token = grants.made(grant)
        after.write(home)
    may = " and ".join(_roles(role.word, project) for project, role in grant.roles.items())
    lines = [
        token,
        f"  {grant.holder} may {may}",
        "  it is shown this once; give it to the holder as KINGLY_TOKEN, or in a file of mode 0600 as --token-file",
    ]
    if not grants.is_needed:
        lines.append("  from now on the hub answers nobody without a token")
    return Answer({"name": grant.holder, "token": token}, lines)


def revoke(options: Options, out: Output) -> Answer:
    from kingly_memory.hub.grants import changing

    home = _home(options)
    with changing(home) as grants:
        grants.revoked(options.name).write(home)
    return Answer({"name": options.name, "revoked": True}, [f"{options.name} is let in no more"])


def quota(options: Options, out: Output) -> Answer:
    from kingly_memory.hub.grants import changing

    home = _home(options)
    most = options.memories if isinstance(options.memories, int) else None
    with changing(home) as grants:
        grants.limited(options.namespace, most).write(home)
    limit = "as many memories as there is room for" if most is None else counted(most, "memory")
    return Answer({"namespace": options.namespace, "memories": most}, [f"{options.namespace} may keep {limit}"])


def _home(options: Options) -> Path:
    require("hub", "`kingly-memory hub`")
    return Path(options.home) if options.home else hub_home()


def _roles(word: str, project: str) -> str:
    return f"{word} in {'every project' if project == '*' else project}"
