"""Import of a file's entries: memories first, then what lies beside them, all in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime

from kingly_memory.cognition import links
from kingly_memory.cognition.owners import owner
from kingly_memory.dataclass import replace
from kingly_memory.documents import BEHIND_ALL, json_text, texts_in
from kingly_memory.imported import Beside, ImportedContext, ImportedDocument, ImportedItem, ImportedLink
from kingly_memory.models import Standing, Taken, project_and_user, space_of
from kingly_memory.ports import DocumentRows, Transaction
from kingly_memory.router import documents, linking, write
from kingly_memory.router.access import Access
from kingly_memory.router.thread_lookup import THREAD
from kingly_memory.router.write import WriteContext
from kingly_memory.validation import Imported, mended


def take(entries: Sequence[Imported | Beside], context: WriteContext) -> Callable[[Transaction], Taken]:
    """Import entries, each for the user that it names, unless the importing view is of a user: then all are theirs.
    What is here already stays. The change raises InvalidInput for a link without its ends."""
    project, mine = project_and_user(context.space)
    of_user: dict[str | None, list[Imported | Beside]] = {}
    for one in entries:
        of_user.setdefault(mine or one.user, []).append(one)
    changes = [_take(some, replace(context, space=space_of(project, user))) for user, some in of_user.items()]

    def change(transaction: Transaction) -> Taken:
        counts = Counter[str]()
        for take_some in changes:
            counts.update(take_some(transaction))
        return Taken(**counts)

    return change


def _take(entries: Sequence[Imported | Beside], context: WriteContext) -> Callable[[Transaction], Counter[str]]:
    import_memories = write.import_all([one for one in entries if isinstance(one, Imported)], context)

    def change(transaction: Transaction) -> Counter[str]:
        counts = Counter(fate for _, fate in import_memories(transaction))
        for one in entries:
            if isinstance(one, ImportedLink):
                counts.update(_link(transaction, one, context))
            elif isinstance(one, ImportedDocument):
                counts["documents"] += _put(transaction.documents, one, context)
            elif isinstance(one, ImportedItem):
                counts["items"] += _append(transaction.documents, one, context)
            elif isinstance(one, ImportedContext):
                _note_context(transaction, one, context)
        return counts

    return change


class _Undone(Exception):
    """Undoes its transaction, and carries what it would have come to."""

    def __init__(self, taken: Taken) -> None:
        super().__init__(taken)
        self.taken = taken


async def tried(change: Callable[[Transaction], Taken], access: Access) -> Taken:
    """What a change would come to. Nothing is written."""

    def undone(transaction: Transaction) -> Taken:
        raise _Undone(change(transaction))

    try:
        return await access.write(undone)
    except _Undone as outcome:
        return outcome.taken


def _link(transaction: Transaction, one: ImportedLink, context: WriteContext) -> dict[str, int]:
    """What it counts as."""
    source, target = (write.in_space(transaction, end, context.space)[0] for end in (one.source, one.target))
    rows = [write.find(transaction, context.space, end) for end in (source, target)]
    if any(row is not None and row.standing is Standing.FORGOTTEN for row in rows):
        return {"left_out": 1}
    said = links.draft(one.link_type, one.strength, one.description)
    _, is_news = linking.linked(transaction, source, target, said, context, created_at=one.created_at)
    return {"links": int(is_news)}


def _note_context(transaction: Transaction, one: ImportedContext, context: WriteContext) -> None:
    """What was said of the context here counts more than what the file says."""
    whose = owner(context.space, one.context_id)
    for name, said in one.beside.items():
        facet = {**said, "context_id": one.context_id} if name == THREAD else said
        transaction.set_facet(name, whose, {**facet, **(transaction.facet(name, whose) or {})})


def _put(rows: DocumentRows, one: ImportedDocument, context: WriteContext) -> bool:
    """Write a document as the file has it, unless it has ended, or what is here says the same or was written later."""
    document, space = one.document, context.space
    value = json_text("value", document.value)
    old = documents.there(rows, space, document.namespace, document.key, context.now)
    is_here = old is not None and (json_text("value", old.value) == value or old.updated_at > document.updated_at)
    if is_here or document.is_over(context.now):
        return False
    version = max(document.version, documents.next_version(rows, space, old))
    text = mended(texts_in(document.value)) if one.found_by is None else one.found_by
    rows.put(space, document._replace(version=version), value, text)
    return True


def _append(rows: DocumentRows, one: ImportedItem, context: WriteContext) -> bool:
    """Append an item to its log, unless that has one in its place: it was imported before."""
    last = rows.log(context.space, one.session, BEHIND_ALL, 1)
    if last and one.place <= last[0].position:
        return False
    at: datetime = one.at or context.now
    rows.append(context.space, one.session, [json_text("item", one.item)], at.timestamp())
    return True
