"""The power fails: a file system in a file, copied while nothing runs on it, is what a disk would hold then."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.models import Query, Standing
from tests.cli_runner import ROOT, environment
from tests.faults.conftest import Tell

pytestmark = pytest.mark.faults
IMAGE_BYTES = 192 * 1024 * 1024
SIZES = {"400 B": (400, 120), "40 KB": (40_000, 60), "1 MB": (1_000_000, 8)}
WRITER = """
import asyncio, hashlib, json, sys
from kingly_memory import MemoryRouter, Settings
async def main(home, durability, size):
    async with MemoryRouter.open(home, project="power", settings=Settings(durability=durability, embedder="none")) as m:
        for number in range(100_000):
            text = f"{number} " + "".join(chr(97 + (number + i) % 26) for i in range(97)) * (size // 97)
            await m.store(text, key=f"k{number}")
            print(number, hashlib.sha256(text.encode()).hexdigest(), flush=True)
asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def said(*command: str) -> bool:
    found = shutil.which(command[0]) or command[0]
    return subprocess.run([found, *command[1:]], capture_output=True, check=False).returncode == 0


@contextmanager
def mounted(image: Path, folder: Path) -> Iterator[None]:
    """Nothing is written to the image but what somebody has asked to be durable, for ten minutes."""
    folder.mkdir(exist_ok=True)
    if os.geteuid() != 0 or not said("mount", "-o", "loop,commit=600", str(image), str(folder)):
        pytest.skip("needs the right to mount a file system in a file")
    try:
        yield
    finally:
        assert said("umount", str(folder))


def formatted(image: Path) -> Path:
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    if shutil.which("mkfs.ext4") is None or not said("mkfs.ext4", "-q", "-F", str(image)):
        pytest.skip("needs mkfs.ext4")
    return image


def write_until_the_power_fails(tmp_path: Path, durability: str, size: int, count: int) -> tuple[Path, list[str]]:
    """A copy of the disk at that instant, and the digest of each memory that was acknowledged before."""
    image, folder, copy = formatted(tmp_path / "disk"), tmp_path / "mounted", tmp_path / "copy"
    with mounted(image, folder):
        command = [sys.executable, "-c", WRITER, str(folder / "home"), durability, str(size)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=environment(), text=True) as writer:
            assert writer.stdout is not None
            lines = [writer.stdout.readline() for _ in range(count)]
            writer.send_signal(signal.SIGSTOP)  # whatever it was about to do, it had not done
            shutil.copyfile(image, copy)
            writer.kill()
    return copy, [line.split()[1] for line in lines]


def found_after(copy: Path, folder: Path) -> list[str]:
    """The digests of what the disk holds when the power is back, in the order of storing."""
    reading = (
        "import hashlib, json, sys; from tests.faults.test_power_cut import contents; from pathlib import Path;"
        "print(json.dumps([hashlib.sha256(one.encode()).hexdigest() for one in contents(Path(sys.argv[1]))]))"
    )
    with mounted(copy, folder):
        done = subprocess.run(
            [sys.executable, "-c", reading, str(folder / "home")],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=environment(),
            check=True,
        )
    found: list[str] = json.loads(done.stdout)
    return found


def contents(home: Path) -> list[str]:
    store = DiskStore(home)
    rows = store.reader.page(Query("", "power"), (Standing.LIVE,), 100_000, None, oldest_first=True)
    store.close()
    return [row.memory.content for row in rows]


@pytest.mark.requirement("UNI-010")
@pytest.mark.parametrize("size", SIZES)
def test_what_was_acknowledged_survives_a_power_cut_whole(tmp_path: Path, size: str, tell: Tell) -> None:
    copy, acknowledged = write_until_the_power_fails(tmp_path, "power", *SIZES[size])
    found = found_after(copy, tmp_path / "again")
    tell(21, f"power, {size}: {len(acknowledged)} acknowledged, {len(set(acknowledged) - set(found))} lost")
    assert found[: len(acknowledged)] == acknowledged  # and perhaps what was written while the disk was copied


@pytest.mark.parametrize("size", ["400 B", "40 KB"])
def test_at_the_lesser_durability_a_power_cut_leaves_a_beginning_of_what_was_acknowledged(
    tmp_path: Path, size: str, tell: Tell
) -> None:
    copy, acknowledged = write_until_the_power_fails(tmp_path, "process", *SIZES[size])
    found = found_after(copy, tmp_path / "again")
    tell(21, f"process, {size}: the last {len(acknowledged) - len(found)} of {len(acknowledged)} lost")
    assert found == acknowledged[: len(found)]
