"""Every SQL statement of the local layer, and every name that is diskcache's own.

diskcache keeps one table, `Cache(rowid, key, raw, store_time, expire_time, …, tag, size, mode, filename, value)`. Rows
with keys `m:<id>` are memories, `<facet>:<owner>` facets, `key:<digest>` pointers from a key to an id. The `tag` column
of a memory row holds its scope tokens. Triggers keep the two text indexes in step with the `m:` rows inside the same
transaction, whoever writes.
"""

from __future__ import annotations

LAYOUT = 2
"""PRAGMA user_version of the store. Raised when what is written changes; an older one is not opened."""

SETTINGS = {
    "statistics": 0,
    "tag_index": 0,
    "eviction_policy": "none",
    "size_limit": 2**50,
    "cull_limit": 0,
    "sqlite_auto_vacuum": 0,
    "sqlite_cache_size": 2**13,
    "sqlite_journal_mode": "wal",
    "sqlite_mmap_size": 0,
    "disk_min_file_size": 2**40,
    "disk_pickle_protocol": 4,
}
"""diskcache's settings that keep every row, inline. `sqlite_synchronous` follows the durability."""

SYNCHRONOUS = {"power": 2, "process": 1}
METADATA = ("count", "size", "hits", "misses")
MODE_RAW = 1

_IS_MEMORY = "{row}key >= 'm:' AND {row}key < 'm;'"
_IS_DELIVERY = "key >= 'delivery:' AND key < 'delivery;'"
_REMOTE = "substr(key, 10, 16)"
_STATE = "json_extract(value, '$.state')"
_DUE = "json_extract(value, '$.due')"
_OUTBOX = f"FROM Cache INDEXED BY km_outbox WHERE {_IS_DELIVERY} AND {_STATE} <> 'delivered' AND {_REMOTE} = ?"

_TEXT_COLUMNS = "title, body, labels, scope"
_INDEXED = (
    ", ".join(f"json_extract({{row}}value, '$.{field}')" for field in ("title", "content", "tags")) + ", {row}tag"
)
"""Tags as JSON text: the tokenizer drops its quotes, and FTS5 cannot rebuild from a view that calls json_each."""
_PIECES = "json_extract({row}value, '$.content')"
UNBROKEN = "unbroken"
"""Ends the tag of a memory row whose content holds a script without word breaks: only such go into the piece index."""
_IS_UNBROKEN = f"substr({{row}}tag, -{len(UNBROKEN) + 1}) = ' {UNBROKEN}'"
_IS_BATCH = "EXISTS (SELECT 1 FROM km_waiting WHERE id = 0)"
_IS_INDEXED = "NOT EXISTS (SELECT 1 FROM km_waiting WHERE id = old.rowid)"


def _trigger(name: str, event: str, condition: str, *actions: str) -> str:
    body = "; ".join(actions)
    return f"CREATE TRIGGER {name} AFTER {event} ON Cache WHEN {condition} BEGIN {body}; END"


def _add_text(columns: str) -> str:
    return f"INSERT INTO km_text(rowid, {_TEXT_COLUMNS}) SELECT {columns}"


_ADD = (
    f"{_add_text('new.rowid, ' + _INDEXED.format(row='new.'))} WHERE NOT {_IS_BATCH}",
    f"INSERT INTO km_pieces(rowid, body) SELECT new.rowid, {_PIECES.format(row='new.')} "
    f"WHERE {_IS_UNBROKEN.format(row='new.')} AND NOT {_IS_BATCH}",
    f"INSERT OR IGNORE INTO km_waiting SELECT new.rowid WHERE {_IS_BATCH}",
)
_DROP = (
    f"INSERT INTO km_text(km_text, rowid, {_TEXT_COLUMNS}) SELECT 'delete', old.rowid, {_INDEXED.format(row='old.')} "
    f"WHERE {_IS_INDEXED}",
    f"INSERT INTO km_pieces(km_pieces, rowid, body) SELECT 'delete', old.rowid, {_PIECES.format(row='old.')} "
    f"WHERE {_IS_UNBROKEN.format(row='old.')} AND {_IS_INDEXED}",
    "DELETE FROM km_waiting WHERE id = old.rowid",
)

SCHEMA: dict[str, str] = {
    "km_vocabulary": (
        "CREATE TABLE km_vocabulary(length INTEGER, word TEXT, PRIMARY KEY (length, word)) WITHOUT ROWID"
    ),
    "km_waiting": "CREATE TABLE km_waiting(id INTEGER PRIMARY KEY)",
    "km_text_source": (
        "CREATE VIEW km_text_source AS SELECT rowid, json_extract(value, '$.title') AS title, "
        "json_extract(value, '$.content') AS body, json_extract(value, '$.tags') AS labels, tag AS scope "
        "FROM Cache WHERE " + _IS_MEMORY.format(row="")
    ),
    "km_pieces_source": (
        "CREATE VIEW km_pieces_source AS SELECT rowid, json_extract(value, '$.content') AS body FROM Cache WHERE "
        + _IS_MEMORY.format(row="")
        + " AND "
        + _IS_UNBROKEN.format(row="")
    ),
    "km_text": (
        f"CREATE VIRTUAL TABLE km_text USING fts5({_TEXT_COLUMNS}, content='km_text_source', "
        "content_rowid='rowid', tokenize='porter unicode61')"
    ),
    "km_pieces": (
        "CREATE VIRTUAL TABLE km_pieces USING fts5(body, content='km_pieces_source', content_rowid='rowid', "
        "tokenize='trigram')"
    ),
    "km_added": _trigger("km_added", "INSERT", _IS_MEMORY.format(row="new."), *_ADD),
    "km_changed": _trigger("km_changed", "UPDATE OF key, tag, value", _IS_MEMORY.format(row="new."), *_DROP, *_ADD),
    "km_removed": _trigger("km_removed", "DELETE", _IS_MEMORY.format(row="old."), *_DROP),
    "km_outbox": (
        f"CREATE INDEX km_outbox ON Cache({_REMOTE}, {_STATE}, {_DUE}) WHERE {_IS_DELIVERY} AND {_STATE} <> 'delivered'"
    ),
    "km_remote_id": (
        "CREATE INDEX km_remote_id ON Cache(json_extract(value, '$.remote_id')) "
        f"WHERE {_IS_DELIVERY} AND json_extract(value, '$.remote_id') IS NOT NULL"
    ),
    "km_expiry": (
        "CREATE INDEX km_expiry ON Cache(json_extract(value, '$.expires_at')) "
        "WHERE key >= 'lifetime:' AND key < 'lifetime;'"
    ),
}
"""What we add to diskcache's own tables, by name, in the order of creation."""

# --- opening and checking ---------------------------------------------------------------------------------------------

OWN_CHECK = "SELECT type, name, sql FROM sqlite_master"
SETTINGS_CHECK = "SELECT key, value FROM Settings"
HAS_SETTINGS = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'Settings'"
# `trusted_schema = OFF` would refuse our own expression indexes on SQLite 3.40, so the schema is compared instead.
READ_PRAGMAS = (
    "PRAGMA schema_version",  # reads the file, so that a bad one fails here
    "PRAGMA query_only = ON",
    "PRAGMA cell_size_check = ON",
    "PRAGMA mmap_size = 0",
)
WRITE_PRAGMAS = ("PRAGMA cell_size_check = ON",)

# --- rows --------------------------------------------------------------------------------------------------------

GET = "SELECT value FROM Cache WHERE key = ? AND raw = 1"
GET_MEMORY = "SELECT rowid, value, tag FROM Cache WHERE key = ? AND raw = 1"
GET_MANY = "SELECT key, value FROM Cache WHERE raw = 1 AND key IN ({marks})"
RESTAND = "UPDATE Cache SET tag = ? || substr(tag, instr(tag, ' ')), store_time = ? WHERE raw = 1 AND key IN ({marks})"
"""The standing is the first word of a memory's tag; by the time TALKS tells that something was done to it. Many in one
statement: FTS5 writes a segment for each statement."""
OWNERS = "SELECT substr(key, ?) FROM Cache INDEXED BY Cache_key_raw WHERE raw = 1 AND key >= ? AND key < ? LIMIT 1000"

# --- salvage ------------------------------------------------------------------------------------------------------

SALVAGE_PRAGMAS = (
    "PRAGMA query_only = ON",
    "PRAGMA mmap_size = 0",
    "PRAGMA cell_size_check = ON",
    "PRAGMA writable_schema = ON",  # reads a file that is shorter than its header says, and past bad schema entries
)
SALVAGE = (
    "SELECT rowid, key, value, tag, raw = 1 AND mode = 1 AND filename IS NULL AND typeof(value) = 'text' "
    "FROM Cache NOT INDEXED WHERE rowid > ? ORDER BY rowid LIMIT ?"
)
TABLE_CHECK = "SELECT type, name, sql FROM sqlite_master WHERE name = 'Cache'"

# --- a batch of changes ---------------------------------------------------------------------------------------------

# Each savepoint makes FTS5 write its new entries out as one more segment, and every statement that fires a trigger is
# one. So a batch notes its rows in km_waiting (0 says that a batch is under way) and indexes them together at its end.
BEGIN_BATCH = "INSERT OR IGNORE INTO km_waiting VALUES (0)"
END_BATCH = (
    f"INSERT INTO km_text(rowid, {_TEXT_COLUMNS}) SELECT rowid, {_TEXT_COLUMNS} FROM km_text_source "
    "WHERE rowid IN (SELECT id FROM km_waiting)",
    "INSERT INTO km_pieces(rowid, body) SELECT rowid, body FROM km_pieces_source "
    "WHERE rowid IN (SELECT id FROM km_waiting)",
    "DELETE FROM km_waiting",
)

# --- scope and text ----------------------------------------------------------------------------------------------

_PAGE = (
    "SELECT c.rowid, c.value, c.tag FROM km_text JOIN Cache AS c ON c.rowid = km_text.rowid "
    "WHERE km_text MATCH ? AND km_text.rowid {beyond} ? ORDER BY km_text.rowid {order} LIMIT ?"
)
PAGE_DOWN = _PAGE.format(beyond="<", order="DESC")
PAGE_UP = _PAGE.format(beyond=">", order="ASC")
IN_TIME = (
    "SELECT position FROM (SELECT c.rowid AS position, "
    "CASE WHEN json_valid(c.value) THEN json_extract(c.value, '$.created_at') END AS at "
    "FROM km_text JOIN Cache AS c ON c.rowid = km_text.rowid WHERE km_text MATCH ?) "
    "WHERE at BETWEEN ? AND ? ORDER BY at DESC, position DESC LIMIT ?"
)
MATCHES = (
    "SELECT rowid, bm25(km_text, 2.0, 1.0, 1.0, 0.0) AS score FROM km_text WHERE km_text MATCH ? "
    "ORDER BY score, rowid DESC LIMIT ? OFFSET ?"
)
LATEST_MATCHES = (
    "SELECT rowid, score FROM (SELECT rowid, bm25(km_text, 2.0, 1.0, 1.0, 0.0) AS score FROM km_text "
    "WHERE km_text MATCH ?1 ORDER BY rowid DESC LIMIT ?2) ORDER BY score, rowid DESC LIMIT ?3"
)
"""Of the last ?2 that match, the best ?3."""
LATEST = "SELECT rowid FROM km_text WHERE km_text MATCH ? ORDER BY rowid DESC LIMIT ? OFFSET ?"
COUNT_OWN = (
    "SELECT CASE WHEN EXISTS (SELECT 1 FROM km_text WHERE km_text MATCH ?1) "
    "THEN (SELECT count(*) FROM (SELECT 1 FROM km_text WHERE km_text MATCH ?2 LIMIT ?3)) ELSE 0 END"
)
"""How many rows match the second expression; 0 when none match the first."""
COUNT_MATCHES = "SELECT count(*) FROM (SELECT 1 FROM km_text WHERE km_text MATCH ? LIMIT ?)"
AVERAGES = "SELECT block FROM km_text_data WHERE id = 1"
"""FTS5's own record of how many rows it has and how many tokens each column, as variable-length integers."""
STRUCTURE = "SELECT block FROM km_text_data WHERE id = 10"
"""FTS5's own record of the parts of the index: another one after every commit that stores or changes a text."""
TEXT_COLUMNS = 3
"""Of title, body and labels; the scope comes after them."""
_SAID = (
    "SELECT c.rowid, c.tag FROM km_text JOIN Cache AS c ON c.rowid = km_text.rowid "
    "WHERE km_text MATCH ? AND km_text.rowid {beyond} ? ORDER BY km_text.rowid {order} LIMIT ?"
)
SAID_IN = "SELECT c.rowid, c.tag FROM km_text JOIN Cache AS c ON c.rowid = km_text.rowid WHERE km_text MATCH ? LIMIT ?"
SAID_BEFORE = _SAID.format(beyond="<", order="DESC")
SAID_AFTER = _SAID.format(beyond=">", order="ASC")
_NEAR = (
    "SELECT group_concat(rowid) FROM (SELECT rowid FROM Cache NOT INDEXED WHERE rowid {beyond} at AND rowid {within} "
    "AND instr(tag, context) > 0 AND instr(tag, ?3) > 0 AND instr(tag || ' ', ?4) > 0 "
    "AND instr(?5, ' ' || substr(tag, 1, instr(tag, ' '))) > 0 AND raw = 1 AND key >= 'm:' AND key < 'm;' "
    "ORDER BY rowid {order} LIMIT ?1)"
)
NEAR = (
    "WITH lender(at, context) AS (VALUES {lenders}) SELECT at, ("
    + _NEAR.format(beyond="<", within=">= at - ?2", order="DESC")
    + "), ("
    + _NEAR.format(beyond=">", within="<= at + ?2", order="ASC")
    + ") FROM lender"
)
"""Who stands before and after each lender, as far as they lie within ?2 rows: in a quarter of the time that it takes to
ask the index for the neighbours of each."""
ROWS_AT = (
    "SELECT rowid, value, tag FROM Cache NOT INDEXED "
    "WHERE rowid IN ({marks}) AND raw = 1 AND key >= 'm:' AND key < 'm;'"
)
PIECES = (
    "SELECT c.rowid FROM km_pieces JOIN Cache AS c ON c.rowid = km_pieces.rowid "
    "WHERE instr(c.tag, ?) > 0 AND {conditions} ORDER BY km_pieces.rowid DESC LIMIT ?"
)
PIECE = "km_pieces MATCH ?"
SHORT_PIECE = "km_pieces.body LIKE ? ESCAPE '\\'"  # no index helps: reads them all
LITERAL = (
    "SELECT c.rowid FROM km_text JOIN Cache AS c ON c.rowid = km_text.rowid "
    "WHERE km_text MATCH ? AND {conditions} ORDER BY c.rowid DESC LIMIT ?"
)
LITERAL_PIECE = (
    "CASE WHEN instr(c.value, ?) > 0 THEN "
    "CASE WHEN json_valid(c.value) THEN instr(json_extract(c.value, '$.content'), ?) > 0 END END"
)
"""Given how the piece is written in JSON and the piece itself: parsing every row would take several times as long."""
WORDS = "SELECT word FROM km_vocabulary WHERE length = ? AND word BETWEEN ? AND ? LIMIT ?"
LEARN = "INSERT OR IGNORE INTO km_vocabulary VALUES (?, ?)"

# --- outbox and lifetimes ------------------------------------------------------------------------------------------

DUE = f"SELECT substr(key, 27), {_DUE} {_OUTBOX} AND {_STATE} = ? AND {_DUE} <= ? ORDER BY {_DUE}, rowid LIMIT ?"
FAR_AHEAD = f"SELECT substr(key, 27), {_DUE} {_OUTBOX} AND {_STATE} = ? AND {_DUE} > ? ORDER BY {_DUE}, rowid LIMIT ?"
_EARLY = (
    f"SELECT substr(key, 27) {_OUTBOX} AND {_STATE} IN ('pending', 'leased') "
    f"AND ({_STATE} = 'pending' OR {_DUE} <= ? OR {_DUE} > ?)"
)
EARLY = f"{_EARLY} ORDER BY key LIMIT ?"
EARLY_IN_TURN = f"{_EARLY} ORDER BY max(coalesce(json_extract(value, '$.attempts'), 0), 1), key LIMIT ?"
"""What failed once keeps its place; what failed more often comes after what did less often, lest it meet the remote
first each time and be the end of that."""
NEXT_DUE = f"SELECT min({_DUE}) {_OUTBOX} AND {_STATE} = ?"
OUTBOX_COUNTS = f"SELECT {_STATE}, count(*) {_OUTBOX} GROUP BY {_STATE}"
DELIVERED_COUNT = (
    "SELECT count(*) FROM Cache AS d INDEXED BY Cache_key_raw JOIN Cache AS m ON m.key = 'm:' || substr(d.key, 27) "
    "AND m.raw = 1 WHERE d.key > ? AND d.key < ? AND d.raw = 1 AND json_valid(d.value) "
    "AND json_extract(d.value, '$.remote_id') IS NOT NULL AND json_extract(d.value, '$.state') = 'delivered' "
    "AND (m.tag LIKE 'vlive %' OR m.tag LIKE 'varchived %')"
)
OUTBOX_PAGE = f"SELECT substr(key, 27), value {_OUTBOX} AND {_STATE} = ? ORDER BY key LIMIT ?"
BY_REMOTE_ID = (
    "SELECT json_extract(d.value, '$.remote_id'), substr(d.key, 27) FROM Cache AS d INDEXED BY km_remote_id "
    "LEFT JOIN Cache AS m ON m.key = 'm:' || substr(d.key, 27) AND m.raw = 1 "
    "WHERE d.key >= 'delivery:' AND d.key < 'delivery;' AND json_extract(d.value, '$.remote_id') IN ({marks}) "
    "AND substr(d.key, 10, 16) = ? ORDER BY m.tag LIKE 'vcached %' DESC"
)
"""A memory of ours comes after a copy under the same remote id, and so takes its place."""
UNDELIVERED = (
    "SELECT m.rowid, m.value, m.tag FROM Cache AS m WHERE m.key > ? AND m.key < 'm;' AND m.raw = 1 "
    "AND CASE WHEN json_valid(m.value) THEN json_extract(m.value, '$.significance') > ? END "
    "AND (m.tag LIKE 'vlive %' OR m.tag LIKE 'varchived %') AND instr(m.tag, ?) > 0 "
    "AND NOT EXISTS (SELECT 1 FROM Cache AS d WHERE d.raw = 1 AND d.key = 'delivery:' || ? || ':' || substr(m.key, 3)) "
    "ORDER BY m.key LIMIT ?"
)
EXPIRED = (
    "SELECT substr(key, 10) FROM Cache INDEXED BY km_expiry WHERE key >= 'lifetime:' AND key < 'lifetime;' "
    "AND json_extract(value, '$.expires_at') <= ? ORDER BY json_extract(value, '$.expires_at'), rowid LIMIT ? OFFSET ?"
)

_LIVE_ENDS = (
    "FROM Cache AS l INDEXED BY km_expiry JOIN Cache AS m ON m.key = 'm:' || substr(l.key, 10) AND m.raw = 1 "
    "WHERE l.key >= 'lifetime:' AND l.key < 'lifetime;' AND instr(m.tag, ?1) = 1 "
    "AND json_extract(l.value, '$.expires_at')"
)
_IS_OF_TYPE = "CAST(total(instr(m.tag || ' ', ?{number}) > 0) AS INTEGER)"
ENDED = f"SELECT {', '.join(_IS_OF_TYPE.format(number=number) for number in range(3, 7))} {_LIVE_ENDS} <= ?2"
"""How many of each of four types."""
NEXT_END = (
    f"SELECT json_extract(l.value, '$.expires_at') {_LIVE_ENDS} > ?2 "
    "ORDER BY json_extract(l.value, '$.expires_at') LIMIT 1"
)

# --- vectors --------------------------------------------------------------------------------------------------------

MARKED = "SELECT key FROM Cache WHERE rowid = ?"
AHEAD = (
    "SELECT rowid, key FROM Cache NOT INDEXED "
    "WHERE rowid <= ?2 + (SELECT rowid FROM Cache NOT INDEXED WHERE rowid > ?1 ORDER BY rowid LIMIT 1) "
    "ORDER BY rowid DESC LIMIT 1"
)
"""The last row of those that one look goes over; none when nothing lies behind. Gaps are stepped over."""
MADE = (
    "SELECT f.rowid, f.key, f.value, NOT EXISTS (SELECT 1 FROM Cache AS m WHERE m.raw = 1 "
    "AND m.key = 'm:' || substr(f.key, ?)) FROM Cache AS f NOT INDEXED WHERE f.rowid > ? AND f.rowid <= ? "
    "AND f.raw = 1 AND f.key >= ? AND f.key < ? "
    "AND CASE WHEN json_valid(f.value) THEN json_extract(f.value, '$.project') = ? END ORDER BY f.rowid LIMIT ?"
)
LACKING = (
    "SELECT m.rowid, m.value, m.tag, m.key FROM Cache AS m NOT INDEXED WHERE m.rowid > ? AND m.rowid <= ? "
    "AND m.raw = 1 AND m.key >= 'm:' AND m.key < 'm;' AND instr(m.tag, ?) > 0 AND m.tag NOT LIKE 'vforgotten %' "
    "AND json_valid(m.value) AND NOT EXISTS (SELECT 1 FROM Cache AS f WHERE f.raw = 1 "
    "AND f.key = ? || substr(m.key, 3) AND CASE WHEN json_valid(f.value) "
    "THEN json_extract(f.value, '$.revision') END = json_extract(m.value, '$.revision')) ORDER BY m.rowid LIMIT ?"
)
MEMORIES = "SELECT rowid, value, tag, key FROM Cache WHERE raw = 1 AND key IN ({marks})"
NEXT_NAMED = (
    "SELECT key FROM Cache INDEXED BY Cache_key_raw WHERE key >= ? AND key < ? AND raw = 1 ORDER BY key LIMIT 1"
)
"""The first row of the facets whose names lie between two; the next name is found behind all of its rows."""

# --- threads --------------------------------------------------------------------------------------------------------

_CONTEXT = "substr(tag, instr(tag, ' c') + 2, 20)"
"""The digest in the context's token; no other token of a tag begins with that letter."""
_ALIVE = (
    "key >= 'm:' AND key < 'm;' AND raw = 1 AND instr(tag, ?1) = 1 AND instr(tag, ' c') > 0 AND key NOT IN "
    "(SELECT 'm:' || substr(key, 10) FROM Cache INDEXED BY km_expiry WHERE key >= 'lifetime:' AND key < 'lifetime;' "
    "AND json_extract(value, '$.expires_at') <= ?2)"
)
"""The memories of a project (?1 is how their tags begin) that were said in a context and have not ended by ?2."""
TALKS = (
    "SELECT max(json_extract(value, '$.scope.context_id')), count(*), "
    "coalesce(sum(CAST(store_time * 1000000 AS INTEGER) % 1099511627776), 0), "
    "min(json_extract(value, '$.created_at')), "
    "max(max(json_extract(value, '$.created_at'), json_extract(value, '$.updated_at'))) "
    f"FROM Cache INDEXED BY Cache_key_raw WHERE {_ALIVE} AND CASE WHEN json_valid(value) THEN 1 END "
    f"GROUP BY {_CONTEXT}"
)
"""The third column says when the rows were written, as diskcache notes it, or their standings changed: in microseconds
modulo 2^40, so that no sum of them is too large. Times are compared as texts: all are of one zone."""
SAID = (
    "SELECT json_extract(c.value, '$.scope.context_id'), json_extract(c.value, '$.title'), "
    "substr(json_extract(c.value, '$.content'), 1, ?4), json_extract(c.value, '$.tags') FROM "
    f"(SELECT rowid AS place, row_number() OVER (PARTITION BY {_CONTEXT} ORDER BY rowid DESC) AS number, "
    f"min(rowid) OVER (PARTITION BY {_CONTEXT}) AS first FROM Cache "
    f"WHERE rowid IN (SELECT rowid FROM km_text WHERE km_text MATCH ?3) AND {_ALIVE}) "
    "JOIN Cache AS c ON c.rowid = place WHERE (number <= ?5 OR place = first) "
    "AND CASE WHEN json_valid(c.value) THEN 1 END ORDER BY place"
)
"""Of each context that ?3 matches the first memory and the last ?5."""
VERSION = "PRAGMA data_version"
NAMED = (
    "SELECT key, value FROM Cache INDEXED BY Cache_key_raw WHERE key > ? AND key < ? AND raw = 1 ORDER BY key LIMIT ?"
)
