"""Keys of encrypted stores: where they are found, and what they are called.

A key is 256 random bits, written as 64 hexadecimal digits, so nothing has to be derived from it. Its name is a part of
its digest: stores and backups say by it which key they need, and a wrong key is told from a damaged store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kingly_memory.digests import sha256
from kingly_memory.errors import InvalidSetting, StoreLocked
from kingly_memory.extras import require
from kingly_memory.home.own_files import CAREFULLY, make_folder, opened
from kingly_memory.home.place import KEY, KEY_FILE, store_key, user_data_folder
from kingly_memory.home.secret_file import secret

KEYRING = "the keyring of the system"
_SERVICE = "kingly-memory"
_KEY_DIGITS = 64
_SALT_BYTES = 16
_BEGINNING = b"kingly\0\1"
"""What an encrypted database begins with, before the name of its key. Both are its salt, which is no secret."""


def find(name: str, of: Path) -> tuple[str, str]:
    """The key of that name, which a store or a backup needs, and where it is. Raises StoreLocked, which says what is
    wrong with other keys that are here."""
    others = []
    for source, read in (*_given(), *_kept(name)):
        try:
            if name_of(key := read(), source) == name:
                return key, source
            others.append(f"{source} holds another key")
        except InvalidSetting as error:
            others.append(str(error))
    raise StoreLocked(str(of), name, others)


def given(but: str | None) -> tuple[str, str] | None:
    """The key that the environment gives, and where, unless that is the one named `but`. Raises InvalidSetting."""
    for source, read in _given():
        if name_of(key := read(), source) != but:
            return key, source
    return None


def make(in_keyring: bool) -> tuple[str, str]:
    """A new key, and where it is kept from now on: in the user's data folder, or in the keyring. Raises OSError,
    InvalidSetting."""
    key = os.urandom(_KEY_DIGITS // 2).hex()
    name = name_of(key, KEY)
    if in_keyring:
        _ask_keyring("set_password", name, key)
        return key, KEYRING
    path = _place(name)
    make_folder(path.parent)
    with os.fdopen(opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w") as file:
        file.write(f"{key}\n")
        file.flush()
        os.fsync(file.fileno())
    return key, str(path)


def name_of(key: str, source: str) -> str:
    """Raises InvalidSetting when that is no key; it says where it was found and never what."""
    if len(key) != _KEY_DIGITS or key.strip("0123456789abcdef"):
        raise InvalidSetting(
            source, f"a key has {_KEY_DIGITS} digits of 0-9 and a-f (`openssl rand -hex 32` makes one)"
        )
    return sha256(b"kingly-memory key " + bytes.fromhex(key)).hexdigest()[: 2 * (_SALT_BYTES - len(_BEGINNING))]


def salt(name: str) -> str:
    """The first bytes of a database that is encrypted with that key, in hexadecimal digits."""
    return _BEGINNING.hex() + name


def name_in(file: Path) -> str | None:
    """The name of the key that a database is encrypted with, by its first bytes. Nobody may have it open."""
    try:
        with os.fdopen(os.open(file, os.O_RDONLY | CAREFULLY), "rb") as begun:
            found = begun.read(_SALT_BYTES)
    except OSError:
        return None
    return found.removeprefix(_BEGINNING).hex() if found.startswith(_BEGINNING) else None


@cache
def cipher() -> Any:
    """The module of SQLCipher. Raises ExtraMissing."""
    require("encryption", "an encrypted store")
    from sqlcipher3 import dbapi2

    return dbapi2


_Source = tuple[str, Callable[[], str]]
"""Where a key may be, and what reads it there. It raises InvalidSetting."""


def _given() -> Iterator[_Source]:
    key, path = store_key()
    if key:
        yield KEY, lambda: key
    if path:
        yield KEY_FILE, lambda: secret(path, KEY_FILE)


def _kept(name: str) -> Iterator[_Source]:
    path = _place(name)
    if path.exists():
        yield str(path), lambda: secret(path, "key")
    if find_spec("keyring"):
        yield KEYRING, lambda: _ask_keyring("get_password", name)


@cache
def _ask_keyring(method: str, *arguments: str) -> str:
    """Asked once for each key: it may take longer than a search."""
    try:
        import keyring

        if found := getattr(keyring, method)(_SERVICE, *arguments) or method == "set_password":
            return str(found)
    except ImportError:
        raise InvalidSetting("keyring", "the package `keyring` is not installed; `pip install keyring`") from None
    except Exception as error:  # noqa: BLE001  # each of its backends has errors of its own
        raise InvalidSetting("keyring", f"it refuses ({error})") from None
    raise InvalidSetting("keyring", "it has no key of that name")


def _place(name: str) -> Path:
    return user_data_folder() / "keys" / name
