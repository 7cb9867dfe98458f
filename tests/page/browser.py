"""A headless Chromium, driven over ChromeDriver's own protocol."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

AXE = Path(__file__).parents[2] / ".page" / "node_modules" / "axe-core" / "axe.min.js"
needs_axe = pytest.mark.skipif(not AXE.exists(), reason=f"{AXE} is not there: npm could not install axe-core")
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"]
LOADED_S = 60
LOOKS = 10_000
"""Each takes some milliseconds."""


def missing() -> str | None:
    """Why there is no browser here, or None."""
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(lacking)} not found; Debian: apt-get install chromium chromium-driver" if lacking else None


class Browser:
    """One window."""

    def __init__(self, web: httpx.Client, session: str) -> None:
        self._web = web
        self._session = f"/session/{session}"

    def do(self, method: str, path: str, **said: Any) -> Any:
        answer = self._web.request(method, self._session + path, json=said if method == "POST" else None)
        value = answer.json()["value"]
        assert answer.is_success, value
        return value

    def open(self, url: str) -> None:
        self.do("POST", "/url", url=url)

    @property
    def url(self) -> str:
        return str(self.do("GET", "/url"))

    def run(self, script: str, *arguments: Any) -> Any:
        return self.do("POST", "/execute/sync", script=script, args=list(arguments))

    def wait(self, condition: str) -> None:
        """Until a JavaScript expression is true; the page may change meanwhile, and take its scripts with it."""
        for _ in range(LOOKS):
            said = {"script": f"return Boolean({condition})", "args": []}
            answer = self._web.post(f"{self._session}/execute/sync", json=said)
            if answer.is_success and answer.json()["value"]:
                return
        raise AssertionError(f"{condition} is not so at {self.url}: {self.text()[:500]}")

    def find(self, selector: str) -> str:
        return str(self.do("POST", "/element", using="css selector", value=selector)[_ELEMENT])

    def click(self, selector: str) -> None:
        self.do("POST", f"/element/{self.find(selector)}/click")

    def type(self, selector: str, text: str) -> None:
        self.do("POST", f"/element/{self.find(selector)}/value", text=text)

    def text(self, selector: str = "body") -> str:
        return str(self.do("GET", f"/element/{self.find(selector)}/text"))

    def look(self, *, width: int = 1100, height: int = 800, scheme: str = "light") -> None:
        """The size of the window, and whether the reader likes it dark."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.cdp("Emulation.setDeviceMetricsOverride", **size)
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def cdp(self, command: str, **said: Any) -> Any:
        return self.do("POST", "/goog/cdp/execute", cmd=command, params=said)

    def log(self) -> list[str]:
        """What the browser complained of since the last time: scripts that were not run, errors, dead files."""
        return [one["message"] for one in self.do("POST", "/se/log", type="browser")]

    def barriers(self) -> list[tuple[Any, ...]]:
        """What axe-core finds in the page that keeps some people out: severity, rule, how often, and where first."""
        self.run("for (const one of document.querySelectorAll('details')) one.open = true")
        self.run(AXE.read_text(encoding="utf-8"))
        passed, found = self.run(
            "return axe.run(document).then((all) => [all.passes.length, all.violations"
            ".map((one) => [one.impact, one.id, one.nodes.length, one.nodes[0].html.slice(0, 200)])])"
        )
        assert passed > 10, self.url
        return [tuple(one) for one in found if one[0] in ("serious", "critical")]


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """With its profile in that folder."""
    home = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
    command = ["chromedriver", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=home) as driver:
        assert driver.stdout is not None
        try:
            port = next(found[1] for line in driver.stdout if (found := re.search(r"successfully on port (\d+)", line)))
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as web:
                options = {"args": [*_ARGUMENTS, f"--user-data-dir={folder}/profile"]}
                wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
                asked = {"capabilities": {"alwaysMatch": {"browserName": "chrome", **wanted}}}
                answer = web.post("/session", json=asked).json()["value"]
                session = answer["sessionId"]
                try:
                    one = Browser(web, session)
                    one.do("POST", "/timeouts", pageLoad=LOADED_S * 1000)
                    yield one
                finally:
                    web.delete(f"/session/{session}")
        finally:
            driver.terminate()
