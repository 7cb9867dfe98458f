"""A server for the conformance suite of the Model Context Protocol, on our transport and behind our gate:
`python -m tests.conformance.mcp_served product|fixtures HOME` prints the port that it listens on.

The suite can bring no token, so one is put into its requests on their way to the gate.
"""

from __future__ import annotations

import asyncio
import json
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any, cast

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import Message, UserMessage
from mcp.shared.exceptions import MCPError
from mcp_types import (
    AudioContent,
    Completion,
    CreateMessageRequest,
    ElicitRequest,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ListRootsRequest,
    TextContent,
    TextResourceContents,
)
from starlette.types import ASGIApp, Receive, Scope, Send

from kingly_memory.hub.access import Gate
from kingly_memory.hub.listening import listener, quiet_server, stop_with_input, stopped_by_signals
from kingly_memory.server.memory_server import MemoryServer
from kingly_memory.server.web import access_of, application
from tests.mcp_sessions import server

TOKEN = "t0ken-of-the-suite"  # of this test
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA="
MISSING_CAPABILITY = -32021
TEXT, NAME = {"type": "string"}, "What is your name?"


class Fixtures(MCPServer):
    """The tools, resources and prompts that the suite asks for."""

    tool_names = ()


fixtures = Fixtures("fixtures", version="1")


def image() -> ImageContent:
    return ImageContent(type="image", data=PIXEL, mime_type="image/png")


def embedded(uri: str, text: str, mime_type: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))


def said(text: str) -> TextContent:
    return TextContent(type="text", text=text)


def form(message: str, **fields: dict[str, Any]) -> ElicitRequest:
    schema = {"type": "object", "properties": fields, "required": [*fields]}
    return ElicitRequest.model_validate({"params": {"message": message, "requestedSchema": schema}})


def question(text: str, most: int = 100) -> CreateMessageRequest:
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return CreateMessageRequest.model_validate({"params": {"messages": [message], "maxTokens": most}})


def has_all(ctx: Context, asked: dict[str, Any]) -> bool:
    """Whether each request was answered; what else the client sends does not matter."""
    answers = ctx.input_responses or {}
    return all(hasattr(answers.get(name), "content" if name != "client_roots" else "roots") for name in asked)


# --- tools ----------------------------------------------------------------------------------------------------------


@fixtures.tool(structured_output=False)
def test_simple_text() -> str:
    """Answer with a text."""
    return "This is a simple text response for testing."


@fixtures.tool(structured_output=False)
def test_image_content() -> ImageContent:
    """Answer with an image."""
    return image()


@fixtures.tool(structured_output=False)
def test_audio_content() -> AudioContent:
    """Answer with a sound."""
    return AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")


@fixtures.tool(structured_output=False)
def test_embedded_resource() -> EmbeddedResource:
    """Answer with a resource."""
    return embedded("test://embedded-resource", "This is an embedded resource content.")


@fixtures.tool(structured_output=False)
def test_multiple_content_types() -> list[Any]:
    """Answer with a text, an image and a resource."""
    told = json.dumps({"test": "data", "value": 123})
    mixed = embedded("test://mixed-content-resource", told, "application/json")
    return [said("Multiple content types test:"), image(), mixed]


@fixtures.tool(structured_output=False)
def test_error_handling() -> str:
    """Fail."""
    raise ValueError("This tool intentionally returns an error for testing")


@fixtures.tool(structured_output=False)
async def test_tool_with_progress(ctx: Context) -> str:
    """Tell how far it is, three times."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
    return "done"


@fixtures.tool(structured_output=False)
async def test_logging_tool(ctx: Context) -> str:
    """Log nothing unless it is asked to."""
    return "logs nothing unless it is asked to"


@fixtures.tool(structured_output=False)
async def test_missing_capability(ctx: Context) -> str:
    """Need a client that samples."""
    if ctx.client_capabilities is None or ctx.client_capabilities.sampling is None:
        raise MCPError(MISSING_CAPABILITY, "the client cannot sample", {"requiredCapabilities": {"sampling": {}}})
    return "the client can sample"


@fixtures.tool(structured_output=False)
async def test_streaming_elicitation(ctx: Context) -> str | InputRequiredResult:
    """Ask for a name within the answer."""
    return _asked(ctx, {"user_name": form(NAME, name=TEXT)}, "thanks")


def _asked(ctx: Context, asks: dict[str, Any], answer: str, state: str | None = None) -> str | InputRequiredResult:
    return answer if has_all(ctx, asks) else InputRequiredResult(input_requests=asks, request_state=state)


@fixtures.tool(structured_output=False)
async def test_input_required_result_elicitation(ctx: Context) -> str | InputRequiredResult:
    """Ask for a name."""
    asks = {"user_name": form(NAME, name=TEXT)}
    answer = (ctx.input_responses or {}).get("user_name")
    return _asked(ctx, asks, f"Hello, {(getattr(answer, 'content', None) or {}).get('name')}!")


@fixtures.tool(structured_output=False)
async def test_input_required_result_sampling(ctx: Context) -> str | InputRequiredResult:
    """Ask for a model's answer."""
    answer = (ctx.input_responses or {}).get("capital_question")
    return _asked(ctx, {"capital_question": question("What is the capital of France?")}, str(answer))


@fixtures.tool(structured_output=False)
async def test_input_required_result_list_roots(ctx: Context) -> str | InputRequiredResult:
    """Ask for the roots."""
    roots = getattr((ctx.input_responses or {}).get("client_roots"), "roots", ())
    return _asked(ctx, {"client_roots": ListRootsRequest()}, ", ".join(str(one.uri) for one in roots))


@fixtures.tool(structured_output=False)
async def test_input_required_result_request_state(ctx: Context) -> str | InputRequiredResult:
    """Ask, and know the state again."""
    asks = {"confirm": form("Please confirm", ok={"type": "boolean"})}
    return _asked(ctx, asks, "state-ok" if ctx.request_state == "first" else "another state", "first")


@fixtures.tool(structured_output=False)
async def test_input_required_result_tampered_state(ctx: Context) -> str | InputRequiredResult:
    """Ask, and take no other state."""
    return _asked(ctx, {"confirm": form("Please confirm", ok={"type": "boolean"})}, "state-ok", "first")


@fixtures.tool(structured_output=False)
async def test_input_required_result_multiple_inputs(ctx: Context) -> str | InputRequiredResult:
    """Ask for three things."""
    asks = {
        "user_name": form(NAME, name=TEXT),
        "greeting": question("Generate a greeting", 50),
        "client_roots": ListRootsRequest(),
    }
    return _asked(ctx, asks, "all three were answered", "first")


@fixtures.tool(structured_output=False)
async def test_input_required_result_multi_round(ctx: Context) -> str | InputRequiredResult:
    """Ask twice."""
    if ctx.request_state is None:
        return _asked(ctx, {"step1": form("Step 1: What is your name?", name=TEXT)}, "", "one")
    return _asked(ctx, {"step2": form("Step 2: What is your favorite color?", color=TEXT)}, "both", "two")


@fixtures.tool(structured_output=False)
async def test_input_required_result_capabilities(ctx: Context) -> str | InputRequiredResult:
    """Ask for what the client can do."""
    can = ctx.client_capabilities
    asks: dict[str, Any] = {}
    if can is not None and can.sampling is not None:
        asks["greeting"] = question("Generate a greeting")
    if can is not None and can.elicitation is not None:
        asks["user_name"] = form(NAME, name=TEXT)
    return _asked(ctx, asks, "nothing more to ask") if asks else "the client can do neither"


# --- resources ------------------------------------------------------------------------------------------------------


@fixtures.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    return "This is the content of the static text resource."


@fixtures.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    return b64decode(PIXEL)


@fixtures.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


# --- prompts --------------------------------------------------------------------------------------------------------


@fixtures.prompt()
def test_simple_prompt() -> str:
    """A text."""
    return "This is a simple prompt for testing."


@fixtures.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A text with two arguments in it."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@fixtures.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:  # noqa: N803  # as the suite calls it
    """A resource and a text."""
    resource = embedded(resourceUri, "Embedded resource content for testing.")
    return [UserMessage(resource), UserMessage("Please process the embedded resource above.")]


@fixtures.prompt()
def test_prompt_with_image() -> list[Message]:
    """An image and a text."""
    return [UserMessage(image()), UserMessage("Please analyze the image above.")]


@fixtures.prompt()
async def test_input_required_result_prompt(ctx: Context) -> str | InputRequiredResult:
    """A text once the context is known."""
    return _asked(ctx, {"user_context": form("What context should the prompt use?", context=TEXT)}, "in that context")


@fixtures.completion()  # type: ignore[no-untyped-call, untyped-decorator]  # of the SDK
async def complete(*_: Any) -> Completion:
    return Completion(values=["test"], total=1, has_more=False)


# --- serving --------------------------------------------------------------------------------------------------------


def with_token(inner: ASGIApp) -> ASGIApp:
    async def bringing(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {TOKEN}".encode())]}
        await inner(scope, receive, send)

    return bringing


def main(which: str, home: str) -> None:
    served = server(Path(home), shared=True) if which == "product" else cast(MemoryServer, fixtures)
    web = quiet_server(with_token(application(served, Gate(lambda: access_of(TOKEN), []))), lifespan=True)
    with listener("127.0.0.1", 0) as taken, stopped_by_signals(web):
        print(taken.getsockname()[1], flush=True)  # noqa: T201  # for whoever started it
        stop_with_input(web)
        asyncio.run(web.serve(sockets=[taken]))


if __name__ == "__main__":
    main(*sys.argv[1:])
