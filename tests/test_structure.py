"""The house rules that a reader relies on, read from the source: import order, import budget, names, no leaks."""

from __future__ import annotations

import ast
import os
import pwd
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kingly_memory"

STEPS: tuple[tuple[str, ...], ...] = (
    ("dataclass", "digests", "errors", "version"),
    ("filters", "ids", "text"),
    ("models",),
    ("documents", "graph", "extras", "plain", "home"),
    ("validation",),
    ("ports", "settings", "observe", "imported", "declare"),
    ("model_calls",),
    ("retrieval", "lifecycle", "attention", "cognition", "adapters"),
    ("router",),
    ("api",),
    ("app",),
    ("blocking",),
    ("hub", "hosts", "seeds"),
    ("integrations",),
    ("server", "page"),
    ("cli",),
)
"""Imports go from a later step to an earlier one; the rooms of one step do not know each other."""

TESTING_SEES = 7
"""`testing` may import from steps 0 to 7: up to the adapters."""

OUTER = {"", "__main__"}
"""The menu and `python -m kingly_memory` stand before the house: they may import everything, nothing imports them."""

HEAVY = ("asyncio", "httpx", "pydantic", "mcp", "numpy", "starlette", "uvicorn", "tenacity")
"""What a command that only reads locally must not pay for."""

SKIPPED = {
    ".git",
    ".venv",
    ".venv-constraints",
    ".venv-docs",
    ".venv-peers",
    ".hosts",
    ".page",
    "site",
    "dist",
    "build",
    ".hypothesis",
    ".kingly",
}
TEXTS = {".py", ".md", ".toml", ".txt", ".json", ".jsonl", ".cfg", ".yml", ".yaml", ".sh", ""}


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name below `kingly_memory` ("" is the package itself)."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imported(path: Path) -> tuple[str, ...]:
    """Every absolute module name that a file imports, wherever in the file; `from a import b` gives `a.b`."""
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def inner_imports(path: Path, known: dict[str, Path]) -> set[str]:
    """The package's own modules that a file imports."""
    names = set()
    for name in imported(path):
        if name.split(".")[0] != "kingly_memory":
            continue
        inner = name.removeprefix("kingly_memory").removeprefix(".")
        names.add(inner if inner in known else inner.rpartition(".")[0])
    return names


def room(module: str) -> str:
    """The part that counts as one: `adapters.local.sql` is in `adapters.local`, `router.delivery.link` in `router`."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "adapters" else parts[0]


def step(module: str) -> int:
    """Where the module stands in the order. Raises StopIteration when its room has no place in it."""
    return next(index for index, rooms in enumerate(STEPS) if room(module).split(".", 1)[0] in rooms)


def allowed(module: str, target: str) -> bool:
    if module in OUTER or room(module) == room(target):
        return True
    if target in OUTER or room(target) == "testing":
        return False
    if room(module) == "testing":
        return step(target) <= TESTING_SEES
    return step(target) < step(module)


def test_every_room_has_its_place_in_the_order() -> None:
    known = {name for rooms in STEPS for name in rooms} | {"testing"} | OUTER
    assert sorted({name.split(".")[0] for name in modules()} - known) == []


@pytest.mark.requirement("KNG-072")
def test_imports_point_one_way_and_neighbours_do_not_know_each_other() -> None:
    known = modules()
    upward = [
        f"{module or 'kingly_memory'} imports {target or 'kingly_memory'}"
        for module, path in known.items()
        for target in sorted(inner_imports(path, known))
        if not allowed(module, target)
    ]
    assert upward == []


def circle(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """What cannot be put into an order in which everything comes after what it imports."""
    waiting = dict(imports)
    while free := [name for name, targets in waiting.items() if not targets & waiting.keys()]:
        for name in free:
            del waiting[name]
    return waiting


def test_imports_have_no_circle() -> None:
    known = modules()
    assert circle({name: inner_imports(path, known) - {name} for name, path in known.items()}) == {}


def test_neither_rooms_nor_files_of_the_router_have_a_circle() -> None:
    """A folder counts as one: what it imports, and who imports any file of it."""

    def unit(name: str) -> str:
        return name.split(".")[1] if name.startswith("router.") else ""

    known = modules()
    imports: dict[str, set[str]] = {}
    for name, path in known.items():
        imports.setdefault(unit(name), set()).update(map(unit, inner_imports(path, known)))
    del imports[""]
    assert {"engine", "write", "threads"} < imports.keys()
    assert circle({name: targets - {name, ""} for name, targets in imports.items()}) == {}


def test_nothing_in_the_package_imports_tests_or_tools() -> None:
    outside = {"tests", "tools", "benchmarks", "examples"}
    found = [(name, one) for name, path in modules().items() for one in imported(path) if one.split(".")[0] in outside]
    assert found == []


def test_the_two_names_at_the_root_lead_to_the_package() -> None:
    links = {name: str((ROOT / name).readlink()) for name in ("adapters", "router")}
    assert links == {"adapters": "kingly_memory/adapters", "router": "kingly_memory/router"}


def test_no_file_is_named_utils() -> None:
    vague = {"util", "utils", "helper", "helpers", "common", "misc"}
    assert [path.name for path in ROOT.glob("*/**/*.py") if path.stem in vague and not skipped(path)] == []


def test_inner_menus_are_empty() -> None:
    menus = {PACKAGE / "__init__.py", PACKAGE / "testing" / "__init__.py"}
    inner = [path for path in PACKAGE.rglob("__init__.py") if path not in menus]
    assert [str(path.relative_to(ROOT)) for path in inner if path.read_text(encoding="utf-8").strip()] == []


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()] == []


@pytest.mark.parametrize("module", ["kingly_memory", "kingly_memory.adapters.local.reader"])
def test_local_reading_keeps_the_import_budget(module: str) -> None:
    script = f"import sys, {module}; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def skipped(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return any(part in SKIPPED or part.endswith("_cache") or part == "__pycache__" for part in parts)


def project_texts() -> Iterator[tuple[str, str]]:
    """(name, text) of every text file of the project."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not skipped(Path(folder, name))]
        for name in files:
            path = Path(folder, name)
            if path.suffix in TEXTS and not skipped(path):
                yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8", errors="replace")


def test_no_file_names_a_path_of_this_machine() -> None:
    user_home = pwd.getpwuid(os.getuid()).pw_dir
    here = [re.escape(f"{place}/") for place in (ROOT, user_home) if str(place) != "/"]
    pattern = re.compile("|".join([*here, r"/(?:home|Users)/\w+/", r"/(?:root)/"]))
    assert [(name, match.group()) for name, text in project_texts() if (match := pattern.search(text))] == []


def test_no_file_names_a_package_index() -> None:
    # Put together here, so that the pattern is not found in its own file.
    words = ["index" + "-url", "find" + "-links", "trusted" + "-host", "pypi.org" + "/simple", "registry" + r"\+http"]
    pattern = re.compile("|".join(words))
    assert [name for name, text in project_texts() if pattern.search(text)] == []


def test_constraints_are_versions_with_the_hashes_of_their_files_and_nothing_else() -> None:
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").replace(" \\\n    --hash=sha256:", " ").splitlines()
    assert [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+( [0-9a-f]{64})+", pin)] == []


def test_what_is_installed_has_to_have_a_hash() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "--require-hashes --requirement constraints.txt" in makefile
    assert "$(call LOCKED,$(VENV))" in makefile.split("$(READY):", 1)[1].split("touch")[0]


def test_constraints_cover_every_declared_dependency() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    declared = {name.lower() for name in re.findall(r'^ +"([a-z0-9-]+)>=', project, re.MULTILINE)}
    locked = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower()
    pinned = {line.partition("==")[0].replace("_", "-") for line in locked.splitlines()}
    elsewhere = tomllib.loads((ROOT / "tests/conformance/frameworks.toml").read_text(encoding="utf-8"))
    extras = tomllib.loads(project)["project"]["optional-dependencies"]
    beside = {line.partition(">=")[0] for told in elsewhere.values() for line in extras[told["extra"]]}
    # The first are installed by `make conformance`, elsewhere; the last with a model, by who wants that.
    assert declared - pinned <= beside | {"threadpoolctl"}
