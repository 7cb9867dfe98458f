"""A quarter of work: a hundred simulated days of two agents and a user who corrects himself, an imported folder, a
project that is renamed and a month of silence. What is answered on the way, what an answer costs, and what is lost that
nobody gave up."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.measure import Plan, by_words
from benchmarks.report import Table
from kingly_memory import MemoryRouter
from kingly_memory.adapters.files import notes
from kingly_memory.ids import MemoryId
from kingly_memory.imported import FoundNotes, ImportedNote
from kingly_memory.models import Memory, Origin, Results
from kingly_memory.settings import Pace
from kingly_memory.testing import ManualClock
from kingly_memory.text.writing import estimated_tokens

DAY_S = 86_400.0
DAYS = 100
SILENCE = range(61, 91)
"""Nobody opens the store."""
ASKED_ON = (10, 30, 60, 91, 100)
SWEPT_EVERY, IMPORTED_ON, RENAMED_ON, CHANGED_ON = 7, 20, 40, 50
BUDGET_TOKENS = 300
SHOWN = 3
SETTINGS = by_words(durability="process", pace=Pace(closing_s=0.0, usage_flush_s=1e9))

Answer = tuple[int, str, str, str]
"""Day, agent, text, and words of it that answer the question."""


@dataclass(frozen=True)
class Subject:
    """A question, and what is said about it in the course of the quarter: of several the last holds. With a key it is
    stored under that; without, the agent asks the question, and corrects what it finds there."""

    question: str
    answers: Sequence[Answer]
    key: str | None = None

    def on(self, day: int) -> str | None:
        """What answers it on that day, if anything does."""
        return next((answer for since, _, _, answer in reversed(self.answers) if since < day), None)


SUBJECTS = (
    Subject(
        "when does the ticket office open",
        (
            (1, "ann", "The ticket office opens at nine in the morning", "at nine"),
            (24, "ann", "The ticket office opens at half past eight since the summer timetable", "half past eight"),
            (95, "ben", "The ticket office opens at ten, on trial until winter", "at ten"),
        ),
        "office-hours",
    ),
    Subject(
        "which database does the booking service use",
        (
            (2, "ann", "The booking service keeps its tables in MariaDB", "MariaDB"),
            (40, "ann", "The booking service keeps its tables in PostgreSQL; MariaDB was given up", "in PostgreSQL"),
        ),
        "booking-database",
    ),
    Subject("who signs refunds above two hundred", ((2, "ben", "Refunds above 200 need Olga's signature", "Olga"),)),
    Subject(
        "who is on call for the gate readers",
        (
            (3, "ann", "On call for the gate readers is Tomas", "is Tomas"),
            (35, "ann", "On call for the gate readers is Ines, since Tomas moved to the depot", "is Ines"),
        ),
    ),
    Subject("how do I reboot a gate reader", ((4, "ann", "Restart a gate reader by holding both keys", "both keys"),)),
    Subject("how would Lydia like her money back", ((4, "ben", "The customer Lydia prefers a voucher", "a voucher"),)),
    Subject(
        "how long is a parking pass valid",
        (
            (5, "ben", "A parking pass is valid for twelve hours", "twelve hours"),
            (45, "ben", "A parking pass is valid for twenty-four hours", "twenty-four"),
        ),
    ),
    Subject("which port does the kiosk listen on", ((6, "ann", "The kiosk listens on port 7411", "7411"),), "kiosk"),
    Subject("why did the ferry sync fail in spring", ((6, "ann", "The ferry sync failed over an old leap", "leap"),)),
    Subject("who prints the paper timetables", ((7, "ben", "Paper timetables are printed by Nordlys", "Nordlys"),)),
    Subject("how many bikes fit on one ferry", ((8, "ben", "A ferry carries forty bicycles at most", "forty"),)),
    Subject(
        "what does the lever for emergencies look like",
        ((8, "ann", "The emergency lever is painted orange", "orange"),),
    ),
    Subject(
        "where are the spare gate readers kept", ((28, "ann", "Spare gate readers lie in shed four", "shed four"),)
    ),
    Subject("what must a release note name", ((29, "ann", "A release note names the ticket and a tester", "tester"),)),
    Subject(
        "what do we say aloud when a kid is missing",
        ((52, "ben", "A lost child is announced by name, never by age", "by name"),),
    ),
    Subject(
        "what do we shut first when it storms", ((55, "ben", "In storms dock seven is closed first", "dock seven"),)
    ),
    Subject(
        "who has to agree when prices change", ((93, "ben", "A price change is approved by the council", "council"),)
    ),
)
NOTES: Mapping[str, str] = {
    "tides.md": "# Tides\n\n## Spring tide\n\nAt spring tide the ramp is closed for ninety minutes.\n",
    "staff.md": "# Staff\n\n## Uniforms\n\nUniforms are washed by the laundry in Mill Street.\n",
    "lights.md": "# Lights\n\n## Beacon\n\nThe beacon flashes twice every eight seconds.\n",
    "canteen.md": "# Canteen\n\n## Menu\n\nOn Thursdays the canteen serves herring.\n",
}
GIVEN_UP = "canteen.md"
"""The note that the user deletes from the folder; another one he edits, and a third he moves."""
OF_NOTES = (
    Subject("how long is the ramp closed at spring tide", ((IMPORTED_ON, "", "", "ninety minutes"),)),
    Subject("who cleans what the staff wears", ((IMPORTED_ON, "", "", "Mill Street"),)),
    Subject(
        "how often does the beacon flash",
        ((IMPORTED_ON, "", "", "every eight"), (CHANGED_ON, "", "", "every five")),
    ),
)
ROUTINE = (
    "The {thing} of berth {number} was checked by {who} on day {day}",
    "{who} wrote about the {thing} of crossing {number} again on day {day}",
    "Build {number} for the {thing} went through in {day} minutes, says {who}",
    "Meeting of day {day}: {who} takes over the {thing}, item {number}",
)
THINGS = "timetable ramp ticket kiosk beacon gate refund ferry parking office database uniform lever dock".split()
PEOPLE = "Tomas Ines Olga Lydia Maren Jules Henrik Dana".split()
KINDS: Sequence[tuple[str, int | None]] = (
    ("episodic", None),
    ("semantic", None),
    ("working", 0),
    ("conversation_context", 7),
    ("procedural", None),
    ("pattern_learning", 30),
)
"""What routine is stored as, and the days after its last use from which it may be gone."""


@dataclass
class Day:
    """What came of the questions of one day, and what the store held."""

    day: int
    questions: int = 0
    first: int = 0
    found: int = 0
    tokens: int = 0
    memories: int = 0
    whole_tokens: int = 0
    lost: list[str] = field(default_factory=list)


@dataclass
class Quarter:
    """One run. `kept` says of each memory the first day on which it may be gone; None for never."""

    folder: Path
    routine: int
    clock: ManualClock = field(default_factory=ManualClock)
    random: Random = field(default_factory=lambda: Random(1))
    project: str = "harbour"
    kept: dict[MemoryId, float | None] = field(default_factory=dict)
    days: list[Day] = field(default_factory=list)

    async def run(self) -> list[Day]:
        for day in range(1, DAYS + 1):
            self.clock.jump(DAY_S)
            if day not in SILENCE:
                async with self._agents() as agents:
                    await self._live(day, agents)
        return self.days

    @asynccontextmanager
    async def _agents(self) -> AsyncIterator[Mapping[str, MemoryRouter]]:
        how: dict[str, Any] = {"project": self.project, "settings": SETTINGS, "clock": self.clock}
        home = self.folder / "home"
        async with (
            MemoryRouter.open(home, False, agent="ann", **how) as ann,
            MemoryRouter.open(home, False, agent="ben", **how) as ben,
        ):
            yield {"ann": ann, "ben": ben}

    async def _live(self, day: int, agents: Mapping[str, MemoryRouter]) -> None:
        for subject in SUBJECTS:
            for number, (on, agent, text, _) in enumerate(subject.answers):
                if on == day:
                    await self._tell(agents[agent], subject, text, is_correction=number > 0)
        for number, (agent, memory) in enumerate(agents.items()):
            for _ in range(self.routine):
                await self._work(memory, agent, day, number)
        if day in (IMPORTED_ON, CHANGED_ON):
            await self._import(agents["ann"], day)
        if day == RENAMED_ON:
            self.project = (await agents["ann"].projects.rename(self.project, "port")).into
        if day % SWEPT_EVERY == 0 or day - 1 in SILENCE:
            await agents["ann"].sweep()
        if day in ASKED_ON:
            self.days.append(await self._ask(agents["ben"], day))

    async def _tell(self, memory: MemoryRouter, subject: Subject, text: str, *, is_correction: bool) -> None:
        wrong = None
        if is_correction and subject.key is None:
            found = await memory.search(subject.question)
            wrong = next(
                (hit.memory for hit in found if any(one[2] == hit.memory.content for one in subject.answers)), None
            )
        if wrong is not None:
            await memory.update(wrong.id, text)
        else:
            receipt = await memory.store(text, key=subject.key, significance=0.6)
            self.kept[receipt.id] = None

    async def _work(self, memory: MemoryRouter, agent: str, day: int, number: int) -> None:
        kind, lasts = self.random.choice(KINDS)
        values = {"thing": self.random.choice(THINGS), "who": self.random.choice(PEOPLE), "day": day}
        text = self.random.choice(ROUTINE).format(number=self.random.randrange(1_000) * 2 + number, **values)
        receipt = await memory.store(text, type=kind, context_id=f"{agent}-{day}", significance=0.4)  # type: ignore[arg-type]
        self.kept[receipt.id] = None if lasts is None else day + lasts

    async def _import(self, memory: MemoryRouter, day: int) -> None:
        folder = self.folder / "notes"
        if day == IMPORTED_ON:
            folder.mkdir()
            for name, text in NOTES.items():
                (folder / name).write_text(text, encoding="utf-8")
        else:
            (folder / GIVEN_UP).unlink()
            (folder / "staff.md").rename(folder / "people.md")
            (folder / "lights.md").write_text(NOTES["lights.md"].replace("every eight", "every five"), encoding="utf-8")
        read = [note for note in notes.read(folder) if isinstance(note, ImportedNote)]
        plan = await memory.plan_notes(FoundNotes(str(folder), str(folder), read))
        await memory.remember_notes(plan.steps)
        for imported, _ in memory.export():
            if imported.origin is Origin.IMPORT:
                self.kept.setdefault(imported.id, CHANGED_ON if "herring" in imported.content else None)

    async def _ask(self, memory: MemoryRouter, day: int) -> Day:
        result = Day(day)
        for subject in (*SUBJECTS, *OF_NOTES):
            answer = subject.on(day)
            if answer is None:
                continue
            found = await memory.search(subject.question, budget_tokens=BUDGET_TOKENS, detail="passages")
            shown = _shown(found)
            result.questions += 1
            result.first += answer in shown[0] if shown else 0
            result.found += any(answer in text for text in shown[:SHOWN])
            result.tokens += estimated_tokens(json.dumps(found.to_json()["hits"], ensure_ascii=False))
        alive: dict[MemoryId, Memory] = {memory.id: memory for memory, status in memory.export() if status == "live"}
        result.memories = len(alive)
        result.whole_tokens = sum(estimated_tokens(memory.content) for memory in alive.values())
        result.lost = [
            memory_id
            for memory_id, until in self.kept.items()
            if memory_id not in alive and (until is None or day < until)
        ]
        return result


def _shown(found: Results) -> list[str]:
    """The texts that a reader is shown, in their order."""
    return [found.shown[hit.memory.id].text or "" for hit in found]


async def measure(plan: Plan) -> Table:
    days = await Quarter(plan.folder / "quarter", routine=2 if plan.is_quick else 8).run()
    columns = ("a quarter of work", "questions", "right first", f"right among {SHOWN}", "tokens an answer")
    return Table(
        "a quarter of work",
        (*columns, "memories", "tokens of all", "lost without being asked"),
        tuple(
            (
                f"day {day.day}",
                str(day.questions),
                str(day.first),
                str(day.found),
                f"{day.tokens / day.questions:.0f}",
                f"{day.memories:,}",
                f"{day.whole_tokens:,}",
                str(len(day.lost)),
            )
            for day in days
        ),
    )
