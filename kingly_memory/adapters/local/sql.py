"""The tables of the store, and every SQL statement of the local layer.

diskcache keeps one table, `Cache(rowid, key, raw, store_time, expire_time, …, tag, size, mode, filename, value)`. Rows
with keys `m:<id>` are memories as they stand now, `<facet>:<owner>` facets, `key:<digest>` pointers from a key to an
id. The `tag` column of a memory row holds its scope tokens. Beside it lie the earlier revisions of memories, the change
feed, two text indexes, the passages of long memories with theirs, and a table of counts; a change writes them in the
transaction that writes the rows.
"""

from __future__ import annotations

from collections.abc import Sized

LAYOUT = 6
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

_IS_MEMORY = "key >= 'm:' AND key < 'm;'"
_IS_DELIVERY = "key >= 'delivery:' AND key < 'delivery;'"
_REMOTE = "substr(key, 10, 16)"
_STATE = "json_extract(value, '$.state')"
_DUE = "json_extract(value, '$.due')"
_OUTBOX = f"FROM Cache INDEXED BY km_outbox WHERE {_IS_DELIVERY} AND {_STATE} <> 'delivered' AND {_REMOTE} = ?"

_TEXT_COLUMNS = "title, body, labels, scope"
UNBROKEN = "unbroken"
"""Ends the tag of a memory row whose content holds a script without word breaks: only such go into the piece index."""
_CONTEXT = "substr(tag, instr(tag, ' c') + 2, 20)"
"""The digest in the context's token; no other token of a tag begins with that letter."""
_HAS_CONTEXT = f"{_IS_MEMORY} AND instr(tag, ' c') > 0"

SCHEMA: dict[str, str] = {
    "km_vocabulary": (
        "CREATE TABLE km_vocabulary(length INTEGER, word TEXT, PRIMARY KEY (length, word)) WITHOUT ROWID"
    ),
    "km_counts": (
        "CREATE TABLE km_counts(project TEXT, name TEXT, memories INTEGER, PRIMARY KEY (project, name)) WITHOUT ROWID"
    ),
    # What memories without a key say, as a digest: who says just that again means the same memory.
    "km_said": "CREATE TABLE km_said(position INTEGER PRIMARY KEY, digest INTEGER)",
    "km_said_digest": "CREATE INDEX km_said_digest ON km_said(digest)",
    # What a memory said before: the value that its row had.
    "km_revision": "CREATE TABLE km_revision(memory TEXT, number INTEGER, record TEXT)",
    "km_revision_of": "CREATE UNIQUE INDEX km_revision_of ON km_revision(memory, number)",
    "km_change": (
        "CREATE TABLE km_change(sequence INTEGER PRIMARY KEY, memory TEXT, revision INTEGER, what TEXT, at REAL)"
    ),
    # Tags stand in it as JSON text: the tokenizer drops its quotes, and FTS5 cannot rebuild from a view that calls
    # json_each.
    "km_text_source": (
        "CREATE VIEW km_text_source AS SELECT rowid, json_extract(value, '$.title') AS title, "
        "json_extract(value, '$.content') AS body, json_extract(value, '$.tags') AS labels, tag AS scope "
        f"FROM Cache WHERE {_IS_MEMORY}"
    ),
    "km_pieces_source": (
        "CREATE VIEW km_pieces_source AS SELECT rowid, json_extract(value, '$.content') AS body FROM Cache "
        f"WHERE {_IS_MEMORY} AND substr(tag, -{len(UNBROKEN) + 1}) = ' {UNBROKEN}'"
    ),
    "km_text": (
        f"CREATE VIRTUAL TABLE km_text USING fts5({_TEXT_COLUMNS}, content='km_text_source', "
        "content_rowid='rowid', tokenize='porter unicode61')"
    ),
    "km_pieces": (
        "CREATE VIRTUAL TABLE km_pieces USING fts5(body, content='km_pieces_source', content_rowid='rowid', "
        "tokenize='trigram')"
    ),
    # The passages of a memory stand from its own rowid × 65,536 on.
    "km_passages": (
        "CREATE VIRTUAL TABLE km_passages USING fts5(body, scope, start UNINDEXED, tokenize='porter unicode61')"
    ),
    "km_context": f"CREATE INDEX km_context ON Cache({_CONTEXT}) WHERE {_HAS_CONTEXT}",
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
    "km_documents": (
        "CREATE TABLE km_documents(project TEXT, namespace TEXT, key TEXT, value TEXT, version INTEGER, "
        "created_s REAL, updated_s REAL, expires_s REAL, ttl_s REAL)"
    ),
    "km_documents_place": "CREATE UNIQUE INDEX km_documents_place ON km_documents(project, namespace, key)",
    "km_documents_end": "CREATE INDEX km_documents_end ON km_documents(expires_s) WHERE expires_s IS NOT NULL",
    "km_documents_text": "CREATE VIRTUAL TABLE km_documents_text USING fts5(body, tokenize='porter unicode61')",
    "km_operations": "CREATE TABLE km_operations(project TEXT, operation TEXT, outcome TEXT, at_s REAL)",
    "km_operations_name": "CREATE UNIQUE INDEX km_operations_name ON km_operations(project, operation)",
    "km_log": "CREATE TABLE km_log(project TEXT, session TEXT, position INTEGER, item TEXT, at_s REAL)",
    "km_log_place": "CREATE UNIQUE INDEX km_log_place ON km_log(project, session, position)",
}
"""What we add to diskcache's own tables, by name, in the order of creation."""

# `trusted_schema = OFF` would refuse our own expression indexes on SQLite 3.40, so the schema is compared instead.
READ_PRAGMAS = (
    "PRAGMA schema_version",  # reads the file, so that a bad one fails here
    "PRAGMA query_only = ON",
    "PRAGMA cell_size_check = ON",
    "PRAGMA mmap_size = 0",
)
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
SALVAGE_REVISIONS = "SELECT rowid, record FROM km_revision NOT INDEXED WHERE rowid > ? ORDER BY rowid LIMIT ?"
SALVAGE_DOCUMENTS = (
    "SELECT rowid, project, namespace, key, value, version, created_s, updated_s, expires_s, ttl_s "
    "FROM km_documents NOT INDEXED WHERE rowid > ? ORDER BY rowid LIMIT ?"
)
SALVAGE_LOG = (
    "SELECT rowid, project, session, item, at_s FROM km_log NOT INDEXED WHERE rowid > ? ORDER BY rowid LIMIT ?"
)

# --- rows --------------------------------------------------------------------------------------------------------

GET = "SELECT value FROM Cache WHERE key = ? AND raw = 1"
GET_MEMORY = "SELECT rowid, value, tag FROM Cache WHERE key = ? AND raw = 1"
GET_MANY = "SELECT key, value FROM Cache WHERE raw = 1 AND key IN (SELECT value FROM json_each(?))"
INSERT = (
    "INSERT INTO Cache(key, raw, store_time, access_time, tag, mode, value) VALUES (?1, 1, ?2, ?2, ?3, 1, ?4) "
    "ON CONFLICT(key, raw) DO NOTHING"
)
"""diskcache's own `set` looks for the row first, each time."""
UPSERT = INSERT.replace(
    "DO NOTHING",
    "DO UPDATE SET store_time = ?2, access_time = ?2, tag = ?3, mode = 1, filename = NULL, value = ?4",
)
DELETE = "DELETE FROM Cache WHERE key = ? AND raw = 1"
RESTAND = "UPDATE Cache SET tag = ? || substr(tag, instr(tag, ' ')), store_time = ? WHERE rowid IN ({marks})"
"""The standing is the first word of a memory's tag; by the time TALKS tells that something was done to it."""
SAID_AT = "SELECT max(position) FROM km_said WHERE digest = ?"
SAY = "INSERT OR REPLACE INTO km_said VALUES (?, ?)"
UNSAY = "DELETE FROM km_said WHERE position = ?"
OWNERS = "SELECT substr(key, ?) FROM Cache INDEXED BY Cache_key_raw WHERE raw = 1 AND key >= ? AND key < ? LIMIT 1000"
TAGS_OF = "SELECT rowid, tag FROM Cache WHERE raw = 1 AND key IN ({marks})"

# --- revisions and the change feed ------------------------------------------------------------------------------------

KEEP = "INSERT OR REPLACE INTO km_revision(memory, number, record) VALUES (?, ?, ?)"
REVISION = "SELECT record FROM km_revision WHERE memory = ? AND number = ?"
REVISIONS = "SELECT record FROM km_revision WHERE memory = ? ORDER BY number DESC"
DROP_REVISIONS = (
    "DELETE FROM km_revision WHERE memory = ?1 AND number <= "
    "(SELECT number FROM km_revision WHERE memory = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)"
)
"""All but the ?2 latest."""
WITH_REVISIONS = "SELECT memory, count(*) FROM km_revision GROUP BY memory HAVING count(*) > ?"
NOTE = "INSERT INTO km_change(memory, revision, what, at) VALUES (?, ?, ?, ?)"
NOTE_STANDING = (
    "INSERT INTO km_change(memory, revision, what, at) SELECT substr(key, 3), "
    "CASE WHEN json_valid(value) THEN json_extract(value, '$.revision') END, ?, ? FROM Cache "
    "WHERE rowid IN ({marks}) AND instr(tag, ?) <> 1 ORDER BY rowid"
)
CHANGES = "SELECT sequence, memory, revision, what, at FROM km_change WHERE sequence > ? ORDER BY sequence LIMIT ?"
DROP_CHANGES = "DELETE FROM km_change WHERE at < ? AND sequence < (SELECT max(sequence) FROM km_change)"
"""The last one stays: SQLite would give its number again."""


def marks(values: Sized) -> str:
    """As many question marks."""
    return ",".join("?" * len(values))


# --- what lies beside the rows ----------------------------------------------------------------------------------------

# FTS5 writes a segment for each savepoint and each statement. So a batch of changes only notes which rows it wrote,
# and indexes them together at its end. What FTS5 drops it must be told word for word, before the row changes.
INDEX = (
    f"INSERT INTO km_text(rowid, {_TEXT_COLUMNS}) SELECT rowid, {_TEXT_COLUMNS} FROM km_text_source "
    "WHERE rowid IN (SELECT value FROM json_each(?))",
    "INSERT INTO km_pieces(rowid, body) SELECT rowid, body FROM km_pieces_source "
    "WHERE rowid IN (SELECT value FROM json_each(?))",
)
UNINDEX = (
    f"INSERT INTO km_text(km_text, rowid, {_TEXT_COLUMNS}) SELECT 'delete', rowid, {_TEXT_COLUMNS} "
    "FROM km_text_source WHERE rowid IN (SELECT value FROM json_each(?))",
    "INSERT INTO km_pieces(km_pieces, rowid, body) SELECT 'delete', rowid, body FROM km_pieces_source "
    "WHERE rowid IN (SELECT value FROM json_each(?))",
)
LONG = (
    "SELECT rowid, json_extract(value, '$.content'), tag FROM Cache "
    "WHERE rowid IN (SELECT value FROM json_each(?)) AND length(value) > ?"
)
ADD_PASSAGE = "INSERT INTO km_passages(rowid, body, scope, start) VALUES (?, ?, ?, ?)"
PASSAGES_OF = "SELECT rowid FROM km_passages WHERE rowid BETWEEN ? AND ?"
DROP_PASSAGE = "DELETE FROM km_passages WHERE rowid = ?"
COUNT = "INSERT INTO km_counts VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET memories = memories + excluded.memories"
COUNT_ALL = "SELECT coalesce(sum(memories), 0), count(DISTINCT project) FROM km_counts"
COUNTS = "SELECT name, memories FROM km_counts WHERE project = ?"
UNLEARN = "DELETE FROM km_vocabulary WHERE length = ? AND word = ?"
SAYING = (
    "SELECT s.body || ' ' || coalesce(s.title, '') || ' ' || s.labels FROM km_text "
    "JOIN km_text_source AS s ON s.rowid = km_text.rowid WHERE km_text MATCH ? LIMIT ?"
)
TEXT_INDEXES = "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE % USING fts5(%'"
LEARN = "INSERT OR IGNORE INTO km_vocabulary VALUES (?, ?)"

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
    "SELECT rowid, bm25(km_text, 2.0, 1.0, 1.0, 0.0) AS score FROM km_text WHERE km_text MATCH ?{admitted} "
    "ORDER BY score, rowid DESC LIMIT ? OFFSET ?"
)
PASSAGES = (
    "SELECT rowid, start, bm25(km_passages, 1.0, 0.0) AS score FROM km_passages WHERE km_passages MATCH ?{admitted} "
    "ORDER BY score LIMIT ?"
)
LATEST_MATCHES = (
    "SELECT rowid, score FROM (SELECT rowid, bm25(km_text, 2.0, 1.0, 1.0, 0.0) AS score FROM km_text "
    "WHERE km_text MATCH ?1 ORDER BY rowid DESC LIMIT ?2) ORDER BY score, rowid DESC LIMIT ?3"
)
"""Of the last ?2 that match, the best ?3."""
LATEST = "SELECT rowid FROM km_text WHERE km_text MATCH ?{admitted} ORDER BY rowid DESC LIMIT ? OFFSET ?"
ADMITTED = " AND EXISTS (SELECT 1 FROM Cache AS c WHERE c.rowid = {position} AND {condition})"
"""Of what the index finds only that which the fields outside the index admit too."""
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
IS_SAID_IN = (
    f"SELECT 1 FROM Cache INDEXED BY km_context WHERE {_HAS_CONTEXT} AND {_CONTEXT} = ? AND raw = 1 "
    "AND instr(tag, ?) > 0 AND (tag LIKE 'vlive %' OR tag LIKE 'varchived %') LIMIT 1"
)
_NEAR = (
    f"SELECT group_concat(rowid) FROM (SELECT rowid FROM Cache INDEXED BY km_context WHERE {_HAS_CONTEXT} "
    f"AND {_CONTEXT} = context AND rowid {{beyond}} at AND instr(tag, ?3) > 0 AND instr(tag || ' ', ?4) > 0 "
    "AND instr(?5, ' ' || substr(tag, 1, instr(tag, ' '))) > 0 AND raw = 1 ORDER BY rowid {order} LIMIT ?2)"
)
NEAR = (
    "WITH lender(at, context) AS (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?1)) "
    f"SELECT at, ({_NEAR.format(beyond='<', order='DESC')}), ({_NEAR.format(beyond='>', order='ASC')}) FROM lender"
)
"""Who was said just before and just after each lender, ?2 of them, in the context whose digest stands beside it."""
ROWS_AT = (
    "SELECT rowid, value, tag FROM Cache NOT INDEXED "
    "WHERE rowid IN ({marks}) AND raw = 1 AND key >= 'm:' AND key < 'm;'"
)
PIECES = (
    "SELECT c.rowid FROM km_pieces JOIN Cache AS c ON c.rowid = km_pieces.rowid "
    "WHERE {conditions} ORDER BY km_pieces.rowid DESC LIMIT ?"
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
DAMAGED = (
    "SELECT CASE WHEN key >= 'm:' THEN substr(key, 3) ELSE json_extract(value, '$.id') END FROM Cache AS c NOT INDEXED "
    f"WHERE raw = 1 AND (({_IS_MEMORY}) OR (key >= 'key:' AND key < 'key;' AND json_valid(value))) "
    "AND (NOT EXISTS (SELECT 1 FROM Cache AS i INDEXED BY Cache_key_raw WHERE i.key = c.key AND i.raw = 1 "
    f"AND i.rowid = c.rowid) OR (({_IS_MEMORY}) AND NOT is_whole(CAST(value AS BLOB)))) ORDER BY rowid"
)
"""Memories whose records are damaged, or that the index of names does not lead to."""
COUNT_DAMAGED = (
    f"SELECT count(*) FROM Cache NOT INDEXED WHERE raw = 1 AND {_IS_MEMORY} AND NOT is_whole(CAST(value AS BLOB))"
)
NEXT_NAMED = (
    "SELECT key FROM Cache INDEXED BY Cache_key_raw WHERE key >= ? AND key < ? AND raw = 1 ORDER BY key LIMIT 1"
)
"""The first row of the facets whose names lie between two; the next name is found behind all of its rows."""

# --- threads --------------------------------------------------------------------------------------------------------

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
    "AND is_whole(CAST(c.value AS BLOB)) ORDER BY place"
)
"""Of each context that ?3 matches the first memory and the last ?5."""
NAMED = (
    "SELECT key, value FROM Cache INDEXED BY Cache_key_raw WHERE key > ? AND key < ? AND raw = 1 ORDER BY key LIMIT ?"
)

# --- documents and logs ---------------------------------------------------------------------------------------------

DOCUMENT = "namespace, key, value, version, created_s, updated_s, expires_s, ttl_s"
_HERE = "project = ?1 AND namespace = ?2 AND key = ?3"
_LIVING = "project = ?1 AND namespace >= ?2 AND namespace < ?3 AND (expires_s IS NULL OR expires_s > ?4)"
GET_DOCUMENT = f"SELECT {DOCUMENT} FROM km_documents WHERE {_HERE}"
DOCUMENT_ROW = f"SELECT rowid FROM km_documents WHERE {_HERE}"
TEXT_OF_DOCUMENT = f"SELECT body FROM km_documents_text WHERE rowid = ({DOCUMENT_ROW})"
DOCUMENT_PAGE = (
    f"SELECT {DOCUMENT} FROM km_documents WHERE {_LIVING} AND (namespace, key) > (?5, ?6) "
    "ORDER BY namespace, key LIMIT ?7"
)
NAMESPACES = f"SELECT DISTINCT namespace FROM km_documents WHERE {_LIVING} ORDER BY namespace"
DOCUMENT_MATCHES = (
    "SELECT d.rowid, bm25(km_documents_text) AS score FROM km_documents_text JOIN km_documents AS d "
    f"ON d.rowid = km_documents_text.rowid WHERE km_documents_text MATCH ?5 AND {_LIVING} "
    "ORDER BY score, d.updated_s DESC, d.rowid DESC"
)
DOCUMENTS_AT = f"SELECT rowid, {DOCUMENT} FROM km_documents WHERE rowid IN (SELECT value FROM json_each(?))"
PUT_DOCUMENT = (
    f"INSERT INTO km_documents(project, {DOCUMENT}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) "
    "ON CONFLICT DO UPDATE SET value = ?4, version = ?5, created_s = ?6, updated_s = ?7, expires_s = ?8, ttl_s = ?9 "
    "RETURNING rowid"
)
INDEX_DOCUMENT = "INSERT INTO km_documents_text(rowid, body) VALUES (?, ?)"
UNINDEX_DOCUMENTS = "DELETE FROM km_documents_text WHERE rowid IN (SELECT value FROM json_each(?))"
UNINDEX_PROJECT = "DELETE FROM km_documents_text WHERE rowid IN (SELECT rowid FROM km_documents WHERE project = ?)"
DROP_PROJECT = ("DELETE FROM km_documents WHERE project = ?", "DELETE FROM km_log WHERE project = ?")
COUNT_DOCUMENTS = (
    "SELECT (SELECT count(*) FROM km_documents WHERE project = ?1) + (SELECT count(*) FROM km_log WHERE project = ?1)"
)
DROP_PROJECTS_OPERATIONS = "DELETE FROM km_operations WHERE project = ?"
DROP_DOCUMENTS = "DELETE FROM km_documents WHERE rowid IN (SELECT value FROM json_each(?))"
LAST_VERSIONS = (
    "SELECT project, max(version) FROM km_documents WHERE rowid IN (SELECT value FROM json_each(?)) GROUP BY project"
)
ENDED_DOCUMENTS = "SELECT rowid FROM km_documents WHERE expires_s <= ? LIMIT ?"
EXTEND_DOCUMENT = f"UPDATE km_documents SET expires_s = ?4 + ttl_s WHERE {_HERE} AND ttl_s IS NOT NULL"
OPERATION = "SELECT outcome FROM km_operations WHERE project = ? AND operation = ?"
NOTE_OPERATION = "INSERT INTO km_operations VALUES (?, ?, ?, ?)"
DROP_OPERATIONS = "DELETE FROM km_operations WHERE at_s < ?"

_OF_LOG = "FROM km_log WHERE project = ?1 AND session = ?2"
LOG_PAGE = f"SELECT position, item, at_s {_OF_LOG} AND position < ?3 ORDER BY position DESC LIMIT ?4"
LOG_END = f"SELECT coalesce(max(position), 0) {_OF_LOG}"
LOG_SESSIONS = "SELECT session, count(*), max(at_s) FROM km_log WHERE project = ? GROUP BY session ORDER BY session"
APPEND_TO_LOG = "INSERT INTO km_log VALUES (?, ?, ?, ?, ?)"
CUT_LOG = f"DELETE {_OF_LOG} AND position >= ?3"
COPY_LOG = (
    "INSERT INTO km_log SELECT project, ?3, row_number() OVER (ORDER BY position) + ?4, item, at_s "
    f"{_OF_LOG} AND position <= ?5"
)


def newest_documents(pieces: int) -> str:
    """The last changed first, of documents that hold as many pieces, letter by letter."""
    holding = " AND instr(lower(value), ?) > 0" * pieces
    if pieces:  # what is not to be found by its texts is not found by pieces of them
        holding += " AND EXISTS (SELECT 1 FROM km_documents_text AS t WHERE t.rowid = km_documents.rowid)"
    return f"SELECT rowid FROM km_documents WHERE {_LIVING}{holding} ORDER BY updated_s DESC, rowid DESC"
