"""What a question asks for and how well a memory's own words answer it: BM25 (Robertson and Zaragoza, 2009) over a
shortlist, what was said beside a memory, and whom the question names. Pure.

The index ranks by BM25 too, but it gives no weight to a word that stands in more than half of its rows. In a small
store that is nearly every word. Here each word counts, and words that stand side by side in the question count more.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path

from kingly_memory.dataclass import NamedTuple
from kingly_memory.models import Memory, MemoryType
from kingly_memory.ports import Beside, Corpus
from kingly_memory.text.passages import LONGEST
from kingly_memory.text.writing import (
    SHARED,
    STOP_WORDS,
    has_unbroken,
    stem,
    unbroken_runs,
    without_marks,
    without_unbroken,
    words,
)

# --- the question ---------------------------------------------------------------------------------------------------

MOST_TERMS = 32
LONGEST_PIECE = 64
LONGEST_WHOLE = 4
"""Characters without a break that are looked up as they stand. The words of a longer run are not known: pairs of its
letters take their place, and in Thai, whose letters are no syllables, four letters each."""
_THAI = "\u0e7f"
_IDLE = frozenset("的了吗呢吧么什怎哪谁是在有们这那")
_HIRAGANA = ("\u3040", "\u309f")
"""Letters of words that say little, such as endings: what has one is looked up only where there is nothing else."""


class Terms(NamedTuple):
    """`words` are looked up in the word index, `pieces` (unbroken scripts, emoji) in the piece index."""

    words: tuple[str, ...]
    pieces: tuple[str, ...]


def terms(text: str) -> Terms:
    """Words in the order of the question, without repeats and stop words; at most 32 of each kind.

    A question made of stop words alone keeps them. One without any word ("🎉") is looked up literally.
    """
    folded = text.casefold()
    pieces = unbroken_runs(folded)
    all_words = words(without_unbroken(folded))
    chosen = [word for word in all_words if word not in STOP_WORDS] or ([] if pieces else all_words)
    if not chosen and not pieces:
        pieces = text.split()
    cut = [part[:LONGEST_PIECE] for piece in pieces for part in _parts(piece)]
    return Terms(tuple(dict.fromkeys(chosen))[:MOST_TERMS], tuple(dict.fromkeys(cut))[:MOST_TERMS])


def _parts(run: str) -> list[str]:
    if len(run) <= LONGEST_WHOLE or not has_unbroken(run):
        return [run]
    size = 4 if run[0] <= _THAI else 2
    parts = [run[at : at + size] for at in range(len(run) - size + 1)]
    first, last = _HIRAGANA
    return [
        part for part in parts if not any(character in _IDLE or first <= character <= last for character in part)
    ] or parts


_FAMILIES = """
arise arose arisen|become became|begin began begun|bend bent|bite bit bitten|bleed bled|blow blew blown
break broke broken|bring brought|build built|buy bought|catch caught|choose chose chosen|come came|creep crept
deal dealt|dig dug|draw drew drawn|dream dreamt|drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen
feed fed|feel felt|fight fought|find found|fly flew flown flies|forbid forbade forbidden|forget forgot forgotten
forgive forgave forgiven|freeze froze frozen|get got gotten|give gave given|go went gone goes|grow grew grown
hang hung|hear heard|hide hid hidden|hold held|keep kept|know knew known|lay laid|lead led|leave left|lend lent
lose lost|make made|mean meant|meet met|pay paid|ride rode ridden|ring rang rung|rise rose risen|run ran|say said
see saw seen|seek sought|sell sold|send sent|shake shook shaken|shine shone|shoot shot|shrink shrank shrunk
sing sang sung|sink sank sunk|sit sat|sleep slept|slide slid|speak spoke spoken|spend spent|spin spun|stand stood
steal stole stolen|stick stuck|strike struck|swear swore sworn|sweep swept|swim swam swum|swing swung|take took taken
teach taught|tear tore torn|tell told|think thought|throw threw thrown|understand understood|wake woke woken
wear wore worn|weave wove woven|weep wept|win won|withdraw withdrew withdrawn|write wrote written
child children kid|man men|woman women|person people|foot feet|tooth teeth|mouse mice|life lives|wife wives
"""
IRREGULAR = {
    word: family for line in _FAMILIES.split("\n") for family in map(str.split, line.split("|")) for word in family
}
"""Each word that has forms with another stem, with all of its forms."""


def other_forms(word: str) -> tuple[str, ...]:
    """Words with other stems that mean the same, for a word in lower case: who asks where somebody went is answered by
    where they go."""
    own = stem(word)
    plain = (word, own, own + "e", own[:-1] + "y")
    family = next((IRREGULAR[form] for form in plain if form in IRREGULAR and stem(form) == own), [])
    return tuple(one for one in family if stem(one) != own)


class Term(NamedTuple):
    """A word that is asked for. `stems` are its own and those of its other forms, `weight` how sure we are of it,
    `rows` how many memories hold it."""

    word: str
    stems: frozenset[str]
    weight: float
    rows: int


# --- common words ---------------------------------------------------------------------------------------------------

_ENDINGS = ("s", "ed", "ing", "er", "est", "ly", "ness", "less", "ful", "ment", "able")
_HISSING = ("s", "x", "z", "ch", "sh", "o")
SHORTEST_MISTYPED = 4
"""Characters of a word below which it is right as it is."""


def is_doubtful(word: str) -> bool:
    """Whether a word in lower case, which no memory has, may be mistyped: common words are right as they are."""
    return len(word) >= SHORTEST_MISTYPED and not is_common(word)


def is_common(word: str) -> bool:
    """Whether a word in lower case is a form of a frequent English word or a frequent name: nobody mistypes another
    word into one of them by accident, so it is meant, though no memory has it."""
    return word in STOP_WORDS or word in IRREGULAR or not _common().isdisjoint(_plain(word))


@cache
def _common() -> frozenset[str]:
    return frozenset(Path(__file__).with_name("common_words.txt").read_text("utf-8").split())


def _plain(word: str) -> Iterator[str]:
    """What the word may be a form of."""
    yield word
    for ending in _ENDINGS:
        if not word.endswith(ending):
            continue
        rest = word.removesuffix(ending)
        yield rest
        if ending != "s":
            yield rest + "e"
        if rest.endswith("i"):
            yield rest[:-1] + "y"
        if ending in ("ed", "ing", "er", "est") and re.search(r"[aeiou]([bdgklmnprtv])\1$", rest):
            yield rest[:-1]  # stopped, planning, bigger
    if word.endswith("ies"):
        yield word[:-3] + "y"
    elif word.endswith("es") and word[:-2].endswith(_HISSING):
        yield word[:-2]


# --- a memory's own words -------------------------------------------------------------------------------------------

SATURATION, LENGTH = 0.9, 0.4
"""BM25's k1 and b. Memories are short: one mention is nearly enough, and length says little."""
UNSEEN_ROWS = 100
"""Added to the size of the store, since a small one says little of how rare a word is."""
TITLE, BODY, TAGS = 2.0, 1.0, 1.0
BEGINNING, SHORTEST_BEGINNING = 0.3, 4
"""What a longer word counts that begins with an asked one of that many characters or more."""
PHRASE = 0.1
"""Share of their worth that two words add when they stand side by side as they do in the question."""
READ = 8_192
"""Characters of a title or content that are looked at when there is time."""
TAGS_READ = 64
PIECES_READ = 131_072
"""Characters of a memory in which pieces are looked for."""


class Own(NamedTuple):
    """What a memory's own words are worth, and how much of each term it holds, in [0, weight]; its pieces count one
    each. `by_chance`: it has a word that only looks like an asked one to the index."""

    score: float
    held: dict[int, float]
    by_chance: bool = False


def rarity(rows: int, corpus: Corpus) -> float:
    """How much it says that a memory holds a word that this many rows hold: > 0."""
    without = max(corpus.rows - rows, 0) + UNSEEN_ROWS
    return math.log(1 + (without + 0.5) / (rows + 0.5))


class Question:
    """The terms of a question, ready to be looked for in any number of memories."""

    def __init__(self, terms: Sequence[Term], corpus: Corpus, pieces: Sequence[str] = ()) -> None:
        """`terms` in the order of the question, none twice."""
        self.terms = terms
        self.pieces = pieces
        self.names = frozenset([term.word for term in terms])
        self._worth = [term.weight * rarity(term.rows, corpus) for term in terms]
        self._mean_words = max(corpus.mean_words, 1.0)
        self._by_stem = {one: at for at, term in enumerate(terms) for one in term.stems}
        self._beginnings = {root[:SHARED] for root in self._by_stem} | {term.word[:SHARED] for term in terms}
        self._longer = [(at, term.word) for at, term in enumerate(terms) if len(term.word) >= SHORTEST_BEGINNING]
        self._known: dict[str, tuple[int, float] | None] = {}

    def own(self, memory: Memory, read: int = READ, passage: int | None = None) -> Own:
        """What the memory's title, content and tags hold of the terms, each in its first `read` characters; of the
        content only the passage that begins there, if one is named."""
        content = memory.content if passage is None else memory.content[passage : passage + LONGEST]
        times: dict[int, float] = {}
        following: set[int] = set()
        by_chance, length, beginnings = False, 0.0, self._beginnings
        fields = ((memory.title, TITLE), (content, BODY), (" ".join(memory.tags[:TAGS_READ]), TAGS))
        for text, column in fields:
            if not text:
                continue
            text_words = words(without_marks(text[:read]))
            length += len(text_words) * max(len(text) / read, 1.0)
            # Nearly all words differ from every term in their first letters.
            likely = [index for index, word in enumerate(text_words) if word[:SHARED] in beginnings]
            matches = {index: meant for index in likely if (meant := self._meant(text_words[index])) is not None}
            before, behind = None, 0
            for index, (at, share) in matches.items():
                if not share:
                    by_chance = True
                    continue
                times[at] = times.get(at, 0.0) + column * share
                if at - 1 == before and all(
                    text_words[between] in STOP_WORDS or between in matches for between in range(behind + 1, index)
                ):
                    following.add(at)
                before, behind = at, index
        whole = memory.content[:PIECES_READ].casefold() if self.pieces else ""
        pieces = {at: 1.0 for at, piece in enumerate(self.pieces, len(self.terms)) if piece in whole}
        if not times:
            return Own(float(len(pieces)), pieces, by_chance)
        saturation = SATURATION * (1 - LENGTH + LENGTH * length / self._mean_words)
        score = sum([self._worth[at] * count * (SATURATION + 1) / (count + saturation) for at, count in times.items()])
        score += PHRASE * sum([(self._worth[at - 1] + self._worth[at]) / 2 for at in following])
        held = {at: min(count, 1.0) * self.terms[at].weight for at, count in times.items()}
        return Own(score + len(pieces), held | pieces, by_chance)

    def coverage(self, held: Mapping[int, float]) -> float:
        """The share of the question that is held, in (0, 1]."""
        return max(sum(held.values()) / max(len(self.terms) + len(self.pieces), 1), 0.05)

    def _meant(self, word: str) -> tuple[int, float] | None:
        """Which term a word is, and what it counts for it: 0 when only the stem is the same, by chance."""
        if word not in self._known:
            at, meant = self._by_stem.get(stem(word)), None
            if at is not None:
                meant = at, 0.0 if _is_other(word, self.terms[at].word) else 1.0
            elif longer := [at for at, beginning in self._longer if word.startswith(beginning)]:
                meant = longer[0], BEGINNING
            self._known[word] = meant
        return self._known[word]


def _is_other(word: str, asked: str) -> bool:
    """Whether a word with the stem of an asked one is another word all the same: a stop word ("on" for "one"), or what
    a short one is the stem of ("use" for "us")."""
    asked = without_marks(asked)
    if word == asked:
        return False
    if word in STOP_WORDS and word != "own" and asked not in STOP_WORDS:
        return True
    short, long = sorted((word, asked), key=len)
    if len(short) > len("us") or stem(long) != short:
        return False
    endings = ("s", "es", "ing") if short[-1] in "aeiou" else ("s",)
    return not any(long == short + ending for ending in endings)


# --- what was said beside it ----------------------------------------------------------------------------------------

FROM_BEFORE = (0.5, 0.25)
"""Shares of its score that a memory gets from the one before it, and from the one before that."""
FROM_AFTER = (0.25, 0.125)
REACH = 2


class Loan(NamedTuple):
    """What a memory gets from a lender: this share of the lender's score."""

    lender: int
    share: float


def lends(memory: Memory) -> bool:
    """Only what was said in a context has something said before and after it."""
    return memory.type is MemoryType.EPISODIC and memory.scope.context_id is not None


def loans(beside: Mapping[int, Beside]) -> dict[int, list[Loan]]:
    """What each position is lent, given who stands beside the lenders."""
    found: defaultdict[int, list[Loan]] = defaultdict(list)
    for lender, (before, after) in beside.items():
        for position, share in (*zip(before, FROM_AFTER, strict=False), *zip(after, FROM_BEFORE, strict=False)):
            found[position].append(Loan(lender, share))
    return dict(found)


# --- whom it names --------------------------------------------------------------------------------------------------

NAMED = 1.5
NAMED_TWICE = 1.8
"""What a score is multiplied with when the question names the memory, and when it does so twice (speaker and date)."""
NAME_READ = 1_024


def lift(asked: Set[str], memory: Memory) -> float:
    """What the memory's score is multiplied with for its names: any telling word of the title, and of agent, speaker
    and tags only those whose every word is asked for."""
    title = (memory.title or "")[:NAME_READ]
    values = (*memory.tags[:TAGS_READ], memory.scope.agent, memory.metadata.get("speaker"))
    names = [name[:NAME_READ] for name in values if isinstance(name, str)]
    text = "\n".join([title, *names]).casefold()
    for word in asked:
        if word in text:
            break
    else:  # so for nearly all memories, in a fraction of the time
        return 1.0
    found = {word for word in words(title) if word in asked and word not in STOP_WORDS}
    for name in names:
        telling = set(words(name)) - STOP_WORDS
        if telling <= asked:
            found |= telling
    return NAMED_TWICE if len(found) > 1 else NAMED if found else 1.0
