"""The commands about a home as a whole: its backups, its encryption, and which homes and settings files are trusted."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from kingly_memory.adapters.local import backup, encryption, keys, sqlite
from kingly_memory.adapters.local.folder import Folder
from kingly_memory.adapters.local.trusted import change_list, is_trusted
from kingly_memory.app.parts import makeable, shown_embedder, trust_home
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Answer, Output, Table, table
from kingly_memory.cli.place import place_of, routing
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput, InvalidSetting, StoreUnwritable
from kingly_memory.extras import require
from kingly_memory.home.place import HOME_FOLDER, Place, user_data_folder
from kingly_memory.home.settings_file import read
from kingly_memory.home.trust import HOME_ENTRY, TrustList, digest, place
from kingly_memory.models import Backup, JsonObject, project_and_user
from kingly_memory.settings import Settings, beside, settings_files, settings_in
from kingly_memory.text.writing import counted

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
        listing = [
            {"path": trusted_path, "digest": held, "state": _state(Path(trusted_path), held)}
            for trusted_path, held in sorted(trusted.entries.items())
            if Path(trusted_path).exists()
        ]
        return Answer({"trusted": listing}, _LISTED(listing, options))
    home, path = _chosen(options)
    if options.remove:
        listed = [place(chosen) for chosen in (path, home) if chosen is not None and place(chosen) in trusted.entries]
        if not listed:
            raise InvalidInput("path", f"{path or home} is not trusted; `kingly-memory trust --list` shows what is")
        change_list({}, removed=listed)
        return Answer({"removed": listed}, [f"{one} is not trusted any more" for one in listed])
    answer: JsonObject = {}
    lines = []
    if path is not None:
        content = read(path)
        settings = {name: one.value for name, one in settings_in(path, content).items()}
        if "embedder" in settings:
            settings["embedder"] = shown_embedder(str(settings["embedder"]))
        change_list({place(path): digest(content)})
        answer |= {"trusted": place(path), "digest": digest(content), "settings": settings}
        rows = table([(name, str(value)) for name, value in settings.items()])
        lines += [f"trusted {path}, until its contents change; it says", *rows]
    if home is not None:
        trust_home(Place.resolve(home=home, remote=False), Settings())
        answer["home"] = str(home)
        lines.append(f"trusted the memories in {home}; hooks recall them from now on")
    return Answer(answer, lines)


def _chosen(options: Options) -> tuple[Path | None, Path | None]:
    """The home and the settings file that are meant; a file that is named stands for itself alone."""
    path = None if options.path is None else Path(options.path).expanduser().absolute()
    if path is not None and not path.is_dir():
        if not path.exists() and not options.remove:
            raise InvalidInput("path", f"{path} is not there; name a project's folder, or its settings file")
        return None, path
    if path is None:
        home = Place.resolve(home=options.home).home
    else:
        home = path if Folder(path).exists() else path / HOME_FOLDER
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


def backup_create_lines(made: Backup, _: Options) -> list[str]:
    return [f"{made.file} holds {_held(made)}"]


def backup_check(options: Options, out: Output) -> Answer:
    checked = backup.check(Path(options.file))
    return Answer(checked.to_json(), [f"{checked.file} is whole: {_held(checked)}"])


def backup_restore(options: Options, out: Output) -> Answer:
    place = place_of(options, out)
    wait_s, file = _lock_wait_s(place.home), Path(options.file)
    restored = backup.restore(place.home, file, replace=options.replace, lock_wait_s=wait_s, force=options.force)
    aside = f"; what was there lies in {restored.put_aside}" if restored.put_aside else ""
    lines = [f"{place.home} holds {_held(restored)}{aside}"]
    if restored.put_aside:
        lines.append("  what was forgotten there, and not purged, is as the backup has it")
        key_name, before = (sqlite.key_name_of(one) for one in (Folder(place.home).store, Path(restored.put_aside)))
        if key_name != before:
            was = "it was not encrypted" if before is None else f"it was {before}"
            lines.append(f"  its key is the backup's now, {key_name}; {was}")
    if again := _purge_again(restored, place, out):
        lines.append(f"  purged again, as it was there: {counted(again, 'memory')}")
    return Answer({"home": str(place.home), **restored.to_json()}, lines)


def _purge_again(restored: Backup, place: Place, out: Output) -> int:
    """Purge from the backup what was purged from the store that it has replaced. Says how many memories those were."""
    count = 0
    for space in dict.fromkeys(space for _, space in restored.purged):
        project, user = project_and_user(space)
        with routing(replace(place, project=project, user=user), out) as router:
            for memory_id in (one for one, its_space in restored.purged if its_space == space):
                with suppress(InvalidInput):  # the backup does not have it
                    count += len(router.purge(memory_id, force=True).ids)
    return count


def _held(saved: Backup) -> str:
    damaged = f"; {counted(saved.damaged, 'record is', 'records are')} damaged" if saved.damaged else ""
    memories, projects = counted(saved.memories, "memory"), counted(saved.projects, "project")
    return f"{memories} of {projects}, {saved.size_bytes:,} bytes{damaged}"


def encrypt(options: Options, out: Output) -> Answer:
    require("encryption", "encryption")
    home = makeable(place_of(options, out)).home
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
