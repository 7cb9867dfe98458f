"""`trust` says which settings files of projects are obeyed, and of which homes hooks recall the memories."""

from __future__ import annotations

from pathlib import Path

from kingly_memory.adapters.local.folder import Folder
from kingly_memory.adapters.local.trusted import change_list, is_trusted
from kingly_memory.app.parts import trust_home
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Answer, Output, Table, table
from kingly_memory.errors import InvalidInput, InvalidSetting
from kingly_memory.home.place import HOME_FOLDER, Place, user_data_folder
from kingly_memory.home.settings_file import read
from kingly_memory.home.trust import HOME_ENTRY, TrustList, digest, place
from kingly_memory.models import JsonObject
from kingly_memory.settings import Settings, beside, said_in, settings_files

_LISTED = Table(
    ("STATE", "PATH"),
    lambda one: (one["state"], one["path"]),
    "no settings file of a project is trusted, and no home outside of your data folder",
    is_whole=True,
)


def trust(options: Options, _: Output) -> Answer:
    trusted = TrustList.read(user_data_folder())
    if options.list:
        if options.path or options.remove:
            raise InvalidInput("list", "goes alone, without a path and without --remove")
        if trusted.problem is not None:
            change_list({})  # which says what to do
        known = [
            {"path": one, "digest": held, "state": _state(Path(one), held)}
            for one, held in sorted(trusted.entries.items())
            if Path(one).exists()
        ]
        return Answer({"trusted": known}, _LISTED(known, options))
    home, path = _chosen(options)
    if options.remove:
        listed = [place(one) for one in (path, home) if one is not None and place(one) in trusted.entries]
        if not listed:
            raise InvalidInput("path", f"{path or home} is not trusted; `kingly-memory trust --list` shows what is")
        change_list({}, removed=listed)
        return Answer({"removed": listed}, [f"{one} is not trusted any more" for one in listed])
    told: JsonObject = {}
    lines = []
    if path is not None:
        content = read(path)
        settings = {name: one.value for name, one in said_in(path, content).items()}
        change_list({place(path): digest(content)})
        told |= {"trusted": place(path), "digest": digest(content), "settings": settings}
        rows = table([(name, str(value)) for name, value in settings.items()])
        lines += [f"trusted {path}, until its contents change; it says", *rows]
    if home is not None:
        trust_home(Place.resolve(home=home, remote=False), Settings())
        told["home"] = str(home)
        lines.append(f"trusted the memories in {home}; hooks recall them from now on")
    return Answer(told, lines)


def _chosen(options: Options) -> tuple[Path | None, Path | None]:
    """The home and the settings file that are meant; a file that is named stands for itself alone."""
    path = None if options.path is None else Path(options.path).expanduser().absolute()
    if path is not None and not path.is_dir():
        if not path.exists() and not options.remove:
            raise InvalidInput("path", f"{path} is not there; name a project's folder, or its settings file")
        return None, path
    home = Place.resolve(home=options.home).home if path is None else path / HOME_FOLDER
    has_memories = Folder(home).exists()
    match settings_files(home):
        case [path]:
            return home if has_memories else None, path
        case [] if has_memories:
            return home, None
        case []:
            files = "config.toml, config.yaml or config.yml"
            what = f"nothing to trust: neither {files} in {beside(home)} nor memories; name another place"
            raise InvalidInput("path", what)
        case several:
            raise InvalidInput("path", f"{' and '.join(map(str, several))} are both there; keep one, or name one")


def _state(path: Path, held: str) -> str:
    if held.startswith(HOME_ENTRY):
        return "as trusted" if is_trusted(Folder(path)) else "changed"
    try:
        return "as trusted" if digest(read(path)) == held else "changed"
    except InvalidSetting:
        return "unreadable"
