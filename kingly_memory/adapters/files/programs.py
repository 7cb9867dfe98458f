"""What other programs write, as lines of ours: exports of ChatGPT, Claude, mem0, Letta, claude-mem, the file of the
reference memory server, and the key-value file of earlier days.

Each format of one JSON value has a function that answers with the lines, or with None for a value that is not of it.
Ids are made of the program's own, so that another import of the same changes nothing. What two people said to each
other is of significance 0.3: it is found by searches and stays on this machine. A conversation is a context, and so a
thread with its title.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kingly_memory import graph
from kingly_memory.adapters.files import fields
from kingly_memory.adapters.files.reading import as_mapping, canonical
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import named_id
from kingly_memory.models import JsonObject

MEM0, LEGACY = "mem0", "legacy"
CHATGPT, CLAUDE, LETTA, CLAUDE_MEM = "chatgpt", "claude", "letta", "claude-mem"
SAID = 0.3
"""The significance of a turn of a conversation."""
NOTED = 0.5
"""Of what a program has noted."""
_SUMMARY = ("request", "investigated", "learned", "completed", "next_steps", "notes")


def chatgpt(content: Any) -> Iterator[JsonObject] | None:
    """conversations.json, of which newer exports have several: each conversation is a tree of messages, and the branch
    that ends at `current_node` is what the user sees."""
    return _conversations(content) if _all(content, "mapping", Mapping) else None


def _conversations(content: Sequence[Any]) -> Iterator[JsonObject]:
    for conversation in content:
        nodes, node_id = conversation["mapping"], conversation.get("current_node")
        branch = dict[Any, Any]()
        while isinstance(node_id, str) and node_id not in branch and isinstance(node := nodes.get(node_id), Mapping):
            branch[node_id], node_id = node.get("message"), node.get("parent")
        of = str(
            conversation.get("conversation_id") or conversation.get("id") or named_id(CHATGPT, canonical(conversation))
        )
        turns, began = list[JsonObject](), conversation.get("create_time")
        for message in map(as_mapping, reversed(branch.values())):
            role, facts = as_mapping(message.get("author")).get("role"), as_mapping(message.get("metadata"))
            is_shown = not facts.get("is_visually_hidden_from_conversation") and message.get("recipient") in (
                None,
                "all",
            )
            text = _text(as_mapping(message.get("content")).get("parts"))
            if role in ("user", "assistant") and is_shown and text:
                turns.append(
                    _turn(CHATGPT, of, role, text, id=message.get("id"), at=message.get("create_time") or began)
                )
        yield from _thread(of, conversation.get("title"), turns)


def claude(content: Any) -> Iterator[JsonObject] | None:
    """conversations.json, memories.json and projects.json."""
    if _all(content, "chat_messages", list):
        return _chats(content)
    if _all(content, "docs", list):
        return _projects(content)
    listed = [content] if isinstance(content, Mapping) else content
    return _memories(listed) if _all(listed, "conversations_memory", str) else None


def _chats(content: Sequence[Any]) -> Iterator[JsonObject]:
    for chat in content:
        of = str(chat.get("uuid") or named_id(CLAUDE, canonical(chat)))
        turns, began = list[JsonObject](), chat.get("created_at")
        for message in map(as_mapping, chat["chat_messages"]):
            role = {"human": "user", "assistant": "assistant"}.get(str(message.get("sender")))
            text = _text(message.get("content")) or _text(message.get("text"))
            if role and text:
                turns.append(
                    _turn(CLAUDE, of, role, text, id=message.get("uuid"), at=message.get("created_at") or began)
                )
        yield from _thread(of, chat.get("name"), turns)


def _projects(content: Sequence[Any]) -> Iterator[JsonObject]:
    for project in content:
        name = str(project.get("name") or "")
        parts = [
            {"filename": "instructions", "content": project.get("prompt_template")},
            *map(as_mapping, project["docs"]),
        ]
        for part in parts:
            title = f"{name} › {part.get('filename') or ''}"
            if text := _text(part.get("content")):
                ids = (project.get("uuid"), part.get("uuid") or part.get("filename"))
                yield _noted(CLAUDE, text, *ids, title=title, at=part.get("created_at"), project=name)


def _memories(content: Sequence[Any]) -> Iterator[JsonObject]:
    for account in content:
        texts = {"": account["conversations_memory"], **as_mapping(account.get("project_memories"))}
        for project, value in texts.items():
            if text := _text(value):
                title = f"What Claude remembers of project {project}" if project else "What Claude remembers"
                yield _noted(
                    CLAUDE, text, account.get("account_uuid"), project, title=title, key=f"claude.memory.{project}"
                )


def letta(content: Any) -> Iterator[JsonObject] | None:
    """An agent file (.af): blocks of core memory, and the messages of its agents. Files of earlier versions have one
    agent, with its blocks."""
    if not isinstance(content, Mapping):
        return None
    if isinstance(content.get("core_memory"), list) and isinstance(content.get("messages"), list):
        return _agents([content], content["core_memory"])
    is_new = isinstance(content.get("agents"), list) and isinstance(content.get("blocks"), list)
    return _agents(content["agents"], content["blocks"]) if is_new else None


def _agents(agents: Sequence[Any], blocks: Sequence[Any]) -> Iterator[JsonObject]:
    names = [str(as_mapping(one).get("name") or "agent") for one in agents]
    whose = ", ".join(names)
    for block in map(as_mapping, blocks):
        label = str(block.get("label") or "block")
        if text := _text(block.get("value")):
            about = {"description": block["description"]} if block.get("description") else {}
            # Under its key: a block that was edited since is a revision.
            yield _noted(LETTA, text, whose, label, title=label, key=f"letta.{whose}.{label}", agent=whose, **about)
    for name, agent in zip(names, map(as_mapping, agents), strict=True):
        of, turns = f"letta:{name}", list[JsonObject]()
        for index, message in enumerate(map(as_mapping, agent.get("messages") or ())):
            role, text = message.get("role"), _text(message.get("content")) or _text(message.get("text"))
            packed = _json(text) if text.startswith("{") else None
            if isinstance(packed, Mapping):  # what the server wraps a message in, or an event of its own
                text = _text(packed.get("message")) if packed.get("type") in (None, "user_message") else ""
            for call in map(as_mapping, message.get("tool_calls") or ()):
                function = as_mapping(call.get("function"))
                if function.get("name") == "send_message":
                    text = _text(as_mapping(_json(function.get("arguments"))).get("message"))
            if role in ("user", "assistant") and text:
                at = message.get("created_at")
                turns.append(_turn(LETTA, of, role, text, id=f"{index} {at} {message.get('id')}", at=at))
        yield from _thread(of, name, turns)


def claude_mem(content: Any) -> Iterator[JsonObject] | None:
    """What its export script writes: observations, and summaries of sessions."""
    is_ours = isinstance(content, Mapping) and isinstance(content.get("observations"), list) and "summaries" in content
    return claude_mem_rows(content["observations"], content["summaries"]) if is_ours else None


def claude_mem_rows(observations: Sequence[Any], summaries: Any) -> Iterator[JsonObject]:
    for observation in map(as_mapping, observations):
        facts, concepts = (_listed(observation.get(name)) for name in ("facts", "concepts"))
        parts = [
            observation.get("subtitle"),
            observation.get("narrative") or observation.get("text"),
            "\n".join(f"- {fact}" for fact in facts),
        ]
        yield from _session_note(
            "observation", observation, observation.get("title"), parts, [observation.get("type"), *concepts]
        )
    for summary in map(as_mapping, summaries or ()):
        parts = [f"{name.replace('_', ' ')}: {summary[name]}" for name in _SUMMARY if summary.get(name)]
        yield from _session_note("summary", summary, summary.get("request"), parts, ["summary"])


def _session_note(
    kind: str, row: Mapping[str, Any], title: Any, parts: Sequence[Any], tags: Sequence[Any]
) -> Iterator[JsonObject]:
    text = "\n\n".join(part for part in map(_text, parts) if part) or _text(title)
    session, at = row.get("memory_session_id") or row.get("sdk_session_id"), row.get("created_at_epoch")
    if text:
        made = _noted(
            CLAUDE_MEM, text, kind, session, at, row.get("id"), title=title, at=at, project=row.get("project")
        )
        yield {**made, "type": "episodic", "tags": [str(tag) for tag in tags if tag], "context_id": session}


def mem0(content: Any) -> Iterator[JsonObject] | None:
    """What it answers to `get_all` and writes as an export. `as_line` reads each memory."""
    held = content.get("results", content.get("memories")) if isinstance(content, Mapping) else content
    return iter(held) if isinstance(held, list) and any(map(_is_mem0, held)) else None


def _is_mem0(data: Any) -> bool:
    return isinstance(data, Mapping) and isinstance(data.get("memory"), str) and not {"content", "value"} & data.keys()


OF_JSON: Mapping[str, Callable[[Any], Iterator[JsonObject] | None]] = {
    MEM0: mem0,
    CHATGPT: chatgpt,
    CLAUDE: claude,
    LETTA: letta,
    CLAUDE_MEM: claude_mem,
}
"""Every format, with what reads it."""


def _thread(of: str, title: Any, turns: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """The turns, and the title of the conversation."""
    yield from turns
    if turns and (called := fields.title(title if isinstance(title, str) else "")):
        yield {"context": of, "beside": {"thread": {"context_id": of, "title": called}}}


def _turn(program: str, of: str, role: str, text: str, **values: Any) -> JsonObject:
    """A message of that conversation. One without an id gets an id made of its text."""
    message_id, at = values.get("id"), values.get("at")
    made = _line(program, text, "message", of, message_id or f"{role} {text}", at=at)
    return {**made, "type": "episodic", "significance": SAID, "context_id": of, "tags": [program, role]}


def _noted(
    program: str, text: str, *ids: Any, title: Any = None, at: Any = None, key: str = "", **facts: Any
) -> JsonObject:
    named = {"title": fields.title(title if isinstance(title, str) else ""), "metadata": {"from": program, **facts}}
    made = {**_line(program, text, *ids, at=at), **named, "significance": NOTED, "tags": [program]}
    if key:  # the same note of a later export is another revision
        made |= {"key": key[:200].rstrip("."), "id": None}
    return made


def _line(program: str, text: str, *ids: Any, at: Any) -> JsonObject:
    return {"id": named_id(program, *map(str, ids)), "content": text, "created_at": at}


def _all(content: Any, name: str, kind: type | tuple[type, ...]) -> bool:
    """Whether this is a list of objects that all have that field."""
    if not isinstance(content, list) or not content:
        return False
    return all(isinstance(item, Mapping) and isinstance(item.get(name), kind) for item in content)


def _text(value: Any) -> str:
    """A text, or the texts of a message's parts; pictures, calls and their results are none."""
    if isinstance(value, list):
        texts = [part if isinstance(part, str) else as_mapping(part).get("text") for part in value]
        value = "\n\n".join(text for text in texts if isinstance(text, str) and text.strip())
    return value.strip() if isinstance(value, str) else ""


def _listed(value: Any) -> list[Any]:
    """A list, also one that is written as JSON."""
    items = _json(value) if isinstance(value, str) else value
    return items if isinstance(items, list) else []


def _json(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None


# --- lines, and the key-value file -----------------------------------------------------------------------------------


def as_line(data: Mapping[str, Any]) -> JsonObject | None:
    """A line of mem0 or of the reference memory server as a line of ours; None for another one. Raises InvalidInput."""
    if _is_mem0(data):
        carried = {name: data[name] for name in ("created_at", "updated_at", "metadata") if data.get(name) is not None}
        kept = {name: data[name] for name in ("user_id", "actor_id", "role") if data.get(name) is not None}
        metadata = {**fields.mapping("metadata", carried.get("metadata") or {}), **kept}
        scope = {"user": data.get("user_id"), "agent": data.get("agent_id"), "context_id": data.get("run_id")}
        tags = fields.texts("categories", data.get("categories"), most=64)
        return {
            **carried,
            "id": data.get("id"),
            "content": data["memory"],
            "metadata": metadata,
            "tags": tags,
            "scope": scope,
        }
    part = graph.from_json(data)
    if part is None:
        if (kind := data.get("type")) in ("entity", "relation"):
            raise InvalidInput(kind, "has not all fields that the reference memory server writes")
        return None
    called = (part.name,) if isinstance(part, graph.Entity) else part
    return {"id": named_id("server-memory", *called), **part.to_store()}  # the same one on every import


LEGACY_NAME = "memory.json"
LEGACY_CALLED = {"content": "value", "title": "key", "tags": "category", "created_at": "timestamp"}
"""What the key-value file calls the fields of a memory."""


def is_legacy(content: Any) -> bool:
    """True for a list, and for an object that says which are its values. One of bare values by key may be anything,
    and each of its names would write over the memory that has it for a key."""
    if not isinstance(content, Mapping):
        return isinstance(content, list)
    if isinstance(content.get("memories"), list | dict) or {"key", "value"} <= set(content):
        return True
    return all(isinstance(record, Mapping) and "value" in record for record in content.values())


def legacy_items(content: Any) -> Any:
    """The pairs of the key-value file, `./.kingly/memory.json`, in its order. Of several with one key the last one
    stands, as it did there.

    Accepts a list of `{key, value, category, timestamp}`, the same under `memories`, a single one, or an object of
    values by key.
    """
    if isinstance(content, Mapping) and isinstance(content.get("memories"), list | dict):
        content = content["memories"]
    if not isinstance(content, Mapping):
        return content
    if {"key", "value"} <= set(content):
        return [content]
    is_pair = {key: isinstance(value, Mapping) and "value" in value for key, value in content.items()}
    return [{"key": key, **(value if is_pair[key] else {"value": value})} for key, value in content.items()]


def legacy_line(item: Any) -> JsonObject:
    """A pair as a line: every one becomes a semantic memory with that key."""
    if not isinstance(item, Mapping) or "value" not in item:
        raise InvalidInput("item", "is not an object with key and value")
    value, category = item["value"], item.get("category")
    key = None if item.get("key") in (None, "") else str(item["key"])
    return {
        "content": value if isinstance(value, str) else canonical(value),
        "key": key,
        "title": key,  # such files say in the key what the value is about
        "tags": () if category in (None, "") else (category,),
        "created_at": item.get("timestamp"),
        "metadata": {name: value for name, value in item.items() if name not in LEGACY_CALLED.values()},
    }
