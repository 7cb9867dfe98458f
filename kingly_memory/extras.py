"""The optional parts of an installation, and whether they are there. Imports nothing of them."""

from __future__ import annotations

from importlib.util import find_spec

from kingly_memory.errors import ExtraMissing

_PACKAGES = {
    "mcp": ("mcp", "pydantic", "starlette", "uvicorn"),
    "encryption": ("sqlcipher3",),
    "postgres": ("psycopg", "psycopg_pool"),
    "hub": ("pydantic", "starlette", "uvicorn"),
    "page": ("starlette", "uvicorn"),
}
"""What each extra brings that the core does not have: httpx brings anyio."""


def require(extra: str, what: str) -> None:
    """Raises ExtraMissing unless `what` can run."""
    if any(find_spec(package) is None for package in _PACKAGES[extra]):
        raise ExtraMissing(what, extra)
