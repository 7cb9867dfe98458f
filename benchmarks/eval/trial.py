"""Asking every question of a file in every chosen way: in temporary homes, against a hub of its own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.eval.configurations import Configuration
from benchmarks.eval.figures import Answered, Figures, figures, shared_stems
from benchmarks.eval.misspelling import misspelt
from benchmarks.eval.questions import Conversation, Question, name_of
from benchmarks.eval.wrapping import wrapped
from kingly_memory.app.reading import open_reader
from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.errors import KinglyMemoryError
from kingly_memory.home.place import Place
from kingly_memory.hub.process import HubProcess
from kingly_memory.models import JsonObject, Results, Source
from kingly_memory.ports import Embedder
from kingly_memory.router.search.assisted import LAYER
from kingly_memory.settings import Settings

MOST_HITS = 10
DELIVERY_S = 60.0
DELIVERY_EACH_S = 0.1
"""What a hub may take altogether, and for each memory besides: twenty times what it takes."""

Search = Callable[..., Results]


class Arrangement(StrEnum):
    """Whether each conversation is a project of its own, or all of them lie in one."""

    APART = "apart"
    POOLED = "pooled"


class NotDelivered(KinglyMemoryError):
    """The hub did not get the memories it is to be asked about."""

    def __init__(self, waiting: int, reason: str | None) -> None:
        super().__init__(f"{waiting:,} of the memories did not reach the evaluation's own hub ({reason}); run it again")


@dataclass(frozen=True, slots=True)
class Reported:
    """What a row of a report is of."""

    configuration: str
    arrangement: Arrangement


@dataclass(frozen=True, slots=True)
class Row(Reported):
    """How one configuration did in one arrangement."""

    figures: Figures


def named(row: Reported, rows: Sequence[Reported]) -> JsonObject:
    """What a row of a report is called: where both arrangements are reported, the pooled ones say so."""
    both = len({one.arrangement for one in rows}) > 1
    suffix = f"-{row.arrangement}" if both and row.arrangement is Arrangement.POOLED else ""
    return {
        "name": f"{row.configuration}{suffix}",
        "configuration": row.configuration,
        "arrangement": row.arrangement.value,
    }


@dataclass(frozen=True, slots=True)
class _Project:
    """A conversation under the name of a project, and the hub to ask besides."""

    conversation: Conversation
    name: str
    hub_url: str | None


def spread(conversations: Sequence[Conversation], limit: int | None) -> tuple[Conversation, ...]:
    """At most `limit` of the questions, from the whole of the file; conversations that nothing is asked of go."""
    total = sum(len(one.questions) for one in conversations)
    wanted = total if limit is None else min(limit, total)
    kept = {step * total // wanted for step in range(wanted)}
    chosen, passed = [], 0
    for conversation in conversations:
        asked = tuple(question for at, question in enumerate(conversation.questions, passed) if at in kept)
        passed += len(conversation.questions)
        chosen.append(replace(conversation, questions=asked))
    return tuple(chosen)


def arranged(conversations: Sequence[Conversation], arrangement: Arrangement) -> tuple[Conversation, ...]:
    """The projects to store and ask. Memories keep their context, so neighbours stay within a conversation."""
    if arrangement is Arrangement.APART:
        return tuple(one for one in conversations if one.questions)
    memories = tuple(memory for one in conversations for memory in one.memories)
    return (Conversation("all", memories, tuple(question for one in conversations for question in one.questions)),)


def closeness(conversations: Sequence[Conversation]) -> float:
    """The mean share of a question's stems that stand in what answers it: low where words differ and meaning agrees."""
    shares = []
    for conversation in conversations:
        texts = {
            name_of(item.draft.key, item.id): f"{item.draft.title or ''} {item.draft.content}"
            for item in conversation.memories
        }
        shares += [
            shared_stems(question.text, map(texts.__getitem__, question.relevant))
            for question in conversation.questions
        ]
    return fmean(shares)


class Trial:
    """One evaluation. `folder` is empty and thrown away afterwards by whoever made it."""

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        *,
        corrupt: bool = False,
        wrap: bool = False,
        hub_store: str | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        """`hub_store`: the address of the PostgreSQL that has the hub's memory; `embedder` takes the place of what a
        configuration names."""
        self._folder = folder
        self._embedder = embedder
        self._hub_options = () if hub_store is None else ("--store", hub_store)
        # Nobody needs these homes after a power cut, and configurations with vectors say so.
        self._settings = replace(settings, durability="process", embedder="none")
        self._corrupt = corrupt
        self._wrap = wrap
        self._homes = 0
        self.unassisted: list[str] = []
        """Why searches that a language model was to help with went on without it."""

    def run(
        self,
        conversations: Sequence[Conversation],
        configurations: Sequence[Configuration],
        arrangements: Sequence[Arrangement],
    ) -> list[Row]:
        """A row for each configuration in each arrangement. Raises HubDidNotStart, NotDelivered, StoreError."""
        rows = []
        for arrangement in arrangements:
            answers: dict[str, list[Answered]] = {one.name: [] for one in configurations}
            with self._hub(arrangement, configurations) as url:
                for project in _projects(conversations, arrangement, url):
                    self._ask_all(project, configurations, answers)
            rows += [Row(name, arrangement, figures(given)) for name, given in answers.items()]
        return rows

    @contextmanager
    def _hub(self, arrangement: Arrangement, configurations: Sequence[Configuration]) -> Iterator[str | None]:
        """The address of a hub that knows nothing yet; None when no configuration asks one."""
        if not any(one.hub for one in configurations):
            yield None
            return
        hub = HubProcess(self._folder / f"hub-{arrangement}", options=self._hub_options)
        try:  # not `with hub`: Ctrl-C may come while it starts
            hub.start()
            yield hub.url
        finally:
            hub.stop()

    def _ask_all(
        self, project: _Project, configurations: Sequence[Configuration], answers: Mapping[str, list[Answered]]
    ) -> None:
        """Configurations take turns project by project, so that a slow minute does not fall on one alone."""
        stored: dict[str, Path] = {}
        for configuration in configurations:
            if configuration.stored_as not in stored:
                stored[configuration.stored_as] = self._stored(project, configuration)
            # A copy each, because being found leaves traces that the next one asked must not profit from.
            home = self._new_home()
            shutil.copytree(stored[configuration.stored_as], home)
            with self._asking(home, project, configuration) as search:
                answers[configuration.name].extend(self._answers(search, project, configuration))
            shutil.rmtree(home)
        for home in stored.values():
            shutil.rmtree(home)

    def _stored(self, project: _Project, configuration: Configuration) -> Path:
        home = self._new_home()
        memories = project.conversation.memories
        with self._router(home, project, configuration, configuration.storing) as router:
            router.remember(memories)
            router.await_vectors()
            if configuration.hub:
                self._deliver(router, project)
        return home

    def _deliver(self, router: SyncMemoryRouter, project: _Project) -> None:
        """In one go: a sync that is cut off leaves the memory it was sending leased for a minute."""
        report = router.sync(timeout=DELIVERY_S + DELIVERY_EACH_S * len(project.conversation.memories))
        if report.pending:
            raise NotDelivered(report.pending, report.reason)

    def _answers(self, search: Search, project: _Project, configuration: Configuration) -> Iterator[Answered]:
        questions = project.conversation.questions
        search(questions[0].text)  # what only a first search loads is not what is measured
        for question in questions:
            text = misspelt(question.text) if self._corrupt else question.text
            text = wrapped(text) if self._wrap else text
            began = time.perf_counter()
            results = search(text)
            took_ms = (time.perf_counter() - began) * 1000
            self.unassisted += [results.failures[LAYER]] if LAYER in results.failures else []
            yield _answered(question, results, configuration.layer, took_ms)

    @contextmanager
    def _asking(self, home: Path, project: _Project, configuration: Configuration) -> Iterator[Search]:
        changes = {**configuration.storing, **configuration.settings}
        options = {"limit": MOST_HITS, **configuration.search}
        if configuration.repairs:
            with self._router(home, project, configuration, changes) as router:
                router.await_vectors()
                # Which memories are found is asked, not how they are shown: a repeat may be the relevant one.
                yield partial(router.search, **options, fold=False)
            return
        place = Place(home, project.name, agent=None)
        with closing(open_reader(place, replace(self._settings, **changes), repairs=False)) as reader:
            yield partial(reader.search, **options)

    def _router(
        self, home: Path, project: _Project, configuration: Configuration, changes: Mapping[str, Any]
    ) -> SyncMemoryRouter:
        remote = project.hub_url if configuration.hub else None
        settings = replace(self._settings, **changes)
        return SyncMemoryRouter.open(
            home, remote or False, project=project.name, settings=settings, embedder=self._embedder
        )

    def _new_home(self) -> Path:
        self._homes += 1
        return self._folder / f"home-{self._homes}"


def _projects(
    conversations: Sequence[Conversation], arrangement: Arrangement, hub_url: str | None
) -> Iterator[_Project]:
    together = arranged(conversations, arrangement)
    for number, conversation in enumerate(together, start=1):
        yield _Project(conversation, f"conversation {number}", hub_url)


def _answered(question: Question, results: Results, layer: str | None, took_ms: float) -> Answered:
    counted = [hit.memory for hit in results if layer is None or layer in hit.layers]
    return Answered(
        found=tuple(name_of(memory.key, memory.id) for memory in counted),
        relevant=question.relevant,
        took_ms=took_ms,
        category=question.category,
        cut=any(report.cut for report in results.layers.values()),
        alone=results.source is Source.LOCAL_FALLBACK,
    )
