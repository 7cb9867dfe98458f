"""What the demo remembers: a small team's work on the departures board of an invented ferry harbour."""

from __future__ import annotations

from typing import NamedTuple

from kingly_memory.api.choices import TypeName


class Told(NamedTuple):
    """One memory of the demo. `significance` above 0.3 goes to the hub."""

    content: str
    key: str | None = None
    type: TypeName = "semantic"
    significance: float = 0.6


LEARNT = (
    Told("The board shows departures from piers 1 to 4; pier 5 is for freight and never shown.", "board.piers"),
    Told("Below 1.1 m of tide the island ferry leaves from pier 2 instead of pier 3.", "tide.rule", significance=0.9),
    Told("Tide levels come from the harbour office every ten minutes as a plain text file.", "tide.source"),
    Told("If the tide file is older than half an hour, show the timetable without pier numbers.", "tide.stale"),
    Told("Ilse decides what the board says during a storm; nobody else may cancel a sailing.", "storm.owner"),
    Told("A cancelled sailing stays on the board for an hour, struck through.", "board.cancelled"),
    Told("Passengers read the board from twelve metres away, so letters are never smaller than 9 cm.", "board.letters"),
    Told("Yellow on black was easier to read in fog than white on black.", "board.colours"),
    Told("The screens reboot every night at 03:40 and need four minutes to come back.", "screens.reboot"),
    Told("Screen 7 at the bus stop loses its network when the kiosk fridge starts.", "screens.seven"),
    Told("All times on the board are local time; the database keeps UTC.", "time.zones", significance=0.8),
    Told("On the night of the clock change the 02:30 sailing appears only once.", "time.change"),
    Told("Releases go out on Tuesday mornings, never on a Friday.", "release.day", "procedural"),
    Told(
        "To release: tag the commit, wait for the harbour test screen, then press go in the control room.",
        "release.steps",
        "procedural",
        0.8,
    ),
    Told(
        "To roll back, turn the key switch in the control room; the old version starts within a minute.",
        "release.rollback",
        "procedural",
        0.9,
    ),
    Told("A new screen is added by scanning the code on its back with the service phone.", "screens.add", "procedural"),
    Told(
        "Before touching the timetable import, copy last week's file to the archive shelf.", "import.copy", "procedural"
    ),
    Told("The timetable import rejects files in which two ferries leave one pier in the same minute.", "import.check"),
    Told(
        "Timetable files use semicolons, and the operator forgets the last column about once a month.", "import.format"
    ),
    Told("We chose polling over push because the harbour network drops idle connections.", "network.polling"),
    Told("The harbour firewall lets only port 443 out.", "network.firewall"),
    Told(
        "Each screen keeps the next two hours of departures, so it goes on when the network is gone.",
        "screens.offline",
        significance=0.9,
    ),
    Told("Announcements are read aloud in three languages: local first, then English, then Danish.", "voice.languages"),
    Told("The voice says 'pier two', never 'gate two': tourists looked for an airport.", "voice.pier"),
    Told("Budget for next year covers six new screens or one new server, not both.", "budget.screens"),
    Told("Maren tests on the old tablet, because what works there works everywhere.", "team.maren"),
    Told("Tomas knows the tide model; ask him before changing a threshold.", "team.tomas"),
    Told("The pilot at the west quay failed in March because salt got into the plugs.", None, "episodic"),
    Told("In April we moved the plugs inside and had no failure since.", None, "episodic"),
    Told("Yesterday's drill: the board was dark for 80 seconds, the goal was 60.", None, "episodic", 0.7),
    Told("The mayor asked for a welcome picture on the first screen; we said after the season.", None, "episodic"),
    Told("Monday's standup: the tide warning flickers when the value sits exactly at the threshold.", None, "episodic"),
    Told("Cause of the flicker: we compared rounded and unrounded tide levels.", "tide.flicker", "episodic", 0.8),
    Told(
        "Fix for the flicker: switch piers at 1.1 m going down, but only at 1.2 m coming back up.",
        "tide.hysteresis",
        significance=0.9,
    ),
    Told("Complaints dropped by half once delays were shown in minutes instead of a new time.", "board.delays"),
    Told("Dogs travel free; the question comes up at every open day.", "faq.dogs", significance=0.5),
    Told("Working on: pier changes less than ten minutes before departure.", None, "working", 0.5),
    Told("Half-finished: the test for two ferries swapping piers.", None, "working", 0.4),
    Told("Coffee machine code is 2580.", "kitchen.coffee", significance=0.1),
    Told("The blue umbrella in the control room is Ilse's.", "kitchen.umbrella", significance=0.1),
)
"""Stored while the hub is there."""

LEARNT_OFFLINE = (
    Told(
        "The harbour office moves the tide file to a new address on the first of the month.",
        "tide.address",
        significance=0.9,
    ),
    Told("Two ferries may swap piers if both captains confirm by radio.", "pier.swap", "procedural", 0.8),
    Told("Screen 7 now has its own socket, away from the kiosk fridge.", "screens.seven", significance=0.7),
    Told("The west quay gets its screen back in May.", None, "episodic"),
    Told("Decision: pier changes are announced twice, five minutes apart.", "voice.twice", significance=0.8),
    Told("Lunch on Thursday is at the smokehouse.", "kitchen.lunch", significance=0.2),
)
"""Stored while the hub is gone. One of them revises an earlier memory, one stays on this machine."""

ASKED = ("which pier at low tide", "roll back a relase", "screens when the network is gone")
ASKED_OFFLINE = ("fridge and screen 7", "two ferries swap piers", "which pier at low tide")
ASKED_AFTERWARDS = ("announce a pier change", "new address of the tide file")
