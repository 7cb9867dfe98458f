"""Digests from Python's own modules: `hashlib` loads OpenSSL first, which takes each command 3 ms."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["blake2b", "sha256"]

if TYPE_CHECKING:
    from hashlib import blake2b, sha256
else:
    try:
        from _blake2 import blake2b

        try:
            from _sha2 import sha256
        except ImportError:  # before Python 3.12
            from _sha256 import sha256
    except ImportError:  # a Python that is built without them
        from hashlib import blake2b, sha256
