"""What capture keeps of turns of conversations: `python -m benchmarks.capturing`.

Each turn says which of its words should be kept (`keep`) and which must not (`never`: secrets, and what was pasted).
The 150 turns of captured_turns.jsonl and the first 316 of captured_turns_voices.jsonl were written before the rules of
`attention/statements.py`, in four languages, by the hands that then made the rules; the others of that file while they
were made, most of them to be passed over. The rules were made with the mistakes in all of these but the half
`unseen`, into which a digest of the text put half of the first file. The 160 turns of captured_turns_unseen.jsonl are
by another author, who had not read the rules: those count. `--misses` lists the mistakes of the half `seen`. `--model`
has that of KINGLY_LLM_URL say what of the rest is kept too.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kingly_memory.attention.statements import Message, gist, statements
from kingly_memory.blocking import SyncMemoryRouter

TURNS = [Path(__file__).with_name(f"captured_turns{name}.jsonl") for name in ("", "_voices", "_unseen")]
HALVES = ("seen", "unseen", "in many voices", "by another author")


class Figures(NamedTuple):
    """Of some turns: how many of the words to keep are kept, how many of the statements kept hold such words, and the
    secrets and pasted words that are kept."""

    wanted: int
    found: int
    kept: int
    right: int
    secrets: int
    pasted: int

    def line(self) -> str:
        recall, precision = self.found / max(self.wanted, 1), self.right / max(self.kept, 1)
        return (
            f"kept of what should be {recall:4.0%} ({self.found} of {self.wanted}) · should be of what is kept"
            f" {precision:4.0%} ({self.right} of {self.kept}) · secrets {self.secrets} · pasted {self.pasted}"
        )


def turns(half: str | None = None) -> list[dict[str, Any]]:
    read = [json.loads(line) for file in TURNS for line in file.read_text(encoding="utf-8").splitlines()]
    return [turn for turn in read if half in (None, turn["half"])]


def kept_of(turn: dict[str, Any]) -> list[str]:
    return [one.content for one in statements([Message("m", turn["role"], turn["content"], None)])]


def kept_with_model(turn: dict[str, Any]) -> list[str]:
    with tempfile.TemporaryDirectory() as home, SyncMemoryRouter.open(Path(home) / "home", False) as memory:
        return [memory.content for memory in memory.capture([turn])]


def figures(some: Iterable[dict[str, Any]], kept_of: Callable[[dict[str, Any]], list[str]] = kept_of) -> Figures:
    total = Figures(0, 0, 0, 0, 0, 0)
    for turn in some:
        kept = kept_of(turn)
        of_never = sum(_holds(kept, span) for span in turn["never"])
        counted = (
            len(turn["keep"]),
            sum(_holds(kept, span) for span in turn["keep"]),
            len(kept),
            sum(any(gist(span) in gist(statement) for span in turn["keep"]) for statement in kept),
            of_never if turn["kind"] == "secret" else 0,
            of_never if turn["kind"] != "secret" else 0,
        )
        total = Figures(*(before + more for before, more in zip(total, counted, strict=True)))
    return total


def _holds(kept: Sequence[str], span: str) -> bool:
    return any(gist(span) in gist(statement) for statement in kept)


def main() -> None:
    parser = argparse.ArgumentParser(description="what capture keeps of turns of conversations")
    parser.add_argument("--misses", action="store_true", help="list the mistakes of the half that rules are made with")
    parser.add_argument("--model", action="store_true", help="with the model that KINGLY_LLM_URL names, too")
    options = parser.parse_args()
    for half in HALVES:
        if options.model:
            print(f"{half:17} {figures(turns(half), kept_with_model).line()} with the model")
        print(f"{half:17} {figures(turns(half)).line()}")
        for language in dict.fromkeys(one["lang"] for one in turns(half)):
            print(f"{language:>17} {figures(one for one in turns(half) if one['lang'] == language).line()}")
    if options.misses:
        for turn in turns("seen"):
            result = figures([turn])
            if result.found < result.wanted or result.right < result.kept or result.secrets or result.pasted:
                print(turn["lang"], turn["kind"], repr(turn["content"]), "→", kept_of(turn))


if __name__ == "__main__":
    main()
