"""What single agents have lived through."""

from __future__ import annotations

from typing import Annotated

from kingly_memory.api.declare import Arg, MemoryRouter, Tags, verb
from kingly_memory.models import JsonObject
from kingly_memory.validation import RESULTS_LIMIT, required

MOST_RETRIEVED = 5
LATEST_YEAR = 1_000_000
TOOL = "retrieve_memory"


@verb(None, TOOL, "cognition", title="Retrieve experiences", reads=True)
async def retrieve(
    memory: MemoryRouter,
    *,
    agent_id: Annotated[str, Arg("whose experiences")],
    top_k: Annotated[
        int, Arg(f"how many; never more than {MOST_RETRIEVED} come back", least=0, most=RESULTS_LIMIT)
    ] = MOST_RETRIEVED,
    current_year: Annotated[
        int, Arg("the year it is, for what has faded; 0 for the latest one", least=0, most=LATEST_YEAR)
    ] = 0,
    tags: Annotated[Tags, Arg("words to filter by")] | None = None,
    query: Annotated[str | None, Arg("only what shares words with it, the best match first")] = None,
) -> JsonObject:
    """Retrieve relevant past experiences for decision making: the latest ones, then the weightiest episodes.

    Example: {"agent_id": "H001", "current_year": 3, "tags": ["flood"]}
    Answers: success agent_id memories count top_k limited
    """
    from kingly_memory.cognition.skills import SkillRegistry

    agent = await memory.cognitive(required("agent_id", agent_id))
    tool = SkillRegistry.load()[TOOL]
    called = tool.invoke(agent, top_k=top_k, current_year=current_year, tags=tags or None, query=query)
    most = called.parameters["top_k"]
    found = list(called.result)
    return {"agent_id": agent_id, "memories": found, "count": len(found), "top_k": most, "limited": most < top_k}
