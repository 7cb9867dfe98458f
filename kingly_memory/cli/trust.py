"""`trust` says which settings files of projects are obeyed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from kingly_memory.adapters.files.atomic import replacing
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Output, table
from kingly_memory.errors import InvalidInput, InvalidSetting
from kingly_memory.models import JsonObject
from kingly_memory.own_files import make_folder
from kingly_memory.place import HOME_FOLDER, Place, user_data_folder
from kingly_memory.settings import beside, said_in, settings_files
from kingly_memory.settings_file import read
from kingly_memory.trust import TrustList, digest, place


def trust(options: Options, out: Output) -> int:
    trusted = TrustList.read(user_data_folder())
    if trusted.problem is not None:
        what = f"{trusted.path} cannot be used ({trusted.problem}). Delete it, then trust your files again"
        raise InvalidInput("trust", what)
    if options.list:
        if options.path or options.remove:
            raise InvalidInput("list", "goes alone, without a file and without --remove")
        _show(trusted, out)
        return 0
    path = _chosen(options)
    if options.remove:
        _remove(trusted, path, out)
    else:
        _add(trusted, path, out)
    return 0


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


def _add(trusted: TrustList, path: Path, out: Output) -> None:
    content = read(path)
    settings = {name: one.value for name, one in said_in(path, content).items()}
    _write(trusted, {**trusted.entries, place(path): digest(content)})
    lines = [f"trusted {path}, until its contents change; it says", *table([(n, str(v)) for n, v in settings.items()])]
    out.show({"trusted": place(path), "digest": digest(content), "settings": settings}, lines)


def _remove(trusted: TrustList, path: Path, out: Output) -> None:
    if place(path) not in trusted.entries:
        raise InvalidInput("path", f"{path} is not trusted; `kingly-memory trust --list` shows which files are")
    _write(trusted, {one: held for one, held in trusted.entries.items() if one != place(path)})
    out.show({"removed": place(path)}, [f"{path} is not trusted any more"])


def _show(trusted: TrustList, out: Output) -> None:
    files: list[JsonObject] = [
        {"path": one, "digest": held, "state": _state(Path(one), held)} for one, held in sorted(trusted.entries.items())
    ]
    lines = table([(one["state"], one["path"]) for one in files], ("STATE", "FILE"), is_whole=True)
    out.show({"trusted": files}, lines if files else ["no settings file of a project is trusted"])


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
