"""Our own files and folders: made for their owner alone, and never reached through a link.

A cloned repository or an unpacked archive may hold a link in the place of any of them, and whoever wrote through it
would change a file somewhere else.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from pwd import getpwuid

from kingly_memory.errors import InvalidInput, StoreUntrusted, StoreUnwritable

PROJECT_FOLDER = ".kingly"
OWN_FOLDERS = (PROJECT_FOLDER, "kingly")
"""Folders that hold a home and nothing else but what belongs to it: in a project, and in the user's data folder."""
CAREFULLY = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""No link is followed, and no pipe waited for."""
FIRST_PAUSE_S, LEAST_PAUSE_S = 0.001, 0.000_3
"""Between two looks at a lock."""
_UNFINISHED = ".kingly-unfinished"
_FOLDER_WAIT_S = 1.0


def own_folder(environment: Mapping[str, str] | None = None) -> Path:
    """The user's own folder. An empty HOME counts as none: it would be the root of the file system. Raises InvalidInput
    where nothing says which folder it is."""
    named = {**os.environ, **(environment or {})}.get("HOME")
    try:
        return Path(named or getpwuid(os.getuid()).pw_dir)
    except KeyError:
        problem = "is not set, and the system knows no folder of this user; set it, or KINGLY_HOME and XDG_DATA_HOME"
        raise InvalidInput("HOME", problem) from None


def expanded(path: str | os.PathLike[str]) -> Path:
    """With the user's own folder for `~`. Raises RuntimeError for a `~user` who is not there."""
    first, *rest = Path(path).parts or [""]
    return own_folder().joinpath(*rest) if first == "~" else Path(path).expanduser()


def named_path(field: str, path: object, *, later: bool = False) -> Path:
    """What a caller names as a path, there or not. Raises InvalidInput for what can be none; the system is not asked
    for one that is used `later`, which may lie where nothing answers now."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(field, f"expected a path, not {type(path).__name__}")
    try:
        named = expanded(path)
        if not later:
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):  # to be said by whoever uses it
                named.lstat()
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        cause = getattr(error, "strerror", None) or error
        raise InvalidInput(field, f"{str(path)[:80]!r} cannot be used ({cause})") from None
    return named


def is_made(home: Path) -> bool:
    """Whether there is a home, whatever it holds."""
    return (home / "store").exists()


def check_folder(folder: Path) -> None:
    """Raise StoreUntrusted when the folder, or the `.kingly` around it, is a link, or one in a `.kingly` is not ours
    alone to write to. Neither need be there yet."""
    if folder.parent.name == PROJECT_FOLDER:
        check_no_link(folder.parent)
    check_no_link(folder)
    if folder.exists():
        for path in _own(folder):
            check_ours(path.lstat(), path)


def check_no_link(path: Path) -> None:
    """Raise StoreUntrusted when a link lies under that path."""
    if path.is_symlink():
        raise _link(path)


def check_ours(status: os.stat_result, path: Path) -> None:
    """Raise StoreUntrusted for a file or folder of another user, or one that others may write to."""
    if status.st_uid != os.geteuid():
        raise StoreUntrusted(str(path), "it belongs to another user")
    if status.st_mode & 0o022:
        raise StoreUntrusted(str(path), "other users may write to it (run `chmod go-w` on it)")


def check_one_name(status: os.stat_result, path: str | os.PathLike[str], folder: int | None = None) -> None:
    """Raise StoreUntrusted for a hard link that another user may have made: whoever writes to the file would change
    what else it is called, too. A file of ours in a folder that only we can write to may be linked by a backup.
    """
    if status.st_nlink > 1:
        around = Path(path).parent.stat() if folder is None else os.fstat(folder)
        if status.st_uid == around.st_uid == os.geteuid() and not around.st_mode & 0o022:
            return
        to_do = "Put a copy in its place (`cp` it to another name and `mv` that back)"
        raise StoreUntrusted(os.fspath(path), "the file has a second name (a hard link)", to_do)


def make_folder(folder: Path) -> None:
    """Make the folder, and the one of our own around it, where they are missing, for their owner alone.

    Raises OSError, and StoreUntrusted as `check_folder` does.
    """
    tighten(folder)
    check_folder(folder)
    if folder.parent.name in OWN_FOLDERS:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Raises StoreUnwritable where the system does not let us write there."""
    try:
        yield
    except OSError as error:
        raise StoreUnwritable(str(folder), error.strerror or "error") from error


def tighten(folder: Path) -> None:
    """Close a `.kingly`, and the folder in it with its store, to other users: a clone has the modes that git gave it.
    Others may be the user's own. What cannot be closed is for `check_folder` to judge, and a store that others may
    write to for whoever opens it: they may have written already."""
    own = _own(folder)
    with suppress(OSError):
        for path in (*own, folder / "store") if own else ():
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | CAREFULLY)
            try:
                mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
                if mode & 0o077:
                    os.fchmod(descriptor, mode & (0o700 if path in own else 0o722))
            finally:
                os.close(descriptor)


def keep_out_of_git(folder: Path) -> None:
    """Memories are private, and their folder often lies inside a repository. A `.gitignore` that is there stays as it
    is. Raises OSError, StoreUntrusted."""
    path = folder / ".gitignore"
    check_no_link(path)
    with suppress(FileExistsError), os.fdopen(opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w") as note:
        note.write("*\n")


def opened(path: str | os.PathLike[str], how: int, folder: int | None = None) -> int:
    """A descriptor of a file of ours, which is made with mode 0600 if `how` has O_CREAT. `folder`: descriptor of the
    folder that `path` lies in.

    Raises StoreUntrusted for a link, and for a hard link as `check_one_name` does, OSError for anything else that is no
    file. So that nothing is lost to a hard link, do not pass O_TRUNC: cut the file afterwards.
    """
    try:
        descriptor = os.open(path, how | CAREFULLY, 0o600, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _link(path) from None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
        check_one_name(status, path, folder)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def write_json(path: Path, value: object) -> None:
    """Write a file whole, on the disk before it gets its name, while nobody else writes it. Raises OSError and what
    `opened` raises."""
    fresh = path.with_suffix(".new")
    with os.fdopen(opened(fresh, os.O_WRONLY | os.O_CREAT), "w", encoding="utf-8") as file:
        file.truncate(0)
        json.dump(value, file, indent=1)  # in ASCII: it names paths, which need not be UTF-8
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


@contextmanager
def unfinished(path: Path, *, sweeps: bool = False) -> Iterator[tuple[int, Path]]:
    """A new file beside `path`, as a descriptor and a name, for what gets that name when it is whole; the other name is
    gone after the block. With `sweeps` those are removed from the folder whose writers were killed. Raises OSError.

    The folder is locked meanwhile and not the file: on NFS, SQLite could not lock that any more. Where a folder cannot
    be locked nothing is removed.
    """
    folder = path.absolute().parent
    with ExitStack() as stack:
        with suppress(OSError):
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, held)
            for left in folder.glob(f".*{_UNFINISHED}*") if sweeps and lock(held, 0) else ():
                with suppress(OSError):
                    left.unlink()
            lock(held, _FOLDER_WAIT_S, fcntl.LOCK_SH)
        name = folder / f".{path.name[:50]}.{os.urandom(4).hex()}{_UNFINISHED}"
        descriptor = opened(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        stack.callback(name.unlink, missing_ok=True)
        yield descriptor, name


def on_the_disk(path: Path) -> None:
    """Make what a file or a folder holds survive a power cut; a folder holds the names of what is in it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(descriptor: int, wait_s: float, how: int = fcntl.LOCK_EX) -> bool:
    """Whether the file could be locked before the wait was over. The kernel lets go of it when the process ends.

    Whoever waits longest asks most often: with pauses that grew, newcomers got the lock first, and of eight writers the
    unlucky waited twice as long. A thread that waits inside `flock` would be woken sooner. But a child that is forked
    meanwhile keeps its descriptor, and with that the lock, and a lock that never comes free would collect one thread
    for each try.
    """
    end, pause = time.monotonic() + wait_s, FIRST_PAUSE_S
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
        time.sleep(pause)
        pause = max(pause * 0.8, LEAST_PAUSE_S)


def unlock(descriptor: int) -> None:
    """Let go of a lock. A child forked meanwhile holds a copy of the descriptor, so closing ours is not enough."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _own(folder: Path) -> list[Path]:
    """Of the folder and the one around it those that are a `.kingly`, or lie in one."""
    return [path for path in (folder.parent, folder) if PROJECT_FOLDER in (path.name, path.parent.name)]


def _link(path: str | os.PathLike[str]) -> StoreUntrusted:
    return StoreUntrusted(
        os.fspath(path),
        "it is a symbolic link, which a cloned repository may have brought along, and none is followed",
        "Remove it; to keep memories in another folder, name that folder with --home or KINGLY_HOME",
    )
