"""The verbs of agents: tasks, thoughts, what an agent remembers and lived through, and what debates came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any

from kingly_memory import validation
from kingly_memory.api.lifecycle import LifecycleVerbs
from kingly_memory.api.memories import MemoryVerbs
from kingly_memory.cognition import thoughts
from kingly_memory.cognition.agent_memory import SEEDS, CognitiveMemory, ExperienceRules
from kingly_memory.cognition.outcomes import ASSESSMENT_SIGNIFICANCE, OUTCOME_SIGNIFICANCE
from kingly_memory.cognition.thoughts import Thought
from kingly_memory.declare import CONTEXT, FACTS, OWN_TAGS, SIGNIFICANCE, Arg, example, verb
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Receipt
from kingly_memory.ports import LanguageModel

if TYPE_CHECKING:  # read by whoever compresses
    from kingly_memory.cognition.confidence import Assessment, Routing
    from kingly_memory.router.agents.consensus import ConsensusMemory
    from kingly_memory.router.agents.continuum import ContinuumMemory
    from kingly_memory.router.agents.debate import Debate
    from kingly_memory.router.agents.stream import MemoryStream
    from kingly_memory.router.agents.tasks import Task, TaskBook
    from kingly_memory.router.learning import Lesson


_TASK = ("task_description", "taskDescription", "task")
"""The names of the seeds for a task."""


class AgentVerbs(MemoryVerbs, LifecycleVerbs):
    """The verbs of agents, which rest on those of memories and upkeep."""

    # --- tasks --------------------------------------------------------------------------------------------------------

    def task(
        self,
        description: str,
        *,
        context_id: str | None = None,
        approach: str | None = None,
        significance: float = OUTCOME_SIGNIFICANCE,
        tags: Sequence[str] = (),
    ) -> Task:
        """A task under way: `async with memory.task("deploy the api", context_id="deploy-42") as task:`.

        Entering loads its context, leaving records what came of it; an exception is recorded as the reason of a failure
        and goes on. `approach` names who or what does it, for `route_task`. Raises InvalidInput.
        """
        return self._tasks.begin(
            description,
            context_id,
            approach=approach,
            significance=significance,
            tags=validation.tag_list("tags", tags),
        )

    @verb("task record", "record_task_outcome", "memory", "Record how a task ended")
    @example(
        '{"task": "migrate the users table", "status": "failed", "reason": "a lock timed out"}',
        "success local_id=id mcp_id=remote_id storage_layers=layers key revision delivery reason ends_at?",
    )
    async def record_task_outcome(
        self,
        task: Annotated[str, Arg("what was to be done, in a sentence", also=_TASK)],
        status: Annotated[str, Arg("how it ended", choices=("completed", "failed", "cancelled"))] = "completed",
        *,
        context_id: Annotated[str | None, CONTEXT] = None,
        approach: Annotated[str | None, Arg("how it was done, or by whom", "NAME")] = None,
        notes: Annotated[Sequence[str], Arg("what was learnt on the way", "TEXT", option="note")] = (),
        reason: Annotated[str | None, Arg("why it failed or was cancelled", "TEXT")] = None,
        duration_s: Annotated[float | None, Arg("seconds it took", "S", option="duration", least=0)] = None,
        significance: Annotated[float, SIGNIFICANCE] = OUTCOME_SIGNIFICANCE,
        tags: Annotated[Sequence[str], OWN_TAGS] = (),
        metadata: Annotated[Mapping[str, Any] | None, FACTS] = None,
    ) -> Receipt:
        """Record how a task ended, failures too: later assessments learn from it.

        `approach` names who or what did it. Raises InvalidInput, StoreError.
        """
        return await self._tasks.record(
            task,
            status,
            context_id=context_id,
            approach=approach,
            notes=notes,
            reason=reason,
            duration_s=duration_s,
            significance=significance,
            tags=tags,
            metadata=metadata,
        )

    @verb("confidence", "assess_task_confidence", "memory", "Assess a task")
    @example(
        '{"task_description": "migrate the users table"}',
        "confidence confidence_factors similar_tasks_count memory_informed evidence assessment_id source context",
    )
    async def assess_confidence(
        self,
        task: Annotated[
            str, Arg("what is to be done, in a sentence", tool="task_description", also=_TASK, is_sentence=True)
        ],
        context_id: Annotated[str | None, CONTEXT] = None,
        significance: float = ASSESSMENT_SIGNIFICANCE,
    ) -> Assessment:
        """Estimate how likely a task is to succeed, by how similar ones ended. Call it before you begin.

        The answer is 0 to 1, with what it rests on; docs/tasks.md has the rule. The assessment is stored as a
        procedural memory and never counts as evidence. With a context, what is at hand there comes along.
        `significance` is the assessment's: 0.3 or less keeps the task's text on this machine. Raises InvalidInput.
        """
        return await self._tasks.assess(task, context_id, significance)

    @verb("task route", reads=True)
    async def route_task(
        self,
        description: Annotated[str, Arg("what is to be done", "TASK")],
        candidates: Annotated[Sequence[str], Arg("who or what could do it", "CANDIDATE")],
    ) -> Routing:
        """Rank candidates (agents or approaches) by what came of similar tasks.

        Equals stay in the order given; one that was never tried scores 0.5. Raises InvalidInput.
        """
        return await self._tasks.route(description, candidates)

    @cached_property
    def _tasks(self) -> TaskBook:
        from kingly_memory.router.agents.tasks import TaskBook

        return TaskBook(self._engine, partial(self.working_context, include_related=False))

    # --- thoughts -----------------------------------------------------------------------------------------------------

    @verb("thought record", "record_thought", "thoughts", "Record a thought")
    @example(
        '{"content": "The cache is stale, since only reads after 10:00 fail", "thought_type": "hypothesis"}',
        "success id chain_id thought_type parent_id position chain mcp_id=remote_id storage_layers=layers delivery",
    )
    async def record_thought(
        self,
        content: Annotated[str, Arg("the thought")],
        *,
        chain_id: Annotated[
            str | None, Arg("the chain it goes on with; left out, a new one begins", "ID", "chain")
        ] = None,
        thought_type: Annotated[
            str, Arg("such as inference, hypothesis, evidence, decision", "TYPE", "type")
        ] = "inference",
        parent_id: Annotated[
            str | None, Arg("the thought it follows from, if not the last one", "THOUGHT", option="parent")
        ] = None,
        context_id: Annotated[str | None, CONTEXT] = None,
        significance: Annotated[float, SIGNIFICANCE] = 0.5,
    ) -> Thought:
        """Record one step of reasoning; the answer holds the chain so far, in order.

        It is a semantic memory with tags `thought`, its type and its chain. It follows the chain's last thought unless
        a parent is named. Without `chain_id` it goes on in its parent's chain, or begins a new one; a `chain_id` that
        is new begins that chain. Raises InvalidInput, StoreError.
        """
        from kingly_memory.router import linking

        engine = self._engine
        step = thoughts.step(
            content,
            chain_id=chain_id,
            thought_type=thought_type,
            parent_id=parent_id,
            context_id=engine.contexts.resolve_to_store(validation.label("context_id", context_id)),
            significance=significance,
        )
        thought, stored = await engine.write(linking.record(step, engine.write_context()))
        await engine.follow(stored)
        return thought

    @verb("thought list", reads=True)
    async def thoughts(self, chain_id: Annotated[str, Arg("id of the chain", "CHAIN", "chain")]) -> tuple[Thought, ...]:
        """Show a chain of thoughts in its order, archived ones included. Raises InvalidInput."""
        from kingly_memory.router import linking

        return await self._engine.read(lambda: linking.chain(self._engine.reader, self._engine.station, chain_id))

    # --- what agents remember -----------------------------------------------------------------------------------------

    async def compress_and_learn(
        self,
        content: str,
        memory_type: str = "outcome",
        significance: float | None = None,
        *,
        key: str | None = None,
        level: str | None = None,
        confidence: float | None = None,
        tags: Sequence[str] = (),
        title: str | None = None,
        context_id: str | None = None,
        origin: str = "agent",
        metadata: Mapping[str, Any] | None = None,
        language_model: LanguageModel | None = None,
    ) -> Lesson:
        """Remember a text by its summary: an `outcome` is episodic, `knowledge` semantic, a `heuristic` procedural.

        Summarised by `language_model`, else by that of KINGLY_LLM_URL, else by rules, to the `level` none, light,
        medium or aggressive. A text of significance 0.3 or less is shown to no model elsewhere. The whole text rests in
        the archive of this machine, linked to the summary, where `restore` and `search(include_archived=True)` find it.
        Raises InvalidInput, InvalidSetting, StoreError; LanguageModelError only where the settings require a model.
        """
        from kingly_memory.lifecycle import compression
        from kingly_memory.router import learning

        engine = self._engine
        await engine.opened()
        chosen = None if level is None else validation.choice("level", level, compression.CompressionLevel)
        original = validation.draft(
            content,
            type=compression.learned_as(memory_type).value,
            significance=significance,
            confidence=confidence,
            tags=tags,
            title=title,
            context_id=engine.contexts.resolve_to_store(validation.label("context_id", context_id)),
            origin=origin,
            metadata=metadata,
        )
        name = validation.label("key", key)
        return await learning.learn(engine, original, key=name, level=chosen, language_model=language_model)

    async def cognitive(self, agent_id: str | None = None, *, rules: ExperienceRules = SEEDS) -> CognitiveMemory:
        """What an agent remembers, as far as it is in the store, and the way to have it remember more:
        docs/agents.md. `agent_id` is the router's own agent unless another is named.

        Its verbs do not await: a change is in the store when its verb returns, or the verb raises and has changed
        nothing. Raises InvalidInput, StoreError.
        """
        from kingly_memory.router.agents.memory import AgentMemory

        memory = AgentMemory(self._named(agent_id), self._engine, rules)
        await self._engine.read(lambda: memory.holdings)
        return memory

    def stream(self, agent_id: str | None = None) -> MemoryStream:
        """What an agent lived through, in the order of time: docs/agents.md. `agent_id` is the router's own agent
        unless another is named. Raises InvalidInput, RouterClosed."""
        from kingly_memory.router.agents.stream import MemoryStream

        return MemoryStream(self._named(agent_id), self._engine)

    @cached_property
    def consensus(self) -> ConsensusMemory:
        """What the project's debates came to, and who would not agree: docs/agents.md."""
        from kingly_memory.router.agents.consensus import ConsensusMemory

        return ConsensusMemory(self._engine)

    def debate(self, topic: str) -> Debate:
        """A debate of several agents: `begin`, `criticise` and `hear` in each round, `conclude`; docs/agents.md.
        Nothing is stored before the first critique. Raises InvalidInput."""
        from kingly_memory.router.agents.debate import Debate

        return Debate(topic, self.continuum, self.consensus, self.stream)

    @cached_property
    def continuum(self) -> ContinuumMemory:
        """The project's memories by how near at hand they are: docs/agents.md."""
        from kingly_memory.router.agents.continuum import ContinuumMemory

        return ContinuumMemory(self._engine, self)

    def _named(self, agent_id: str | None) -> str:
        self._engine.check_open()
        agent = validation.label("agent_id", agent_id) or self._engine.station.agent
        if agent is None:
            raise InvalidInput("agent_id", "is missing; name an agent here, or when the memory is opened")
        return agent
