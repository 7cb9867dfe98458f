"""The core needs five packages; what needs more says which extra brings it."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from kingly_memory.errors import ExtraMissing
from tests.cli_runner import Run

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kingly_memory"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CORE = {"diskcache", "httpx", "pyyaml", "rapidfuzz", "tenacity"}
EXTRA_ROOMS = (
    "page/",
    "hub/",
    "server/",
    "adapters/embed/minilm.py",
    "adapters/embed/wordllama.py",
    "adapters/local/keys.py",
    "retrieval/matrix.py",
    "integrations/",
)
"""What is loaded only where an extra is installed."""


def names(lines: list[str]) -> set[str]:
    """The distributions that requirement lines name."""
    return {re.split(r"[^A-Za-z0-9_-]", line)[0].lower() for line in lines}


@cache
def third_party(path: Path) -> set[str]:
    """The packages outside Python and this one that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        modules = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        found |= {module.split(".")[0] for module in modules}
    return {name for name in found if name not in sys.stdlib_module_names} - {"kingly_memory"}


@pytest.mark.requirement("N29")
def test_core_needs_five_packages() -> None:
    assert names(PROJECT["dependencies"]) == CORE


@pytest.mark.requirement("N29", "L11")
def test_core_imports_all_that_it_needs_and_nothing_that_an_extra_brings() -> None:
    importable = (CORE - {"pyyaml"}) | {"yaml", "anyio"}  # httpx brings anyio, and its work ends by the scopes of that
    core = [path for path in PACKAGE.rglob("*.py") if not path.relative_to(PACKAGE).as_posix().startswith(EXTRA_ROOMS)]
    assert {path.name: more for path in core if (more := third_party(path) - importable)} == {}
    assert {name for path in core for name in third_party(path)} == importable


@pytest.mark.requirement("N29")
@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [("mcp", "mcp", "mcp"), ("hub", "uvicorn", "hub"), ("demo", "starlette", "hub"), ("page", "starlette", "page")],
)
def test_a_command_without_its_extra_names_it_in_one_sentence(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, package: str, extra: str
) -> None:
    assert f"pip install '.[{extra}]' " in README
    monkeypatch.setitem(sys.modules, package, None)
    ran = run(command)
    how = f"install kingly-memory[{extra}] (in its folder: `pip install '.[{extra}]'`)"
    sentence = f"`kingly-memory {command}` needs the extra `{extra}`; {how}"
    assert (ran.code, ran.out, ran.err) == (1, "", f"kingly-memory: {sentence}\n")


ADAPTERS = [
    ("anthropic", "anthropic", "anthropic", "the memory tool"),
    ("adk", "google.adk.memory", "adk", "the memory service for ADK"),
    ("agent_framework", "agent_framework", "agent-framework", "the providers for the Agent Framework"),
    ("autogen", "autogen_core.memory", "autogen", "the memory for AutoGen"),
    ("crewai_storage", "crewai.memory.types", "crewai", "the storage for CrewAI"),
    ("crewai", "crewai.memory.types", "crewai", "the storage for CrewAI"),
    ("hermes", "agent.memory_provider", "hermes", "the provider for Hermes"),
    ("haystack", "haystack", "haystack", "the memory store for Haystack"),
    ("langchain", "langchain_core.chat_history", "langchain", "the chat history for LangChain"),
    ("langgraph", "langgraph.store", "langgraph", "the store for LangGraph"),
    ("llama_index", "llama_index.core.memory", "llama-index", "the memory block for LlamaIndex"),
    ("openai_agents", "agents.memory.session_settings", "openai-agents", "KinglySession"),
    ("pydantic_ai", "pydantic_ai_harness.memory", "pydantic-ai", "the memory store for Pydantic AI"),
    ("pydantic_ai_conversations", "pydantic_ai", "pydantic-ai-conversations", "the conversation store for Pydantic AI"),
    ("strands", "strands.memory.types", "strands", "the memory store for Strands"),
]


@pytest.mark.parametrize(("adapter", "package", "extra", "what"), ADAPTERS)
def test_an_adapter_without_its_framework_says_in_one_sentence_what_to_install(
    monkeypatch: pytest.MonkeyPatch, adapter: str, package: str, extra: str, what: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"kingly_memory.integrations.{adapter}", raising=False)
    with pytest.raises(ExtraMissing, match=rf"{what} needs the extra `{extra}`; install kingly-memory\["):
        import_module(f"kingly_memory.integrations.{adapter}")


@pytest.mark.parametrize(("adapter", "package", "extra", "what"), ADAPTERS)
def test_an_adapter_whose_framework_has_another_version_says_which(
    monkeypatch: pytest.MonkeyPatch, adapter: str, package: str, extra: str, what: str
) -> None:
    told = [f'{one}; extra == "{name}"' for name, ones in PROJECT["optional-dependencies"].items() for one in ones]
    monkeypatch.setattr("importlib.metadata.requires", lambda _: told)
    monkeypatch.setattr("importlib.metadata.version", lambda _: "99.0rc1")
    monkeypatch.delitem(sys.modules, f"kingly_memory.integrations.{adapter}", raising=False)
    with pytest.raises(
        ExtraMissing, match=rf"{what} needs the extra `{extra}`, but .+ 99.0rc1 is installed, and not >=.*; install"
    ):
        import_module(f"kingly_memory.integrations.{adapter}")


def test_nothing_but_adapters_imports_an_adapter() -> None:
    rest = [path for path in PACKAGE.rglob("*.py") if path.parent.name != "integrations"]
    at_import = re.compile(r"(?:from|import) kingly_memory\.integrations\b")
    assert [path.name for path in rest if at_import.search(path.read_text(encoding="utf-8"))] == []
