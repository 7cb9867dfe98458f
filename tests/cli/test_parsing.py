"""From a command line to a command, or to one sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.cli.commands import FOR, Command, commands, parameters_of
from kingly_memory.cli.parser import UsageError, metavar, parse
from kingly_memory.declare import NOT_GIVEN
from tests.cli_runner import Run
from tools.reference import DOCS, PARTS, page

COMMANDS = commands()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_help(run: Run, command: Command) -> None:
    ran = run(*command.name.split(), "--help")
    assert ran.code == 0
    assert command.says.split()[0] in ran.out
    assert all(
        f"--{one.option}" in ran.out if one.is_option else metavar(one) in ran.out for one in parameters_of(command)
    )


COMMON = ["--json", "--home", "h", "--remote", "http://r", "--token-file", "t", "--project", "p", "--agent", "a"]


@pytest.mark.parametrize("argv", [[*COMMON, "get", "x"], ["get", *COMMON, "x"], ["get", "x", *COMMON]])
def test_common_options_may_stand_before_and_after_the_command(argv: list[str]) -> None:
    options = parse(argv)
    assert (options.json, options.home, options.remote, options.token_file) == (True, "h", ["http://r"], "t")
    assert (options.project, options.agent, options.key_or_id) == ("p", "a", "x")


@pytest.mark.parametrize(
    ("argv", "remote"),
    [
        (["--remote", "search", "x"], [True]),
        (["search", "x", "--remote"], [True]),
        (["--remote", "http://r", "search", "x"], ["http://r"]),
        (["--remote", "a=http://r", "--remote", "b=http://s", "search", "x"], ["a=http://r", "b=http://s"]),
        (["--remote=http://r", "search", "x"], ["http://r"]),
        (["--remote", "--json", "search", "x"], [True]),
        (["search", "x"], None),
    ],
)
def test_remote_without_an_address_takes_none_from_the_command(argv: list[str], remote: object) -> None:
    options = parse(argv)
    assert (options.remote, options.query) == (remote, ["x"])


LIMITED = [command for command in COMMANDS if any(one.option == "limit" for one in parameters_of(command))]


@pytest.mark.parametrize("command", LIMITED, ids=lambda command: command.name)
@pytest.mark.parametrize("short", [["-n", "3"], ["-n3"], ["-n=3"]], ids=" ".join)
def test_every_limit_has_the_same_short_form(command: Command, short: list[str]) -> None:
    required = [one.name for one in parameters_of(command) if not one.is_option and one.default is NOT_GIVEN]
    assert parse([*command.name.split(), *required, *short]).limit == 3


def test_a_text_of_several_words_that_begins_like_an_option_is_a_text() -> None:
    options = parse(["search", "-not a number in the loss", "--limit is what", "--", "-n", "3"])
    assert (options.query, options.limit) == (["-not a number in the loss", "--limit is what", "-n", "3"], None)
    assert parse(["store", "x", "--title=two words"]).title == "two words"


@pytest.mark.parametrize(("group", "command"), [("embedder", "embedder status"), ("outbox", "outbox list")])
def test_a_group_alone_shows_what_there_is(group: str, command: str) -> None:
    assert parse([group]).command.name == command


def test_the_version_is_an_option_too() -> None:
    assert {parse([one, "--json"]).command.name for one in ("--version", "-V", "version")} == {"version"}


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["nonsense"], "'nonsense' is no command (see `kingly-memory --help`)"),
        (["serch", "x"], "'serch' is no command; did you mean 'search'? (see `kingly-memory --help`)"),
        (["remember", "x"], "'remember' is no command; did you mean 'store'?"),
        (["rm", "x"], "'rm' is no command; did you mean 'forget'?"),
        (["remotes", "new"], "'new' is no command of remotes; choose one of"),
        (["task", "assess"], "'assess' is no command of task; choose one of record, route (see `kingly-memory task"),
        (["threads", "lst"], "'lst' is no command of threads; did you mean 'list'?"),
        (["store"], "CONTENT is missing (see `kingly-memory store --help`)"),
        (["thought"], "COMMAND is missing; choose one of record, list (see `kingly-memory thought --help`)"),
        (
            ["remotes", "add", "http://r"],
            "NAME is missing; it stands before the URL, as in `remotes add team URL` (see",
        ),
        (["remotes", "add", "team"], "URL is missing"),
        (["compact", "all"], "'all' is a word too many; put a text of several words in quotes (see `kingly-memory com"),
        (["threads", "show", "a", "b"], "'b' is a word too many"),
        (["get", "a", "b"], "'b' is a word too many"),
        (["store", "x", "--significance", "much"], "--significance: 'much' is not a number"),
        (["store", "x", "--significance"], "--significance: expected a value"),
        (["store", "x", "--key", "--home"], "--key: expected a value"),
        (["store", "x", "--ttl", "-5d"], "--ttl: '-5d' is no length of time; write 90s"),
        (["store", "x", "--key", "k", "--if-revision", "-3"], "--if-revision: -3 is outside 0"),
        (["store", "x", "--require-remote=yes"], "--require-remote: takes no value"),
        (["search", "x", "--limit", "3.5"], "--limit: '3.5' is not a whole number"),
        (["search", "x", "-n", "3.5"], "--limit: '3.5' is not a whole number"),
        (["search", "x", "-n"], "--limit: expected a value"),
        (["search", "-nan"], "'-nan' is no option; put -- before a text that begins with a dash"),
        (["store", "x", "-n", "3"], "'-n' is no option; put -- before"),
        (["search", "x", "--lim", "3"], "--lim is no option of search; did you mean '--limit'?"),
        (["inject", "-how"], "'-how' is no option; put -- before a text that begins with a dash (see `kingly-memory"),
        (["search", "-x"], "'-x' is no option; put -- before a text that begins with a dash"),
        (["store", "x", "--token", "secret"], "--token is no option of store; did you mean '--token-file'? (see"),
        (["import", ""], "PATH: is empty"),
        (["hub", "--remote", "http://r"], "--remote is no option of hub (see `kingly-memory hub --help`)"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(run: Run, argv: list[str], sentence: str) -> None:
    ran = run(*argv)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"kingly-memory: {sentence}")
    assert ran.err.count("\n") == 1
    assert "secret" not in ran.err


def test_a_number_below_nought_and_a_dash_alone_are_values() -> None:
    options = parse(["search", "-", "--limit", "-1", "--min-confidence", "-.5"])
    assert (options.query, options.limit, options.min_confidence) == (["-"], -1, -0.5)


def test_a_wrong_command_line_is_json_for_a_program(run: Run) -> None:
    ran = run("store", "x", "--significance", "much", "--json")
    assert ran.json["error"]["type"] == "UsageError"
    assert ran.json["error"]["field"] == "significance"
    assert ran.code == 2


def test_json_behind_two_dashes_is_content(run: Run) -> None:
    assert run("store", "--", "--json").out.startswith("stored ")
    assert "--json" in run("list").out


@given(st.lists(st.text(max_size=8) | st.sampled_from([command.name for command in COMMANDS]), max_size=4))
def test_no_command_line_raises_anything_but_a_usage_error(argv: list[str]) -> None:
    try:
        options = parse(argv)
    except UsageError:
        return
    assert options.help is not None or options.command in (None, *COMMANDS)


@pytest.mark.parametrize(
    "argv",
    [["store", "x", "--key", "k\udcff"], ["get", "k\udcfe"], ["store", "k\udcff"],
     ["list", "--user", "u\udcff"], ["list", "--project", "p\udcff"], ["log", "show", "s\udcff"],
     ["store", "x", "--context", "c\udcff"], ["documents", "put", "n\udcff", "k", "1"]],
)  # fmt: skip
def test_keys_and_texts_with_bytes_that_are_no_utf8_are_refused(run: Run, argv: list[str]) -> None:
    ran = run(*argv)
    assert (ran.code, "has bytes that are no UTF-8" in ran.err) == (2, True)


@pytest.mark.parametrize("name", ["project", "user", "agent"])
def test_so_are_names_of_the_environment(run: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"KINGLY_{name.upper()}", "u\udcff")
    said = f"kingly-memory: {name}: KINGLY_{name.upper()} has bytes that are no UTF-8\n"
    assert (run("store", "x").err, run("store", "x", f"--{name}", "other").code) == (said, 0)


# --- docs/cli.md, docs/settings.md and docs/mcp.md --------------------------------------------------------------------


@pytest.mark.parametrize("name", PARTS)
def test_the_page_is_in_step_with_the_declarations(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    assert page(name, text) == text, "run: python -m tools.reference"


def test_a_page_without_a_place_for_its_part_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for its tools"):
        page("mcp.md", "# Another page")


def test_help_names_every_command() -> None:
    listed = " ".join(FOR.values()).split()
    assert sorted(listed) == sorted({one.name.partition(" ")[0] for one in commands()})
