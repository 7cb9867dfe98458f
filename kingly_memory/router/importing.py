"""Import of a file's entries: memories first, then what lies beside them, all in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from kingly_memory.cognition import links
from kingly_memory.cognition.owners import owner, whose_focus
from kingly_memory.dataclass import replace
from kingly_memory.documents import LOG, json_text, text_of
from kingly_memory.ids import derived_id
from kingly_memory.imported import Beside, ImportedContext, ImportedDocument, ImportedFocus, ImportedLink
from kingly_memory.models import MemoryStatus, Taken, project_and_user, space_of
from kingly_memory.ports import Transaction, in_transaction
from kingly_memory.router import documents, linking, write
from kingly_memory.router.delivery import shared
from kingly_memory.router.engine import Engine
from kingly_memory.router.thread_lookup import ATTENTION, THREAD
from kingly_memory.router.write import WriteContext
from kingly_memory.validation import Imported, mended


def take(entries: Sequence[Imported | Beside], context: WriteContext) -> Callable[[Transaction], Taken]:
    """Import entries, each for the user that it names, unless the importing view is of a user: then all are theirs.
    What is here already stays. The change raises InvalidInput for a link without its ends."""
    project, mine = project_and_user(context.space)
    of_user: dict[str | None, list[Imported | Beside]] = {}
    for entry in entries:
        of_user.setdefault(mine or entry.user, []).append(entry)
    changes = [_take(some, replace(context, space=space_of(project, user))) for user, some in of_user.items()]

    def change(transaction: Transaction) -> Taken:
        counts = Counter[str]()
        for take_some in changes:
            counts.update(take_some(transaction))
        return Taken(**counts)

    return change


@in_transaction
def _take(transaction: Transaction, entries: Sequence[Imported | Beside], context: WriteContext) -> Counter[str]:
    for entry in entries:
        if isinstance(entry, ImportedContext):
            _note_context(transaction, entry, context)
    memories = [one for one in entries if isinstance(one, Imported)]
    news = [_message(transaction, one, context.space) if one.is_message else one for one in memories]
    counts = Counter(fate for _, fate in write.import_all([*filter(None, news)], context)(transaction))
    counts["unchanged"] += news.count(None)
    for entry in entries:
        if isinstance(entry, ImportedLink):
            counts.update(_link(transaction, entry, context))
        elif isinstance(entry, ImportedDocument):
            counts["items" if entry.document.namespace[0] == LOG else "documents"] += _put(transaction, entry, context)
        elif isinstance(entry, ImportedFocus):
            counts["topics"] += _set_focus(transaction, entry, context.space)
    return counts


def _message(transaction: Transaction, item: Imported, space: str) -> Imported | None:
    """A message as it is taken in; None for one that stands here, in its thread or wherever it has gone since. It does
    not take the id of what was said in another context, and it is not pinned in a thread that is not."""
    context_id = item.draft.context_id or ""
    row = write.in_space(transaction, item.id or "", space)[1]
    if row is not None and row.status is not MemoryStatus.FORGOTTEN and row.memory.content == item.draft.content:
        return None
    if row is not None and row.memory.scope.context_id != context_id:
        item = replace(item, id=derived_id(item.id or "", context_id))
    is_pinned = (transaction.facet(ATTENTION, owner(space, context_id)) or {}).get("pinned")
    return item if is_pinned else replace(item, beside={})


def _set_focus(transaction: Transaction, entry: ImportedFocus, space: str) -> int:
    """Put into focus what a file says, unless there ever was a focus here. How many topics those are."""
    name = whose_focus(space)
    if transaction.facet("focus", name) is not None:
        return 0
    transaction.set_facet("focus", name, entry.focus)
    return len(entry.focus["active_focus"])


class _Undone(Exception):
    """Undoes its transaction, and carries what it would have come to."""

    def __init__(self, taken: Taken) -> None:
        super().__init__(taken)
        self.taken = taken


async def tried(change: Callable[[Transaction], Taken], engine: Engine) -> Taken:
    """What a change would come to. Nothing is written."""

    def undone(transaction: Transaction) -> Taken:
        raise _Undone(change(transaction))

    try:
        return await engine.write(undone)
    except _Undone as outcome:
        return outcome.taken


def _link(transaction: Transaction, entry: ImportedLink, context: WriteContext) -> dict[str, int]:
    """Make one link. Returns what it adds to the counts."""
    source, target = (write.in_space(transaction, end, context.space)[0] for end in (entry.source, entry.target))
    rows = [write.find(transaction, context.space, end) for end in (source, target)]
    if any(row is not None and row.status is MemoryStatus.FORGOTTEN for row in rows):
        return {"left_out": 1}
    draft = links.draft(entry.link_type, entry.strength, entry.description)
    _, is_news = linking.linked(transaction, source, target, draft, context, created_at=entry.created_at)
    return {"links": int(is_news)}


def _note_context(transaction: Transaction, entry: ImportedContext, context: WriteContext) -> None:
    """What was said of the context here counts more than what the file says."""
    if entry.if_new and transaction.has_context(context.space, entry.context_id):
        return
    whose = owner(context.space, entry.context_id)
    for name, fields in entry.beside.items():
        facet = {**fields, "context_id": entry.context_id} if name == THREAD else fields
        transaction.set_facet(name, whose, {**facet, **(transaction.facet(name, whose) or {})})


def _put(transaction: Transaction, entry: ImportedDocument, context: WriteContext) -> bool:
    """Write a document or an item as the file has it, unless it has ended, or what is here is the same or later."""
    rows, document, space = transaction.documents, entry.document, context.space
    value = json_text("value", document.value)
    old = documents.existing(rows, space, document.namespace, document.key, context.now)
    is_here = old is not None and (json_text("value", old.value) == value or old.updated_at > document.updated_at)
    if is_here or document.is_over(context.now):
        return False
    version = max(document.version, documents.next_version(rows, space, old))
    text = mended(text_of(document)) if entry.found_by is None else entry.found_by
    rows.put(space, document._replace(version=version), value, text)
    shared.note(transaction, space, (document.namespace, document.key), context.now_s)
    return True
