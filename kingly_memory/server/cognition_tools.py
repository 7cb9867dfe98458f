"""The tool with which an agent recalls what it has lived through, under the name of the seed that brought it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field

from kingly_memory import intake
from kingly_memory.cognition.experience.guideline import MAX_RETRIEVE
from kingly_memory.errors import InvalidInput
from kingly_memory.server.arguments import Most, Tags, Year
from kingly_memory.server.lazy_router import LazyRouter

if TYPE_CHECKING:  # read after the handshake
    from kingly_memory.cognition.experience.registry import SkillRegistry

TOOL = "retrieve_memory"
AGENT_TYPE = "agent"
"""What callers of this server are to the registry."""


class Retrieved(BaseModel):
    """Experiences, as texts."""

    success: bool = True
    agent_id: str
    memories: list[str]
    count: int
    top_k: Annotated[int, Field(description="How many could have come at most")]
    limited: Annotated[bool, Field(description=f"More were asked for than {MAX_RETRIEVE}, which is all it gives")]


class CognitionTools:
    """The tools of the toolset `cognition`; the docstrings are what a host's model reads."""

    def __init__(self, memory: LazyRouter) -> None:
        self._memory = memory

    async def retrieve_memory(
        self,
        *,
        agent_id: Annotated[str, Field(description="Whose experiences")],
        top_k: Annotated[Most, Field(description=f"How many; never more than {MAX_RETRIEVE} come back")] = MAX_RETRIEVE,
        current_year: Annotated[
            Year, Field(description="The year it is, for what has faded; 0 for the latest one")
        ] = 0,
        tags: Tags = None,
        query: Annotated[str | None, Field(description="Only what shares words with it, the best match first")] = None,
    ) -> Retrieved:
        """Retrieve relevant past experiences for decision making: the latest ones, then the weightiest episodes.

        Example: {"agent_id": "H001", "current_year": 3, "tags": ["flood"]}
        """
        router = await self._memory.get()
        memory = await router.cognitive(intake.required("agent_id", agent_id))
        called = _registry().invoke(
            TOOL, AGENT_TYPE, memory, top_k=top_k, current_year=current_year, tags=tags or None, query=query
        )
        if called is None or called.refused is not None:  # only another registry than ours says so
            raise InvalidInput(TOOL, "is not to be had" if called is None else str(called.refused))
        most = called.parameters["top_k"]
        return Retrieved(
            agent_id=agent_id,
            memories=list(called.result),
            count=len(called.result),
            top_k=most,
            limited=most < top_k,
        )


@cache
def _registry() -> SkillRegistry:
    from kingly_memory.cognition.experience.registry import SkillRegistry

    return SkillRegistry.load()
