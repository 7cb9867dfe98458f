"""The tables of the store, and every SQL statement of the local layer.

diskcache keeps one table, `Cache(rowid, key, raw, store_time, expire_time, …, tag, size, mode, filename, value)`: a row
`m:<id>` is the record of a memory as it stands now, its `tag` the status. All else lies in tables of ours beside it,
which a change writes in the same transaction. `km_memory` has under the same rowid what queries ask for; it can be made
anew of the records.
"""

from __future__ import annotations

from collections.abc import Sized

LAYOUT = 10
"""PRAGMA user_version of the store. Raised when what is written changes, together with a step in `upgrades`."""
_APPLICATION, _FIRST_NUMBERED = 0x4B4D0000, 8
"""PRAGMA application_id is this and the layout, from that layout on: a header with one flipped bit is told from a newer
version's."""

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


VERSIONS = "SELECT user_version, application_id FROM pragma_user_version, pragma_application_id"


def numbered(layout: int) -> tuple[str, str]:
    """The statements that give a store its layout's number."""
    return f"PRAGMA user_version = {layout}", f"PRAGMA application_id = {application(layout)}"


def application(layout: int) -> int:
    return _APPLICATION | layout if layout >= _FIRST_NUMBERED else 0


def marks(values: Sized) -> str:
    """As many question marks."""
    return ",".join("?" * len(values))


_TEXT_COLUMNS = "title, body, labels, scope"
_SAID = (
    "CASE instr(c.value, '\\u0000') WHEN 0 THEN c.value ELSE replace(replace(replace(c.value, '\\\\', char(1)), "
    "'\\u0000', ' '), char(1), '\\\\') END"
)
"""The record with a space for each NUL: for SQLite a text in JSON ends there. What only looks like one, behind a
backslash of its own, is put out of the way meanwhile."""
_COLUMNS = (
    "id, status, space, context, type, key, revision, significance, created_s, updated_s, written_s, "
    "unbroken, said, scope"
)
COLUMNS = tuple(_COLUMNS.split(", "))
DOCUMENT = "namespace, key, value, version, created_s, updated_s, expires_s, ttl_s"
DELIVERY = "state, due_s, wanted, acknowledged, first_sent, attempts, refusals, owner, remote_id, last_error, digest"

SCHEMA: dict[str, str] = {
    # Positions ascend and are never given twice, so whoever has read up to one finds what is new behind it. `key` is
    # the key that the memory is found by. `unbroken` says that the content holds a script without word breaks.
    # `said` is a digest of what a memory without a key says: who says just that again means the same memory.
    # `scope` has what the text index finds it by beside its words (`rows.scope_tokens`): FTS5 has to be told the very
    # tokens once more when it drops a text.
    "km_memory": (
        "CREATE TABLE km_memory(position INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, status TEXT, space TEXT, "
        "context TEXT, type TEXT, key TEXT, revision INTEGER, significance REAL, created_s REAL, "
        "updated_s REAL, written_s REAL, unbroken INTEGER, said INTEGER, scope TEXT, ends_s REAL)"
    ),
    "km_memory_id": "CREATE UNIQUE INDEX km_memory_id ON km_memory(id)",
    "km_memory_key": "CREATE UNIQUE INDEX km_memory_key ON km_memory(space, key) WHERE key IS NOT NULL",
    "km_memory_context": "CREATE INDEX km_memory_context ON km_memory(space, context) WHERE context IS NOT NULL",
    "km_memory_said": "CREATE INDEX km_memory_said ON km_memory(said) WHERE said IS NOT NULL",
    "km_memory_ends": "CREATE INDEX km_memory_ends ON km_memory(ends_s) WHERE ends_s IS NOT NULL",
    "km_facet": "CREATE TABLE km_facet(name TEXT, owner TEXT, value TEXT)",
    "km_facet_of": "CREATE UNIQUE INDEX km_facet_of ON km_facet(name, owner)",
    # Where memories and links stand with a remote; `item` is a memory's id, or names a link.
    "km_delivery": (
        "CREATE TABLE km_delivery(remote TEXT, item TEXT, state TEXT, due_s REAL, wanted INTEGER, "
        "acknowledged INTEGER, first_sent INTEGER, attempts INTEGER, refusals INTEGER, owner TEXT, remote_id TEXT, "
        "last_error TEXT, digest TEXT)"
    ),
    "km_delivery_of": "CREATE UNIQUE INDEX km_delivery_of ON km_delivery(remote, item)",
    "km_outbox": "CREATE INDEX km_outbox ON km_delivery(remote, state, due_s) WHERE state <> 'delivered'",
    "km_remote_id": "CREATE INDEX km_remote_id ON km_delivery(remote, remote_id) WHERE remote_id IS NOT NULL",
    # A vector that is made anew gets another place, behind all others.
    "km_vector": (
        "CREATE TABLE km_vector(place INTEGER PRIMARY KEY AUTOINCREMENT, embedder TEXT, memory TEXT, space TEXT, "
        "revision INTEGER, levels BLOB)"
    ),
    "km_vector_of": "CREATE UNIQUE INDEX km_vector_of ON km_vector(memory, embedder)",
    "km_vector_space": "CREATE INDEX km_vector_space ON km_vector(embedder, space)",
    "km_vocabulary": (
        "CREATE TABLE km_vocabulary(length INTEGER, word TEXT, PRIMARY KEY (length, word)) WITHOUT ROWID"
    ),
    "km_counts": (
        "CREATE TABLE km_counts(space TEXT, name TEXT, memories INTEGER, PRIMARY KEY (space, name)) WITHOUT ROWID"
    ),
    # What a memory said before: the value that its row had.
    "km_revision": "CREATE TABLE km_revision(memory TEXT, number INTEGER, record TEXT)",
    "km_revision_of": "CREATE UNIQUE INDEX km_revision_of ON km_revision(memory, number)",
    "km_change": (
        "CREATE TABLE km_change(sequence INTEGER PRIMARY KEY, memory TEXT, revision INTEGER, what TEXT, at REAL)"
    ),
    # Tags stand in it as JSON text: the tokenizer drops its quotes, and FTS5 cannot rebuild from a view that calls
    # json_each.
    "km_text_source": (
        f"CREATE VIEW km_text_source AS SELECT c.rowid AS rowid, json_extract({_SAID}, '$.title') AS title, "
        f"json_extract({_SAID}, '$.content') AS body, json_extract(c.value, '$.tags') AS labels, "
        "'v' || m.status || ' ' || m.scope AS scope FROM Cache AS c JOIN km_memory AS m ON m.position = c.rowid"
    ),
    "km_pieces_source": (
        f"CREATE VIEW km_pieces_source AS SELECT c.rowid AS rowid, json_extract({_SAID}, '$.content') AS body "
        "FROM Cache AS c JOIN km_memory AS m ON m.position = c.rowid WHERE m.unbroken"
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
    "km_documents": (
        "CREATE TABLE km_documents(space TEXT, namespace TEXT, key TEXT, value TEXT, version INTEGER, "
        "created_s REAL, updated_s REAL, expires_s REAL, ttl_s REAL)"
    ),
    "km_documents_place": "CREATE UNIQUE INDEX km_documents_place ON km_documents(space, namespace, key)",
    "km_documents_end": "CREATE INDEX km_documents_end ON km_documents(expires_s) WHERE expires_s IS NOT NULL",
    "km_documents_text": "CREATE VIRTUAL TABLE km_documents_text USING fts5(body, tokenize='porter unicode61')",
    "km_operations": "CREATE TABLE km_operations(space TEXT, operation TEXT, outcome TEXT, at_s REAL)",
    "km_operations_name": "CREATE UNIQUE INDEX km_operations_name ON km_operations(space, operation)",
}
"""What we add to diskcache's own tables, by name, in the order of creation."""

# `trusted_schema = OFF` would refuse our own expression indexes on SQLite 3.40, so the schema is compared instead.
READ_PRAGMAS = (
    "PRAGMA schema_version",  # reads the file, so that a bad one fails here
    "PRAGMA query_only = ON",
    "PRAGMA cell_size_check = ON",
    "PRAGMA mmap_size = 0",
    "PRAGMA cache_size = -8000",  # KiB: with the usual 2,000 a search among 100,000 took a twentieth longer
)
SALVAGE_PRAGMAS = (
    "PRAGMA query_only = ON",
    "PRAGMA mmap_size = 0",
    "PRAGMA cell_size_check = ON",
    "PRAGMA writable_schema = ON",  # reads a file that is shorter than its header says, and past bad schema entries
)
_SALVAGE = "SELECT rowid, {} FROM {} NOT INDEXED WHERE rowid >= ? ORDER BY rowid LIMIT ?".format
SALVAGE = _SALVAGE("key, value, tag, raw = 1 AND mode = 1 AND filename IS NULL AND typeof(value) = 'text'", "Cache")
SALVAGE_FACETS = _SALVAGE("name, owner, value", "km_facet")
SALVAGE_DELIVERIES = _SALVAGE(f"remote, item, {DELIVERY}", "km_delivery")
SALVAGE_REVISIONS = _SALVAGE("record", "km_revision")
SALVAGE_DOCUMENTS = _SALVAGE(f"space, {DOCUMENT}", "km_documents")

# --- rows --------------------------------------------------------------------------------------------------------

GET_MEMORY = "SELECT rowid, value, tag FROM Cache WHERE key = 'm:' || ? AND raw = 1"
REMAINS = (
    "SELECT m.position, m.status, m.id, m.space, m.context, m.type, m.key, m.revision, m.significance, m.created_s, "
    "m.updated_s FROM km_memory AS m JOIN Cache AS c ON c.rowid = m.position WHERE m.id = ?1 AND c.key = 'm:' || ?1 "
    "AND c.raw = 1"
)
"""What queries are told of a memory whose record is damaged."""
IS_BROKEN = "SELECT 1 FROM Cache AS c JOIN km_memory AS m ON m.position = c.rowid WHERE NOT json_valid(c.value) LIMIT 1"
REBUILD = ("INSERT INTO km_text(km_text) VALUES ('rebuild')", "INSERT INTO km_pieces(km_pieces) VALUES ('rebuild')")
FORGOTTEN = (
    "SELECT m.id, m.space, c.value FROM km_memory AS m JOIN Cache AS c ON c.rowid = m.position "
    "WHERE m.status = 'forgotten'"
)
ID_OF_KEY = "SELECT id FROM km_memory WHERE space = ? AND key = ?"
UNBIND = "UPDATE km_memory SET key = NULL WHERE space = ? AND key = ? AND id <> ?"
ADD_MEMORY = f"INSERT INTO km_memory({_COLUMNS}) VALUES ({marks(COLUMNS)}) ON CONFLICT(id) DO NOTHING"
CHANGE_MEMORY = f"UPDATE km_memory SET ({_COLUMNS}) = ({marks(COLUMNS)}) WHERE position = ?"
_AS_WRITTEN = "store_time = ?3, access_time = ?3, tag = ?4, mode = 1, filename = NULL, value = ?5"
WRITE_RECORD = (
    "INSERT INTO Cache(rowid, key, raw, store_time, access_time, tag, mode, value) "
    "VALUES (?1, 'm:' || ?2, 1, ?3, ?3, ?4, 1, ?5) "
    f"ON CONFLICT(rowid) DO UPDATE SET key = excluded.key, raw = 1, {_AS_WRITTEN} "
    f"ON CONFLICT(key, raw) DO UPDATE SET rowid = ?1, {_AS_WRITTEN}"
)
"""diskcache's own `set` looks for the row first, each time. A row of that id in another place is damage."""
DROP_VECTORS = "DELETE FROM km_vector WHERE memory = ?"
DELETE_MEMORY = (
    "DELETE FROM Cache WHERE key = 'm:' || ? AND raw = 1",
    "DELETE FROM km_memory WHERE id = ?",
    DROP_VECTORS,
)
SAME_CONTENT = (
    "SELECT rowid, value, tag FROM Cache "
    "WHERE rowid = (SELECT max(position) FROM km_memory WHERE said = ? AND status = 'live')"
)
PLACES = "SELECT position, space, type, status, unbroken FROM km_memory WHERE id IN (SELECT value FROM json_each(?))"
RESTAND = (
    "UPDATE km_memory SET status = ?1, written_s = ?2 WHERE position IN (SELECT value FROM json_each(?3))",
    "UPDATE Cache SET tag = ?1, store_time = ?2 WHERE rowid IN (SELECT value FROM json_each(?3))",
)
"""By the time TALKS tells that something was done to a memory."""

# --- facets ----------------------------------------------------------------------------------------------------------

FACET = "SELECT value FROM km_facet WHERE name = ? AND owner = ?"
FACETS = (
    "SELECT f.name, f.owner, f.value FROM json_each(?) AS n CROSS JOIN json_each(n.value) AS o "
    "CROSS JOIN km_facet AS f WHERE f.name = n.key AND f.owner = o.value"
)
SET_FACET = "INSERT INTO km_facet(name, owner, value) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
DROP_FACET = "DELETE FROM km_facet WHERE name = ? AND owner = ?"
DROP_FACETS = (
    "WITH RECURSIVE names(name) AS (SELECT min(name) FROM km_facet UNION ALL "
    "SELECT (SELECT min(name) FROM km_facet WHERE name > names.name) FROM names WHERE name IS NOT NULL) "
    "DELETE FROM km_facet WHERE owner = ? AND name IN (SELECT name FROM names WHERE name IS NOT NULL)"
)
"""A name costs one step in the index, however many have such a facet."""
MOVE_FACETS = DROP_FACETS.replace("DELETE FROM km_facet WHERE owner = ?", "{}").format(
    "UPDATE OR IGNORE km_facet SET owner = ?2 WHERE owner = ?1"
)
OWNERS = "SELECT owner FROM km_facet WHERE name = ? LIMIT 1000"
NAMED = "SELECT owner, value FROM km_facet WHERE name = ? AND owner > ? ORDER BY owner LIMIT ?"
ENDS_AT = "UPDATE km_memory SET ends_s = ? WHERE id = ?"

# --- revisions and the change feed ------------------------------------------------------------------------------------

KEEP = "INSERT OR REPLACE INTO km_revision(memory, number, record) VALUES (?, ?, ?)"
REVISIONS = "SELECT record FROM km_revision WHERE memory = ? ORDER BY number DESC"
DROP_REVISIONS = (
    "DELETE FROM km_revision WHERE memory = ?1 AND number <= "
    "(SELECT number FROM km_revision WHERE memory = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)"
)
"""All but the ?2 latest."""
WITH_REVISIONS = "SELECT memory, count(*) FROM km_revision GROUP BY memory HAVING count(*) > ?"
NOTE = "INSERT INTO km_change(memory, revision, what, at) VALUES (?, ?, ?, ?)"
NOTE_STATUS = (
    "INSERT INTO km_change(memory, revision, what, at) SELECT id, revision, ?, ? FROM km_memory "
    "WHERE position IN (SELECT value FROM json_each(?)) AND status <> ? ORDER BY position"
)
CHANGES = "SELECT sequence, memory, revision, what, at FROM km_change WHERE sequence > ? ORDER BY sequence LIMIT ?"
CHANGED = (
    "SELECT f.sequence, c.rowid, c.value, c.tag FROM km_change AS f JOIN km_memory AS m ON m.id = f.memory "
    "JOIN Cache AS c ON c.rowid = m.position WHERE f.sequence > ? AND m.space = ? ORDER BY f.sequence LIMIT ?"
)
CHANGED_SINCE = (
    "SELECT count(DISTINCT f.memory) FROM km_change AS f JOIN km_memory AS m ON m.id = f.memory "
    "WHERE f.sequence > ? AND m.space = ?"
)
SIZE = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
LAST_CHANGE = "SELECT coalesce(max(sequence), 0) FROM km_change"
DROP_CHANGES = "DELETE FROM km_change WHERE at < ? AND sequence < (SELECT max(sequence) FROM km_change)"
"""The last one stays: SQLite would give its number again."""

# Every commit has a number. It lies in the table in which SQLite keeps the last positions: a store writes that anyway.
BEGIN_COMMITS = "INSERT INTO sqlite_sequence(name, seq) VALUES ('km_commit', 0)"
NUMBER_COMMIT = "UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'km_commit' RETURNING seq"
COMMITS_BEHIND = "UPDATE sqlite_sequence SET seq = max(seq, ?) + 1 WHERE name = 'km_commit'"
LAST_COMMIT = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'km_commit'"

# --- what lies beside the rows ----------------------------------------------------------------------------------------

# FTS5 writes a segment for each savepoint, and for each statement that may write several rows. So a batch of changes
# only notes which rows it wrote, and indexes them together at its end. What FTS5 drops it must be told word for word,
# before the row changes.
INDEX_TEXT = f"INSERT INTO km_text(rowid, {_TEXT_COLUMNS}) VALUES (?, ?, ?, ?, ?)"
_THESE = "WHERE rowid IN (SELECT value FROM json_each(?))"
INDEX = f"INSERT INTO km_text(rowid, {_TEXT_COLUMNS}) SELECT rowid, {_TEXT_COLUMNS} FROM km_text_source {_THESE}"
INDEX_PIECES = f"INSERT INTO km_pieces(rowid, body) SELECT rowid, body FROM km_pieces_source {_THESE}"
UNINDEX = (
    f"INSERT INTO km_text(km_text, rowid, {_TEXT_COLUMNS}) SELECT 'delete', rowid, {_TEXT_COLUMNS} "
    f"FROM km_text_source {_THESE}"
)
UNINDEX_PIECES = (
    f"INSERT INTO km_pieces(km_pieces, rowid, body) SELECT 'delete', rowid, body FROM km_pieces_source {_THESE}"
)
TEXTS = f"SELECT rowid, body, scope FROM km_text_source {_THESE}"
ADD_PASSAGE = "INSERT INTO km_passages(rowid, body, scope, start) VALUES (?, ?, ?, ?)"
PASSAGES_OF = "SELECT rowid FROM km_passages WHERE rowid BETWEEN ? AND ?"
DROP_PASSAGE = "DELETE FROM km_passages WHERE rowid = ?"
COUNT = "INSERT INTO km_counts VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET memories = memories + excluded.memories"
COUNTS = "SELECT name, memories FROM km_counts WHERE space = ?"
ALL_COUNTS = "SELECT space, name, memories FROM km_counts WHERE memories <> 0"
COUNTED_SPACES = "SELECT space, sum(memories) FROM km_counts GROUP BY space HAVING sum(memories) > 0"
SPACES = (
    "SELECT space, sum(live), sum(archived), sum(other), max(at_s) FROM ("
    "SELECT space, status = 'live' AS live, status = 'archived' AS archived, 0 AS other, written_s AS at_s "
    "FROM km_memory "
    "UNION ALL SELECT space, 0, 0, 1, updated_s FROM km_documents) GROUP BY space ORDER BY space"
)
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
    "SELECT position FROM km_text JOIN km_memory ON position = km_text.rowid WHERE km_text MATCH ? "
    "AND created_s BETWEEN ? AND ? ORDER BY created_s DESC, position DESC LIMIT ?"
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
ADMITTED = (
    " AND EXISTS (SELECT 1 FROM Cache AS c JOIN km_memory AS m ON m.position = c.rowid "
    "WHERE c.rowid = {position} AND {condition})"
)
"""Of what the index finds only that which the fields outside the index admit too."""
COUNT_OWN = (
    "SELECT CASE WHEN EXISTS (SELECT 1 FROM km_text WHERE km_text MATCH ?1) "
    "THEN (SELECT count(*) FROM (SELECT 1 FROM km_text WHERE km_text MATCH ?2 LIMIT ?3)) ELSE 0 END"
)
"""How many rows match the second expression; 0 when none match the first."""
COUNT_MATCHES = "SELECT count(*) FROM (SELECT 1 FROM km_text WHERE km_text MATCH ? LIMIT ?)"
AVERAGES = "SELECT block FROM km_text_data WHERE id = 1"
"""FTS5's own record of how many rows it has and how many tokens each column, as variable-length integers."""
OWN_AND_AVERAGES = (
    "SELECT (SELECT sum(memories) FROM km_counts WHERE space IN (?, ?)), (SELECT block FROM km_text_data WHERE id = 1)"
)
STRUCTURE = "SELECT block FROM km_text_data WHERE id = 10"
"""FTS5's own record of the parts of the index: another one after every commit that stores or changes a text."""
TEXT_COLUMNS = 3
"""Of title, body and labels; the scope comes after them."""
HAS_CONTEXT = "SELECT 1 FROM km_memory WHERE space = ? AND context = ? AND status IN ('live', 'archived') LIMIT 1"
_NEAR = (
    "SELECT group_concat(position) FROM (SELECT position FROM km_memory WHERE space = ?3 "
    "AND context = lender.context AND position {beyond} at AND type = 'episodic' "
    "AND status IN (SELECT value FROM json_each(?4)) ORDER BY position {order} LIMIT ?2)"
)
NEAR = (
    "WITH lender(at, context) AS (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?1)) "
    f"SELECT at, ({_NEAR.format(beyond='<', order='DESC')}), ({_NEAR.format(beyond='>', order='ASC')}) FROM lender"
)
"""Who was said just before and just after each lender, ?2 of them, in the context that stands beside it."""
ROWS_AT = (
    "SELECT rowid, rowid, value, tag FROM Cache NOT INDEXED "
    "WHERE rowid IN ({marks}) AND raw = 1 AND key >= 'm:' AND key < 'm;'"
)
_WITH_COLUMNS = "JOIN Cache AS c ON c.rowid = {index}.rowid JOIN km_memory AS m ON m.position = {index}.rowid"
PIECES = (
    f"SELECT c.rowid FROM km_pieces {_WITH_COLUMNS.format(index='km_pieces')} "
    "WHERE km_pieces MATCH ? AND {conditions} ORDER BY km_pieces.rank LIMIT ?"
)
PIECES_HELD = (
    "SELECT at FROM (SELECT c.rowid AS at, {held} AS held FROM (SELECT id FROM km_pieces_docsize ORDER BY id DESC "
    "LIMIT 5000) AS d JOIN Cache AS c ON c.rowid = d.id JOIN km_memory AS m ON m.position = d.id WHERE {conditions}) "
    "WHERE held > 0 ORDER BY held DESC, at DESC LIMIT ?"
)
"""No index knows single letters and pairs of them: of the latest 5,000 in such scripts all that may be shown are
read."""
LITERAL = (
    f"SELECT c.rowid FROM km_text {_WITH_COLUMNS.format(index='km_text')} "
    "WHERE km_text MATCH ? AND {conditions} ORDER BY c.rowid DESC LIMIT ?"
)
LITERAL_PIECE = (
    "CASE WHEN instr(c.value, ?) > 0 THEN "
    f"CASE WHEN json_valid(c.value) THEN instr(json_extract({_SAID}, '$.content'), ?) > 0 END END"
)
"""Given how the piece is written in JSON and the piece itself: parsing every row would take several times as long."""
HAS_PIECE = f"coalesce({LITERAL_PIECE}, 0)"
WORDS = "SELECT word FROM km_vocabulary WHERE length = ? AND word BETWEEN ? AND ? LIMIT ?"
LONGER = (
    "SELECT word FROM km_vocabulary WHERE length IN (SELECT value FROM json_each(?)) AND word BETWEEN ? AND ? LIMIT ?"
)

# --- deliveries and lifetimes -----------------------------------------------------------------------------------------

GET_DELIVERY = f"SELECT {DELIVERY} FROM km_delivery WHERE remote = ? AND item = ?"
GET_DELIVERIES = (
    f"SELECT remote, item, {DELIVERY} FROM km_delivery WHERE remote IN (SELECT value FROM json_each(?)) "
    "AND item IN (SELECT value FROM json_each(?))"
)
SET_DELIVERY = (
    f"INSERT INTO km_delivery(remote, item, {DELIVERY}) VALUES ({marks(range(13))}) ON CONFLICT DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in DELIVERY.split(", "))
)
DROP_DELIVERY = "DELETE FROM km_delivery WHERE remote = ? AND item = ?"
_OURS_AT = "WHERE remote = ? AND item IN (SELECT id FROM km_memory WHERE status <> 'cached')"
SEND_ANEW = (
    "UPDATE km_delivery SET state = 'pending', due_s = ?, acknowledged = 0, first_sent = wanted, attempts = 0, "
    "refusals = 0, owner = NULL, remote_id = NULL, last_error = NULL, digest = NULL "
    f"{_OURS_AT} AND remote_id IS NOT NULL AND state IN ('delivered', 'pending', 'dead')"
)
"""None of them is untried: other machines may have what it tells of, and hear from the remote when that ends here."""
SEND_LEASED_ANEW = f"UPDATE km_delivery SET wanted = wanted + 1, digest = NULL {_OURS_AT} AND state = 'leased'"
"""Who sends it may have been answered before the remote was put back: that answer confirms an earlier change now."""
LINK_ANEW = "UPDATE km_delivery SET acknowledged = 0, digest = NULL WHERE remote = ?"
DOCUMENTS_ANEW = (
    "UPDATE km_delivery SET wanted = wanted + 1, remote_id = iif(remote_id IS NULL, NULL, ''), digest = NULL, "
    "state = iif(state = 'leased', state, 'pending'), due_s = iif(state = 'leased', due_s, ?) "
    "WHERE remote = ? AND state <> 'dead'"
)
SEAL_ANEW = (
    f"UPDATE km_delivery SET digest = delivery_digest(remote, item, {DELIVERY.rpartition(',')[0]}) "
    "WHERE remote = ? AND digest IS NULL"
)
DELIVERY_ITEMS = "SELECT item FROM km_delivery WHERE remote = ? LIMIT 1000"
_OUTBOX = "FROM km_delivery INDEXED BY km_outbox WHERE state <> 'delivered' AND remote = ?"
DUE = f"SELECT item, CAST(due_s AS REAL) {_OUTBOX} AND state = ? AND due_s <= ? ORDER BY due_s, rowid LIMIT ?"
FAR_AHEAD = f"SELECT item, CAST(due_s AS REAL) {_OUTBOX} AND state = ? AND due_s > ? ORDER BY due_s, rowid LIMIT ?"
_EARLY = (
    f"SELECT item, attempts {_OUTBOX} AND state IN ('pending', 'leased') "
    "AND (state = 'pending' OR due_s <= ? OR due_s > ?)"
)
EARLY = f"{_EARLY} ORDER BY item LIMIT ?"
EARLY_IN_TURN = f"{_EARLY} ORDER BY max(attempts, 1), item LIMIT ?"
"""What failed once keeps its place; what failed more often comes after what did less often, lest it meet the remote
first each time and be the end of that."""
NEXT_DUE = f"SELECT min(due_s) {_OUTBOX} AND state = ?"
OUTBOX_COUNTS = f"SELECT state, count(*) {_OUTBOX} GROUP BY state"
OUTBOX_PAGE = (
    f"SELECT item, {DELIVERY} {_OUTBOX} AND state IN (SELECT value FROM json_each(?)) "
    "AND (? IS NULL OR ? = coalesce((SELECT space FROM km_memory WHERE id = item), (SELECT iif(json_valid(said), "
    "json_extract(said, '$.space'), NULL) FROM (SELECT substr(value, 1, instr(value, char(10))) AS said FROM km_facet "
    "WHERE name = 'document' AND owner = item)))) ORDER BY item LIMIT ?"
)
DELIVERED_COUNT = (
    "SELECT count(*) FROM km_delivery AS d INDEXED BY km_remote_id JOIN km_memory AS m ON m.id = d.item "
    "WHERE d.remote = ? AND d.remote_id IS NOT NULL AND d.state = 'delivered' AND m.status IN ('live', 'archived')"
)
BY_REMOTE_ID = (
    "SELECT d.remote_id, d.item FROM km_delivery AS d LEFT JOIN km_memory AS m ON m.id = d.item "
    "WHERE d.remote = ? AND d.remote_id IN (SELECT value FROM json_each(?)) ORDER BY m.status = 'cached' DESC"
)
"""A memory of ours comes after a copy under the same remote id, and so takes its place."""
UNDELIVERED = (
    "SELECT c.rowid, c.value, c.tag FROM km_memory AS m JOIN Cache AS c ON c.rowid = m.position "
    "WHERE m.id > ? AND m.significance > ? AND m.status IN ('live', 'archived') AND m.space = ? "
    "AND NOT EXISTS (SELECT 1 FROM km_delivery WHERE remote = ? AND item = m.id AND state <> 'local_only') "
    "ORDER BY m.id LIMIT ?"
)
EXPIRED = "SELECT id FROM km_memory WHERE ends_s <= ? ORDER BY ends_s, position LIMIT ? OFFSET ?"
ENDED = "SELECT type, count(*) FROM km_memory WHERE ends_s <= ?2 AND space = ?1 AND status = 'live' GROUP BY type"
NEXT_END = "SELECT ends_s FROM km_memory WHERE ends_s > ?2 AND space = ?1 AND status = 'live' ORDER BY ends_s LIMIT 1"

# --- vectors --------------------------------------------------------------------------------------------------------

CURRENT_REVISIONS = "SELECT id, revision FROM km_memory WHERE id IN (SELECT value FROM json_each(?))"
SET_VECTOR = "INSERT OR REPLACE INTO km_vector(embedder, memory, space, revision, levels) VALUES (?, ?, ?, ?, ?)"
MADE = (
    "SELECT place, memory, revision, levels FROM km_vector INDEXED BY km_vector_space "
    "WHERE embedder = ? AND space = ? AND place > ? ORDER BY place LIMIT ?"
)
DROP_VECTORS_OF = (
    "DELETE FROM km_vector WHERE place IN (SELECT place FROM km_vector WHERE space = ? AND embedder IS NOT ? LIMIT ?)"
)
COUNT_VECTORS = "SELECT embedder, count(*) FROM km_vector WHERE space = ? GROUP BY embedder"
MADE_OF = "SELECT memory, revision FROM km_vector WHERE embedder = ? AND memory IN (SELECT value FROM json_each(?))"
_LACKING = (
    "FROM km_memory AS m WHERE m.position > ? AND m.space = ? AND m.status <> 'forgotten' AND NOT EXISTS "
    "(SELECT 1 FROM km_vector AS v WHERE v.embedder = ? AND v.memory = m.id AND v.revision = m.revision)"
)
LACKING = (
    f"SELECT c.rowid, c.value, c.tag FROM Cache AS c WHERE c.rowid IN (SELECT m.position {_LACKING} "
    "ORDER BY m.position LIMIT ?) ORDER BY c.rowid"
)
COUNT_LACKING = f"SELECT count(*) {_LACKING}"
MEMORIES = (
    "SELECT m.id, c.rowid, c.value, c.tag FROM km_memory AS m JOIN Cache AS c ON c.rowid = m.position "
    "WHERE m.id IN ({marks})"
)
_UNREACHABLE = (
    "m.id IS NULL OR NOT EXISTS (SELECT 1 FROM Cache AS i INDEXED BY Cache_key_raw WHERE i.key = c.key AND i.raw = 1 "
    "AND i.rowid = c.rowid) OR NOT EXISTS (SELECT 1 FROM km_memory AS i INDEXED BY km_memory_id WHERE i.id = m.id "
    "AND i.position = c.rowid) OR (m.key IS NOT NULL AND NOT EXISTS (SELECT 1 FROM km_memory AS i "
    "INDEXED BY km_memory_key WHERE i.space = m.space AND i.key = m.key AND i.position = c.rowid))"
)
DAMAGED = (
    "SELECT substr(c.key, 3) FROM Cache AS c NOT INDEXED LEFT JOIN km_memory AS m NOT INDEXED ON m.position = c.rowid "
    "AND m.id = substr(c.key, 3) WHERE c.raw = 1 AND c.key >= 'm:' AND c.key < 'm;' "
    f"AND ({_UNREACHABLE} OR NOT is_whole(CAST(c.value AS BLOB))) ORDER BY c.rowid"
)
"""Memories whose records are damaged, or that the index of ids or of keys does not lead to."""
EVERY_RECORD = (
    f"SELECT c.key, c.value, c.tag, {', '.join(f'm.{name}' for name in COLUMNS)} FROM Cache AS c NOT INDEXED "
    "LEFT JOIN km_memory AS m NOT INDEXED ON m.position = c.rowid WHERE c.raw = 1 AND c.key >= 'm:' AND c.key < 'm;'"
)
SHARES = 30
"""In so many parts a store is read over."""
_SHARE = (
    "SELECT {name} FROM {table} NOT INDEXED WHERE rowid > (SELECT max(rowid) FROM {table}) * ?1 / {shares} "
    "AND rowid <= (SELECT max(rowid) FROM {table}) * ?2 / {shares} AND {damaged}"
)
_UNSEALED = "NOT is_sealed(CAST({} AS BLOB))".format
_UNDELIVERABLE = f"digest IS NOT delivery_digest(remote, item, {DELIVERY.rpartition(',')[0]})"
DAMAGED_ROWS = {
    kind: _SHARE.format(table=table, name=name, damaged=damaged, shares=SHARES)
    for kind, table, name, damaged in (
        (
            "memory",
            "Cache",
            "substr(key, 3)",
            "raw = 1 AND key >= 'm:' AND key < 'm;' AND NOT is_whole(CAST(value AS BLOB))",
        ),
        ("earlier revision", "km_revision", "memory || ', ' || number", "NOT is_whole(CAST(record AS BLOB))"),
        ("facet", "km_facet", "name || ' of ' || owner", _UNSEALED("value")),
        ("document", "km_documents", "replace(namespace, char(31), '/') || key", _UNSEALED("value")),
        ("operation", "km_operations", "operation", _UNSEALED("outcome")),
        ("delivery of", "km_delivery", "item", _UNDELIVERABLE),
    )
}
"""The names of the rows of each kind that are not as they were written, from one share to another."""
DAMAGED_DELIVERIES = f"SELECT remote, item, {DELIVERY} FROM km_delivery NOT INDEXED WHERE {_UNDELIVERABLE}"
IDS_BEGINNING = "SELECT id FROM km_memory WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"

# --- threads --------------------------------------------------------------------------------------------------------

_ALIVE = "space = ?1 AND context IS NOT NULL AND status = 'live' AND (ends_s IS NULL OR ends_s > ?2)"
"""The memories of a project that were said in a context and have not ended by ?2."""
TALKS = (
    "SELECT context, count(*), sum(CAST(written_s * 1000000 AS INTEGER) % 1099511627776), min(created_s), "
    "max(max(created_s, updated_s)) FROM km_memory INDEXED BY km_memory_context JOIN Cache AS c ON c.rowid = position "
    f"WHERE {_ALIVE} AND substr(c.value, 8, 36) = id GROUP BY context"
)
"""Of memories whose records begin with their ids, as sound ones do. The third column says when the rows were written or
their statuses changed: in microseconds modulo 2^40, so that no sum of them is too large."""
LINES = (
    "SELECT context, json_extract(c.value, '$.title'), substr(json_extract(c.value, '$.content'), 1, ?4), "
    "json_extract(c.value, '$.tags') FROM (SELECT position AS place, context, "
    "row_number() OVER (PARTITION BY context ORDER BY position DESC) AS number, "
    "min(position) OVER (PARTITION BY context) AS first FROM km_memory "
    f"WHERE context IN (SELECT value FROM json_each(?3)) AND {_ALIVE}) "
    "JOIN Cache AS c ON c.rowid = place WHERE (number <= ?5 OR place = first) "
    "AND is_whole(CAST(c.value AS BLOB)) ORDER BY place"
)
"""Of each of the contexts ?3 the first memory and the last ?5."""

# --- documents and items of logs ------------------------------------------------------------------------------------

_DOCUMENT_TEXT = "substr(value, 1, instr(value, char(10)))"
"""Without its digest."""
_HERE = "space = ?1 AND namespace = ?2 AND key = ?3"
_WITHIN = "space = ?1 AND namespace >= ?2 AND namespace < ?3"
_LIVING = f"{_WITHIN} AND (expires_s IS NULL OR expires_s > ?4)"
GET_DOCUMENT = f"SELECT {DOCUMENT} FROM km_documents WHERE {_HERE}"
DOCUMENT_ROW = f"SELECT rowid FROM km_documents WHERE {_HERE}"
TEXT_OF_DOCUMENT = f"SELECT body FROM km_documents_text WHERE rowid = ({DOCUMENT_ROW})"
DOCUMENT_PAGE = (
    f"SELECT {DOCUMENT} FROM km_documents WHERE {_LIVING} AND (namespace, key) > (?5, ?6) "
    "ORDER BY namespace, key LIMIT ?7"
)
DOCUMENT_PLACES = (
    "SELECT namespace, key FROM km_documents WHERE space = ?1 AND namespace < ?2 AND (namespace, key) > (?3, ?4) "
    "ORDER BY namespace, key LIMIT ?5"
)
NAMESPACES = f"SELECT DISTINCT namespace FROM km_documents WHERE {_LIVING} ORDER BY namespace"
DOCUMENT_MATCHES = (
    "SELECT d.rowid, bm25(km_documents_text) AS score FROM km_documents_text JOIN km_documents AS d "
    f"ON d.rowid = km_documents_text.rowid WHERE km_documents_text MATCH ?5 AND {_LIVING} "
    "ORDER BY score, d.updated_s DESC, d.rowid DESC LIMIT ?6"
)
DOCUMENTS_AT = f"SELECT rowid, {DOCUMENT} FROM km_documents WHERE rowid IN (SELECT value FROM json_each(?))"
PUT_DOCUMENT = (
    f"INSERT INTO km_documents(space, {DOCUMENT}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) "
    "ON CONFLICT DO UPDATE SET value = ?4, version = ?5, created_s = ?6, updated_s = ?7, expires_s = ?8, ttl_s = ?9 "
    "RETURNING rowid"
)
INDEX_DOCUMENT = "INSERT INTO km_documents_text(rowid, body) VALUES (?, ?)"
UNINDEX_DOCUMENTS = "DELETE FROM km_documents_text WHERE rowid IN (SELECT value FROM json_each(?))"
UNINDEX_PROJECT = "DELETE FROM km_documents_text WHERE rowid IN (SELECT rowid FROM km_documents WHERE space = ?)"
DROP_PROJECT = "DELETE FROM km_documents WHERE space = ?"
COUNT_DOCUMENTS = "SELECT count(*) FROM km_documents WHERE space = ?"
EARLIER_HERE = (
    "UPDATE OR IGNORE km_documents AS d SET key = key || ?3 WHERE space = ?1 AND EXISTS (SELECT 1 FROM km_documents "
    "AS o WHERE o.space = ?2 AND o.namespace = d.namespace AND o.key = d.key AND o.updated_s >= d.updated_s)"
)
"""Of two documents of one name in two spaces the one here, where the other one changed later."""
MOVE_DOCUMENTS = (
    "UPDATE OR IGNORE km_documents SET space = ?2 WHERE space = ?1",
    "UPDATE OR IGNORE km_operations SET space = ?2 WHERE space = ?1",
)
DROP_PROJECTS_OPERATIONS = "DELETE FROM km_operations WHERE space = ?"
DROP_DOCUMENTS = "DELETE FROM km_documents WHERE rowid IN (SELECT value FROM json_each(?))"
LAST_VERSIONS = (
    "SELECT space, max(version) FROM km_documents WHERE rowid IN (SELECT value FROM json_each(?)) GROUP BY space"
)
ENDED_WITHIN = f"SELECT rowid, space, namespace, key FROM km_documents WHERE {_WITHIN} AND expires_s <= ?4 LIMIT ?5"
ENDED_DOCUMENTS = "SELECT rowid, space, namespace, key FROM km_documents WHERE expires_s <= ? LIMIT ?"
EXTEND_DOCUMENT = f"UPDATE km_documents SET expires_s = ?4 + ttl_s WHERE {_HERE} AND ttl_s IS NOT NULL"
OPERATION = "SELECT outcome FROM km_operations WHERE space = ? AND operation = ?"
NOTE_OPERATION = "INSERT INTO km_operations VALUES (?, ?, ?, ?)"
DROP_OPERATIONS = "DELETE FROM km_operations WHERE at_s < ?"

LOG_PAGE = (
    f"SELECT {DOCUMENT} FROM km_documents WHERE space = ? AND namespace = ? AND key < ? ORDER BY key DESC LIMIT ?"
)
LOG_END = "SELECT max(key) FROM km_documents WHERE space = ? AND namespace = ?"
LOG_SESSIONS = (
    "SELECT namespace, count(*), max(updated_s) FROM km_documents "
    "WHERE space = ? AND namespace >= ? AND namespace < ? GROUP BY namespace ORDER BY namespace"
)
CUT_LOG = "SELECT rowid, key FROM km_documents WHERE space = ? AND namespace = ? AND key >= ? ORDER BY key"


def newest_documents(pieces: int) -> str:
    """The last changed first, of documents that hold as many pieces, letter by letter."""
    holding = f" AND instr(lower({_DOCUMENT_TEXT}), ?) > 0" * pieces
    if pieces:  # what is not to be found by its texts is not found by pieces of them
        holding += " AND EXISTS (SELECT 1 FROM km_documents_text AS t WHERE t.rowid = km_documents.rowid)"
    return f"SELECT rowid FROM km_documents WHERE {_LIVING}{holding} ORDER BY updated_s DESC, rowid DESC LIMIT ?"
