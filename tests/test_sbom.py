"""The bill of materials names what the package needs, pinned as it is installed here."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest

from tools import sbom
from tools.sbom import ROOT, NotInstalled, bill, plain

FOLDER = Path(__file__).parents[1]
PROJECT = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def named(requirements: list[str]) -> set[str]:
    return {plain(one.split(">")[0].split("[")[0]) for one in requirements}


@pytest.mark.parametrize("extras", [(), ("mcp",), ("hub", "semantic"), ("all",)])
def test_it_names_every_requirement_and_where_each_belongs(extras: tuple[str, ...]) -> None:
    made = bill(extras)
    whole = {ref["bom-ref"]: ref["name"] for ref in [made["metadata"]["component"], *made["components"]]}
    edges = {whole[one["ref"]]: {whole[ref] for ref in one["dependsOn"]} for one in made["dependencies"]}
    wanted = set(extras) if "all" not in extras else {"mcp", "hub", "semantic", "encryption", "postgres"}
    required = named(PROJECT["dependencies"]).union(*(named(PROJECT["optional-dependencies"][one]) for one in wanted))
    assert edges[ROOT] == required
    assert set(edges) == set(whole.values())
    assert (made["bomFormat"], made["metadata"]["component"]["name"]) == ("CycloneDX", ROOT)


def test_versions_are_the_pinned_ones() -> None:
    pinned = dict(
        re.findall(r"^([\w.-]+)==(\S+)", (FOLDER / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    )
    versions = {plain(name): version for name, version in pinned.items()}
    components = bill(["all"])["components"]
    assert len(components) > 20
    assert all(one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}" for one in components)
    assert set(versions) >= {one["name"] for one in components}


def test_extras_that_a_dependency_asks_for_are_followed() -> None:
    names = {one["name"] for one in bill(["mcp"])["components"]}
    assert {"pyjwt", "cryptography", "cffi", "pycparser"} <= names  # `mcp` needs `pyjwt[crypto]`


def test_a_bill_fails_where_something_that_is_needed_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_cffi(name: str) -> Distribution:
        if name == "cffi":
            raise PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr(sbom, "distribution", without_cffi)
    with pytest.raises(NotInstalled, match="cffi is needed and not installed here"):
        bill(["mcp"])
