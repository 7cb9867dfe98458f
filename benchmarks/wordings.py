"""Tasks that are alike and said in other words each time, as people and agents say them."""

from __future__ import annotations

from itertools import product
from random import Random

FAMILIES: tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    (
        ("deploy", "roll out", "release", "ship"),
        ("the payments api", "payments api", "the payments service api"),
        ("to production", "to the production cluster", "in production", ""),
    ),
    (
        ("fix", "repair", "stabilise", "debug"),
        ("the flaky login test", "flaky login tests", "the login test that is flaky"),
        ("", "in ci", "on the build server"),
    ),
    (
        ("migrate", "move", "convert"),
        ("the orders table", "orders table schema", "the schema of the orders table"),
        ("to version 12", "to postgres 16", "to the new schema"),
    ),
    (
        ("write", "draft", "prepare", "update"),
        ("release notes", "the release notes", "notes for the release"),
        ("for the mobile app", "of the mobile app", "mobile app"),
    ),
    (
        ("generate", "build", "produce", "compile"),
        ("the monthly sales report", "monthly sales figures report", "sales report of the month"),
        ("", "for the board", "as pdf"),
    ),
    (
        ("refactor", "clean up", "restructure", "simplify"),
        ("the config loader", "config loader module", "the loader for config files"),
        ("", "and remove dead code", "without changing behaviour"),
    ),
    (
        ("translate", "localise"),
        ("the user guide", "user guide pages", "the guide for users"),
        ("into german", "to german", "in german"),
    ),
    (
        ("upgrade", "bump", "update"),
        ("the django dependency", "django", "django version"),
        ("to 5.2", "to the latest release", "in the web backend"),
    ),
)
"""Verbs, objects and circumstances that go together."""


def wordings(family: int, count: int, random: Random) -> list[str]:
    """So many different ways to say a task of that family."""
    ways = [" ".join(part for part in parts if part) for parts in product(*FAMILIES[family])]
    return random.sample(ways, count)
