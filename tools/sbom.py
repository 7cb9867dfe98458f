"""Write a bill of materials: what the package needs, as it is installed here, as CycloneDX 1.6 JSON on standard output.

Usage: python -m tools.sbom [EXTRA…]. Without an extra: what the package needs alone.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

from packaging.requirements import Requirement

ROOT = "kingly-memory"


class NotInstalled(Exception):
    """Something that the package needs is not there, so that nobody can say which version of it is."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is needed and not installed here; run make venv, or ask for fewer extras")


def needs(name: str, extra: str) -> Iterator[Requirement]:
    """What that package needs on this machine with this extra, or with none if it is "". Raises NotInstalled."""
    try:
        lines = distribution(name).requires or ()
    except PackageNotFoundError:
        raise NotInstalled(name) from None
    for line in lines:
        wanted = Requirement(line)
        if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
            yield wanted


def bill(extras: Iterable[str] = ()) -> dict[str, Any]:
    """The package and everything that it needs, directly or not, with the extras that each asks of another. Raises
    NotInstalled: a bill that leaves something out would be believed."""
    waiting, seen = [(ROOT, extra) for extra in ("", *extras)], set()
    edges: dict[str, set[str]] = {}
    while waiting:
        if (item := waiting.pop()) in seen:
            continue
        seen.add(item)
        name = item[0]
        edges.setdefault(name, set())
        for wanted in needs(*item):
            needed = plain(wanted.name)
            waiting += [(needed, extra) for extra in ("", *wanted.extras)]
            if needed != name:  # one extra may be made of others
                edges[name].add(needed)
    found = {name: distribution(name) for name in sorted(edges)}
    refs = {name: f"pkg:pypi/{name}@{package.version}" for name, package in found.items()}
    components = {name: component(name, package, refs[name]) for name, package in found.items()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": components[ROOT]},
        "components": [package for name, package in components.items() if name != ROOT],
        "dependencies": [
            {"ref": refs[name], "dependsOn": [refs[one] for one in sorted(edges[name])]} for name in found
        ],
    }


def component(name: str, package: Distribution, ref: str) -> dict[str, Any]:
    about = package.metadata
    licence_text = next(filter(None, (about[one] for one in ("License-Expression", "License") if one in about)), "")
    licence = {"licenses": [{"license": {"name": licence_text.splitlines()[0]}}]} if licence_text else {}
    kind = "application" if name == ROOT else "library"
    return {"type": kind, "bom-ref": ref, "name": name, "version": package.version, "purl": ref, **licence}


def plain(name: str) -> str:
    """One spelling for all that mean the same package (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    try:
        print(json.dumps(bill(sys.argv[1:]), indent=1))
    except NotInstalled as error:
        sys.exit(f"sbom: {error}")
