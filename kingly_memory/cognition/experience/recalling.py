"""What comes back of an agent's memories, and in which order (seed 001, §3). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise

from kingly_memory.cognition.experience.episodes import Scored
from kingly_memory.cognition.experience.items import MemoryItem
from kingly_memory.writing import stems


def is_ascending(working: Sequence[MemoryItem]) -> bool:
    """Whether each was said after the one before it."""
    return all(one.timestamp < other.timestamp for one, other in pairwise(working))


def latest_first(working: Sequence[MemoryItem], *, ascending: bool) -> Iterator[Scored]:
    """The latest and then the weightiest, whatever the clock did; of equals that which was said last."""
    in_order: Iterable[MemoryItem] = reversed(working)
    if not ascending:
        in_order = sorted(in_order, key=lambda item: (item.timestamp, item.importance), reverse=True)
    return (Scored(item, None) for item in in_order)


def chosen(most: int, reserved: int, latest: Iterator[Scored], episodes: Iterator[Scored]) -> list[Scored]:
    """Working memory first, each text once. Places reserved for episodes that are not there go to working memory."""
    found = _distinct(latest, most)
    if len(found) == most and not reserved:
        return list(found.values())
    first = dict(islice(found.items(), max(most - reserved, 0)))
    lasting = _distinct((one for one in episodes if one.item.content not in first), most - len(first))
    late = (one for text, one in found.items() if text not in first and text not in lasting)
    return [*first.values(), *islice(late, most - len(first) - len(lasting)), *lasting.values()]


def answering(query: str, most: int, scored: Iterable[Scored]) -> list[Scored]:
    """Those that share a word with the query, the largest share of its words first, of equals the earlier ones."""
    asked = stems(query)
    found = _distinct(iter(scored), None).values()
    shares = [(len(asked & stems(one.item.content)) / max(len(asked), 1), one) for one in found]
    return [one for share, one in sorted(shares, key=lambda pair: -pair[0]) if share][:most]


def _distinct(scored: Iterable[Scored], most: int | None) -> dict[str, Scored]:
    """Each text once."""
    found: dict[str, Scored] = {}
    if most == 0:
        return found
    for one in scored:
        text = one.item.content
        if text not in found:
            found[text] = one
            if len(found) == most:
                break
    return found
