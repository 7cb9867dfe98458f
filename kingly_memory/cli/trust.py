"""`trust` says which settings files of projects are obeyed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from kingly_memory.adapters.files.atomic import replacing
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Answer, Output, Table, table
from kingly_memory.errors import InvalidInput, InvalidSetting
from kingly_memory.models import JsonObject
from kingly_memory.own_files import make_folder
from kingly_memory.place import HOME_FOLDER, Place, user_data_folder
from kingly_memory.settings import beside, said_in, settings_files
from kingly_memory.settings_file import read
from kingly_memory.trust import TrustList, digest, place

_LISTED = Table(
    ("STATE", "FILE"),
    lambda one: (one["state"], one["path"]),
    "no settings file of a project is trusted",
    is_whole=True,
)


def trust(options: Options, _: Output) -> Answer:
    trusted = TrustList.read(user_data_folder())
    if trusted.problem is not None:
        what = f"{trusted.path} cannot be used ({trusted.problem}). Delete it, then trust your files again"
        raise InvalidInput("trust", what)
    if options.list:
        if options.path or options.remove:
            raise InvalidInput("list", "goes alone, without a file and without --remove")
        files: list[JsonObject] = [
            {"path": one, "digest": held, "state": _state(Path(one), held)}
            for one, held in sorted(trusted.entries.items())
        ]
        return Answer({"trusted": files}, _LISTED(files, options))
    path = _chosen(options)
    if not options.remove:
        content = read(path)
        settings = {name: one.value for name, one in said_in(path, content).items()}
        _write(trusted, {**trusted.entries, place(path): digest(content)})
        rows = table([(name, str(value)) for name, value in settings.items()])
        told = {"trusted": place(path), "digest": digest(content), "settings": settings}
        return Answer(told, [f"trusted {path}, until its contents change; it says", *rows])
    if place(path) not in trusted.entries:
        raise InvalidInput("path", f"{path} is not trusted; `kingly-memory trust --list` shows which files are")
    _write(trusted, {one: held for one, held in trusted.entries.items() if one != place(path)})
    return Answer({"removed": place(path)}, [f"{path} is not trusted any more"])


def _chosen(options: Options) -> Path:
    path = None if options.path is None else Path(options.path).expanduser().absolute()
    if path is not None and not path.is_dir():
        return path
    home = Place.resolve(home=options.home).home if path is None else path / HOME_FOLDER
    match settings_files(home):
        case [path]:
            return path
        case []:
            files = "config.toml, config.yaml or config.yml"
            raise InvalidInput("path", f"nothing to trust: there is no {files} in {beside(home)}; name another file")
        case several:
            raise InvalidInput("path", f"{' and '.join(map(str, several))} are both there; keep one, or name one")


def _state(path: Path, held: str) -> str:
    try:
        return "as trusted" if digest(read(path)) == held else "changed"
    except InvalidSetting:
        return "unreadable" if path.exists() else "gone"


def _write(trusted: TrustList, entries: Mapping[str, str]) -> None:
    make_folder(trusted.path.parent)
    with replacing(trusted.path) as file:
        json.dump({"trusted": entries}, file, ensure_ascii=False, indent=1)
        file.write("\n")
