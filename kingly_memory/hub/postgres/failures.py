"""What is said of a database that does not do what it is asked, without a password and without PostgreSQL's words."""

from __future__ import annotations

import psycopg

from kingly_memory.errors import StoreUnreadable


def failure(name: str, error: psycopg.Error) -> StoreUnreadable:
    """What PostgreSQL says of the database of that name; its words may quote what was stored, so none is repeated."""
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        return StoreUnreadable(name, "it is read-only", "Name the primary, or let it take writes again")
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return StoreUnreadable(
            name,
            "its user may not do that",
            "Let the user own the database, or grant it CREATE on its schema",
        )
    if isinstance(error, psycopg.OperationalError):
        return StoreUnreadable(name, _cause(error), "Start it, or mend the address; no restart is needed here")
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


def _cause(error: psycopg.Error) -> str:
    """In words of ours."""
    text = str(error)
    signs = {
        "password": "the user or the password is refused",
        "does not exist": "there is no such database or user",
        "refused": "nobody listens there",
        "No such file": "nobody listens there",
        "could not translate": "there is no such host",
        "failed to resolve": "there is no such host",
        "starting up": "it is starting",
        "shutting down": "it is stopping",
        "too many clients": "it has no connection left",
    }
    return next((words for sign, words in signs.items() if sign in text), "it does not answer")
