"""The commands that encrypt a home and decrypt it."""

from __future__ import annotations

from pathlib import Path

from kingly_memory.adapters.local import encryption, keys, sqlite
from kingly_memory.adapters.local.folder import Folder
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Answer, Output
from kingly_memory.cli.place import place_of
from kingly_memory.errors import StoreUnwritable
from kingly_memory.extras import require
from kingly_memory.settings import Settings


def encrypt(options: Options, out: Output) -> Answer:
    require("encryption", "encryption")
    home = place_of(options, out).home
    store = Folder(home).store
    name = sqlite.key_name_of(store)
    key, where = (None, "") if name is None else keys.find(name, store)
    if key is None or options.new_key:
        try:
            given = None if options.keyring else keys.given(but=name)
            key, where = given or keys.make(options.keyring)
        except OSError as error:
            raise StoreUnwritable(str(home), f"the key cannot be kept: {error.strerror}") from None
        name = keys.name_of(key, where)
        encryption.rewrite(home, name, _lock_wait_s(home))
    encryption.clean(home)
    beside = [str(path) for path in encryption.readable_beside(home)]
    lines = [
        f"{home} is encrypted; its key {name} is in {where}",
        "  without the key nobody can read these memories: keep a copy of it in another place",
        *(f"  not encrypted: {path}; look whether you need it, then delete it" for path in beside),
    ]
    return Answer({"home": str(home), "key": name, "key_in": where, "not_encrypted": beside}, lines)


def decrypt(options: Options, out: Output) -> Answer:
    home = place_of(options, out).home
    if sqlite.key_name_of(Folder(home).store) is not None:
        encryption.rewrite(home, None, _lock_wait_s(home))
    return Answer({"home": str(home), "key": None}, [f"{home} is not encrypted"])


def _lock_wait_s(home: Path) -> float:
    return Settings.from_environment(home=home).pace.lock_wait_s
