"""Digests from Python's own modules: `hashlib` loads OpenSSL first, which takes each command 3 ms."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

__all__ = ["blake2b", "content_digest", "sha256"]

if TYPE_CHECKING:
    from hashlib import blake2b, sha256
else:
    try:
        from _blake2 import blake2b

        sha256 = import_module("_sha2" if sys.version_info >= (3, 12) else "_sha256").sha256
    except ImportError:  # a Python that is built without them
        from hashlib import blake2b, sha256


def content_digest(content: str) -> str:
    """Of a memory's text and record as they are sent, by which a hub says what it holds."""
    return sha256(content.encode(errors="replace")).hexdigest()[:32]
