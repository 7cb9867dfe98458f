"""One damage to a home at a time, of every kind, while nobody, one, two or four processes have it open, or after they
were killed: nothing acknowledged is lost without a word, no wrong text is read as fact, and nothing crashes or hangs.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cli_runner import ROOT, Ran, Run, environment
from tests.faults.conftest import Tell

PAGE = 4_096
HELD = 20
HALF = 0.5
STATES = ("closed", "killed", "open")


class Process:
    """A process that does what `home_worker` can."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.faults.home_worker"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=environment(), text=True
        )

    def ask(self, verb: str, **arguments: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([verb, arguments]), file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()


@dataclass(slots=True)
class Acknowledged:
    """What was said and acknowledged. `texts` has all revisions of a memory, the last one last."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)

    def asked(self) -> dict[str, Any]:
        return {"ids": list(self.texts), "keys": list(self.kept), "words": self.words}


def say(process: Process, known: Acknowledged, number: int, *, revises: str | None = None, long: bool = False) -> str:
    """Returns what was refused, "" when it was acknowledged."""
    word = known.words[revises] if revises else f"word{number}q"
    text = f"{word} was said as number {number}" + (f" and {word} again" * 150 if long else "")
    said = {"id": revises} if revises else {"context_id": f"c{number % 3}"}
    answer = process.ask("say", text=text, **said)
    assert "crash" not in answer, answer
    if "error" in answer:
        return str(answer["error"])
    known.texts.setdefault(answer["value"], []).append(text)
    known.words[answer["value"]] = word
    return ""


def keep(process: Process, known: Acknowledged, number: int) -> None:
    answer = process.ask("keep", key=f"key{number}", value=f"kept as number {number}")
    assert "value" in answer, answer
    known.kept[f"key{number}"] = f"kept as number {number}"


def filled(processes: list[Process], known: Acknowledged, first: int) -> None:
    """Every process says some of it by turns."""
    for number in range(first, first + HELD):
        one = processes[number % len(processes)]
        old = next(iter(known.texts)) if number % 9 == 8 else None
        assert say(one, known, number, revises=old, long=number % 11 == 10) == ""
        if number % 5 == 0:
            keep(one, known, number)


# --- damages ----------------------------------------------------------------------------------------------------------


def _files(home: Path) -> dict[str, Path]:
    store = home / "store"
    return {"database": store / "cache.db", "wal": store / "cache.db-wal", "sentinel": home / "sentinel"}


def _change(path: Path, rng: random.Random, change: Callable[[bytearray, int], None]) -> None:
    """In place, as a broken disk does it."""
    content = bytearray(path.read_bytes())
    change(content, rng.randrange(len(content)))
    with path.open("r+b") as file:
        file.write(content)


def bit(path: Path, rng: random.Random) -> None:
    def flip(content: bytearray, at: int) -> None:
        content[at] ^= 1 << rng.randrange(8)

    _change(path, rng, flip)


def byte(path: Path, rng: random.Random) -> None:
    def another(content: bytearray, at: int) -> None:
        content[at] ^= rng.randrange(1, 256)

    _change(path, rng, another)


def zeros(path: Path, rng: random.Random) -> None:
    def page(content: bytearray, at: int) -> None:
        begin = at // PAGE * PAGE
        content[begin : begin + PAGE] = bytes(len(content[begin : begin + PAGE]))

    _change(path, rng, page)


def noise(path: Path, rng: random.Random) -> None:
    def page(content: bytearray, at: int) -> None:
        begin = at // PAGE * PAGE
        content[begin : begin + PAGE] = rng.randbytes(len(content[begin : begin + PAGE]))

    _change(path, rng, page)


def misplaced(path: Path, rng: random.Random) -> None:
    """A page in another one's place."""

    def page(content: bytearray, at: int) -> None:
        begin, other = at // PAGE * PAGE, rng.randrange(len(content)) // PAGE * PAGE
        size = min(PAGE, len(content) - max(begin, other))
        content[begin : begin + size] = content[other : other + size]

    _change(path, rng, page)


def header(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[rng.randrange(min(100, len(content)))] ^= 1 << rng.randrange(8)
    with path.open("r+b") as file:
        file.write(content)


def cut(path: Path, rng: random.Random) -> None:
    with path.open("r+b") as file:
        file.truncate(rng.randrange(path.stat().st_size))


def emptied(path: Path, _: random.Random) -> None:
    path.write_bytes(b"")


def deleted(path: Path, _: random.Random) -> None:
    path.unlink()
    if path.name.endswith("-wal"):
        path.with_name("cache.db-shm").unlink(missing_ok=True)


def older(path: Path, _: random.Random) -> None:
    """The file is put back as it was some changes before."""
    shutil.copyfile(path.parents[1].parent / "older" / path.name, path)


ON_FILES: Mapping[str, tuple[Callable[[Path, random.Random], None], ...]] = {
    "database": (bit, bit, byte, zeros, noise, misplaced, header, cut, emptied, deleted, older),
    "wal": (bit, bit, byte, zeros, noise, header, cut, emptied, deleted),
    "sentinel": (bit, byte, cut, emptied, deleted),
}


def store_deleted(home: Path) -> None:
    shutil.rmtree(home / "store")


def home_deleted(home: Path) -> None:
    shutil.rmtree(home)


def home_moved(home: Path) -> None:
    home.rename(home.with_name("moved"))


ON_FOLDERS = (store_deleted, home_deleted, home_moved)
KINDS = [(what, damage) for what, damages in ON_FILES.items() for damage in damages]


@dataclass(slots=True)
class Trial:
    """What came of one damage."""

    said: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)

    def hear(self, answer: Mapping[str, Any]) -> Any:
        self.said += [*answer["said"], *([answer["error"]] if "error" in answer else [])]
        self.crashes += [answer["crash"]] if "crash" in answer else []
        return answer.get("value")

    def compare(self, found: Mapping[str, Any] | None, known: Acknowledged) -> None:
        """What is there against what was acknowledged. An error says that it could not be read."""
        if found is None:
            return
        self.said += found["errors"]
        if found.get("damaged"):
            self.said.append(f"damaged: {found['damaged']}")
        for memory_id, texts in known.texts.items():
            for where in ("texts", "listed"):
                if where in found:
                    self._one(f"{where} {texts[-1][:40]}", found[where].get(memory_id), texts[-1], texts)
            earlier = found.get("earlier", {}).get(memory_id, [])
            self.wrong += [f"earlier {one[:60]!r}" for one in earlier if one not in texts]
            if "earlier" in found and set(texts[:-1]) - set(earlier):
                self.lost.append(f"earlier revisions of {texts[-1][:40]}")
            if "matched" in found and not found["matched"].get(memory_id):
                self.lost.append(f"search for {texts[-1][:40]}")
        for where in ("documents", "facets", "deliveries"):
            for key, value in known.kept.items() if where in found else ():
                self._one(f"{where} {key}", found[where].get(key), value, [value])
        if "items" in found:
            items = list(known.kept.values())
            self.wrong += [f"item {one!r}" for one in found["items"] if one not in items]
            self.lost += [f"item {one!r}" for one in items if one not in found["items"]]

    def _one(self, what: str, found: str | None, last: str, ever: list[str]) -> None:
        if found is None or found != last:
            (self.lost if found is None or found in ever else self.wrong).append(f"{what}: {found and found[:60]!r}")


@pytest.fixture(scope="module")
def processes() -> Iterator[list[Process]]:
    started = [Process() for _ in range(5)]
    yield started
    for one in started:
        one.end()


def play(folder: Path, seed: int, processes: list[Process], doctor: Callable[[Path], Ran]) -> tuple[str, Trial]:
    """One damage to one home. Returns what was done, and what came of it."""
    rng, trial, known = random.Random(seed), Trial(), Acknowledged()
    number, state = rng.choice((1, 2, 4)), STATES[seed % 3]
    writers, home = processes[:number], folder / "home"
    for one in writers:
        trial.hear(one.ask("open", home=str(home)))
    filled(writers, known, 0)
    shutil.copytree(home / "store", folder / "older")
    if rng.random() < HALF and state != "open":  # fold some of it in
        writers[0].ask("close")
        writers[0].ask("open", home=str(home))
    filled(writers, known, 100)
    if state == "killed":
        home = folder / "killed"
        shutil.copytree(folder / "home", home)
        (home / "store" / "cache.db-shm").unlink(missing_ok=True)
    if state != "open":
        for one in writers:
            one.ask("close")
    what = damage(home, rng, seed)
    if state == "open":
        go_on(writers, known, trial)
    there = folder / "moved" if (folder / "moved").exists() else home
    if there.exists():
        opening = processes[4].ask("open", home=str(there))
        trial.hear(opening)
        if "error" not in opening:
            go_on(processes[4:], known, trial)
        ran = doctor(there)
        if (trial.lost or trial.wrong) and ran.code == 0:
            trial.crashes.append("doctor says that nothing needs you")
    elif not trial.said and state == "open":
        trial.crashes.append("nobody says that the home is gone")
    return f"{seed}: {what}, {state}, {number} writers", trial


def lose_log(folder: Path, seed: int, processes: list[Process]) -> tuple[str, Trial]:
    """The log, its index or both are deleted under one, two or four writers, and a stranger or a writer is the next who
    reads or writes, or nobody until they close."""
    rng, trial, known = random.Random(seed), Trial(), Acknowledged()
    number, home = (1, 2, 4)[seed % 3], folder / "home"
    writers, stranger = processes[:number], processes[4]
    first = (stranger, writers[0], writers[-1], None)[seed // 3 % 4]
    for one in writers:
        one.ask("open", home=str(home))
    filled(writers, known, 0)
    if rng.random() < HALF:  # fold some of it in
        writers[0].ask("close")
        writers[0].ask("open", home=str(home))
        filled(writers, known, 100)
    suffixes = (("wal", "shm"), ("wal",), ("shm",))[seed // 12 % 3]
    for suffix in suffixes:
        (home / "store" / f"cache.db-{suffix}").unlink(missing_ok=True)
    stranger.ask("open", home=str(home))
    if first is not None:
        if rng.random() < HALF:
            trial.compare(trial.hear(first.ask("look", **known.asked())), known)
        say(first, known, 200)
        go_on(rng.sample([*writers, stranger], number + 1), known, trial)
    for one in (*writers, stranger):
        one.ask("close")
    trial.said.clear()
    stranger.ask("open", home=str(home))
    trial.compare(trial.hear(stranger.ask("look", **known.asked())), known)
    stranger.ask("close")
    trial.crashes += trial.said  # not even a word is left to say
    return f"{seed}: {suffixes} gone under {number} writers", trial


@pytest.mark.requirement("A7")
@pytest.mark.parametrize(
    "seeds", [range(0, 200, 20), pytest.param(range(200), marks=pytest.mark.faults)], ids=["10 logs", "200 logs"]
)
def test_nothing_is_lost_when_the_log_is_deleted_under_a_writer(
    tmp_path: Path, seeds: range, processes: list[Process], tell: Tell
) -> None:
    bad = []
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        what, trial = lose_log(folder, seed, processes)
        if trial.lost or trial.wrong or trial.crashes:
            bad.append((what, trial.lost[:3], trial.wrong[:3], trial.crashes[:3]))
        shutil.rmtree(folder)
    tell(20, f"{len(seeds)} logs deleted under 1, 2 or 4 writers: {len(bad)} lost anything that was acknowledged")
    assert bad == []


def go_on(processes: list[Process], known: Acknowledged, trial: Trial) -> None:
    """Each reads all, each says something, each reads all again and closes."""
    for one in processes:
        trial.compare(trial.hear(one.ask("look", **known.asked())), known)
    for number, one in enumerate(processes, start=200 + len(known.texts)):
        refused = say(one, known, number)
        trial.said += [refused] if refused else []
    for one in processes:
        trial.compare(trial.hear(one.ask("look", **known.asked())), known)
        trial.hear(one.ask("close"))


def damage(home: Path, rng: random.Random, seed: int) -> str:
    files = {what: path for what, path in _files(home).items() if path.exists() and path.stat().st_size}
    place = (seed // 3) % (len(KINDS) + len(ON_FOLDERS))
    if place >= len(KINDS):
        folder_damage = ON_FOLDERS[place - len(KINDS)]
        folder_damage(home)
        return folder_damage.__name__
    what, how = KINDS[place]
    if what not in files:
        what, how = "database", bit
    how(files[what], rng)
    return f"{what} {how.__name__}"


@pytest.mark.requirement("A5", "A6", "A7", "A16", "D7")
@pytest.mark.parametrize(
    "seeds", [range(0, 200, 16), pytest.param(range(200), marks=pytest.mark.faults)], ids=["13 damages", "200 damages"]
)
def test_no_single_damage_loses_anything_without_a_word_or_is_read_as_fact(
    tmp_path: Path, seeds: range, processes: list[Process], run: Run, tell: Tell
) -> None:
    counted: Counter[str] = Counter()
    bad = []
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        what, trial = play(
            folder, seed, processes, lambda home: run("doctor", "--read-all", "--home", str(home), "--project", "alpha")
        )
        silent = trial.lost if not trial.said else []
        counted.update(lost=bool(trial.lost), silent=bool(silent), wrong=bool(trial.wrong), crashes=bool(trial.crashes))
        if silent or trial.wrong or trial.crashes:
            bad.append((what, silent[:3], trial.wrong[:3], trial.crashes[:3]))
        shutil.rmtree(folder)
    tell(
        20,
        f"{len(seeds)} single damages: {counted['lost']} lost something and said so, {counted['silent']} silent "
        f"losses, {counted['wrong']} wrong texts, {counted['crashes']} crashes",
    )
    assert bad == []
