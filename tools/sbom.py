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


def needs(name: str, extras: Iterable[str] = ()) -> Iterator[str]:
    """What that package needs on this machine with these extras, without what is not installed."""
    for line in distribution(name).requires or ():
        wanted = Requirement(line)
        markers = [{"extra": one} for one in ("", *extras)]
        if wanted.marker is not None and not any(wanted.marker.evaluate(one) for one in markers):
            continue
        if plain(wanted.name) == ROOT:  # one extra is made of others
            yield from needs(ROOT, wanted.extras)
            continue
        try:
            distribution(wanted.name)
        except PackageNotFoundError:
            continue
        yield plain(wanted.name)


def bill(extras: Iterable[str] = ()) -> dict[str, Any]:
    """The package and everything that it needs, directly or not."""
    edges, waiting = {ROOT: sorted(set(needs(ROOT, extras)))}, [ROOT]
    while waiting:
        for one in edges[waiting.pop()]:
            if one not in edges:
                edges[one] = sorted(set(needs(one)))
                waiting.append(one)
    found = {name: distribution(name) for name in sorted(edges)}
    refs = {name: f"pkg:pypi/{name}@{one.version}" for name, one in found.items()}
    components = {name: component(name, one, refs[name]) for name, one in found.items()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": components[ROOT]},
        "components": [one for name, one in components.items() if name != ROOT],
        "dependencies": [{"ref": refs[name], "dependsOn": [refs[one] for one in edges[name]]} for name in found],
    }


def component(name: str, one: Distribution, ref: str) -> dict[str, Any]:
    about = one.metadata
    said = about["License-Expression"] or about["License"] or ""
    licence = {"licenses": [{"license": {"name": said.splitlines()[0]}}]} if said else {}
    kind = "application" if name == ROOT else "library"
    return {"type": kind, "bom-ref": ref, "name": name, "version": one.version, "purl": ref, **licence}


def plain(name: str) -> str:
    """One spelling for all that mean the same package (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    print(json.dumps(bill(sys.argv[1:]), indent=1))
