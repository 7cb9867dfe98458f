"""The commands about a hub's tokens and quotas. They change a file of its home, which the running hub looks at."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Answer, Output, counted, table
from kingly_memory.extras import require


def listed(options: Options, out: Output) -> Answer:
    from kingly_memory.hub.grants import Grants

    found = Grants.read(_home(options))
    told = [
        {
            "name": one.holder,
            "namespace": one.namespace,
            "roles": {project: role.word for project, role in one.roles.items()},
            "made_at": one.made_at,
        }
        for one in found.by_digest.values()
    ]
    rows = [
        (one.holder, _roles(role.word, project), one.namespace, one.made_at[:10])
        for one in found.by_digest.values()
        for project, role in one.roles.items()
    ]
    lines = table(rows, ("NAME", "MAY", "NAMESPACE", "MADE")) if rows else [_none(found.is_written)]
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
    if not grants.is_written:
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
    from kingly_memory.place import user_data_folder

    return Path(options.home) if options.home else user_data_folder() / "hub"


def _roles(word: str, project: str) -> str:
    return f"{word} in {'every project' if project == '*' else project}"


def _none(is_written: bool) -> str:
    if is_written:
        return "no token is left, so nobody is let in; make one with `kingly-memory hub tokens create NAME`"
    return "no token was made; make one with `kingly-memory hub tokens create NAME`"
