"""Notes as they come together in threads: each of these stays with one topic."""

from __future__ import annotations

import re
from typing import Any

from kingly_memory import MemoryRouter
from kingly_memory.models import JsonObject
from tests.router_bench import PromptStore

THREAD_ID = re.compile(r"thread_\d{8}_\d{6}_[0-9a-f]{6}")
"""The ids of the threads that are begun here, in the form of the seed."""

TOPICS = {
    "deploys": (
        "Deploys of the shop wait for two reviews",
        "The deploy of Tuesday failed because a migration was missing",
        "Migrations run before the deploy now",
        "Ana reviews the deploy script on Thursdays",
        "After a failed deploy the old version is rolled back by hand",
        "Rolling back took twelve minutes last time",
    ),
    "orders": (
        "The orders table has forty million rows",
        "We partition the orders table by month",
        "Old partitions of the table move to cold storage after a year",
        "The index on customer id halved the query time",
        "Queries that join orders and customers still scan the whole partition",
        "A covering index would avoid the scan",
    ),
    "garden": (
        "Tomatoes go into the greenhouse in April",
        "The greenhouse needs a new pane of glass",
        "Water the tomatoes every second evening",
        "Basil grows well beside tomatoes",
        "Slugs ate the basil seedlings last spring",
    ),
    "travel": (
        "The train to Vienna leaves at seven",
        "We stay two nights in Vienna near the opera",
        "Tickets for the opera are booked for Friday",
        "From Vienna we go on to Budapest by boat",
        "The boat needs five hours and has no restaurant",
        "In Budapest the baths close at eight",
    ),
    "invoices": (
        "Invoices are sent on the first of the month",
        "An unpaid invoice gets a reminder after ten days",
        "The second reminder carries a fee of five euros",
        "Customers abroad pay invoices without VAT",
        "The VAT number of a customer is checked with the tax office",
        "Stripe handles the payments of all invoices",
    ),
    "printer": (
        "The printer on the second floor jams with thick paper",
        "A new printer was ordered in March",
        "Paper for the printer is in the cupboard behind reception",
        "The driver for the printer breaks on the new kernel",
        "Until then print from the Windows machine",
    ),
    "hiring": (
        "Two candidates for the backend role come on Monday",
        "The interview begins with a short coding exercise",
        "Candidates may use any language in the exercise",
        "We decide on offers within two days after the interview",
        "The recruiter asks for feedback on each candidate",
    ),
}


async def talk(memory: MemoryRouter, name: str, *texts: str, **said: Any) -> list[str]:
    """The ids of what was said in that context."""
    return [(await memory.store(text, context_id=name, **said)).id for text in texts]


def put(store: PromptStore, name: str, whose: str, facet: JsonObject | None) -> None:
    store.write(lambda transaction: transaction.set_facet(name, whose, facet)).result()
