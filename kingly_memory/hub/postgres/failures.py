"""What is said of a database that does not do what it is asked, without a password and without PostgreSQL's words."""

from __future__ import annotations

import re

import psycopg

from kingly_memory.errors import StoreUnreadable, StoreUnwritable

_FIND, _ADMIT = "Start it, or mend the address", "Mend the address, or let that user in"
_REFUSALS = {
    "remote node": ("a node of its Citus does not answer", "Start the node that the log of PostgreSQL names"),
    "password": ("the user or the password is refused", _ADMIT),
    "pg_hba.conf": ("its pg_hba.conf does not let that user in from here", _ADMIT),
    "permission denied": ("that user may not connect to it", _ADMIT),
    "not currently accepting": ("it takes no connections", "Let it take some"),
    "slots are reserved": ("it has no connection left", "End some, or raise its max_connections"),
    "too many": ("it has no connection left", "End some, or raise its limits"),
    "certificate": ("its certificate is not trusted", "Mend the address (sslrootcert), or the certificate"),
    "does not exist": ("there is no such database or user", _FIND),
    "invalid ": ("its address makes no sense", "Write postgresql://user@host:5432/database"),
    "support SSL": ("hub and database do not agree on TLS", "Mend the address (sslmode), or the certificate"),
    "refused": ("nobody listens there", _FIND),
    "No such file": ("nobody listens there", _FIND),
    "could not translate": ("there is no such host", _FIND),
    "failed to resolve": ("there is no such host", _FIND),
    "starting up": ("it is starting", "Wait a moment"),
    "shutting down": ("it is stopping", "Start it again"),
}
"""What is said of a failure whose text has that sign, and what to do: the first that is there counts."""


def failure(name: str, error: psycopg.Error) -> StoreUnreadable | StoreUnwritable:
    """What PostgreSQL says of the database of that name; its words may quote what was stored, so none is repeated."""
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        return StoreUnwritable(name, "it is read-only", "Name the primary, or let it take writes again")
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        to_do = "Let the user own the database, or grant it CREATE on its schema"
        return StoreUnreadable(name, "its user may not do that", to_do)
    # A wrong word of the address is a ProgrammingError; those that the server finds have classes of their own.
    if isinstance(error, psycopg.OperationalError) or type(error) is psycopg.ProgrammingError:
        text = re.sub('"[^"]*"', "", str(error))  # a name may hold any of the signs
        found = (said for sign, said in _REFUSALS.items() if sign in text)
        return StoreUnreadable(name, *next(found, ("it does not answer", _FIND)))
    return StoreUnreadable(name, type(error).__name__, "Look into the log of PostgreSQL")


def shown(address: str) -> str:
    """The address without user and password."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
        return f"postgresql://{parts.hostname or ''}{port}{parts.path}"
    except ValueError:
        return "postgresql://…"
