"""The remotes of the kill tests: processes of their own, whose effects can be read back when all is over."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.hub.engine import scope_name
from kingly_memory.hub.grants import DEFAULT_NAMESPACE
from kingly_memory.hub.process import HubProcess
from kingly_memory.models import MemoryStatus, Query
from tests.hub.machines import text_at_hub
from tests.kill.writer import PROJECT
from tests.scripted.remote import ScriptedRemote
from tests.scripted.script import Weather

ROOT = Path(__file__).parents[2]
START_S = 30.0
CALM = Weather()
ROUGH = Weather(fail_500=0.04, fail_429=0.04, drop_reply=0.08, retry_after="0")


@dataclass(frozen=True, slots=True)
class Effects:
    """What a remote holds: contents by our memory id, a list since a second copy would be a fault; and what it was
    ever sent, as text."""

    held: Mapping[str, list[str]]
    heard: str
    effects: int
    requests: int
    lost_replies: int
    keys: list[str]


class KillRemote(Protocol):
    """A remote that the writers deliver to."""

    @property
    def url(self) -> str: ...

    def calm_down(self) -> None:
        """From now on nothing fails."""
        ...

    def effects(self) -> Effects:
        """Everything that was done. Ends the remote."""
        ...

    def stop(self) -> None: ...


class ScriptedProcess:
    """`tests.scripted.remote` as a process, with the weather given."""

    def __init__(
        self, folder: Path, weather: Weather = CALM, script: tuple[str, ...] = (), dialect: str = "json-call"
    ) -> None:
        self._dialect = dialect
        self._weather = weather
        self._effects_file = folder / "effects.jsonl"
        self._port_file = folder / "port"
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._start(weather, script)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def restart(self) -> None:
        """Kill it, and start it again in the same weather."""
        self.stop()
        self._start(self._weather, ())

    def calm_down(self) -> None:
        self.stop()
        self._start(CALM, ())

    def effect_count(self) -> int:
        """How many effects have been written down."""
        if not self._effects_file.exists():
            return 0
        return self._effects_file.read_bytes().count(b'{"line": "effect"')

    def effects(self) -> Effects:
        self.stop()
        text = self._effects_file.read_text(encoding="utf-8") if self._effects_file.exists() else ""
        lines = [json.loads(line) for line in text.splitlines()]
        effects = [line for line in lines if line["line"] == "effect" and line["method"] != "forget_memory"]
        brought = [line for line in lines if line["line"] == "request" and "content" in line["params"]]
        return Effects(
            held=_held(ScriptedRemote(effects_file=self._effects_file).semantic.memories.values()),
            heard=text,
            effects=len(effects),
            requests=len(brought),
            lost_replies=sum(line["fault"] == "lost-reply" for line in lines if line["line"] == "request"),
            keys=[line["params"]["idempotency_key"] for line in effects],
        )

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _start(self, weather: Weather, script: tuple[str, ...]) -> None:
        self._port_file.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.scripted.remote", *self._options(weather, script)], cwd=ROOT
        )
        end = time.monotonic() + START_S
        while not self._port_file.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("the scripted remote did not start")
            time.sleep(0.005)
        self._port = int(self._port_file.read_text(encoding="utf-8"))

    def _options(self, weather: Weather, script: tuple[str, ...]) -> Iterator[str]:
        yield from ("--port", str(self._port), "--port-file", str(self._port_file))
        yield from ("--effects-file", str(self._effects_file), "--retry-after", weather.retry_after)
        yield from ("--fail-500", str(weather.fail_500), "--fail-429", str(weather.fail_429))
        yield from ("--drop-reply", str(weather.drop_reply), "--seed", str(weather.seed))
        if self._dialect != "json-call":
            yield from ("--dialect", self._dialect)
        if script:
            yield from ("--script", *script)


class HubRemote:
    """The real hub as a process. It fails only by being killed."""

    def __init__(self, folder: Path) -> None:
        self._hub = HubProcess(folder / "hub")
        self._hub.start()

    @property
    def url(self) -> str:
        return self._hub.url

    def restart(self) -> None:
        self._hub.kill()
        self._hub.start()

    def calm_down(self) -> None:
        pass

    def effects(self) -> Effects:
        """The hub keeps our id as the key, so that a second copy would be a second row with the same text."""
        self._hub.stop()
        store = DiskStore(self._hub.home)
        everything = Query("", scope_name(DEFAULT_NAMESPACE, PROJECT))
        rows = store.reader.page(everything, (MemoryStatus.LIVE,), 10_000, None)
        held: dict[str, list[str]] = {}
        for row in rows:
            held.setdefault(str(row.memory.key), []).append(text_at_hub(row.memory))
        store.close()
        heard = "\n".join(text_at_hub(row.memory) for row in rows)
        return Effects(held, heard, effects=len(rows), requests=len(rows), lost_replies=0, keys=sorted(held))

    def stop(self) -> None:
        self._hub.stop()


def _held(memories: Any) -> dict[str, list[str]]:
    held: dict[str, list[str]] = {}
    for params in memories:
        said = json.loads(params["content"])
        held.setdefault(said["metadata"]["id"], []).append(said["content"])
    return held
