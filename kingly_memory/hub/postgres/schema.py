"""The tables of a hub on PostgreSQL, made by numbered steps that several hubs may take at the same time.

Every space has a row in `km_scope` with the counter of its feed, the position of its newest memory, how many live
memories it has, and of how many words those are. A change locks that row first: so changes of a space follow each
other, whichever hub makes them, and whoever reads the feed up to a number misses nothing below it.
"""

from __future__ import annotations

import os
from typing import Any

from psycopg import Connection

from kingly_memory.adapters.local.rows import facet
from kingly_memory.errors import StoreTooNew
from kingly_memory.ports import HOME, INCARNATION

_LOCK = 0x6B6D_0001
"""Any number that no other program's advisory lock has."""

POSITIONS = 2**20
"""How many a space takes at a time: it begins with the number that `km_position` gives."""

STEPS = (
    (
        f"CREATE SEQUENCE km_position START {POSITIONS} INCREMENT {POSITIONS}",
        "CREATE TABLE km_scope (space text PRIMARY KEY, sequence bigint NOT NULL DEFAULT 0, "
        "position bigint NOT NULL DEFAULT -1, live bigint NOT NULL DEFAULT 0, words bigint NOT NULL DEFAULT 0) "
        "WITH (fillfactor = 50)",
        "CREATE TABLE km_memory (id text PRIMARY KEY, position bigint NOT NULL UNIQUE, "
        "space text NOT NULL, key text, status text NOT NULL, type text NOT NULL, context_id text, "
        "sequence bigint NOT NULL DEFAULT 0, record text NOT NULL)",
        "CREATE UNIQUE INDEX km_memory_key ON km_memory (space, key) WHERE key IS NOT NULL",
        "CREATE INDEX km_memory_feed ON km_memory (space, sequence)",
        "CREATE INDEX km_memory_page ON km_memory (space, position) WHERE status = 'live'",
        "CREATE INDEX km_memory_context ON km_memory (space, type, context_id, position) WHERE status = 'live'",
        "CREATE TABLE km_revision (memory text, number integer, record text NOT NULL, PRIMARY KEY (memory, number))",
        "CREATE TABLE km_facet (name text, owner text, value text NOT NULL, PRIMARY KEY (name, owner))",
        "CREATE TABLE km_text (position bigint NOT NULL, start integer, space text NOT NULL, type text NOT NULL, "
        "size integer NOT NULL, tsv tsvector NOT NULL)",
        "CREATE INDEX km_text_position ON km_text (position)",
        "CREATE INDEX km_text_words ON km_text USING gin (tsv) WITH (fastupdate = off)",
    ),
    ("ALTER INDEX km_text_words SET (fastupdate = on, gin_pending_list_limit = 64)",),
    (
        "CREATE TABLE km_vector (memory text, embedder text, space text NOT NULL, place bigint NOT NULL, "
        "revision integer NOT NULL, levels bytea NOT NULL, PRIMARY KEY (memory, embedder))",
        "CREATE UNIQUE INDEX km_vector_made ON km_vector (space, embedder, place)",
    ),
)
"""One tuple of statements for each number; what was released is never changed.

The words of some fifty memories wait in a list of 64 kB, the shortest there is, until they are put into the index
together: that takes two thirds of the processor, and a search reads the list too, some tenths of a millisecond longer.
"""


def prepare(connection: Connection[Any], address: str) -> None:
    """Bring the schema up to date, and name the database's incarnation: another one where it was restored, copied, or
    failed over, since it may lack what was acknowledged before. Raises StoreTooNew and what psycopg does."""
    now = _made_as(connection)
    is_there = connection.execute("SELECT to_regclass('km_schema') IS NOT NULL").fetchone() == (True,)
    if is_there and connection.execute("SELECT step, made_as FROM km_schema").fetchone() == (len(STEPS), now):
        return  # a database that is read-only can be read
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        connection.execute("CREATE TABLE IF NOT EXISTS km_schema (step integer NOT NULL, made_as text NOT NULL)")
        found = connection.execute("SELECT step, made_as FROM km_schema").fetchone()
        done, made_as = found or (0, "")
        if done > len(STEPS):
            raise StoreTooNew(address, done, len(STEPS))
        for statements in STEPS[done:]:
            for statement in statements:
                connection.execute(statement)
        if found is None:
            connection.execute("INSERT INTO km_schema VALUES (%s, %s)", (len(STEPS), now))
        elif found != (len(STEPS), now):
            connection.execute("UPDATE km_schema SET step = %s, made_as = %s", (len(STEPS), now))
        if made_as != now:
            named = {"id": os.urandom(16).hex(), **({"restored": True} if made_as else {})}
            connection.execute("DELETE FROM km_facet WHERE (name, owner) = (%s, %s)", (HOME, INCARNATION))
            connection.execute("INSERT INTO km_facet VALUES (%s, %s, %s)", (HOME, INCARNATION, facet(named)))


def _made_as(connection: Connection[Any]) -> str:
    """What a restored, copied or promoted database has another one of."""
    found = connection.execute(
        "SELECT system_identifier, (SELECT timeline_id FROM pg_control_checkpoint()), "
        "(SELECT oid FROM pg_database WHERE datname = current_database()) FROM pg_control_system()"
    ).fetchone()
    return "/".join(map(str, found or ()))
