"""All that searching by meaning is judged by, in one table: `python -m benchmarks.eval.everything LOCOMO`.

A column is what finds memories: words alone, and each embedder that is installed or named. A cell is a share with its
95 % interval (Wilson 1927; of a mean of shares it is wider than it need be). Time is not measured: searches may take
what they need, and a text is embedded once.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from benchmarks.eval import questions
from benchmarks.eval.configurations import Configuration, chosen
from benchmarks.eval.injection import InjectionTrial
from benchmarks.eval.questions import Conversation, name_of
from benchmarks.eval.trial import Arrangement, Trial, arranged
from benchmarks.measure import percentile
from kingly_memory.adapters.embed import minilm, wordllama
from kingly_memory.app import parts
from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.cli.output import table
from kingly_memory.ports import Embedder
from kingly_memory.settings import Settings

HERE = Path(__file__).parents[1]
SETTINGS = Settings(durability="process", embedder="none", local_search_s=60.0)
BUDGET_TOKENS = 1_000
GATES = (0.2, 0.25, 0.3, 0.35, 0.4)
TIMED = 100
Z = 1.96
APART = (Arrangement.APART,)

Figures = Iterator[tuple[str, str]]
Share = tuple[float, int]
"""A mean of shares, and of how many."""


class Remembering(Embedder):
    """Another embedder, which is asked for each text once."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._known: dict[tuple[str, bool], list[float]] = {}
        self.is_light, self.speaks, self.floor, self.scale = inner.is_light, inner.speaks, inner.floor, inner.scale

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def dimensions(self) -> int:
        return self._inner.dimensions

    def embed(self, texts: Sequence[str], *, is_question: bool = False) -> list[list[float]]:
        new = [text for text in dict.fromkeys(texts) if (text, is_question) not in self._known]
        made = self._inner.embed(new, is_question=is_question) if new else []
        self._known |= {(text, is_question): vector for text, vector in zip(new, made, strict=True)}
        return [self._known[text, is_question] for text in texts]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.eval.everything", description="Measure all of it.")
    parser.add_argument("locomo", type=Path, help="a LoCoMo file")
    parser.add_argument("--embedder", action="append", metavar="NAME", help="only words and these, as the setting says")
    parser.add_argument("--only", action="append", metavar="FAMILY", help="of locomo, pooled, typing, paraphrases, …")
    options = parser.parse_args(arguments)
    usual = [name for name, embedder in (("wordllama", wordllama), ("minilm", minilm)) if embedder.folder() is not None]
    names = tuple(dict.fromkeys(("none", *(options.embedder or usual))))
    columns: dict[str, dict[str, str]] = {name: {} for name in names}
    for name in names:
        load = parts.meaning(Settings(embedder=name))
        embedder = None if load is None else Remembering(load())
        with tempfile.TemporaryDirectory(prefix="kingly-eval-") as folder:
            for family, figures in _families(Path(folder), options.locomo, embedder):
                for figure, cell in figures if family in (options.only or [family]) else ():
                    print(f"{name}: {figure} {cell}", file=sys.stderr, flush=True)
                    columns[name][figure] = cell
    named = dict.fromkeys(figure for column in columns.values() for figure in column)
    rows = [(figure, *(column.get(figure, "") for column in columns.values())) for figure in named]
    print("\n".join(table(rows, ("SHARE (95 % INTERVAL)", "words", *names[1:]), is_whole=True)))
    return 0


def shown(share: Share) -> str:
    """The share with its interval: `0.752 (0.720–0.781)`."""
    mean, count = share
    middle, spread = mean + Z * Z / (2 * count), Z * (mean * (1 - mean) / count + Z * Z / (4 * count * count)) ** 0.5
    low, high = ((middle + sign * spread) / (1 + Z * Z / count) for sign in (-1, 1))
    return f"{mean:.3f} ({max(low, 0):.3f}–{min(high, 1):.3f})"


def _families(folder: Path, locomo: Path, embedder: Embedder | None) -> Iterator[tuple[str, Figures]]:
    """What is measured, by the name that `--only` takes."""
    conversations = questions.read(locomo).conversations
    notes, languages = (questions.read(HERE / name).conversations for name in ("paraphrases.jsonl", "languages.jsonl"))
    ways: Sequence[Configuration] = chosen(["local"])

    def searched(of: Sequence[Conversation], arrangement: Arrangement, *, corrupt: bool = False) -> dict[str, Share]:
        trial = Trial(folder, SETTINGS, corrupt=corrupt, embedder=embedder)
        [row] = trial.run(of, ways, (arrangement,))
        asked = [question for conversation in of for question in conversation.questions]
        counts = {name: sum(question.category == name for question in asked) for name in row.figures.recall_by_category}
        by_category = {name: (share, counts[name]) for name, share in row.figures.recall_by_category.items()}
        return {"": (row.figures.recall_10, row.figures.questions), **by_category}

    def prompted(name: str, *, wrap: bool) -> Figures:
        trial = InjectionTrial(folder, SETTINGS, BUDGET_TOKENS, wrap=wrap, embedder=embedder)
        [row] = trial.run(conversations, ways, APART)
        yield name, shown((row.plain.evidence, row.plain.questions))

    def plainly(name: str, of: Sequence[Conversation], arrangement: Arrangement, *, corrupt: bool = False) -> Figures:
        yield f"{name}: recall@10", shown(searched(of, arrangement, corrupt=corrupt)[""])

    def by_category(name: str, of: Sequence[Conversation]) -> Figures:
        for category, share in searched(of, Arrangement.POOLED).items():
            yield f"{name}{category and ', '}{category}: recall@10", shown(share)

    yield "locomo", plainly("LoCoMo, one at a time", conversations, Arrangement.APART)
    yield "pooled", plainly("LoCoMo, pooled", conversations, Arrangement.POOLED)
    yield "typing", plainly("LoCoMo, typing errors", conversations, Arrangement.APART, corrupt=True)
    yield "paraphrases", by_category("paraphrases", notes)
    yield "languages", by_category("six languages", languages)
    yield "prompts", prompted("prompts: evidence inside 1,000 tokens", wrap=False)
    yield "pasted", prompted("… in what was pasted", wrap=True)
    yield "alien", _weak("LoCoMo", folder / "weak", arranged(conversations, Arrangement.APART), embedder, curve=True)
    yield "alien-notes", _weak("notes", folder / "weak", notes, embedder)
    for name in ("changed_facts", "changed_facts_voices", "changed_facts_unseen"):
        yield "changed", _changed(HERE / f"{name}.jsonl", folder / name, embedder)
    if embedder is not None:
        yield "cost", _cost(embedder, notes)


def _weak(
    where: str, folder: Path, conversations: Sequence[Conversation], embedder: Embedder | None, *, curve: bool = False
) -> Figures:
    """Of questions that nothing answers, those that are answered by nothing or weak hits alone; of hits that answer,
    those that are called weak; and what a stricter gate would keep out and cost."""
    alien = (HERE / "alien_questions.txt").read_text(encoding="utf-8").splitlines()
    quiet, best, right = list[bool](), list[float](), list[tuple[float, bool]]()
    for number, conversation in enumerate(conversations):
        with SyncMemoryRouter.open(
            folder / f"{where}{number}", False, project="all", settings=SETTINGS, embedder=embedder
        ) as router:
            router.remember(conversation.memories)
            router.await_vectors()
            for text in alien:
                found = router.search(text)
                quiet.append(all(hit.is_weak for hit in found))
                best.append(max((hit.relevance for hit in found), default=0.0))
            for question in conversation.questions:
                found = router.search(question.text, fold=False)
                answers = [hit for hit in found if name_of(hit.memory.key, hit.memory.id) in question.relevant]
                right += [(hit.relevance, hit.is_weak) for hit in answers]
    yield f"alien questions, {where}: quiet", shown((fmean(quiet), len(quiet)))
    yield f"… right hits called weak, {where}", shown((fmean(weak for _, weak in right), len(right)))
    for gate in GATES if curve else ():
        nothing, lost = fmean(figure < gate for figure in best), fmean(figure < gate for figure, _ in right)
        yield f"… min_relevance {gate:.2f}: silent / lost", f"{nothing:.2f} / {lost:.3f}"


def _changed(file: Path, folder: Path, embedder: Embedder | None) -> Figures:
    """Of facts that changed, those whose newer text stands first, and is said to; of pairs that only look alike, those
    of which one is called superseded. Each pair is asked for among all the others of its file."""
    pairs = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    with SyncMemoryRouter.open(folder, False, project="all", settings=SETTINGS, embedder=embedder) as router:
        ids = [[router.store(pair[which], origin="user").id for pair in pairs] for which in ("older", "newer")]
        router.await_vectors()
        found = [router.search(pair["question"]) for pair in pairs]
    places = [{hit.memory.id: (at, hit.superseded_by) for at, hit in enumerate(results)} for results in found]
    outcomes: dict[str, list[bool]] = {}
    for pair, older, newer, place_of in zip(pairs, *ids, places, strict=True):
        marked = older in place_of and place_of[older][1] == newer
        if not pair["changed"]:
            wrong = marked or (newer in place_of and place_of[newer][1] is not None)
            outcomes.setdefault(f"only alike, {pair['half']}: wrongly marked", []).append(wrong)
        is_first = newer in place_of and (older not in place_of or place_of[newer][0] < place_of[older][0])
        kind = "changed facts" if pair["changed"] else "only alike"
        outcomes.setdefault(f"{kind}, {pair['half']}: newer first", []).append(is_first)
        if pair["changed"]:
            outcomes.setdefault(f"{kind}, {pair['half']}: older marked", []).append(marked)
    for name in sorted(outcomes):
        yield name, shown((fmean(outcomes[name]), len(outcomes[name])))


def _cost(embedder: Embedder, notes: Sequence[Conversation]) -> Figures:
    """What one question takes, and how many passages are embedded in a second. New texts, which nothing remembers."""
    [conversation] = notes
    asked = [f"{question.text} (asked)" for question in conversation.questions[:TIMED]]
    took = [_seconds(partial(embedder.embed, [text], is_question=True)) for text in asked]
    texts = [f"{memory.draft.content} (stored)" for memory in conversation.memories[:TIMED]]
    yield "ms a question", f"{percentile(took, 50) * 1000:.1f}"
    yield "texts a second", f"{len(texts) / _seconds(lambda: embedder.embed(texts)):,.0f}"


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
