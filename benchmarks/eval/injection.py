"""Asking every question of a file for the notes that would be put beside it: does the block hold what answers it?"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.eval.configurations import Configuration
from benchmarks.eval.figures import Injected, InjectionFigures, injection_figures
from benchmarks.eval.misspelling import misspelt
from benchmarks.eval.questions import Conversation, Question, name_of
from benchmarks.eval.trial import Arrangement, Reported, arranged, named
from benchmarks.eval.wrapping import wrapped
from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.cli.output import table
from kingly_memory.models import JsonObject, Origin
from kingly_memory.ports import Embedder
from kingly_memory.settings import Settings
from kingly_memory.text.writing import estimated_tokens
from kingly_memory.validation import Imported

_HEADS = ("CONFIGURATION", "CONVERSATIONS", "FOCUS", "INSIDE", "EVIDENCE", "TOKENS", "P50 MS", "P95 MS")


@dataclass(frozen=True, slots=True)
class InjectionRow(Reported):
    """How blocks did in one configuration and arrangement: as they are, and with the right topic in focus."""

    plain: InjectionFigures
    focused: InjectionFigures


@dataclass(frozen=True, slots=True)
class InjectionReport:
    """The figures, for programs and for people."""

    heading: str
    rows: Sequence[InjectionRow]
    facts: JsonObject

    def entries(self) -> list[JsonObject]:
        return [
            named(row, self.rows) | row.plain.to_json() | {"in_focus": row.focused.to_json()} | self.facts
            for row in self.rows
        ]

    def lines(self) -> Iterator[str]:
        yield self.heading
        yield f"notes of {self.facts['budget_tokens']:,} tokens at most"
        yield ""
        yield from table([cells for row in self.rows for cells in _cells(row)], _HEADS)
        if categories := list(self.rows[0].plain.inside_by_category):
            yield ""
            rows = [cells for row in self.rows for cells in _category_cells(row)]
            yield from table(rows, ("INSIDE BY CATEGORY", *_HEADS[1:3], *map(str.upper, categories)))


def _cells(row: InjectionRow) -> Iterator[tuple[str, ...]]:
    for focus, figures in (("none", row.plain), ("right topic", row.focused)):
        yield (
            row.configuration,
            row.arrangement.value,
            focus,
            f"{figures.inside:.3f}",
            f"{figures.evidence:.3f}",
            f"{figures.tokens:.0f}",
            f"{figures.p50_ms:.1f}",
            f"{figures.p95_ms:.1f}",
        )


def _category_cells(row: InjectionRow) -> Iterator[tuple[str, ...]]:
    for focus, figures in (("none", row.plain), ("right topic", row.focused)):
        shares = figures.inside_by_category.values()
        yield (row.configuration, row.arrangement.value, focus, *(f"{share:.3f}" for share in shares))


@dataclass(frozen=True, slots=True)
class InjectionTrial:
    """One evaluation. `folder` is empty and thrown away afterwards by whoever made it."""

    folder: Path
    settings: Settings
    budget_tokens: int
    corrupt: bool = False
    wrap: bool = False
    embedder: Embedder | None = None

    def run(
        self,
        conversations: Sequence[Conversation],
        configurations: Sequence[Configuration],
        arrangements: Sequence[Arrangement],
    ) -> list[InjectionRow]:
        """A row for each configuration in each arrangement. Raises StoreError."""
        rows = []
        for arrangement in arrangements:
            together = [_owned(conversation) for conversation in arranged(conversations, arrangement)]
            for configuration in configurations:
                pairs = [pair for conversation in together for pair in self._asked(conversation, configuration)]
                plain, focused = zip(*pairs, strict=True)
                rows.append(
                    InjectionRow(configuration.name, arrangement, injection_figures(plain), injection_figures(focused))
                )
        return rows

    def _asked(self, conversation: Conversation, configuration: Configuration) -> Iterator[tuple[Injected, Injected]]:
        """For every question, the block it is given without a focus and with one."""
        home = self.folder / "home"
        settings = replace(
            self.settings,
            durability="process",
            **{"embedder": "none", **configuration.storing, **configuration.settings},
        )
        with SyncMemoryRouter.open(
            home, False, project=conversation.name, settings=settings, embedder=self.embedder
        ) as router:
            router.remember(conversation.memories)
            router.await_vectors()
            by_name = {name_of(memory.draft.key, memory.id): memory for memory in conversation.memories}
            router.inject(conversation.questions[0].text)  # what only a first one loads is not what is measured
            for question in conversation.questions:
                plain = self._injected(router, question)
                topic = topic_of([by_name[name] for name in question.relevant])
                if topic is None:
                    yield plain, plain
                    continue
                router.attention.focus(topic)
                yield plain, self._injected(router, question)
                router.attention.unfocus(topic)
        shutil.rmtree(home)

    def _injected(self, router: SyncMemoryRouter, question: Question) -> Injected:
        text = misspelt(question.text) if self.corrupt else question.text
        text = wrapped(text) if self.wrap else text
        began = time.perf_counter()
        found = router.inject(text, self.budget_tokens)
        took_ms = (time.perf_counter() - began) * 1000
        return Injected(
            put_in=frozenset(name_of(memory.key, memory.id) for memory in router.get_many(found.put_in).values()),
            relevant=question.relevant,
            tokens=estimated_tokens(found.text),
            took_ms=took_ms,
            category=question.category,
        )


def topic_of(evidence: Sequence[Imported]) -> str | None:
    """What an agent that knows its subject would have in focus: the tag that most of the evidence bears, else the
    thread that most of it belongs to."""
    tags = Counter(tag for memory in evidence for tag in memory.draft.tags)
    contexts = Counter(memory.draft.context_id for memory in evidence if memory.draft.context_id is not None)
    return next((name for name, _ in (tags or contexts).most_common(1)), None)


def _owned(conversation: Conversation) -> Conversation:
    """As the user's own words, since what a file says is put into no prompt; the topic that a memory's metadata names
    is its tag, where it has none."""
    return replace(conversation, memories=tuple(map(_own, conversation.memories)))


def _own(memory: Imported) -> Imported:
    topic = memory.draft.metadata.get("topic")
    tags = memory.draft.tags or ((topic,) if isinstance(topic, str) else ())
    return replace(memory, draft=replace(memory.draft, origin=Origin.USER, tags=tags))
