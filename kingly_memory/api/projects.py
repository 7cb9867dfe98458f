"""The verbs on the projects of a home."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

from kingly_memory import validation
from kingly_memory.api.family import Family
from kingly_memory.declare import Arg, verb
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Query, project_and_user, space_of
from kingly_memory.router import projects
from kingly_memory.router.projects import Moved, Project

if TYPE_CHECKING:
    from kingly_memory.ids import MemoryId
    from kingly_memory.ports import Space
    from kingly_memory.router.purging import Purged

_FROM = Arg("the project as it is called now", "NAME")


class Projects(Family):
    """The projects of the home, each with everybody's memories in it; a view of one user sees and changes that user's
    alone."""

    @verb("projects list", reads=True)
    async def list(self) -> tuple[Project, ...]:
        """Show every project of the home: how much is in it, when it last changed, and whose it is.

        Raises StoreError.
        """
        used = [one for one in await self._spaces() if one.is_used]
        return projects.projects(used, await self._engine.read(self._engine.view.known_damaged))

    @verb("projects rename")
    async def rename(self, old: Annotated[str, _FROM], new: Annotated[str, Arg("its new name", "NEW")]) -> Moved:
        """Give a project another name, which no project has yet.

        What remotes have under the old name is forgotten there and sent again under the new one. One that was
        interrupted goes on with `merge`. Raises InvalidInput, InvalidSetting, StoreError.
        """
        end = validation.required("new", new)
        if any(one.is_used and project_and_user(one.name)[0] == end for one in await self._spaces()):
            raise InvalidInput("new", f"there is a project {validation.shown(end)!r}; merge them, or take another name")
        return await self._move("old", old, end, is_renamed=True)

    @verb("projects merge", destroys=True)
    async def merge(
        self, source: Annotated[str, _FROM], into: Annotated[str, Arg("the project that it becomes part of", "INTO")]
    ) -> Moved:
        """Make a project part of another one.

        Where both have a memory of one key, they become one: what was said later is its text, and everything else that
        either said is in its history. Of two documents of one name the earlier gets the project's name behind its own,
        and logs of one session become one, by when their items were appended. Raises InvalidInput, StoreError.
        """
        return await self._move("source", source, validation.required("into", into))

    @verb("projects remove", destroys=True)
    async def remove(
        self,
        name: Annotated[str, _FROM],
        *,
        force: Annotated[bool, Arg("pinned ones too")] = False,
        dry_run: Annotated[bool, Arg("only say how many and which")] = False,
    ) -> Purged:
        """Purge a project: every memory, document and log in it goes for good, as `purge` does it. Raises InvalidInput,
        StoreError."""
        from kingly_memory.router import purging

        engine = self._engine
        await engine.opened()
        if not dry_run:
            await purging.scrub_rest(engine.services)
        whole = await self._spaces_of("name", name)
        queries = [Query("", space) for space in whole]
        rows = await engine.read(lambda: list(purging.chosen(engine.reader, *queries)))
        return await engine.purge(rows, whole, force=force, dry_run=dry_run)

    async def _spaces(self) -> Sequence[Space]:
        user = project_and_user(self._engine.space)[1]
        spaces = await self._engine.read(self._engine.reader.spaces)
        return [one for one in spaces if user in (None, project_and_user(one.name)[1])]

    async def _spaces_of(self, field: str, name: str) -> Sequence[str]:
        wanted = validation.required(field, name)
        spaces = await self._spaces()
        names = [one.name for one in spaces if project_and_user(one.name)[0] == wanted]
        if not names:
            used = (project_and_user(one.name)[0] for one in spaces if one.is_used)
            existing = sorted({project for project in used if project is not None})
            choices = (
                f"there is {', '.join(repr(validation.shown(one)) for one in existing)}"
                if existing
                else "there is none"
            )
            raise InvalidInput(field, f"this home has no project {validation.shown(wanted)!r}; {choices}")
        return names

    async def _move(self, field: str, name: str, end: str, *, is_renamed: bool = False) -> Moved:
        engine, spaces = self._engine, await self._spaces_of(field, name)
        if name == end:
            raise InvalidInput(field, f"{validation.shown(name)!r} cannot become part of itself; name another project")
        await engine.flush()
        if is_renamed and project_and_user(engine.space)[1] is None:  # what others have there stays with their remotes
            await engine.read(partial(engine.runtime.remotes_follow, name, end))
        memories = documents = merged = 0
        for start in spaces:
            to = space_of(end, project_and_user(start)[1])
            seen: set[MemoryId] = set()
            # Another process may store under the old name meanwhile: whoever is there at the end is taken too.
            while ids := await engine.read(partial(projects.left, engine.reader, start, but=seen)):
                seen.update(ids)
                for at in range(0, len(ids), projects.AT_ONCE):
                    some = ids[at : at + projects.AT_ONCE]
                    done = await engine.write(projects.move(some, start, to, engine.write_context()))
                    memories, merged = memories + done.memories, merged + done.merged
                    engine.wake()
            documents += await engine.write(projects.move_rest(start, to, engine.clock.now()))
        return Moved(end, memories, documents, merged)
