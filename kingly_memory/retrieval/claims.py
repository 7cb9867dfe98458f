"""Whether texts say the same, by their words, numbers and negations: no model is asked. Pure.

Sentences contradict each other only if they have the same words. What is said in other words is left open.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from kingly_memory.models import Memory
from kingly_memory.retrieval.repeats import NAMED_BY_NUMBER, speaker, supersedes
from kingly_memory.retrieval.verification import (
    NEUTRAL,
    REASON_LIMIT,
    Judge,
    Verification,
    VerificationStatus,
    by_confidence,
)
from kingly_memory.text.writing import STOP_WORDS, shared, stem, stems, unbroken_runs, without_unbroken

CLAIM_READ = 4_096
"""Characters of a memory that are compared."""
PASSAGES = 6_000
"""Characters of sources that a model is shown beside one memory."""
NEAREST = 64
"""Sentences of the sources that one sentence is compared with, those that share the most words first."""
SUREST = 0.9
"""Of a verdict by words alone."""
FEWEST_WORDS = 2
"""A sentence of one word says too little to be borne out or contradicted."""

_NEGATIONS = frozenset("not no never cannot none neither nobody nothing nowhere".split())
_NUMBER_WORDS = {
    word: str(number)
    for number, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
}
_IDLE = STOP_WORDS.union(_NEGATIONS, "without always already current currently every regularly still usually".split())
_IDLE -= set("about above after before below between more most over under".split())
"""Words without a share in what a sentence is about. A bound has one: *at most two* leaves room for one."""

_NUMBERED = re.compile(r"\d+(?:[.,:]\d+)*")
_NUMBER = re.compile(r",(?=\d{3}(?!\d))|(?:\.0+|:00)$|^0+(?=\d)")
"""What is left out of a number: `1,000` and `1000`, `3.0` and `3`, `9:00` and `9` are the same."""
_TOKEN = re.compile(r"\d{4}-\d\d?(?:-\d\d?)?|\d+(?:[.,:]\d+)*(?!\w)|[#\w][\w.#-]*(?:['’]\w+)?")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|[\n。！？]+|,?\s+(?=because\b|although\b)")
_NOT_ONLY = re.compile(r"\bnot only\b", re.IGNORECASE)
_POINTING = re.compile(
    r"\W*(?:because |although )?(?:it|its|he|she|his|her|they|their|this|that|these|those)\b", re.IGNORECASE
)
"""How a sentence begins that speaks of what was named before it."""
_OWN = re.compile(r"\b(?:I|me|my|mine|myself)\b", re.IGNORECASE)
"""Who is meant depends on who speaks."""


class Claim(NamedTuple):
    """One sentence: the stems of what it is about, its numbers, and how many negations it has that count."""

    text: str
    words: frozenset[str]
    numbers: frozenset[str]
    denials: int


def claims(text: str) -> list[Claim]:
    """The sentences of a text that say enough to be compared, each once. `3.5` and `v1.2` end none."""
    found = (_claim(sentence) for sentence in dict.fromkeys(_SENTENCE_END.split(text)))
    return [claim for claim in found if len(claim.words) + len(claim.numbers) >= FEWEST_WORDS]


def conflict(claim: Claim, other: Claim) -> str | None:
    """How two sentences of the same words contradict each other: one number differs, or one has a negation and the
    other has none. None when they do not."""
    if claim.words != other.words or _POINTING.match(claim.text) or _POINTING.match(other.text):
        return None
    numbers, instead = claim.numbers - other.numbers, other.numbers - claim.numbers
    if len(numbers) == len(instead) == 1 and claim.denials == other.denials:
        return f"it says {next(iter(instead))}, not {next(iter(numbers))}"
    if not numbers and not instead and (claim.denials == 0) != (other.denials == 0):
        return "one says it, the other denies it"
    return None


class Sources:
    """Texts known to be right, looked up by their words."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = tuple(texts)
        self._claims = list({one.text: one for text in texts for one in claims(text)}.values())
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for index, claim in enumerate(self._claims):
            for word in claim.words:
                self._places[word].append(index)

    def verify(self, content: str, threshold: float) -> Verification:
        """The verdict of the words. A text is contradicted when one of its sentences is, and verified when all are
        borne out: a source holds their numbers and that share of their words, with as many negations."""
        held: list[float] = []
        disagreeing = False
        for claim in claims(content[:CLAIM_READ]):
            near = [self._claims[index] for index, _ in self._shared(claim.words).most_common(NEAREST)]
            share = max((_shared(claim, other) for other in near), default=0.0)
            against = next((other for other in near if conflict(claim, other)), None)
            if against is not None and share < threshold:
                reason = f"a source differs: {conflict(claim, against)}"
                return _by_words(VerificationStatus.CONTRADICTED, SUREST, reason, against.text)
            disagreeing = disagreeing or against is not None
            held.append(share)
        mean = sum(held) / len(held) if held else 0.0
        if disagreeing:
            return _by_words(VerificationStatus.UNCERTAIN, NEUTRAL, "the sources disagree with each other")
        if held and min(held) >= threshold:
            reason = f"the sources hold {mean:.0%} of its words, and no other number or negation"
            return _by_words(VerificationStatus.VERIFIED, mean, reason)
        return _by_words(VerificationStatus.UNCERTAIN, min(mean, NEUTRAL), "the sources do not say so")

    def passages(self, content: str, most: int = PASSAGES) -> list[str]:
        """What a model is to be shown beside a text: all of the sources when they are short, else the sentences that
        share the most words with it, in their order."""
        if sum(map(len, self._texts)) <= most:
            return list(self._texts)
        chosen, room = [], most
        for index, _ in self._shared(stems(content[:CLAIM_READ])).most_common():
            room -= len(self._claims[index].text)
            if room < 0:
                break
            chosen.append(index)
        return [self._claims[index].text for index in sorted(chosen)] or [self._texts[0][: most // 2]]

    def _shared(self, about: frozenset[str] | set[str]) -> Counter[int]:
        """By the place of a sentence, how many of these words it has."""
        return Counter(index for word in about for index in self._places.get(word, ()))


def most_similar(memory_id: str, about: Mapping[str, Set[str]], most: int) -> list[str]:
    """The memories that share the most words with one, itself left out; equals stay in their order. `about` has the
    stems of each, by id."""
    others = [other for other in about if other != memory_id]
    return sorted(others, key=lambda other: -shared(about[memory_id], about[other]))[:most]


def cross_verify(memory: Memory, others: Sequence[Memory], threshold: float) -> Verification:
    """The verdict without a model: contradicted by a memory that is surer, or as sure and later; else what the memory
    says of itself."""
    own = claims(memory.content[:CLAIM_READ])
    for other in others:
        if (other.confidence, other.updated_at) <= (memory.confidence, memory.updated_at):
            continue
        if supersedes(other, memory):
            reason = "a memory that is later says it anew"
            return _by_words(VerificationStatus.CONTRADICTED, SUREST, reason, other.content)
        is_other_speaker, theirs = speaker(other) != speaker(memory), claims(other.content[:CLAIM_READ])
        for claim in own:
            for other_claim in theirs:
                how = (
                    None
                    if is_other_speaker and _OWN.search(claim.text + other_claim.text)
                    else conflict(claim, other_claim)
                )
                if how is not None:
                    status = "surer" if other.confidence > memory.confidence else "as sure and later"
                    reason = f"a memory that is {status} differs: {how}"
                    return _by_words(VerificationStatus.CONTRADICTED, SUREST, reason, other.content)
    because = "no memory like it contradicts it" if others else "there is no other memory to compare it with"
    return by_confidence(memory, threshold, because)


def _shared(claim: Claim, other: Claim) -> float:
    """The share of a sentence's words that another one holds; 0 where that has not its numbers or other negations, or
    where each has words of its own, for then they may speak of different things."""
    is_open = not (claim.words <= other.words or other.words <= claim.words)
    if is_open or not claim.numbers <= other.numbers or claim.denials != other.denials:
        return 0.0
    return len(claim.words & other.words) / max(len(claim.words), 1)


def _by_words(status: VerificationStatus, share: float, reason: str, passage: str = "") -> Verification:
    return Verification(status, min(share, SUREST), reason, passage[:REASON_LIMIT] or None, Judge.WORDS)


def _claim(sentence: str) -> Claim:
    spelt = [token.rstrip("-._") for token in _TOKEN.findall(_NOT_ONLY.sub("", without_unbroken(sentence)))]
    tokens = [token.casefold() for token in spelt]
    about = {run[at : at + 2] for run in unbroken_runs(sentence) for at in range(max(len(run) - 1, 1))}
    numbers = set()
    for at, token in enumerate(tokens):
        number = _NUMBER_WORDS.get(token) or (_NUMBER.sub("", token) if _NUMBERED.fullmatch(token) else None)
        if number is not None and at and tokens[at - 1] in NAMED_BY_NUMBER:
            about.add(f"#{number}")
        elif number is not None:
            numbers.add(number)
        elif (bare := re.split("['’]", token)[0]) not in _IDLE and not _negates(token):
            about.add(stem(bare))
        elif at and len(token) == 1 and spelt[at].isupper() and spelt[at] != "I":
            about.add(spelt[at])  # server A is not server B
    denials = abs(sum(map(_negates, tokens)) - tokens.count("without"))
    return Claim(sentence.strip(), frozenset(about), frozenset(numbers), denials)


def _negates(token: str) -> bool:
    return token in _NEGATIONS or token.endswith(("n't", "n’t"))
