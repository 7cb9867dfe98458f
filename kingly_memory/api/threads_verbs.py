"""What was said in one context, as a thread: looked at, recalled, merged, split and named."""

from __future__ import annotations

from typing import Annotated

from kingly_memory.api.declare import Answer, Arg, Limit, MemoryRouter, ThreadId, verb

WITHIN_S = 2.0
"""How long suggestions may take. At its first call a process reads some hundred threads in that time; `unread` says
how many are left."""


@verb("threads list", reads=True)
def list_threads(
    memory: MemoryRouter,
    *,
    limit: Limit = 20,
    status: Annotated[str, Arg("which ones", choices=("active", "archived", "merged-into", "all"))] = "active",
) -> Answer:
    """List the threads (contexts), the latest first, under a line that says how heavy they are together."""
    return memory.threads.list(limit, status)


@verb("threads show", reads=True)
def show(
    memory: MemoryRouter,
    thread_id: ThreadId,
    *,
    first: Annotated[int, Arg("number of the first message shown", "N")] = 0,
    limit: Limit = 20,
) -> Answer:
    """Show all that is known of a thread, with its messages."""
    return memory.threads.get(thread_id, first, limit)


@verb(None, "ai_status", "ai", title="See how the threads are", reads=True)
async def status(memory: MemoryRouter) -> Answer:
    """See how many threads are active, how heavy they are, which are the latest, and what is in focus. A thread is
    what was said in one context.

    Example: {}
    Answers: success message active_threads total_weight context_pressure utilisation max_active_threads pinned
        archived_memories focus heaviest latest
    """
    found = await memory.threads.status()
    return {"message": found.message, **found.to_json()}


@verb("threads recall", "ai_recall", "ai", title="Recall threads", reads=lambda restore, **_: not restore)
def recall(
    memory: MemoryRouter,
    topic: Annotated[str, Arg("a topic in a few words, or the id of a thread", is_sentence=True)],
    *,
    limit: Annotated[int, Arg("how many threads at most", "N", least=1, most=20)] = 5,
    restore: Annotated[bool, Arg("bring back what was archived of a thread that is named by its id")] = False,
) -> Answer:
    """Bring back to mind what was said about a topic, thread by thread, archived ones too.

    Example: {"topic": "solana"}
    Answers: success message threads restored left
    """
    return memory.threads.recall(topic, limit, restore=restore)


@verb("threads merge", "ai_merge", "ai", title="Merge two threads")
def merge(
    memory: MemoryRouter,
    thread_a: Annotated[str, Arg("id of the thread that goes on", "A")],
    thread_b: Annotated[str, Arg("id of the thread that goes on as the first one", "B")],
) -> Answer:
    """Have two threads go on as one. All that was said is kept, and ai_split parts them again.

    Example: {"thread_a": "login", "thread_b": "authentication"}
    Answers: success message merged thread
    """
    return memory.threads.merge(thread_a, thread_b)


@verb("threads split", "ai_split", "ai", title="Split a thread")
def split(
    memory: MemoryRouter,
    thread_id: ThreadId,
    *,
    topics: Annotated[
        list[str] | None,
        Arg("topics to take out, or merged threads to part; left out, it is divided by topic", "TOPIC", "topic"),
    ] = None,
) -> Answer:
    """Divide a thread by its topics, or part the threads that were merged into it. All that was said is kept.

    Example: {"thread_id": "api-design", "topics": ["database schema"]}
    Answers: success message threads
    """
    return memory.threads.split(thread_id, topics)


@verb("threads rename", "ai_rename", "ai", title="Name a thread", destroys=True, repeatable=True)
def rename(memory: MemoryRouter, thread_id: ThreadId, title: Annotated[str, Arg("a short title")]) -> Answer:
    """Call a thread something else. Its id stays.

    Example: {"thread_id": "thread_20260201_083000_abc123", "title": "User preferences"}
    Answers: success message thread_id title
    """
    return memory.threads.rename(thread_id, title)


@verb("suggestions", "ai_suggestions", "ai", title="See what might be done", reads=True)
def suggestions(
    memory: MemoryRouter,
    context: Annotated[str | None, Arg("what is being worked on, in a few words: hints what to recall for it")] = None,
) -> Answer:
    """See which threads to merge, split or recall, and whether there are too many. Changes nothing. The latest
    1,000 threads are looked at.

    Example: {"context": "working on authentication"}
    Answers: merge_candidates split_candidates recall_hints health more unread
    """
    return memory.threads.suggestions(context, WITHIN_S)


@verb("compact", "ai_compact", "ai", title="Compact the threads", destroys=True, reads=lambda dry_run, **_: dry_run)
def compact(
    memory: MemoryRouter,
    *,
    strategy: Annotated[
        str,
        Arg(
            "gentle (merges above 0.95, archives after 30 days, keeps 50), normal (0.85, 14 days, 30) or aggressive "
            "(0.75, 7 days, 15)",
            choices="kingly_memory.lifecycle.compaction:COMPACTION_STRATEGIES",
        ),
    ] = "normal",
    dry_run: Annotated[bool, Arg("only say what would happen")] = False,
) -> Answer:
    """Make room when there are too many threads: merge those alike, archive idle and excess ones, make the others
    lighter. A thread is what was said in one context. Nothing is lost: memory_restore brings memories back.

    Example: {"strategy": "aggressive", "dry_run": true}
    Answers: strategy dry_run actions before after
    """
    return memory.compact(strategy, dry_run)
