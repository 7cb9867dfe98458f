"""The verbs on what becomes of memories: sweeps, the archive, reinforcement, and how memories are doing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from kingly_memory import validation
from kingly_memory.api.family import Family
from kingly_memory.declare import BEFORE, KEY_OR_ID, LIMIT, Arg, example, verb
from kingly_memory.errors import InvalidInput, KeptForEveryProject, NothingUnder
from kingly_memory.lifecycle import compaction, decay
from kingly_memory.models import JsonObject, Memory, MemoryStatus, Query, project_and_user, whose

if TYPE_CHECKING:
    from kingly_memory.lifecycle.policies import WeakMemories
    from kingly_memory.ports import Space
    from kingly_memory.router.purging import Purged
    from kingly_memory.router.sweep.changes import Undone
    from kingly_memory.router.sweep.condition import ArchivePage, Condition
    from kingly_memory.router.sweep.steward import SweepReport


class LifecycleVerbs(Family):
    """The verbs of upkeep."""

    @verb("sweep", "memory_sweep", "lifecycle", "Sweep", destroys=True, repeatable=True, reads="dry_run")
    @example(
        '{"policies": ["strength"], "dry_run": true}',
        "success dry_run policies archived erased promoted demoted summarised summaries waiting spared skipped "
        "elsewhere reasons actions undo",
    )
    async def sweep(
        self,
        policies: Annotated[
            Sequence[str] | None,
            Arg(
                "lifetimes, strength, tiers; left out, lifetimes and what settings switch on", "POLICY", option="policy"
            ),
        ] = None,
        dry_run: Annotated[bool, Arg("only say what would happen", tool_default=True)] = False,
    ) -> SweepReport:
        """Archive what has ended, and archive or move what other policies want; a dry run says it first. What
        is archived can be restored.

        `policies` of lifetimes, strength and tiers; without, lifetimes and whatever the settings switch on.
        Lifetimes end in other projects of the home too (`elsewhere`), all else is of this one. Nothing but ended
        working memories is erased, the rest goes to the archive. `dry_run` reports the same plan without carrying it
        out. Raises InvalidInput, SweepUnderWay, StoreError.
        """
        chosen = self._engine.policies(policies)
        await self._engine.opened()
        return await self._engine.sweep(chosen, dry_run=dry_run)

    @verb("compact", "ai_compact", "ai", "Compact the threads", destroys=True, reads="dry_run")
    @example('{"strategy": "aggressive", "dry_run": true}', "strategy dry_run actions before after")
    async def compact(
        self,
        strategy: Annotated[
            str,
            Arg(
                "gentle (merges above 0.95, archives after 30 days, keeps 50), normal (0.85, 14 days, 30) or "
                "aggressive (0.75, 7 days, 15)",
                choices=(*compaction.COMPACTION_STRATEGIES,),
            ),
        ] = compaction.NORMAL,
        dry_run: Annotated[bool, Arg("only say what would happen")] = False,
    ) -> JsonObject:
        """Make room when there are too many threads: merge those alike, archive idle and excess ones, make the others
        lighter. A thread is what was said in one context. Nothing is lost: restoring brings memories back.

        Reports `{strategy, dry_run, actions, before, after}`. `undo_sweep` takes it back. Raises InvalidInput,
        SweepUnderWay, StoreError.
        """
        how = compaction.strategy(strategy)
        await self._engine.opened()
        await self._engine.flush()
        return await self._engine.sweeper.compact(how, self._engine.write_context(), dry_run=dry_run)

    async def undo_sweep(self) -> Undone:
        """Bring back what the project's last sweep or compaction archived and put back what it changed, but for what
        was touched since. Says how many `memories` and `threads` that were. Raises SweepUnderWay, StoreError.
        """
        await self._engine.opened()
        undone = await self._engine.sweeper.undo(self._engine.write_context())
        self._engine.wake()
        return undone

    @verb("archive add")
    async def archive(
        self,
        key_or_id: Annotated[str, KEY_OR_ID],
        reason: Annotated[str | None, Arg("why, to be read in the archive", "TEXT")] = None,
    ) -> Memory:
        """Put a memory away into the archive, whatever it is worth. One that lies there already stays as it is.

        `reason` is kept beside it, and `restore` brings it back. Raises InvalidInput where there is none, or it is
        pinned; StoreError.
        """
        from kingly_memory.router import feedback
        from kingly_memory.text.redaction import redact

        name = validation.required("key_or_id", key_or_id)
        reason = validation.label("reason", redact(reason).text if isinstance(reason, str) else reason)
        return await self._engine.write(feedback.put_away(name, reason, self._engine.write_context()))

    @verb("archive list", reads=True)
    async def archived(
        self, limit: Annotated[int, LIMIT] = 50, before: Annotated[int | None, BEFORE] = None
    ) -> ArchivePage:
        """List what lies in the archive, and why.

        The most recently stored come first. `before` continues a page. Raises InvalidInput.
        """
        most = validation.count("limit", limit, least=1, most=1_000)
        start = None if before is None else validation.count("before", before, least=0, most=2**62)
        return await self._engine.read(lambda: self._condition.archived(most, start))

    @verb("purge", destroys=True)
    async def purge(
        self,
        key_or_id: Annotated[str | None, KEY_OR_ID._replace(is_positional=True)] = None,
        *,
        tags: Annotated[
            Sequence[str] | None, Arg("every memory with this tag, or with all of several", option="tag")
        ] = None,
        context_id: Annotated[str | None, Arg("every memory of this conversation or task", "ID", "context")] = None,
        by_agent: Annotated[str | None, Arg("every memory that this agent stored", "NAME")] = None,
        whole_project: Annotated[
            bool, Arg("every memory, document and log of the project, of all users unless one is named")
        ] = False,
        user: Annotated[str | None, Arg("everything of this user, in every project", only="tool")] = None,
        force: Annotated[bool, Arg("pinned ones too")] = False,
        dry_run: Annotated[bool, Arg("only say how many and which")] = False,
    ) -> Purged:
        """Erase memories for good, here and on remotes; nothing restores them.

        Forgotten and archived ones go too: one memory, or all with a tag, of a context, of an agent, of the whole
        project, or of a `user` in every project of the home. The whole project is that of all its users, unless this is
        the view of one. Of what another home keeps only the copy here goes. Texts, titles, tags, keys, earlier
        revisions, passages, vectors, links and what an audit says of them go, out of free pages and logs of the store
        too. A tombstone without content stays under each id, so that no `restore` and no `import` brings it back. What
        is pinned goes only with `force`. Stores that a backup has replaced are named (`left_in`) and stay. Raises
        InvalidInput, and then purges nothing; StoreError, after which it can be repeated. What an interrupted one has
        erased leaves the files with the next purge, sweep or sync.
        """
        from kingly_memory.router import purging

        if whole_project not in (True, False):  # not even by mistake
            raise InvalidInput("whole_project", "is neither true nor false")
        choices = {"key_or_id": key_or_id, "tags": tags, "context_id": context_id, "by_agent": by_agent, "user": user}
        if tags is not None and not validation.tag_list("tags", tags):
            raise InvalidInput("tags", "are none; name one, or the whole project")
        if sum(value is not None for value in choices.values()) + whole_project != 1:
            raise InvalidInput(
                "key_or_id", "name one memory, or a tag, a context, an agent, a user or the whole project"
            )
        engine = self._engine
        await engine.opened()
        if not dry_run:
            await purging.scrub_rest(engine.services)
        whole = await self._whole(user) if whole_project or user is not None else []
        names = [space.name for space in whole]
        if key_or_id is not None:
            row = await engine.read(lambda: engine.view.find(key_or_id) or engine.view.remains(key_or_id))
            if row is None and await engine.read(lambda: engine.view.readable(key_or_id)) is not None:
                raise KeptForEveryProject(key_or_id)
            rows = [] if row is None else [row]
        elif whole_project or user is not None:
            queries = [Query("", name) for name in names]
            rows = await engine.read(lambda: list(purging.chosen(engine.reader, *queries)))
        else:
            query = validation.query("", space=engine.space, tags=tags, context_id=context_id, agent=by_agent)
            candidates = await engine.read(lambda: list(purging.chosen(engine.reader, query)))
            rows = [row for row in candidates if not row.is_tombstone]
        is_there = any(space.documents for space in whole) or not all(row.is_tombstone for row in rows)
        if user is not None and not is_there:
            raise InvalidInput("user", f"this home holds nothing of a user {validation.shown(user)!r}")
        if whole_project and not whole and project_and_user(engine.space)[1] is not None:
            raise InvalidInput("user", f"nothing was stored for {whose(engine.space)}")  # misspelt, perhaps
        if not rows and key_or_id is not None:
            raise NothingUnder(key_or_id)
        if not rows and not whole_project and user is None:
            ways = {"tags": "has the tag", "context_id": "is of the context", "by_agent": "is of the agent"}
            name = next(way for way in ways if choices[way] is not None)
            chosen = ", ".join(tags) if tags is not None else choices[name]
            raise InvalidInput(name, f"no memory of this project {ways[name]} {validation.shown(chosen)!r}")
        return await engine.purge(rows, names, force=force, dry_run=dry_run)

    async def _whole(self, user: str | None) -> list[Space]:
        """The spaces of a user in every project, or of everybody in this project; a view of one user has no others."""
        project, mine = project_and_user(self._engine.space)
        wanted = None if user is None else validation.required("user", user)
        spaces: list[Space] = []
        for space in await self._engine.read(self._engine.reader.spaces):
            its_project, owner = project_and_user(space.name)
            if mine in (None, owner) and (its_project == project if wanted is None else owner == wanted):
                spaces.append(space)
        return spaces

    # --- what users say of memories -----------------------------------------------------------------------------------

    @verb("reinforce", "alma_reinforce", "alma", "Hold against fading")
    @example(
        '{"memory_id": "deploy"}', "success memory_id new_strength=strength access_count=accesses state reinforcements"
    )
    async def reinforce(
        self,
        key_or_id: Annotated[
            str, Arg("id or key of the memory", "KEY_OR_ID", tool="memory_id", also=("memory_id", "key_or_id", "key"))
        ],
    ) -> JsonObject:
        """Hold a memory against fading: it was right, and will be needed again.

        Its lifetime begins anew. Answers with its strength and what that rests on. Raises InvalidInput, StoreError.
        """
        from kingly_memory.router import feedback

        await self._engine.flush()
        name = validation.required("key_or_id", key_or_id)
        reinforced = await self._engine.write(feedback.reinforce(name, self._engine.write_context()))
        strength = decay.explained(reinforced.vitals, self._engine.now_s(), self._engine.strength)
        return {"memory_id": reinforced.memory.id, **strength}

    # --- how memories are doing ---------------------------------------------------------------------------------------

    @verb("weak", reads=True)
    async def weak(self, agent: str | None = None) -> WeakMemories:
        """See which memories have faded and may be forgotten. Looking at them is no use of them.

        They are forgettable, recoverable by a use, or forgettable but protected.
        """
        await self._engine.opened()
        await self._engine.flush()
        return await asyncio.to_thread(self._condition.weak, self._engine.now_s(), validation.label("agent", agent))

    async def explain(self, key_or_id: str) -> JsonObject | None:
        """A memory's status, strength, uses, lifetime, tier, why it is in the archive, and where it stands with each
        remote (`remotes`: address, delivery, the remote's id of it); None when there is none. Does not count as a use.
        Raises InvalidInput."""
        engine = self._engine
        await engine.flush()
        row = await engine.read(lambda: engine.view.readable(key_or_id))
        if row is None or row.status is MemoryStatus.FORGOTTEN:
            return None
        now_s = engine.now_s()
        return await engine.read(lambda: self._condition.explained(row, now_s))

    @verb("stats", "get_memory_stats", "lifecycle", "See how memories do", reads=True)
    @example(
        "{}",
        "success tier_counts promotions_last_hour demotions_last_hour hit_rate searches avg_surprise_score "
        "strength archived",
    )
    async def stats(self) -> JsonObject:
        """See how many memories are in which tier and how strong they are.

        Also the moves of the last hour, how often a search finds something, and the average surprise.
        """
        from kingly_memory.router import activity

        engine = self._engine
        await engine.flush()
        now_s = engine.now_s()
        happened = await engine.read(lambda: activity.read(engine.reader, engine.space))
        return await asyncio.to_thread(self._condition.stats, happened, now_s)

    @cached_property
    def _condition(self) -> Condition:
        from kingly_memory.router.sweep.condition import Condition

        engine = self._engine
        return Condition(engine.reader, engine.space, engine.strength, engine.settings.tiers)
