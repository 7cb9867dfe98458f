"""Settings from a file, TOML or YAML: our own names and tables at the top level, those of the seed under `alma`.

Loaded only where there is a file: nobody else pays for its parser. What is read here is the user's own, or was trusted
by him.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from kingly_memory.errors import InvalidSetting

LIMIT_BYTES = 65_536
"""A file of settings takes a few hundred."""

SEEDS_KEYS: Mapping[str, str] = {
    "alma.decay.enabled": "decay_enabled",
    "alma.decay.default_half_life_days": "default_half_life_days",
    "alma.decay.forget_threshold": "forget_threshold",
    "alma.decay.auto_forget_enabled": "auto_forget_enabled",
    "alma.retrieval.mode_aware": "mode_aware",
    "alma.retrieval.default_mode": "default_mode",
    "alma.retrieval.verification_enabled": "verification_enabled",
    "alma.compression.enabled": "compression_enabled",
    "alma.compression.level": "compression_level",
    "alma.compression.llm_required": "llm_required",
}
"""What the seed's keys set (seed 000, configuration)."""


def parsed(path: Path, content: bytes, known: Collection[str]) -> dict[str, tuple[str, object]]:
    """For each setting that the file speaks of, the key under which it does and the value, which is not checked yet.

    `known` are the names of all settings, `lifetimes.working` for one in a table. Raises InvalidSetting for a content
    that is no TOML or YAML, a key that does not exist, and a setting that is said twice.
    """
    found: dict[str, tuple[str, object]] = {}
    for key, value in _leaves(_data(path, content), path, (*known, *SEEDS_KEYS)):
        name = SEEDS_KEYS.get(key, key)
        if key not in SEEDS_KEYS and key not in known:
            raise InvalidSetting(key, f"{path} has it and there is no such setting; {nearest(key, known)}")
        if name in found:
            raise InvalidSetting(key, f"{path} says it twice, as {found[name][0]} too; keep one of them")
        found[name] = (key, value)
    return found


def read(path: Path) -> bytes:
    """The file's content. Raises InvalidSetting when it cannot be read or is too long for one of settings."""
    try:
        if not path.is_file():
            raise InvalidSetting("KINGLY_CONFIG", f"{path} is no file; name another one, or take it away")
        with path.open("rb") as file:
            data = file.read(LIMIT_BYTES + 1)
    except OSError as error:
        raise InvalidSetting("KINGLY_CONFIG", f"{path} cannot be read ({error.strerror})") from None
    if len(data) > LIMIT_BYTES:
        raise InvalidSetting("KINGLY_CONFIG", f"{path} has more than {LIMIT_BYTES:,} bytes, which no settings take")
    return data


def _data(path: Path, content: bytes) -> Mapping[object, object]:
    try:
        text = content.decode("utf-8-sig")
        data = _toml(text, path) if path.suffix == ".toml" else _yaml(text, path)
    except UnicodeDecodeError:
        raise InvalidSetting("KINGLY_CONFIG", f"{path} is no text in UTF-8") from None
    except RecursionError:
        raise InvalidSetting("KINGLY_CONFIG", f"{path} is nested too deeply to be read") from None
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise InvalidSetting("KINGLY_CONFIG", f"{path} holds no names with values; write lines such as hook_tokens: 9")
    return data


def _toml(text: str, path: Path) -> object:
    import tomllib

    try:
        return tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, and a number of thousands of digits
        raise InvalidSetting("KINGLY_CONFIG", f"{path} is no TOML: {error}") from None


def _yaml(text: str, path: Path) -> object:
    import yaml  # type: ignore[import-untyped,unused-ignore]  # typed where its stubs are installed

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        where = getattr(error, "problem_mark", None)
        line = "" if where is None else f" (line {where.line + 1})"
        raise InvalidSetting(
            "KINGLY_CONFIG", f"{path} is no YAML{line}; indent with spaces, one name per line"
        ) from None


def _leaves(
    data: Mapping[Any, Any], path: Path, names: Collection[str], before: str = ""
) -> Iterator[tuple[str, object]]:
    """Values with their names, joined by dots. Tables are entered where `names` has one within them."""
    for name, value in data.items():
        key = f"{before}{name}"
        inside = any(one.startswith(f"{key}.") for one in names)
        if inside and isinstance(value, Mapping):
            yield from _leaves(value, path, names, f"{key}.")
        elif inside and value is not None:
            raise InvalidSetting(key, f"{path} gives it a value, and it is a group; put the names beneath it")
        elif not inside:
            yield key, value


def nearest(key: str, known: Collection[str]) -> str:
    """Which name may have been meant."""
    from difflib import get_close_matches

    [nearest] = get_close_matches(key[:80], [*known, *SEEDS_KEYS], n=1, cutoff=0.0)
    return f"the nearest is {nearest}"
