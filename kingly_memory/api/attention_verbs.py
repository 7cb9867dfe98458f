"""What is put into prompts: focus, pins, ratings, and the notes themselves."""

from __future__ import annotations

from typing import Annotated

from kingly_memory.api.declare import Answer, Arg, MemoryRouter, Reason, ThreadId, verb
from kingly_memory.validation import MOST_TOKENS


@verb("focus", "ai_focus", "ai", title="Focus on a topic", repeatable=True)
def focus(
    memory: MemoryRouter,
    topic: Annotated[
        str, Arg("a topic in a word or two, or the id of a thread or key of a note", command_default=None)
    ],
    *,
    weight: Annotated[float, Arg("how strongly, from 0 to 1", command_default=None)] = 0.8,
) -> Answer:
    """Say what you work on: threads about it are put into prompts first, until the focus is taken off. Again
    updates the weight.

    Example: {"topic": "authentication", "weight": 0.8}
    Answers: success message topic weight affected_threads more clamped thread_id
    """
    return memory.attention.focus(topic, weight)


@verb("unfocus", "ai_unfocus", "ai", title="Take focus off", destroys=True, repeatable=True)
def unfocus(memory: MemoryRouter, topic: Annotated[str | None, Arg("left out, all focus is cleared")] = None) -> Answer:
    """Take the focus off a topic, or off everything that holds for you, also where others have set it for all.

    Example: {"topic": "authentication"}
    Answers: success message cleared active_focus for_everyone
    """
    return memory.attention.unfocus(topic)


@verb("pin", "ai_pin", "ai", title="Pin a text")
def pin(
    memory: MemoryRouter,
    content: Annotated[str, Arg("what to keep in view; stored as it is", "TEXT", reads_input=True)],
    *,
    title: Annotated[str | None, Arg("left out, its first sentence", "TEXT")] = None,
    topics: Annotated[list[str] | None, Arg("words to find it by", "TOPIC", option="topic")] = None,
    weight_boost: Annotated[float, Arg("weight beyond that of others, from 0 to 0.5", option="boost")] = 0.3,
    key: Annotated[str | None, Arg("its name, which must be a new one", only="command")] = None,
) -> Answer:
    """Keep something important: a new thread that weighs more, and that nothing takes away until it is unpinned.
    Sessions that begin with a hook of the same agent begin with it; beside a prompt it must fit like anything else.

    Example: {"content": "User prefers dark mode", "title": "User preferences", "topics": ["preferences", "ui"]}
    Answers: success message thread_id memory_id title weight clamped storage_layers
    """
    return memory.attention.pin(content, title, topics, weight_boost, key=key)


@verb("unpin", "ai_unpin", "ai", title="Take a pin off", destroys=True)
def unpin(memory: MemoryRouter, thread_id: ThreadId) -> Answer:
    """Let a pinned thread be as any other. Nothing that was said in it is lost.

    Example: {"thread_id": "thread_20260201_083000_abc123"}
    Answers: success message thread_id memories
    """
    return memory.attention.unpin(thread_id)


@verb("rate", "ai_rate_context", "ai", title="Rate what was injected")
def rate(
    memory: MemoryRouter,
    thread_id: ThreadId,
    useful: Annotated[bool, Arg("true: it helped; false: it was noise", "useful|noise", option="rating")],
    *,
    reason: Reason | None = None,
) -> Answer:
    """Say whether a note that was put into a prompt helped: later prompts get more or less of its thread. Once for
    each session that it was put into.

    Example: {"thread_id": "thread_20260201_083000_abc123", "useful": false, "reason": "API was redesigned"}
    Answers: success message thread_id useful relevance_before relevance_score raw_score ratings reason replaced
    """
    return memory.attention.rate(thread_id, useful, reason)


@verb("inject", "memory_inject", "ai", title="Take notes for a prompt", reads=True)
def inject(
    memory: MemoryRouter,
    prompt: Annotated[str, Arg("what is about to be asked or done", is_sentence=True, reads_input=True)],
    *,
    budget_tokens: Annotated[
        int, Arg("most tokens of the results, about", "N", option="budget", least=1, most=MOST_TOKENS)
    ] = 1_000,
    session: Annotated[
        str | None, Arg("an id: what this session was told is left out, unless it has changed", "ID")
    ] = None,
    explain: Annotated[bool, Arg("also say why each memory is in or out")] = False,
) -> Answer:
    """Take the notes that fit a prompt, what is in focus first, as hooks put them beside each prompt. Only what the
    user or this agent said; search for the rest.

    Example: {"prompt": "who has to review a deploy?"}
    Answers: success message text tokens put_in left_out asked considered
    """
    return memory.inject(prompt, budget_tokens, session=session, explain=explain)
