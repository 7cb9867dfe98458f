"""Ten households by a river, for twenty years: they remember floods, decide on what they remember, and leave an audit.

    python examples/flood_simulation.py [FOLDER]

One of them is saved in year 10 and goes on from its file, to the same decisions. The audit stays in FOLDER, if you name
one.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kingly_memory.app.auditing import AuditWriter
from kingly_memory.cognition.agent_memory import CognitiveMemory
from kingly_memory.cognition.audit import AuditTrail, HouseholdOutput, MemoryUpdate, year_end
from kingly_memory.cognition.skills import SkillRegistry, update_memory_from_skill
from kingly_memory.seeds.household import (
    DamageEstimate,
    FinancialOutcome,
    FloodEvent,
    HouseholdAgent,
    update_memory_from_claim,
    update_memory_from_flood,
)

SEED = 7
YEARS = 20
SAVED_IN = 10
QUESTION = "What damages did a flood cause, and was my insurance claim denied?"
SUBSIDISED = {5, 12}
"""Years in which the town says that it pays half of an elevation."""
HIGH_WATER = 0.35
HURT, HURT_IF_ELEVATED = 0.8, 0.2
APPROVED = 0.8
"""Chances, of a year and of what follows."""
REGISTRY = SkillRegistry.load()


@dataclass
class State:
    elevated: bool = False
    has_insurance: bool = False
    relocated: bool = False
    cumulative_damage: float = 0.0


class Household:
    """Its state, its memory, and a clock that stands in the simulation's year."""

    def __init__(self, agent_id: str, state: State | None = None, memory: Mapping[str, Any] | None = None) -> None:
        self.agent_id = agent_id
        self.state = state or State()
        self.decisions: list[str] = []
        self._moment = datetime(2000, 1, 1, tzinfo=UTC)
        self.memory = (
            CognitiveMemory(agent_id, now=self._now)
            if memory is None
            else CognitiveMemory.restore(memory, now=self._now)
        )

    def serialize(self) -> dict[str, Any]:
        return {"agent_id": self.agent_id, **HouseholdAgent(self.state, self.memory).serialize()}

    @classmethod
    def restore(cls, data: Mapping[str, Any]) -> Household:
        return cls(data["agent_id"], State(**data["state"]), data["memory"])

    def live(self, year: int, audit: AuditTrail) -> None:
        """A year: what happens, what it does to the memory, what is decided on it, and the year's end."""
        self._moment = datetime(2000 + year, 1, 1, tzinfo=UTC)
        before = copy(self.state)
        self._suffer(year, audit)
        called = REGISTRY.invoke("retrieve_memory", "household", self.memory, current_year=year, query=QUESTION)
        audit.log_invocation(self.agent_id, year, called)
        remembered = [] if called is None else list(called.result)
        skill, figures = self._decide(remembered)
        self.decisions.append(skill)
        item = update_memory_from_skill(self.memory, skill, year, figures)
        audit.log_memory_update(self.agent_id, year, "decision", item, self.memory)
        output = HouseholdOutput(
            self.agent_id,
            year,
            decision_skill=skill,
            skill_parameters=figures,
            justification=f"{len(remembered)} memories",
            memory_update=None if item is None else MemoryUpdate("skill_execution", item),
            state_after=self.state,
        )
        audit.write_household_trace(output, before, {"retrieved_memories": remembered}, self.memory)
        year_end(self.memory, year, audit)

    def _suffer(self, year: int, audit: AuditTrail) -> None:
        flood, damage, claim = what_happens(self.agent_id, self.state, year)
        self.state.cumulative_damage += damage.total_damage
        for kind, item in (
            ("flood", update_memory_from_flood(self.memory, flood, damage, year)),
            ("claim", update_memory_from_claim(self.memory, claim, year)),
        ):
            audit.log_memory_update(self.agent_id, year, kind, item, self.memory)
        if year in SUBSIDISED:
            news = self.memory.add_working(f"Year {year}: The town pays half of an elevation", 0.7, year, ["policy"])
            audit.log_memory_update(self.agent_id, year, "policy", news, self.memory)

    def _decide(self, remembered: list[str]) -> tuple[str, dict[str, float]]:
        """In the place of a language model: the more floods come to mind, the further it goes."""
        floods = sum("flood caused" in text for text in remembered)
        was_denied = any("claim was denied" in text for text in remembered)
        if self.state.relocated or not floods:
            return "do_nothing", {}
        if not self.state.has_insurance and not was_denied:
            self.state.has_insurance = True
            return "buy_insurance", {"premium": 1_200.0}
        if not self.state.elevated and floods > 1 and self.memory.retrieve(1, tags=["policy"]):
            self.state.elevated = True
            return "elevate_house", {"subsidy_pct": 0.5}
        if was_denied and floods > 1:
            self.state.relocated = True
            return "relocate", {}
        return "do_nothing", {}

    def _now(self) -> datetime:
        self._moment += timedelta(seconds=1)
        return self._moment


def what_happens(agent_id: str, state: State, year: int) -> tuple[FloodEvent, DamageEstimate, FinancialOutcome]:
    """The river is the same for all; what it does to a house is not."""
    high = random.Random(f"{SEED}:{year}").random() < HIGH_WATER  # noqa: S311  # a game, and the same one each time
    chance = random.Random(f"{SEED}:{year}:{agent_id}")  # noqa: S311
    occurred = high and not state.relocated
    hurt = occurred and chance.random() < (HURT_IF_ELEVATED if state.elevated else HURT)
    damage = round(chance.uniform(1_000, 90_000)) if hurt else 0
    filed = bool(damage) and state.has_insurance
    approved = filed and chance.random() < APPROVED
    claim = FinancialOutcome(filed, approved, 0.8 * damage if approved else 0.0)
    return FloodEvent(occurred), DamageEstimate(damage), claim


def simulate(households: list[Household], years: range, audit: AuditTrail) -> None:
    for year in years:
        for household in households:
            household.live(year, audit)


def main(folder: Path) -> None:
    households = [Household(f"H{number:03}") for number in range(1, 11)]
    audit = AuditWriter(folder / "audit")
    simulate(households, range(1, SAVED_IN + 1), audit)
    saved = folder / "household.json"
    saved.write_text(json.dumps(households[6].serialize()), encoding="utf-8")
    simulate(households, range(SAVED_IN + 1, YEARS + 1), audit)

    decided = Counter(skill for household in households for skill in household.decisions)
    print(", ".join(f"{count} × {skill}" for skill, count in decided.most_common()))
    for household in households[:3]:
        print(f"{household.memory!r} ${household.state.cumulative_damage:,.0f}")
        for text in household.memory.retrieve(2, YEARS, tags=["flood"]):
            print(f"  - {text}")
    print(f"{audit.written} records in the audit, {audit.lost} lost")

    resumed = Household.restore(json.loads(saved.read_text(encoding="utf-8")))
    simulate([resumed], range(SAVED_IN + 1, YEARS + 1), AuditTrail())
    original = households[6]
    same = resumed.serialize() == original.serialize() and resumed.decisions == original.decisions[SAVED_IN:]
    print(f"{resumed.agent_id}, resumed from its file of year {SAVED_IN}: {'the same' if same else 'DIFFERENT'}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
