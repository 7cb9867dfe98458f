"""What an adapter imports of its framework, which has to be there and of a version that the adapter was made for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata

from kingly_memory.errors import ExtraMissing

_REQUIRES = re.compile(r"([\w.-]+)([^;]*);.*extra == ['\"]([\w-]+)['\"]")
_BOUND = re.compile(r"(>=|<)([\d.]+)")


@contextmanager
def needed(what: str, extra: str) -> Iterator[None]:
    """Around those imports. Raises ExtraMissing, which names the version that is installed where it is another one."""
    try:
        for package, wanted in _requirements(extra):
            if (found := _version(package)) is not None and not _fits(found, wanted):
                raise ExtraMissing(what, extra, f"{package} {found} is installed, and not {wanted}")
        yield
    except ImportError as missing:
        raise ExtraMissing(what, extra) from missing


def _requirements(extra: str) -> list[tuple[str, str]]:
    """The packages of an extra and their versions, as this package was installed with them."""
    try:
        requirements = metadata.requires("kingly-memory") or ()
    except metadata.PackageNotFoundError:  # it was put on the path and not installed
        return []
    matches = filter(None, map(_REQUIRES.match, requirements))
    return [(match[1], match[2].strip()) for match in matches if match[3] == extra]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _fits(found: str, wanted: str) -> bool:
    version = _numbers(found)
    return all(
        version >= _numbers(bound) if sign == ">=" else version < _numbers(bound)
        for sign, bound in _BOUND.findall(wanted)
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", re.split(r"[a-z+]", version, maxsplit=1)[0])))
