"""The verbs on memories: store, search, get, list, forget, and taking many in and out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

from kingly_memory import validation
from kingly_memory.api.choices import AssistName, DetailName, ModeName, TypeName
from kingly_memory.api.family import Family
from kingly_memory.cognition import links
from kingly_memory.cognition.context import CURRENT, WorkingContext
from kingly_memory.cognition.links import Link
from kingly_memory.dataclass import replace
from kingly_memory.declare import BEFORE, CONTEXT, FACTS, KEY_OR_ID, LIMIT, OWN_TAGS, SIGNIFICANCE, Arg, example, verb
from kingly_memory.errors import InvalidInput, RevisionConflict
from kingly_memory.filters import Filter
from kingly_memory.imported import Beside, FoundNotes, NoteLinks, NotesPlan, NoteStep, SameFolder
from kingly_memory.models import (
    DEEP_KINDS,
    KINDS,
    QUICK_KINDS,
    Assist,
    Memory,
    MemoryStatus,
    MemoryType,
    Origin,
    Page,
    Receipt,
    Results,
    RetrievalMode,
    Taken,
    project_and_user,
    space_of,
)
from kingly_memory.observe import MemoriesFound
from kingly_memory.ports import LanguageModel
from kingly_memory.validation import USUAL, Draft, Imported, Ttl

if TYPE_CHECKING:  # read by whoever has memories checked, documents or logs
    from kingly_memory.api.documents import Documents
    from kingly_memory.api.graph import Graph
    from kingly_memory.api.projects import Projects
    from kingly_memory.api.session_log import SessionLog
    from kingly_memory.attention.statements import Message
    from kingly_memory.documents import LogSession
    from kingly_memory.retrieval.verification import VerifiedResults
    from kingly_memory.router.view import Happened

IMPORT_BATCH = 200
_OF_A_STORE = frozenset("content key type significance confidence tags title context_id origin metadata ttl".split())
_Item = TypeVar("_Item")
USUALLY_VERIFIED = 5
"""Memories that a verified search answers with unless it is told how many (seed 000)."""
MOST_GOT = 20
MOST_HAPPENED = 1_000
LONGEST_WAIT_S = 60.0
"""A host gives up on a call about then."""
BUDGET_TOKENS = 2_000
"""What a search may take of a model's context unless it is told: ten usual memories, whole."""

_KINDS = (*MemoryType, *KINDS)
_TYPES = Arg("only these types", "TYPE", option="type", tool="memory_types", choices=_KINDS)
_TAGS = Arg("only with all of these tags", "TAG", option="tag")
_SINCE = Arg(
    "only from this ISO 8601 date or time on (UTC)",
    "TIME",
    command_words="only from then on: a date or time in UTC, yesterday, or 7d for a week ago",
)
_UNTIL = Arg(
    "only up to this ISO 8601 time, or the end of that day (UTC)",
    "TIME",
    command_words="only up to then, or to the end of that day; as --since",
)
_ANY_TAGS = Arg("only with one of these tags", "TAG", option="any_tag")
_ORIGIN = Arg("only what came from there", "WHO", choices=tuple(Origin))
_FILTER = Arg('fields that the metadata must have, such as {"score": {"$gt": 3}}', "JSON", type="object")
_ONE_CONTEXT = Arg("only this conversation or task", "ID", option="context")
_TTL = Arg(
    "when it ends, from now: 30m, 12h, 7d, seconds, or never",
    "TIME",
    type="number or text",
    tool_default=None,
    command_default=None,
)
_IF_REVISION = Arg("only if the memory is at this revision still; 0: if there is none", "N", least=0)
_UNSAID = "unsaid"
"""In the place of a text that stays as it is."""


def _revision(name: str, value: object, least: int = 1) -> int | None:
    return None if value is None else validation.count(name, value, least=least, most=validation.LARGEST_REVISION)


class MemoryVerbs(Family):
    """The verbs on memories."""

    @cached_property
    def documents(self) -> Documents:
        """JSON or text under a namespace and a key: no memory, found by name, field or word, and in no recall."""
        from kingly_memory.api.documents import Documents

        return Documents(self._engine)

    @cached_property
    def graph(self) -> Graph:
        """A knowledge graph of entities, observations and relations, which are memories."""
        from kingly_memory.api.graph import Graph

        return Graph(self._engine)

    @cached_property
    def projects(self) -> Projects:
        """The projects of the home: which there are; rename one, merge two, remove one."""
        from kingly_memory.api.projects import Projects

        return Projects(self._engine)

    def log(self, session: str) -> SessionLog:
        """The items of one session in order, exactly as they were appended; in no recall. Raises InvalidInput."""
        from kingly_memory.api.session_log import SessionLog

        return SessionLog(self._engine, validation.required("session", session))

    async def logs(self) -> tuple[LogSession, ...]:
        """Every session of the project whose log has items, by name. Raises StoreError."""
        engine = self._engine
        return tuple(await engine.read(lambda: engine.reader.documents.sessions(engine.space)))

    @verb("store", "memory_intelligent_store", "memory", "Store a memory", destroys=True)
    @example(
        '{"key": "deploy", "content": "Deploys need two reviews", "significance": 0.8}',
        "success local_id=id mcp_id=remote_id storage_layers=layers key revision delivery reason sightings? secrets? "
        "ends_at?",
    )
    async def store(
        self,
        content: Annotated[str, Arg("what to remember, understandable on its own", is_sentence=True, reads_input=True)],
        key: Annotated[
            str | None,
            Arg("only for what you may correct: storing it again is a new revision"),
        ] = None,
        type: Annotated[
            TypeName | None,
            Arg(
                "semantic: a fact; procedural: how something is done; episodic: what happened; "
                "working: only for this task",
                tool="memory_type",
                choices=_KINDS,
                usual="semantic",
            ),
        ] = None,
        significance: Annotated[float | None, SIGNIFICANCE._replace(usual=0.5)] = None,
        confidence: Annotated[float | None, Arg("how sure it is", least=0, most=1, usual=0.5)] = None,
        tags: Annotated[Sequence[str], OWN_TAGS] = (),
        title: Annotated[str | None, Arg("a short title", "TEXT")] = None,
        context_id: Annotated[str | None, CONTEXT] = None,
        origin: Annotated[
            str,
            # not user: only what a person's own command or prompt says is the user's
            Arg(
                "web or tool: copied from a web page or a tool's output",
                choices=("agent", "tool", "web"),
                is_closed=True,
                only="tool",
            ),
        ] = "agent",
        metadata: Annotated[Mapping[str, Any] | None, FACTS] = None,
        ttl: Annotated[Ttl, _TTL._replace(words=f"{_TTL.words}; left out, as its type says")] = USUAL,
        wait: Annotated[
            float | None, Arg("seconds to wait for the remote's acknowledgement", "S", least=0, most=LONGEST_WAIT_S)
        ] = None,
        require_remote: Annotated[
            bool, Arg("fail when the remote has not acknowledged in time", only="command")
        ] = False,
        if_revision: Annotated[int | None, _IF_REVISION] = None,
    ) -> Receipt:
        """Store one fact, decision, preference or lesson. It is on this machine's disk when this returns.

        It is searchable then, whatever the remote does. A key that the project has already gets a new revision,
        whichever agent stored it, and `history` shows what it said before. What you do not say (type, title, …) stays
        as it was, tags and significance only where the agent is the same; `tags=[]` takes all tags away. A new memory
        is semantic, with significance and confidence 0.5, unless you say otherwise. `if_revision` is the revision that
        you have read, 0 for none: RevisionConflict is raised, and nothing stored, when another one came between.

        Without a key the same text is the same memory as long as that lives, where title, type, metadata, origin, agent
        and context are the same too: it keeps the tags of both, the higher significance and confidence that were said,
        and the later end. `sightings` of the receipt and of `get` count how often it was stored.

        `type` is semantic, episodic, procedural or working, or a kind, which is a type with a lifetime. `ttl` says when
        the memory ends, counted from now: seconds, a timedelta, a text such as "7d", or None for never. Not given, a
        memory has no end, but for working ones (30 minutes after their last use) and kinds. What has ended goes to the
        archive; working memories are erased. The receipt's `ends_at` says when that is.

        Above significance 0.3 the memory is delivered to the remote in the background: `wait` seconds for that, or
        `require_remote=True` to raise RemoteUnavailable (with the receipt) when it is not there by then (5 s if `wait`
        is not given). Raises InvalidInput, StoreError.
        """
        draft = validation.draft(
            content,
            key=key,
            type=type,
            significance=significance,
            confidence=confidence,
            tags=tags,
            title=title,
            context_id=context_id,
            origin=origin,
            metadata=metadata,
            ttl=ttl,
        )
        usual_s = self._engine.settings.call_timeout_s if require_remote else 0.0
        wait_s = usual_s if wait is None else validation.seconds("wait", wait)
        expected = _revision("if_revision", if_revision, least=0)
        return await self._engine.put_at_remotes(draft, wait_s, require=require_remote, if_revision=expected)

    @verb("update", "memory_update", "lifecycle", "Change a memory", destroys=True)
    @example(
        '{"key_or_id": "deploy", "tags": ["release"], "significance": 0.9}',
        "success local_id=id mcp_id=remote_id storage_layers=layers key revision delivery reason ends_at?",
    )
    async def update(
        self,
        key_or_id: Annotated[str, KEY_OR_ID],
        content: Annotated[str | None, Arg("another text", "TEXT", is_positional=True, reads_input=True)] = None,
        type: Annotated[TypeName | None, Arg("another type", tool="memory_type", choices=_KINDS)] = None,
        significance: Annotated[float | None, SIGNIFICANCE] = None,
        confidence: Annotated[float | None, Arg("how sure it is", least=0, most=1)] = None,
        tags: Annotated[Sequence[str] | None, OWN_TAGS._replace(words="all the tags it then has")] = None,
        title: Annotated[str | None, Arg("a short title", "TEXT")] = None,
        metadata: Annotated[Mapping[str, Any] | None, FACTS] = None,
        ttl: Annotated[Ttl, _TTL] = USUAL,
        if_revision: Annotated[int | None, _IF_REVISION] = None,
        origin: str = "agent",
    ) -> Receipt | None:
        """Change what you say of a memory and nothing else, as a new revision of it.

        The rest stays as it was, its author too unless the text is new: then `origin` says whose that is. It is live
        again if it lay in the archive. None when there is none. `ttl` and `if_revision` as in `store`. Raises
        InvalidInput (KeptForEveryProject as in `forget`), RevisionConflict, StoreError.
        """
        name, expected = validation.required("key_or_id", key_or_id), _revision("if_revision", if_revision)
        draft = validation.draft(
            _UNSAID if content is None else content,
            type=type,
            significance=significance,
            confidence=confidence,
            tags=() if tags is None else validation.tag_list("tags", tags) or [],
            title=title,
            origin=origin,
            metadata=metadata,
            ttl=ttl,
        )
        of_a_text = {"content", "origin", "agent"} if content is None else set()
        draft = replace(draft, unsaid=draft.unsaid | {"key"} | of_a_text)
        from kingly_memory.router import write

        began_s = self._engine.clock.monotonic()
        stored = await self._engine.write(write.update(name, draft, self._engine.write_context(), expected))
        if stored is None:
            return None
        await self._engine.follow(stored, began_s=began_s)
        return stored.receipt

    @verb("search", "memory_hybrid_search", "memory", "Search memories", reads=True)
    @example(
        '{"query": "who reviews a deploy", "limit": 5}',
        "success results count excluded source failures repaired asked took_ms",
    )
    async def search(
        self,
        query: Annotated[str, Arg("what to look for, in plain words", is_sentence=True, reads_input=True)],
        limit: Annotated[
            int,
            Arg(
                "how many at most",
                "N",
                command_words="how many to show (default 10, or what suits the mode)",
                least=1,
                most=validation.RESULTS_LIMIT,
                command_default=None,
            ),
        ] = 10,
        types: Annotated[Sequence[TypeName] | None, _TYPES] = None,
        tags: Annotated[Sequence[str] | None, _TAGS] = None,
        agent: Annotated[str | None, Arg("only what this agent stored", only="tool")] = None,
        context_id: Annotated[str | None, _ONE_CONTEXT] = None,
        since: Annotated[datetime | str | None, _SINCE] = None,
        until: Annotated[datetime | str | None, _UNTIL] = None,
        prefer_speed: Annotated[
            bool,
            Arg(
                "ask the remote only if this machine finds nothing",
                command_words="by words alone, and do not ask the remote when this machine has an answer",
            ),
        ] = False,
        include_semantic: Annotated[
            bool,
            Arg(
                "ask the remote too",
                option="semantic",
                also=("semantic",),
                command_words="ask the remote for memories of similar meaning",
            ),
        ] = True,
        include_archived: Annotated[bool, Arg("search archived ones too", option="archived")] = False,
        include_linked: Annotated[bool, Arg("show linked memories", only="tool")] = False,
        any_tags: Annotated[Sequence[str] | None, _ANY_TAGS] = None,
        origin: Annotated[Sequence[str] | None, _ORIGIN] = None,
        filter: Annotated[Filter | None, _FILTER] = None,
        mode: Annotated[
            ModeName | None,
            Arg("what it is for; auto: the question decides", choices=(*RetrievalMode, "auto"), only="command"),
        ] = None,
        top_k: int | None = None,
        min_confidence: Annotated[
            float | None, Arg("only memories at least that sure", least=0, most=1, only="command")
        ] = None,
        min_similarity: Annotated[
            float | None, Arg("least likeness of hits without the words", least=0, most=1, only="command")
        ] = None,
        fold: Annotated[bool, Arg("fold memories that say the same into one", only="command")] = True,
        detail: Annotated[
            DetailName,
            Arg("how much of each memory; titles cost least", "HOW", choices=(*validation.DETAILS,), only="tool"),
        ] = "full",
        budget_tokens: Annotated[
            int | None,
            Arg(
                "most tokens of the results, about",
                "N",
                least=1,
                most=validation.MOST_TOKENS,
                tool_default=BUDGET_TOKENS,
                only="tool",
            ),
        ] = None,
        min_relevance: Annotated[float | None, Arg("leave out less relevant ones", least=0, most=1)] = None,
        by_ranks: bool = False,
        after: str | None = None,
        assist: Annotated[
            AssistName | None, Arg("what a language model does for it", "WHAT", choices=(*Assist,), only="command")
        ] = None,
        language_model: LanguageModel | None = None,
    ) -> Results:
        """Find memories by words and meaning, best first. What exceeds the budget is shown as a passage or a title.

        Every layer is asked that answers within 200 ms. When nothing that is alive answers, memories that have ended
        do, and these hits say `archived`.

        `prefer_speed` is content with the local layer when that finds anything; `include_semantic=False` never asks
        the remote, and no more does a search for kinds alone that are wanted at once (task_status, current_context,
        quick_lookups). `include_linked` adds the memories linked to each hit. `tags` must all be present, and one of
        `any_tags`; `since` and `until` bound `created_at`; `origin` names who may have said it; `filter` names fields
        of the metadata: `{"status": "open", "score": {"$gt": 3}}`, with $eq, $ne, $gt, $gte, $lt, $lte and $in.

        `mode` says what the search is for (broad, precise, diagnostic, learning, recall; `auto` asks the question), and
        with it how many hits, in which order: docs/search.md. `top_k`, `min_confidence` and `min_similarity` override
        what the mode says; without a mode they leave the plain order as it is. With the setting `verification_enabled`
        a search in a mode also checks what it finds (`verdicts`), which takes longer.

        Hits that say the same are one hit, and `folded` names the others, unless `fold` is off. `detail` shows titles,
        passages or all of each memory, and `budget_tokens` as much of the best hits as fits, all together: `shown`.
        A hit below 0.32 is `weak`: chance words may explain it. `min_relevance` leaves out what lies below it. Of two
        hits of which the later says the other anew the later stands first, and the other is `superseded_by` it.
        `by_ranks` has the list in the order of reciprocal rank fusion; a mode has an order of its own.

        `next` of the results, given as `after`, asks for the next page: the best of what no page before has shown,
        whatever was stored or corrected meanwhile. It is None behind the last page, which may be empty, and after 1,000
        memories.

        `assist` has a language model help: `rewrite` looks up to three other wordings of the question up too
        (`reworded`), `rerank` puts the best twenty hits in order, `both` does both; unless it is said the setting
        `search_assist` holds. Asked is `language_model`, else that of KINGLY_LLM_URL, for `search_assist_s` at most;
        without an answer of use the search goes on without, and `failures` says why. Raises InvalidInput.
        """
        from kingly_memory.router.context_gather import RELATED_LIMIT
        from kingly_memory.router.search.search import continuing, plan, request

        asked = validation.query(
            query,
            space=self._engine.space,
            wide=True,
            needs_words=True,
            limit=limit,
            types=types,
            tags=tags,
            agent=agent,
            context_id=context_id,
            since=since,
            until=until,
            any_tags=any_tags,
            origin=origin,
            filter=filter,
            include_archived=include_archived,
        )
        in_mode = plan(
            asked.text,
            mode,
            settings=self._engine.settings,
            limit=asked.limit,
            top_k=top_k,
            min_confidence=min_confidence,
            min_similarity=min_similarity,
        )
        assisted = validation.choice("assist", assist or self._engine.settings.search_assist, Assist)
        if in_mode is not None and assist is not None and assisted is not Assist.NONE:
            raise InvalidInput(
                "assist", "does not go with a mode, which has an order of its own; leave one of them out"
            )
        how = request(fold, detail, budget_tokens, by_ranks, min_relevance, plan=in_mode)
        kinds = {types} if isinstance(types, str) else set(types or ())
        results = await self._engine.find(
            continuing(
                asked,
                how,
                after,
                prefer_speed=prefer_speed and not kinds & DEEP_KINDS.keys(),
                include_semantic=include_semantic and not (kinds and kinds <= QUICK_KINDS.keys()),
            ),
            how,
            assist=assisted if in_mode is None else Assist.NONE,
            language_model=language_model,
            is_search=True,
        )
        if not include_linked:
            return results
        ids = [hit.memory.id for hit in results]
        view = self._engine.view
        return replace(results, linked=await self._engine.read(lambda: view.linked(ids, RELATED_LIMIT)))

    async def search_verified(
        self,
        query: str,
        top_k: int | None = None,
        ground_truth: Sequence[str] | None = None,
        cross_verify: bool = True,
        *,
        agent: str | None = None,
        context_id: str | None = None,
        types: Sequence[TypeName] | None = None,
        tags: Sequence[str] | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        any_tags: Sequence[str] | None = None,
        origin: Sequence[str] | None = None,
        filter: Filter | None = None,
        include_archived: bool = False,
        include_semantic: bool = True,
        language_model: LanguageModel | None = None,
        mode: ModeName | None = None,
        min_confidence: float | None = None,
        min_similarity: float | None = None,
        fold: bool = True,
    ) -> VerifiedResults:
        """The memories that answer the query, at most `top_k`, as verified, uncertain, contradicted or unverifiable.

        `ground_truth` are texts known to be right; without them each memory is held against those most like it, unless
        `cross_verify` is off. Judged by `language_model`, else by that of KINGLY_LLM_URL, else by words, numbers and
        negations: docs/search.md. Without a mode five memories are answered unless you say how many, the best of
        four times as many that are checked; in a mode (see `search`) the hits of that mode are checked. Of those that
        say the same the surest stands for all, unless `fold` is off. Raises InvalidInput, InvalidSetting; a model that
        fails leaves memories uncertain.
        """
        from kingly_memory.router.search.search import Request, plan

        engine, settings = self._engine, self._engine.settings
        await engine.opened()
        asked = validation.query(
            query,
            space=engine.space,
            wide=True,
            needs_words=True,
            types=types,
            tags=tags,
            agent=agent,
            context_id=context_id,
            since=since,
            until=until,
            any_tags=any_tags,
            origin=origin,
            filter=filter,
            include_archived=include_archived,
        )
        in_context = engine.contexts.resolve(asked.context_id)
        asked = replace(asked, context_id=in_context, include_semantic=include_semantic)
        is_in_mode = (mode, min_confidence, min_similarity) != (None, None, None)
        in_mode = plan(
            asked.text,
            mode,
            settings=settings,
            limit=asked.limit,
            top_k=top_k if is_in_mode else None,
            min_confidence=min_confidence,
            min_similarity=min_similarity,
        )
        async with engine.model(language_model) as (model, is_here):
            retriever = engine.retriever(model, is_here)
            if in_mode is None:
                wanted = USUALLY_VERIFIED if top_k is None else top_k
                results = await retriever.retrieve_verified(asked, wanted, ground_truth, cross_verify, fold=fold)
            else:
                candidates = await engine.searching.find(asked, Request(fold, plan=in_mode))
                results = await retriever.verify(
                    candidates, asked.text, in_mode.config.top_k, ground_truth, cross_verify
                )
        engine.note_found([one.memory.id for one in results])
        engine.services.emit(
            MemoriesFound(
                str(results.metadata["source"]),
                results.metadata["took_ms"],
                asked.text,
                tuple((one.memory, one.retrieval_score) for one in results),
            )
        )
        return results

    @verb("get", "memory_get", "memory", "Read a memory", reads=True)
    @example('{"key_or_id": "deploy"}', "success memory? memories? missing?")
    async def get(
        self,
        key_or_id: Annotated[
            str,
            Arg(
                f"key or id, or a list of up to {MOST_GOT}",
                "KEY_OR_ID",
                most=MOST_GOT,
                type="text or texts",
                command_words="key or id of the memory",
            ),
        ],
        revision: Annotated[int | None, Arg("what it said as that revision", "N", only="command")] = None,
    ) -> Memory | None:
        """Read whole memories by key or id.

        None where there is none, also when it has ended or lies in the archive. `ends_at` says when it ends. Counts as
        a use. Raises InvalidInput on a hostile name, RecordDamaged where the disk has changed it.

        `revision` shows what it said as that one, also when it has ended or lies in the archive, and is no use of it.
        """
        number = _revision("revision", revision)
        memory = await self._engine.read(lambda: self._engine.view.get(key_or_id, number))
        if memory is not None and number is None:
            self._engine.usage.note([memory.id], self._engine.now_s())
        return memory

    @verb("list", reads=True)
    async def list(
        self,
        limit: Annotated[int, LIMIT] = 50,
        before: Annotated[int | None, BEFORE] = None,
        types: Annotated[Sequence[TypeName] | None, _TYPES] = None,
        tags: Annotated[Sequence[str] | None, _TAGS] = None,
        agent: str | None = None,
        context_id: Annotated[str | None, _ONE_CONTEXT] = None,
        include_archived: Annotated[bool, Arg("show archived memories as well", option="archived")] = False,
        forgotten: Annotated[bool, Arg("show what was forgotten instead, which `restore` brings back")] = False,
        since: Annotated[datetime | str | None, _SINCE] = None,
        until: Annotated[datetime | str | None, _UNTIL] = None,
        any_tags: Annotated[Sequence[str] | None, _ANY_TAGS] = None,
        origin: Annotated[Sequence[str] | None, _ORIGIN] = None,
        filter: Annotated[Filter | None, _FILTER] = None,
    ) -> Page:
        """List memories, the latest first; assessments of tasks only with the tag confidence_assessment.

        `before` takes the previous page's `next_before`.
        """
        engine = self._engine
        query = validation.query(
            "",
            space=engine.space,
            wide=True,
            limit=limit,
            types=types,
            tags=tags,
            agent=agent,
            context_id=context_id,
            include_archived=include_archived,
            since=since,
            until=until,
            any_tags=any_tags,
            origin=origin,
            filter=filter,
        )
        if query.context_id is not None:
            query = replace(query, context_id=engine.contexts.resolve(query.context_id))
        return await engine.read(lambda: engine.view.page(query, before, forgotten=forgotten))

    @verb("forget", "memory_forget", "memory", "Forget a memory", destroys=True)
    @example('{"key_or_id": "deploy"}', "success id key restore")
    async def forget(self, key_or_id: Annotated[str, KEY_OR_ID]) -> Memory | None:
        """Forget a memory, here and on the remote. A person can restore it.

        It is out of sight here at once, on the remote when that answers, and out of the summaries that tell of it.
        None when there is none. `restore` brings it back. What is kept for every project is changed where it is kept,
        in `scoped(project=None)`: KeptForEveryProject is raised, as by every verb that changes a memory.
        """
        gone = await self._engine.forget([validation.required("key_or_id", key_or_id)])
        return gone[0] if gone else None

    # --- many at once -------------------------------------------------------------------------------------------------

    async def store_many(self, memories: Iterable[str | Mapping[str, Any]]) -> tuple[Receipt, ...]:
        """Store up to 10,000 memories in one transaction: all of them or, when one cannot be stored, none.

        Each is a text, or a mapping of what `store` takes: `{"content": "…", "key": "…", "tags": […], "ttl": "7d"}`,
        all but `wait`, `require_remote` and `if_revision`. Answers with their receipts, in order. Raises InvalidInput,
        which names the memory by its place; StoreError.
        """
        drafts = [self._draft_of(place, one) for place, one in enumerate(_at_most(memories, "memories"))]
        return tuple(await self._engine.put_all(drafts))

    def _draft_of(self, place: int, memory: str | Mapping[str, Any]) -> Draft:
        if not isinstance(memory, str | Mapping):
            raise InvalidInput(f"memories[{place}]", "is neither a text nor a mapping; nothing was stored")
        given = {"content": memory} if isinstance(memory, str) else dict(memory)
        try:
            if unknown := given.keys() - _OF_A_STORE:
                raise InvalidInput(min(map(str, unknown)), "is nothing that `store` takes")
            return validation.draft(given.pop("content", None), **given)
        except InvalidInput as error:
            raise InvalidInput(f"memories[{place}].{error.field}", f"{error.problem}; nothing was stored") from None

    async def capture(
        self,
        turns: Sequence[Mapping[str, Any]],
        *,
        user: str | None = None,
        context_id: str | None = None,
        merge: bool = False,
        language_model: LanguageModel | None = None,
    ) -> tuple[Memory, ...]:
        """Store what a conversation says that is worth keeping: preferences, decisions, deadlines, corrections, facts.

        `turns` are `{"role": "user" or "assistant", "content": text}`, as models take them; other roles are left out.
        What the user says has the origin user; what a reply concludes is `derived`. Questions, orders, guesses, code,
        and what is quoted or pasted are not kept, secrets are taken out, and nothing is stored twice: the same turns
        may come again. With `user` it is that user's. Answers with what is new, in the order it was said.

        Rules decide what is kept. Where there is a model, `language_model` or else that of KINGLY_LLM_URL, it says
        which of the user's other sentences are kept too, within ten seconds. With `merge` it also joins what is nearly
        the same as an earlier statement to that, as a new revision with the origin derived; `history` has the earlier
        one and `restore` brings it back. Raises InvalidInput, StoreError; a model that fails leaves it to the rules.
        """
        station = self._engine.station
        if user is not None:
            project, _ = project_and_user(station.space)
            station = station._replace(space=space_of(project, validation.label("user", user)))
        context = validation.label("context_id", context_id) or station.context_id
        engine = self._engine if station.space == self._engine.space else self._engine.scoped(station)
        await engine.opened()

        def read_turns() -> list[Message]:  # in a thread, also what it imports: compiling the rules takes a while
            from kingly_memory.router import capturing, extracting  # noqa: F401

            return capturing.messages(turns)

        messages = await engine.read(read_turns)
        from kingly_memory.router import capturing, extracting

        also = await extracting.extracted(engine, messages, language_model)

        from kingly_memory.router.search.local import LocalSearch

        settings, layer, now_s = engine.settings, LocalSearch(engine.services.reader), engine.now_s()

        def alike(text: str) -> list[Memory]:
            query = validation.query(text, space=station.space, limit=capturing.LOOKED_AT)
            return [hit.memory for hit in layer.search(query, now_s=now_s, budget_s=settings.local_search_s).hits]

        def new() -> list[Imported]:
            from kingly_memory.attention.statements import statements

            found = capturing.news(list(statements(messages, also)), settings.capture_most, alike)
            entries = [capturing.entry(one, context, station.space, station.agent) for one in found]
            return [one for one in entries if engine.view.get(one.id or "") is None]

        entries, verbs = await engine.read(new), type(self)(engine)
        ids: list[str] = []
        for statement in await extracting.merged(engine, entries, language_model, alike) if merge else ():
            with suppress(RevisionConflict):  # somebody has said it anew meanwhile: then the statement stands apart
                into, revision = statement.into.id, statement.into.revision
                if await verbs.update(into, statement.text, if_revision=revision, origin=Origin.DERIVED) is not None:
                    entries.remove(statement.entry)
                    ids.append(into)
        await verbs.remember(entries)
        ids += [one.id for one in entries if one.id is not None]
        return tuple(memory for name in ids if (memory := engine.view.get(name)) is not None)

    async def get_many(self, keys_or_ids: Iterable[str]) -> dict[str, Memory]:
        """Read up to 10,000 memories by key or id: those that there are, by the name that they were asked by. Counts as
        a use. Raises InvalidInput, RecordDamaged."""
        names, view = _at_most(keys_or_ids, "keys_or_ids"), self._engine.view
        memories = await self._engine.read(lambda: {name: view.get(name) for name in names})
        readable = {name: memory for name, memory in memories.items() if memory is not None}
        self._engine.usage.note([one.id for one in readable.values()], self._engine.now_s())
        return readable

    async def forget_many(self, keys_or_ids: Iterable[str]) -> tuple[Memory, ...]:
        """Forget up to 10,000 memories in one transaction, as `forget` does. Answers with those that there were. Raises
        InvalidInput, and then none was forgotten; StoreError."""
        names = [validation.required("keys_or_ids", one) for one in _at_most(keys_or_ids, "keys_or_ids")]
        return tuple(await self._engine.forget(names))

    @verb("history", "memory_history", "lifecycle", "Read earlier revisions", reads=True)
    @example('{"key_or_id": "deploy"}', "success revisions")
    async def history(self, key_or_id: Annotated[str, KEY_OR_ID]) -> tuple[Memory, ...]:
        """Read every revision of a memory, the latest first, with who said it and when.

        The author is `scope.agent` with `origin`, the time `updated_at`. Empty when there is no such memory, or when it
        is forgotten. A sweep leaves the latest 100 earlier ones (the setting `revisions_kept`). Raises InvalidInput.
        """
        return await self._engine.read(lambda: self._engine.view.history(key_or_id))

    async def timeline(self, limit: int = 50, before: int | None = None) -> tuple[Happened, ...]:
        """What became of the memories of this project, the latest first: stored, seen again, revised, archived,
        restored, forgotten, erased. `before` goes on behind the sequence of the last one.

        The change feed keeps 90 days; its latest 20,000 lines of all projects of the home are looked at. Raises
        InvalidInput.
        """
        most = validation.count("limit", limit, least=1, most=MOST_HAPPENED)
        return tuple(await self._engine.read(lambda: self._engine.view.timeline(most, before)))

    @verb("diff", title="Compare revisions", reads=True)
    async def diff(
        self,
        key_or_id: Annotated[str, KEY_OR_ID],
        a: Annotated[
            int | None, Arg("a revision; left out, the one before the latest", "A", is_positional=True)
        ] = None,
        b: Annotated[int | None, Arg("the other one; left out, the latest", "B", is_positional=True)] = None,
    ) -> str | None:
        """Compare the texts of two revisions of a memory.

        A unified diff, "" when they are the same. None when there is no such memory. Raises InvalidInput.
        """
        first, second = _revision("a", a), _revision("b", b)
        return await self._engine.read(lambda: self._engine.view.diff(key_or_id, first, second))

    @verb("restore", "memory_restore", "lifecycle", "Restore a memory", repeatable=True)
    @example('{"key_or_id": "deploy"}', "success id key memory_type=type revision")
    async def restore(
        self,
        key_or_id: Annotated[str, KEY_OR_ID],
        revision: Annotated[int | None, Arg("have it say again what it said as that revision", "N")] = None,
    ) -> Memory | None:
        """Bring a forgotten or archived memory back, or what a memory said before.

        It comes back here and on the remote. None when there is none. What it said as an earlier `revision` is a new
        revision, delivered as any other. Raises InvalidInput, StoreError.
        """
        from kingly_memory.router import write

        name, number = validation.required("key_or_id", key_or_id), _revision("revision", revision)
        restored = await self._engine.write(write.restore(name, self._engine.write_context(), number))
        self._engine.wake()
        return restored

    async def remember(self, items: Iterable[Imported | Beside], *, dry_run: bool = False) -> Taken:
        """Take in what files say, a few hundred entries per transaction: memories, and then what lies beside them.
        Repeating it changes nothing, and neither does a `dry_run`. Raises InvalidInput for a link without its ends."""
        from kingly_memory.router import importing

        taken = Taken()
        if not isinstance(items, Iterable):
            raise InvalidInput("items", "expected several of them")
        for batch in validation.batches(items, IMPORT_BATCH):
            validation.listed("items", batch, Imported, *get_args(Beside))
            change = importing.take(batch, self._engine.write_context())
            some = await (importing.tried(change, self._engine) if dry_run else self._engine.write(change))
            taken = taken.and_more(some)
            self._engine.wake()
        return taken

    async def plan_notes(self, found: FoundNotes) -> NotesPlan:
        """What a sync of notes with their folder or file would do now. Writes nothing."""
        from kingly_memory.router import notes

        engine = self._engine
        if not isinstance(found, FoundNotes):
            raise InvalidInput("found", f"expected FoundNotes, not {type(found).__name__}")
        return await engine.read(lambda: notes.plan(found, engine.reader, engine.space, engine.clock.now()))

    async def remember_notes(self, steps: Sequence[NoteStep | NoteLinks | SameFolder]) -> Taken:
        """Carry out steps of a plan, in one transaction and in their order. Says what came of them."""
        from kingly_memory.router import notes

        checked: list[NoteStep | NoteLinks | SameFolder] = validation.listed(
            "steps", steps, NoteStep, NoteLinks, SameFolder
        )
        taken = await self._engine.write(notes.carry_out(checked, self._engine.write_context()))
        self._engine.wake()
        return taken

    def export(self) -> Iterator[tuple[Memory, MemoryStatus]]:
        """Every live and archived memory of the project and of the view's user, in the order they were first stored.
        Raises RouterClosed once the router is closed, also from the iterator."""

        def exported() -> Iterator[tuple[Memory, MemoryStatus]]:
            self._engine.check_open()
            for found in self._engine.view.export():
                yield found
                self._engine.check_open()

        self._engine.check_open()
        return exported()

    @verb("context", "memory_get_working_context", "memory", "Read the working context", reads=True)
    @example(
        '{"context_id": "deploy-42"}',
        "working_memory local_state context_id last_updated memory_count related_memories source tokens "
        "whispers reason",
    )
    async def working_context(
        self,
        context_id: Annotated[str, Arg("left out: the last one worked in", "ID", is_positional=True)] = CURRENT,
        include_related: Annotated[bool, Arg("show linked memories", only="tool")] = True,
    ) -> WorkingContext:
        """Read the latest memories of a conversation or task. Call it when you resume one.

        These are the latest 20 at most, here and on the remote. `current` is the last context used by this process,
        else the last in which this agent stored something, else the last in which anybody of the project did. A context
        is over 30 minutes after its last use, and reading it is one. `include_related` adds the memories that are
        linked to the items. Raises InvalidInput.
        """
        await self._engine.opened()
        named = self._engine.contexts.resolve(validation.required("context_id", context_id))
        from kingly_memory.router.context_gather import gather

        return await gather(self._engine, named or CURRENT, include_related=include_related)

    @verb("link", "memory_link", "thoughts", "Link two memories", repeatable=True)
    @example(
        '{"source": "deploy", "target": "outage-march", "link_type": "follows"}',
        "success id source target link_type strength description created_at",
    )
    async def link_memories(
        self,
        source: Annotated[str, Arg("key or id of the memory it begins at", "FROM")],
        target: Annotated[str, Arg("key or id of the memory it leads to", "TO")],
        link_type: Annotated[
            str, Arg("what the source is to the target", "TYPE", option="type", choices=(*links.LinkType,))
        ] = "related",
        strength: Annotated[float, Arg("how strong the link is", least=0, most=1)] = 1.0,
        description: Annotated[str | None, Arg("what the link means", "TEXT")] = None,
    ) -> Link:
        """Link two memories, so that one is shown with the other.

        Both are in the project, each named by key or id; docs/tasks.md lists the types. The same ends and type again
        are the same link, with its new strength and description. It goes to every remote that has both ends. Raises
        InvalidInput, StoreError.
        """
        from kingly_memory.router import linking

        draft = links.draft(link_type, strength, description)
        ends = (validation.required("source", source), validation.required("target", target))
        link = await self._engine.write(linking.link(*ends, draft, self._engine.write_context()))
        self._engine.wake()
        return link

    @verb("links", reads=True)
    async def links(self, key_or_id: Annotated[str, KEY_OR_ID]) -> tuple[Link, ...]:
        """List the links of a memory.

        Those that begin or end at it, oldest first; none to a forgotten one. Raises InvalidInput.
        """
        return await self._engine.read(lambda: self._engine.view.links(key_or_id))


def _at_most(items: Iterable[_Item], name: str) -> list[_Item]:
    """Raises InvalidInput for more than are taken at once."""
    if isinstance(items, str | Mapping) or not isinstance(items, Iterable):
        raise InvalidInput(name, "expected several of them")
    taken = [*islice(items, validation.MOST_TOGETHER + 1)]
    if len(taken) > validation.MOST_TOGETHER:
        raise InvalidInput(name, f"are more than {validation.MOST_TOGETHER:,}; give them in several calls")
    return taken
