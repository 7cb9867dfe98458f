"""Settings from a file: where it is looked for, what it may say, what wins, and that every flag switches something."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kingly_memory import MemoryRouter, SyncMemoryRouter
from kingly_memory.errors import InvalidSetting, LanguageModelError
from kingly_memory.home.settings_file import LIMIT_BYTES, SEEDS_KEYS
from kingly_memory.settings import Lifetimes, Settings, given_settings
from kingly_memory.testing import ManualClock, ScriptedLanguageModel
from tests.cli_runner import Run, environment, process
from tests.settings_samples import own, trusted

DAY_S = 86_400

SEEDS = """
alma:
  decay:
    enabled: true
    default_half_life_days: 30
    forget_threshold: 0.1
    auto_forget_enabled: false
  retrieval:
    mode_aware: true
    default_mode: "precise"
    verification_enabled: false
  compression:
    enabled: true
    level: "medium"
    llm_required: false
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / ".kingly" / "memory"
    folder.mkdir(parents=True)
    return folder


def beside(home: Path, text: str, name: str = "config.toml") -> Path:
    path = home.parent / name
    path.write_text(text, encoding="utf-8")
    return trusted(path)


def told(home: Path, **env: str) -> Settings:
    return Settings.from_environment(own(**env), home)


# --- where ----------------------------------------------------------------------------------------------------------


def test_a_home_of_another_name_has_its_file_inside(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("call_timeout_s = 7")
    home = tmp_path / "team"
    home.mkdir()
    assert told(home).call_timeout_s == Settings().call_timeout_s
    (home / "config.toml").write_text("call_timeout_s = 8")
    trusted(home / "config.toml")
    assert told(home).call_timeout_s == 8


def test_a_named_file_is_read_instead_of_the_one_beside_the_home(home: Path, tmp_path: Path) -> None:
    beside(home, "call_timeout_s = 7\nremote_search_s = 7")
    named = tmp_path / "mine.toml"
    named.write_text("call_timeout_s = 9")
    settings = told(home, KINGLY_CONFIG=str(named))
    assert (settings.call_timeout_s, settings.remote_search_s) == (9, Settings().remote_search_s)


def test_two_files_are_one_too_many(home: Path) -> None:
    beside(home, "")
    beside(home, "", "config.yml")
    with pytest.raises(InvalidSetting, match=r"config\.toml and .*config\.yml are both there; keep one of them"):
        told(home)


def test_without_a_file_no_parser_is_loaded(home: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from kingly_memory.settings import Settings; "
        f"Settings.from_environment(home=Path({str(home)!r})); "
        "print(*sorted({'tomllib', 'yaml', 'kingly_memory.home.settings_file', 'difflib'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=dict(environment()), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


# --- what it says ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ALM-090", "ALM-091", "ALM-092")
def test_the_seeds_keys_say_what_the_defaults_are(home: Path) -> None:
    beside(home, SEEDS, "config.yaml")
    assert told(home) == Settings()
    assert set(given_settings(own(), home)) == set(SEEDS_KEYS.values())


@pytest.mark.requirement("ALM-090", "ALM-091", "ALM-092")
def test_the_seeds_keys_and_our_own_names_set_the_same(home: Path) -> None:
    beside(
        home,
        """
        call_timeout_s = 7
        [alma.decay]
        enabled = false
        default_half_life_days = 12.5
        forget_threshold = 0.2
        auto_forget_enabled = true
        [alma.retrieval]
        mode_aware = false
        default_mode = "recall"
        [alma.compression]
        enabled = false
        level = "light"
        llm_required = true
        """,
    )
    assert told(home) == Settings(
        call_timeout_s=7,
        decay_enabled=False,
        default_half_life_days=12.5,
        forget_threshold=0.2,
        auto_forget_enabled=True,
        mode_aware=False,
        default_mode="recall",
        compression_enabled=False,
        compression_level="light",
        llm_required=True,
    )


def test_the_environment_wins_over_the_file(home: Path) -> None:
    path = beside(home, "[alma.decay]\nforget_threshold = 0.2\ndefault_half_life_days = 12")
    env = own(KINGLY_FORGET_THRESHOLD="0.3")
    settings = Settings.from_environment(env, home)
    assert (settings.forget_threshold, settings.default_half_life_days) == (0.3, 12)
    sources = {name: one.by for name, one in given_settings(env, home).items()}
    assert sources == {
        "forget_threshold": "KINGLY_FORGET_THRESHOLD",
        "default_half_life_days": f"alma.decay.default_half_life_days in {path}",
    }


@pytest.mark.requirement("ALM-090")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "config.toml",
            "default_half_life_days = '2w'\n[lifetimes]\nworking = '1h'",
        ),
        ("config.yaml", "lifetimes: {working: 3600}\ndefault_half_life_days: 14"),
    ],
)
def test_a_table_of_the_file_says_its_keys_in_any_unit(home: Path, name: str, text: str) -> None:
    beside(home, text, name)
    assert told(home) == Settings(lifetimes=Lifetimes(working=3_600), default_half_life_days=14)


def test_one_variable_says_a_table_and_wins_key_by_key(home: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    path = beside(home, "[lifetimes]\nworking = 60\nepisodic = '7d'")
    monkeypatch.setenv("KINGLY_LIFETIMES", " working=30m, semantic=never ,")
    rows = {row["name"]: row for row in run("config", "--json", "--home", str(home)).json["settings"]}
    shown = {
        key: (rows[f"lifetimes.{key}"]["value"], rows[f"lifetimes.{key}"]["from"]) for key in ("working", "episodic")
    }
    assert shown == {"working": (1_800, "KINGLY_LIFETIMES"), "episodic": (604_800, f"lifetimes.episodic in {path}")}
    assert rows["lifetimes.semantic"]["from"] == "KINGLY_LIFETIMES"
    assert rows["lifetimes.procedural"] == {"name": "lifetimes.procedural", "value": "never", "from": "default"}


@pytest.mark.parametrize(
    ("said_so", "sentence"),
    [
        (
            "workin=1",
            r"setting lifetimes\.workin: KINGLY_LIFETIMES has it and there is no such setting; the nearest is "
            r"lifetimes\.working",
        ),
        ("working", "setting KINGLY_LIFETIMES: 'working' names no value; write key=value, key=value"),
        ("working=soon", r"setting lifetimes\.working in KINGLY_LIFETIMES: 'soon' is not a number, and not `never`"),
        ("working=-1", r"setting lifetimes\.working: -1\.0 is not a number above 0.*"),
    ],
)
def test_what_a_variable_of_a_table_must_not_say_is_one_sentence(home: Path, said_so: str, sentence: str) -> None:
    with pytest.raises(InvalidSetting, match=f"^{sentence}$"):
        told(home, KINGLY_LIFETIMES=said_so)


def test_a_table_is_a_value_of_its_own_type() -> None:
    with pytest.raises(InvalidSetting, match=r"^setting pace: \{'poll_s': 1\} is no Pace$"):
        Settings(pace={"poll_s": 1})  # type: ignore[arg-type]  # wrong on purpose


def test_an_empty_file_says_nothing(home: Path) -> None:
    for name in ("config.toml", "config.yaml"):
        path = beside(home, "# nothing yet\n", name)
        assert told(home) == Settings()
        path.unlink()


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("call_timeouts_s = 7", "setting call_timeouts_s: .*there is no such setting; the nearest is call_timeout_s$"),
        ("[alma.decay]\nenabeld = true", r"alma\.decay\.enabeld: .*the nearest is alma\.decay\.enabled$"),
        ("[alma]\ndecay = true", r"alma\.decay: .*it is a group; put the names beneath it"),
        ("[alma.decay]\nforget_threshold = 3", r"alma\.decay\.forget_threshold in .*config\.toml: 3 is not a number"),
        ("call_timeout_s = '7'", "call_timeout_s in .*: '7' is not a number above 0"),
        ("decay_enabled = 1", "decay_enabled in .*: 1 is neither True nor False"),
        ("compression_level = 'tiny'", "'tiny' is unknown; choose none or light or medium or aggressive"),
        ("decay_enabled = true\n[alma.decay]\nenabled = false", "says it twice, as decay_enabled too"),
        ("call_timeout_s = ", r"/config\.toml is no TOML: .*at end of document"),
        ("call_timeout_s = " + "1" * 5_000, r"/config\.toml is no TOML"),
        ("[call_timeout_s]\nx = 1", "is not a number"),
        ("alma = 7", "it is a group"),
        ("lifetimes = 7", "lifetimes: .*it is a group; put the names beneath it"),
        ("[lifetimes]\nworkin = 7", r"lifetimes\.workin: .*no such setting; the nearest is lifetimes\.working$"),
        ("[lifetimes]\nworking = 'soon'", r"lifetimes\.working in .*: 'soon' is not a number above 0"),
        ("default_half_life_days = '7'", r"default_half_life_days in .*: '7' is not a number above 0"),
        ("a = " + "[" * 5_000 + "]" * 5_000, "nested too deeply|no TOML"),
        ("#" * (LIMIT_BYTES + 1), "has more than 65,536 bytes"),
    ],
)
def test_what_a_file_must_not_say_is_one_clear_sentence(home: Path, text: str, sentence: str) -> None:
    beside(home, text)
    with pytest.raises(InvalidSetting, match=sentence) as raised:
        told(home)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [", "is no YAML"),
        ("- call_timeout_s", "holds no names with values"),
        ("call_timeout_s: 2024-99-99", "is no YAML"),
        ("x: !!python/object/apply:os.system ['true']", "is no YAML"),
    ],
)
def test_yaml_that_is_none_or_would_run_something_is_refused(home: Path, text: str, sentence: str) -> None:
    beside(home, text, "config.yaml")
    with pytest.raises(InvalidSetting, match=sentence):
        told(home)


def test_a_named_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"gone\.toml is no file"):
        Settings.from_environment({"KINGLY_CONFIG": str(tmp_path / "gone.toml")})
    with pytest.raises(InvalidSetting, match="is no file"):
        Settings.from_environment({"KINGLY_CONFIG": str(tmp_path)})


# --- the command line -----------------------------------------------------------------------------------------------


def test_a_bad_file_is_a_sentence_for_every_command_and_a_finding_of_doctor(run: Run, home: Path) -> None:
    beside(home, "call_timeouts_s = 7")
    stored = run("store", "x", "--home", str(home))
    assert (stored.code, stored.err.count("\n")) == (2, 1)
    assert "the nearest is call_timeout_s" in stored.err
    doctor = run("doctor", "--home", str(home))
    assert doctor.code == 1
    assert "the nearest is call_timeout_s" in doctor.out


def test_a_bad_file_is_no_veto_of_a_hook(home: Path) -> None:
    beside(home, "call_timeouts_s = 7")
    ran = process("hook", "UserPromptSubmit", "--home", str(home), stdin=b'{"prompt": "how do we deploy"}')
    assert (ran.code, ran.out) == (0, "")


# --- every flag switches --------------------------------------------------------------------------------------------


def opened(home: Path, clock: ManualClock) -> SyncMemoryRouter:
    return SyncMemoryRouter.open(home, False, project="app", clock=clock)


def swept(home: Path, *policies: str) -> int:
    """How many of three faded memories a sweep archives."""
    clock = ManualClock()
    with opened(home, clock) as memory:
        for number in range(3):
            memory.store(f"note {number}", type="procedural", significance=0.4)
        clock.jump(89 * DAY_S)
        return memory.sweep(policies or None).archived


@pytest.mark.requirement("ALM-090", "ALM-093")
@pytest.mark.parametrize(
    ("text", "policies", "archived"),
    [
        ("enabled = true", ["strength"], 2),
        ("enabled = false", ["strength"], 0),
        ("auto_forget_enabled = true", [], 2),
        ("auto_forget_enabled = false", [], 0),
        ("default_half_life_days = 30", ["strength"], 2),
        ("default_half_life_days = 3000", ["strength"], 0),
    ],
)
def test_the_file_decides_whether_and_how_fast_memories_fade(
    home: Path, text: str, policies: list[str], archived: int
) -> None:
    beside(home, f"durability = 'process'\nforget_threshold = 0.2\n[alma.decay]\n{text}")
    assert swept(home, *policies) == archived


@pytest.mark.requirement("ALM-091", "ALM-093")
@pytest.mark.parametrize(("flag", "mode"), [("true", "diagnostic"), ("false", "learning")])
def test_modes_are_inferred_or_the_default_one(home: Path, flag: str, mode: str) -> None:
    beside(home, f"durability = 'process'\n[alma.retrieval]\nmode_aware = {flag}\ndefault_mode = 'learning'")
    with opened(home, ManualClock()) as memory:
        assert memory.search("why does the login fail", mode="auto").mode == mode


TEXT = "The deploy ran for 40 minutes. It was a sunny day outside. We must run the migrations first. It ended well."


@pytest.mark.requirement("ALM-092", "ALM-093")
async def test_without_compression_a_text_is_kept_whole_and_no_model_is_asked(home: Path) -> None:
    beside(home, "durability = 'process'\n[alma.compression]\nenabled = false")
    model = ScriptedLanguageModel()
    async with MemoryRouter.open(home, False, project="app") as memory:
        lesson = await memory.compress_and_learn(TEXT, language_model=model)
        kept = await memory.get(lesson.memory_id)
    assert (model.prompts, lesson.original_id, kept and kept.content) == ([], None, TEXT)


@pytest.mark.requirement("ALM-092")
async def test_the_level_decides_how_much_is_left(home: Path) -> None:
    lengths = {}
    for level in ("none", "light", "medium", "aggressive"):
        beside(home, f"durability = 'process'\n[alma.compression]\nlevel = '{level}'")
        async with MemoryRouter.open(home, False, project="app") as memory:
            lengths[level] = (await memory.compress_and_learn(TEXT)).compressed.compressed_length
    assert lengths["none"] == len(TEXT)
    assert lengths["none"] >= lengths["light"] >= lengths["medium"] >= lengths["aggressive"]
    assert lengths["aggressive"] < lengths["none"]


@pytest.mark.requirement("ALM-092", "ALM-093")
def test_a_required_model_that_is_not_there_is_an_error_and_nothing_is_learned(home: Path) -> None:
    beside(home, "durability = 'process'\n[alma.compression]\nllm_required = true")
    with opened(home, ManualClock()) as memory:
        with pytest.raises(LanguageModelError, match="llm_required asks for one"):
            memory.compress_and_learn(TEXT)
        assert memory.status()["memories"]["total"] == 0
