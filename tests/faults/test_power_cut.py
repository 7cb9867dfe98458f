"""The power fails: ext4 on a disk that forgets what was in its cache, in any part, and writes it in any order."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.models import MemoryStatus, Query
from tests.cli_runner import ROOT, environment
from tests.faults.conftest import Tell
from tests.faults.forgetful_disk import BLOCK_BYTES, Write, read_log, survivors

IMAGE_BYTES = 96 * 1024 * 1024
SIZES = {"400 B": (400, 120), "40 KB": (40_000, 40), "1 MB": (1_000_000, 6)}
CUTS = 150
WRITER = """
import asyncio, ctypes, hashlib, os, sys
from kingly_memory import MemoryRouter, Settings
async def main(home, log, durability, size, count):
    async with MemoryRouter.open(home, project="power", settings=Settings(durability=durability, embedder="none")) as m:
        for number in range(count):
            text = f"{number} " + "".join(chr(97 + (number + i) % 26) for i in range(97)) * (size // 97)
            await m.store(text, key=f"k{number}")
            print(os.stat(log).st_size, hashlib.sha256(text.encode()).hexdigest(), flush=True)
            if number % 8 == 7 and durability == "process":  # as the kernel does from time to time
                folder = os.open(home, os.O_RDONLY)
                ctypes.CDLL(None).syncfs(folder)
                os.close(folder)
asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
"""


class Recording(NamedTuple):
    """What one writer told its disk. `acknowledged`: how long the log was when a store returned, and its text's digest,
    in the order of storing."""

    image: Path
    """The disk before."""
    log: Path
    acknowledged: Sequence[tuple[int, str]]


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(one) for one in command], capture_output=True, text=True, check=False)


class NotMounted(Exception):
    """The text says why."""


@contextmanager
def mounted(image: Path, folder: Path) -> Iterator[Path]:
    """ext4 tells its disk nothing but what somebody has asked to be durable, for ten minutes."""
    folder.mkdir(exist_ok=True)
    if (done := run("mount", "-o", "loop,commit=600", image, folder)).returncode != 0:
        raise NotMounted(done.stderr.strip())
    try:
        yield folder
    finally:
        done = run("umount", folder)
        assert done.returncode == 0, done.stderr


@contextmanager
def recorded(image: Path, log: Path) -> Iterator[None]:
    """Until the end, what is written to the image goes to the log, and the image stays as it is."""
    command = [sys.executable, "-m", "tests.faults.forgetful_disk", str(image), str(log)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT, env=environment(), text=True
    ) as disk:
        assert disk.stdout is not None
        if (said := disk.stdout.readline().strip()) != "served":
            raise NotMounted(said)
        try:
            yield
        finally:
            run("umount", image)
            disk.wait(timeout=60)


def record(tmp_path: Path, durability: str, size: int, count: int) -> Recording:
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.W_OK) or shutil.which("mkfs.ext4") is None:
        pytest.skip("needs root, /dev/fuse and mkfs.ext4")
    image, log = tmp_path / "disk", tmp_path / "log"
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    assert run("mkfs.ext4", "-q", "-F", "-b", str(BLOCK_BYTES), image).returncode == 0
    try:
        with recorded(image, log), mounted(image, tmp_path / "mounted") as folder:
            command = [sys.executable, "-c", WRITER, str(folder / "home"), str(log), durability, str(size), str(count)]
            done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment(), check=False)
    except NotMounted as error:
        pytest.skip(f"a file system in a file cannot be mounted here: {error}")
    assert done.returncode == 0, done.stderr
    said = [line.split() for line in done.stdout.splitlines()]
    return Recording(image, log, [(int(position), digest) for position, digest in said])


class Cut(NamedTuple):
    """A disk on which the power has failed. `position`: how long the log was then."""

    image: Path
    position: int


def cuts(recording: Recording, count: int, tmp_path: Path) -> Iterator[Cut]:
    """Disks after power cuts at any time from the first write of the store on, in the order of time. What was written
    before the last flush is there, and of what came after it any part."""
    chance = random.Random(21)
    events = list(read_log(recording.log))
    chosen = set(chance.sample(range(len(events)), min(count, len(events))))
    durable, after = tmp_path / "durable", tmp_path / "after"
    shutil.copyfile(recording.image, durable)
    waiting: list[Write] = []
    position = 0
    with durable.open("r+b", buffering=0) as disk:
        for number, event in enumerate(events):
            if isinstance(event, Write):
                waiting.append(event)
                position = event.end
            if number in chosen:
                shutil.copyfile(durable, after)
                write_all(after, survivors(waiting, chance))
                yield Cut(after, position)
                after.unlink()  # its loop device may let go of it later
            if event is None:
                for write in waiting:
                    os.pwrite(disk.fileno(), write.data, write.offset)
                waiting = []


def write_all(image: Path, writes: Iterator[tuple[int, bytes]]) -> None:
    with image.open("r+b", buffering=0) as disk:
        for offset, data in writes:
            os.pwrite(disk.fileno(), data, offset)


async def found_in(home: Path) -> list[str]:
    """The digests of what the disk holds when the power is back, in the order of storing, after one more store."""
    async with MemoryRouter.open(home, project="power", settings=Settings(embedder="none")) as memory:
        await memory.store("the power is back")
    store = DiskStore(home)
    rows = store.reader.page(Query("", "power"), (MemoryStatus.LIVE,), 100_000, None, oldest_first=True)
    store.close()
    assert rows.pop().memory.content == "the power is back"
    return [hashlib.sha256(row.memory.content.encode()).hexdigest() for row in rows]


def play(tmp_path: Path, durability: str, size: int, stores: int, power_cuts: int) -> list[int]:
    """How many acknowledged memories each power cut cost."""
    recording = record(tmp_path, durability, size, stores)
    digests = [digest for _, digest in recording.acknowledged]
    lost = []
    for cut in cuts(recording, power_cuts, tmp_path):
        with mounted(cut.image, tmp_path / "again") as folder:
            found = asyncio.run(found_in(folder / "home"))
            was_damaged = any((folder / "home").glob("store.corrupt-*"))
        missing = [digest for digest in digests[: digests.index(found[-1]) + 1 if found else 0] if digest not in found]
        assert found == [digest for digest in digests if digest in found]  # in order, and every text whole
        assert not missing or (was_damaged and durability == "process")  # a gap is said aloud
        acknowledged = sum(position <= cut.position for position, _ in recording.acknowledged)
        lost.append(len(set(digests[:acknowledged]) - set(found)))
    return lost


@pytest.mark.requirement("UNI-010")
def test_what_was_acknowledged_survives_some_power_cuts(tmp_path: Path) -> None:
    assert sum(play(tmp_path, "power", 400, 10, 4)) == 0


@pytest.mark.faults
@pytest.mark.requirement("UNI-010")
@pytest.mark.parametrize("size", SIZES)
def test_what_was_acknowledged_survives_any_power_cut_whole(tmp_path: Path, size: str, tell: Tell) -> None:
    lost = play(tmp_path, "power", *SIZES[size], CUTS)
    tell(21, f"power, {size}: {len(lost)} cuts of {SIZES[size][1]} stores, {sum(lost)} lost")
    assert sum(lost) == 0


@pytest.mark.faults
@pytest.mark.parametrize("size", SIZES)
def test_at_the_lesser_durability_a_power_cut_leaves_whole_texts_and_says_what_is_missing(
    tmp_path: Path, size: str, tell: Tell
) -> None:
    lost = play(tmp_path, "process", *SIZES[size], CUTS)
    tell(21, f"process, {size}: {len(lost)} cuts of {SIZES[size][1]} stores, {max(lost)} lost at most")
