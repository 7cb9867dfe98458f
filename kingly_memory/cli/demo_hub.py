"""What the demo asks the hub itself, over the wire as any client would."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from urllib.parse import urlsplit

from kingly_memory.models import JsonObject

CALL_LIMIT_S = 5.0
EVERY_MEMORY = 1_000


def held(url: str, project: str) -> dict[str, list[str]]:
    """The texts that the hub holds for the project, by our id."""
    reply = _call(
        url, project, "search_semantic_memories", {"query": "everything", "limit": EVERY_MEMORY, "threshold": -1}
    )
    texts: dict[str, list[str]] = {}
    for one in reply["memories"]:
        wrapped = json.loads(one["content"])
        texts.setdefault(str(wrapped["metadata"]["id"]), []).append(str(wrapped["content"]))
    return texts


def _call(url: str, project: str, method: str, params: JsonObject) -> JsonObject:
    address = urlsplit(url)
    connection = HTTPConnection(str(address.hostname), address.port, timeout=CALL_LIMIT_S)
    try:
        body = json.dumps({"method": method, "params": params})
        connection.request("POST", "/mcp/call", body, {"Kingly-Project": project})
        reply: JsonObject = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return reply
