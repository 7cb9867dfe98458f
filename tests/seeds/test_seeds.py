"""What the modules with the seeds' names do beyond having them."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

import kingly_memory
from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.errors import InvalidInput, RemoteUnavailable
from kingly_memory.seeds import alma, aragora, household, kingly, threads

pytestmark = pytest.mark.requirement("L7")


@pytest.mark.requirement("UNI-001")
@pytest.mark.parametrize("design", [alma, aragora, household, kingly, threads])
def test_the_package_that_has_the_router_has_every_design(design: ModuleType) -> None:
    assert "MemoryRouter" in kingly_memory.__all__
    assert design.__all__
    assert [name for name in design.__all__ if not hasattr(design, name)] == []


class Client:
    """An `llm_client` that has one answer."""

    def __init__(self, reply: str) -> None:
        self.reply = reply
        self.asked: list[str] = []

    def complete(self, prompt: str) -> str:
        self.asked.append(prompt)
        return self.reply


class FiveMethods:
    """A storage as seed 000 asks for it."""

    def __init__(self, *strengths: alma.MemoryStrength) -> None:
        self.kept = {one.memory_id: one for one in strengths}
        self.gone: list[str] = []
        self.archived: list[str] = []

    def get_memory_strength(self, memory_id: str) -> alma.MemoryStrength | None:
        return self.kept.get(memory_id)

    def update_memory_strength(self, strength: alma.MemoryStrength) -> None:
        self.kept[strength.memory_id] = strength

    def get_all_memory_ids(self, project_id: str | None, agent: str | None) -> list[str]:
        return [one for one in [*self.kept, "never-seen"] if one not in self.gone]

    def archive_memory(self, memory_id: str) -> None:
        self.archived.append(memory_id)

    def delete_memory(self, memory_id: str) -> None:
        self.gone.append(memory_id)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SyncMemoryRouter]:
    with SyncMemoryRouter.open(tmp_path / "home", remote=False) as opened:
        opened.store("Canary deploys go first", confidence=0.9)
        opened.store("The office cat is called Turing", confidence=0.9)
        yield opened


@pytest.mark.requirement("ALM-080", "ALM-081")
def test_a_mode_is_retrieved_by_its_name_or_by_the_question(memory: SyncMemoryRouter) -> None:
    engine = alma.RetrievalEngine(memory)
    [found, *_] = engine.retrieve_with_mode("why does the canary deploy fail?")
    assert found.content == "Canary deploys go first"
    assert engine.retrieve_with_mode("canary", alma.RetrievalMode.RECALL, top_k=1)[0] == found
    assert alma.MODE_CONFIGS[alma.RetrievalMode.RECALL].weights["similarity"] == 0.95


@pytest.mark.requirement("ALM-080", "ALM-081")
def test_a_retriever_takes_a_text_and_a_client_that_does_not_await(memory: SyncMemoryRouter) -> None:
    client = Client("STATUS: verified\nCONFIDENCE: 0.9\nREASON: both say so\nCONTRADICTION: none")
    retriever = alma.VerifiedRetriever(alma.RetrievalEngine(memory), client)
    results = retriever.retrieve_verified("canary deploys", ["Canary deploys go first."], top_k=1)
    assert [one.memory.content for one in results.verified] == ["Canary deploys go first"]
    assert client.asked


@pytest.mark.requirement("ALM-080", "ALM-081")
def test_strengths_are_kept_by_a_storage_with_five_methods() -> None:
    old = alma.MemoryStrength("old", last_accessed=alma.utc_now() - timedelta(days=400), explicit_importance=0.1)
    storage = FiveMethods(old, alma.MemoryStrength("new"))
    manager = alma.DecayManager(storage)
    assert manager.get_forgettable_memories("p", "a") == ["old"]
    manager.reinforce_memory("never-seen")
    assert storage.kept["never-seen"].reinforcement_events
    assert manager.smart_forget("p", "a") == ["old"]
    assert (storage.archived, storage.gone) == (["old"], ["old"])


@pytest.mark.requirement("ALM-080")
def test_a_compressor_does_not_await_even_where_an_event_loop_runs() -> None:
    compressor = alma.MemoryCompressor()
    assert (
        compressor.compress_outcome(verbose_outcome="It is done. It is good.").full_content == "It is done. It is good."
    )
    assert compressor.deduplicate_knowledge(new_knowledge="x is 1", existing_knowledge=[]) == "x is 1"
    client = Client("When a deploy fails, then roll back because users wait.")
    rule = alma.MemoryCompressor(llm_client=client).extract_heuristic(["a", "b", "c"])
    assert rule == client.reply


def test_an_item_that_is_appended_is_remembered() -> None:
    memory = household.CognitiveMemory("H001")
    memory._episodic.append(household.MemoryItem("A flood", 0.9, 3))
    memory._working.append(household.MemoryItem("A look around", 0.2, 3))
    assert [item.content for item in memory._episodic] == ["A flood"]
    assert [item.content for item in memory._working] == ["A look around"]
    with pytest.raises(InvalidInput, match="only `append` writes through"):
        memory._episodic.clear()


def test_a_household_is_prompted_and_serialized() -> None:
    agent = household.HouseholdAgent(household.HouseholdAgentState("H001"), household.CognitiveMemory("H001"))
    household.update_memory_from_skill(agent.memory, "elevate_house", 3, {"subsidy_pct": 0.5})
    assert "elevated my house with 50% subsidy" in household.build_household_prompt(
        agent.state, {"year": 4}, agent.memory
    )
    assert household.prepare_context(agent, 4)["retrieved_memories"] == agent.memory.retrieve(5, 4)
    assert json.loads(json.dumps(agent.serialize()))["state"]["id"] == "H001"
    assert set(household.SKILL_MEMORY_MAP) == {"buy_insurance", "elevate_house", "relocate", "do_nothing"}


def test_focus_ratings_and_priority_are_those_of_the_seed() -> None:
    thread = threads.Thread("t", "Solana validators", ["solana"], weight=1.3)
    focused = {"active_focus": [{"topic": "solana", "weight": 0.8}]}
    assert threads.get_focus_boost(thread, focused) == pytest.approx(0.8 * 0.3 + 0.8 * 0.2)
    assert threads.calculate_injection_priority(thread, 0.5) == pytest.approx(0.65)
    assert threads.update_relevance_score(thread, useful=False) < 1
    assert threads.calculate_injection_priority(thread, 0.5) < 0.65
    assert threads.COMPACTION_STRATEGIES["aggressive"]["merge_threshold"] == 0.75


def test_tiers_rise_sink_and_fade_by_the_seeds_thresholds() -> None:
    class Entry:
        tier, access_count, surprise_score, success_references = aragora.MemoryTier.FAST, 0, 0.0, 0
        created_at, base_importance, last_access_age, decayed_importance = 0.0, 0.8, 61.0, 0.9

    entry = Entry()
    assert not aragora.should_promote(entry)
    assert aragora.should_demote(entry)
    assert aragora.decay_importance(entry, 3_600.0) == pytest.approx(0.4)
    for _ in range(3):
        aragora.update_surprise_score(entry, {"predicted_relevance": 0.0, "actual_usefulness": 1.0})
    assert entry.surprise_score == pytest.approx(1 - 0.7**3)
    assert aragora.should_promote(entry)


def test_the_memories_of_debates_need_no_router(tmp_path: Path) -> None:
    with aragora.ContinuumMemory(tmp_path / "home") as continuum:
        continuum.store("SLA breaches cost money", aragora.MemoryTier.FAST, 0.9)
        assert [one.content for one in continuum.retrieve("SLA breaches")] == ["SLA breaches cost money"]
    with aragora.MemoryStream("ada", tmp_path / "home") as stream:
        stream.record(aragora.MemoryEvent("The debate began"))
        assert [one.content for one in stream.events()] == ["The debate began"]
    with aragora.ConsensusMemory(tmp_path / "home") as consensus:
        assert consensus.find_similar("rate limits") == []


@pytest.mark.requirement("ARG-054")
def test_a_connection_in_wal_mode_has_the_seeds_pragmas(tmp_path: Path) -> None:
    with closing(aragora.get_wal_connection(tmp_path / "own.db", timeout=2.0)) as connection:
        found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
        assert (found, connection.execute("PRAGMA busy_timeout").fetchone()[0]) == (["wal", 1], 2_000)
    with closing(aragora.get_wal_connection(tmp_path / "own.db")) as connection:
        assert connection.execute("PRAGMA busy_timeout").fetchone()[0] == 30_000
    (tmp_path / "no.db").write_bytes(b"no database" * 100)
    with pytest.raises(sqlite3.DatabaseError):
        aragora.get_wal_connection(tmp_path / "no.db")


class Tools(BaseHTTPRequestHandler):
    """A server that answers every call with its method."""

    def do_POST(self) -> None:
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps({"method": said["method"], "params": said["params"]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


async def test_the_adapter_calls_the_tools_of_a_remote() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Tools)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        async with kingly.UltimateMCPMemoryAdapter({"endpoint": f"http://127.0.0.1:{server.server_port}"}) as adapter:
            answered = [
                await adapter.store_memory({"content": "x"}),
                await adapter.search_semantic_memories({"query": "x"}),
                await adapter.get_working_memory(),
                await adapter.get_linked_memories({"memory_ids": []}),
                await adapter.record_thought({"thought": "x"}),
            ]
            assert adapter.connected
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert [one["method"] for one in answered] == [
        "store_memory",
        "search_semantic_memories",
        "get_working_memory",
        "get_linked_memories",
        "record_thought",
    ]


async def test_an_adapter_without_a_server_says_so() -> None:
    async with kingly.UltimateMCPMemoryAdapter({"endpoint": "http://127.0.0.1:9", "retryAttempts": 1}) as adapter:
        assert not await adapter.initialize_connection()
        with pytest.raises(RemoteUnavailable, match="does not answer"):
            await adapter.store_memory({"content": "x"})
