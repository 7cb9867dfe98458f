"""A search that a language model helps with: it words the question differently, puts the best hits in order, or both.

One deadline holds for the model. Where it says nothing of use, or nothing in time, the search answers without, and
`failures` says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kingly_memory.dataclass import dataclass, field, replace
from kingly_memory.errors import LanguageModelError
from kingly_memory.models import REMOTE_ABOVE, Assist, Detail, LayerReport, Query, Results, Source
from kingly_memory.ports import LanguageModel
from kingly_memory.retrieval import assistance
from kingly_memory.retrieval.repeats import newer_first
from kingly_memory.retrieval.snippets import disclose
from kingly_memory.router import model_replies
from kingly_memory.router.access import Access
from kingly_memory.router.search.search import Request, Search, shaped
from kingly_memory.router.view import View
from kingly_memory.text.redaction import redact

LAYER = "language_model"
WORDING_SHARE = 0.5
"""Of the model's time, where it is to order hits too."""


@dataclass(slots=True)
class Assisted:
    """One search, and the model that helps with it, or why there is none. One that `is_here`, on this machine, is shown
    what does not leave it."""

    access: Access
    searching: Search
    view: View
    how: Assist
    model: LanguageModel | None
    is_here: bool
    reason: str
    failures: list[str] = field(default_factory=list)
    asked_s: float = 0.0
    named: int = 0

    async def find(self, query: Query, request: Request) -> Results:
        """See `Search.find`. Never raises because of the model."""
        access = self.access
        began = access.clock.monotonic()
        wide = replace(query, limit=max(query.limit, assistance.RANKED))
        bare = replace(request, detail=Detail.FULL, budget_tokens=None)

        async def found_by(asked: Query) -> Results:
            return await self.searching.find(asked, bare)

        if self.how is Assist.RERANK:
            found = await found_by(wide)
        else:
            found, wordings = await asyncio.gather(found_by(wide), self._wordings(query.text))
            queries = [replace(wide, text=one, is_excerpt=False, key=None, remote_text=None) for one in wordings]
            others = await asyncio.gather(*map(found_by, queries))
            found = await access.read(
                lambda: assistance.merged(found, dict(zip(wordings, others, strict=True)), folds=request.fold)
            )
        if self.how is not Assist.REWRITE and len(found) > 1:
            found = await self._in_order(found, query.text)
        found = await access.read(lambda: self._shaped(found, query, request))
        return replace(found, took_ms=(access.clock.monotonic() - began) * 1000)

    async def _wordings(self, question: str) -> Sequence[str]:
        shown_question = self._shown(question)
        share = WORDING_SHARE if self.how is Assist.BOTH else 1.0
        return await self._ask(
            assistance.wording(shown_question),
            partial(assistance.wordings, question=shown_question),
            share,
            "the question is as it was asked",
        )

    async def _in_order(self, found: Results, question: str) -> Results:
        hits = found.hits
        offered = [
            index
            for index, hit in enumerate(hits[: assistance.RANKED])
            if self.is_here or hit.memory.significance > REMOTE_ABOVE
        ]
        if not offered:
            return found

        memories = [hits[index].memory for index in offered]
        ids = [one.id for one in memories]

        def notes() -> list[str]:
            disclosed = disclose([hits[index] for index in offered], Detail.PASSAGE, asked=(question,)).shown
            parts = ((one.title, disclosed[one.id].text) for one in memories)
            return [self._shown("\n".join(part for part in both if part)) for both in parts]

        shown_question, shown = self._shown(question), await self.access.read(notes)
        named = await self._ask(
            assistance.order(shown_question, shown),
            partial(assistance.named, ids=ids),
            1.0,
            "the hits are in the order of the search",
            about=repr(
                (shown_question, sorted(zip(ids, shown, strict=True)))
            ),  # each use of a memory may change their order
            reread=lambda kept: [memory_id for memory_id in kept.split() if memory_id in ids],
        )
        self.named = len(named)
        return replace(found, hits=tuple(assistance.in_order(hits, offered, named)))

    async def _ask(
        self, prompt: str, read: Callable[[str], Sequence[str]], share: float, instead: str, **kept: Any
    ) -> Sequence[str]:
        """The model's answer within its time, or nothing and why."""
        left_s = self.access.settings.search_assist_s * share - self.asked_s
        began = self.access.clock.monotonic()
        try:
            if self.model is None:
                raise LanguageModelError(self.reason)
            return await model_replies.ask(self.access, self.model, prompt, read, timeout_s=left_s, **kept)
        except LanguageModelError as error:
            self.failures.append(f"{instead}, since the model gave no answer: {error.reason}")
            return ()
        finally:
            self.asked_s += self.access.clock.monotonic() - began

    def _shown(self, text: str) -> str:
        return text if self.is_here else redact(text).text

    def _shaped(self, found: Results, query: Query, request: Request) -> Results:
        """The hits that were asked for, as they were asked for."""
        hits = newer_first(found.hits, query.text) if request.fold and len(found) > 1 else found.hits
        hits = assistance.first(hits, query.limit)
        ids = {hit.memory.id for hit in hits}
        layers = dict(found.layers)
        if found.source in (Source.LOCAL, Source.LOCAL_FALLBACK):
            layers["local"] = replace(layers["local"], hits=len(hits))
        layers[LAYER] = LayerReport(self.asked_s * 1000, self.named)
        failures = {**found.failures, **({LAYER: "; ".join(self.failures)} if self.failures else {})}
        folded = {memory_id: others for memory_id, others in found.folded.items() if memory_id in ids}
        found = replace(found, hits=hits, layers=layers, failures=failures, folded=folded)
        return shaped(found, query, request, self.view, self.access.settings.local_search_s)
