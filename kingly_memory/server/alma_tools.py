"""Retrieval in a mode and verified retrieval, under the names of the design document that brought them."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import Field

from kingly_memory.errors import InvalidInput
from kingly_memory.intake import shown
from kingly_memory.server.arguments import BUDGET_TOKENS, BudgetTokens, MostVerified, Share, Texts, TopK
from kingly_memory.server.lazy_router import LazyRouter
from kingly_memory.server.results import FoundInMode, FoundVerified

ProjectId = Annotated[str | None, Field(description="This server's project; no other one is shown")]

_MODES = "broad (planning), precise (doing), diagnostic (debugging), learning (patterns), recall (one known thing)"


class AlmaTools:
    """The tools of the toolset `alma`; the docstrings are what a host's model reads."""

    def __init__(self, memory: LazyRouter) -> None:
        self._memory = memory

    async def alma_retrieve_for_mode(
        self,
        *,
        query: Annotated[str, Field(description="What to look for, in plain words")],
        mode: Annotated[str | None, Field(description=f"{_MODES}; left out, the question decides")] = None,
        project_id: ProjectId = None,
        agent: Annotated[str | None, Field(description="Only what this agent stored")] = None,
        top_k: TopK = None,
        min_confidence: Annotated[
            Share | None,
            Field(description="How sure memories must be (0.5 unless told otherwise); left out, the mode says"),
        ] = None,
        budget_tokens: BudgetTokens = BUDGET_TOKENS,
        explain: Annotated[bool, Field(description="Show the figures that each place was made from")] = False,
    ) -> FoundInMode:
        """Find memories for a purpose: the mode decides how many, what counts, and whether failures come along.

        Example: {"query": "why does the deploy fail", "mode": "diagnostic"}
        """
        if not query.strip():
            raise InvalidInput("query", "is empty; say what to look for")
        router = await self._memory.get()
        check_project(project_id, router.project)
        found = await router.search(
            query,
            agent=agent,
            mode=mode or "auto",
            top_k=top_k,
            min_confidence=min_confidence,
            budget_tokens=budget_tokens,
        )
        return FoundInMode.of(found, explain=explain)

    async def alma_retrieve_verified(
        self,
        *,
        query: Annotated[str, Field(description="What to look for, in plain words")],
        ground_truth: Annotated[
            Texts | None, Field(description="Texts known to be right; left out, memories are held against each other")
        ] = None,
        project_id: ProjectId = None,
        agent: Annotated[str | None, Field(description="Only what this agent stored")] = None,
        top_k: MostVerified = 5,
        budget_tokens: BudgetTokens = BUDGET_TOKENS,
    ) -> FoundVerified:
        """Find memories and check each: which are verified, uncertain, contradicted or unverifiable.

        Example: {"query": "how many reviews does a deploy need", "ground_truth": ["Deploys need two reviews."]}
        """
        router = await self._memory.get()
        check_project(project_id, router.project)
        found = await router.search_verified(query, top_k, ground_truth, agent=agent)
        return await asyncio.to_thread(FoundVerified.of, found, budget_tokens)


def check_project(project_id: str | None, own: str) -> None:
    if project_id is not None and project_id != own:
        problem = f"{shown(project_id)!r} is not the project of this server ({shown(own)!r})"
        raise InvalidInput("project_id", f"{problem}; leave it out, or start a server with --project for the other")
