"""Whether texts say the same, by the words they share, their numbers and their negations: no model is asked. Pure.

It takes a text at its words. What is said in other words is left open; it is never guessed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from kingly_memory.models import Memory
from kingly_memory.retrieval.verdicts import REASON_LIMIT
from kingly_memory.retrieval.verification import NEUTRAL, Judge, Verification, VerificationStatus, by_confidence
from kingly_memory.stemming import stem
from kingly_memory.writing import STOP_WORDS, stems, unbroken_runs, without_unbroken

CLAIM_READ = 4_096
"""Characters of a memory that are compared."""
PASSAGES = 6_000
"""Characters of sources that a model is shown beside one memory."""
NEAREST = 64
"""Sentences of the sources that one sentence is held against."""
SAME_MATTER = 0.6
"""Share of a sentence's words that another has to hold before a number or a negation of it can contradict it."""
SUREST = 0.9
"""Of a verdict by words alone."""
FEWEST_WORDS = 2
"""A sentence of one word says too little to be borne out or contradicted."""

_NEGATIONS = frozenset("not no never cannot without none neither nor".split())
_NEGATED_WORDS = 3
_BREAKS = frozenset((*".,;:()!?—–", "but", "because", "although", "though", "unless", "until", "except", "instead"))
_NUMBER_WORDS = {
    word: str(number)
    for number, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
}
_NAMED_BY_NUMBER = frozenset(
    stem(word)
    for word in """number no task step item fact memory note test version issue part chapter phase day week page line
    row section case example entry event ticket sprint round attempt user agent release room""".split()
)
"""After these a number does not count but names: task 3 and task 4 are two things that say nothing of each other."""

_TOKEN = re.compile(r"[^\W\d_]+[-_.#]?\d[\w.-]*|\d+(?:[.,:/-]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)*|[.,;:()!?—–#]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|[\n。！？]+")
_NAME_WITH_NUMBER = re.compile(r"[^\W\d_]+[-_.#]?\d")


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence: the stems of what it is about, its numbers with the stems beside each, what it denies and
    affirms, and what it names by number."""

    text: str
    about: frozenset[str]
    numbers: Mapping[str, frozenset[str]]
    denied: frozenset[str]
    affirmed: frozenset[str]
    named: Mapping[str, str]

    @property
    def says_enough(self) -> bool:
        return len(self.about) + len(self.numbers) >= FEWEST_WORDS


def statements(text: str) -> list[Statement]:
    """The sentences of a text that say anything, each once. `3.5` and `v1.2` end none."""
    said = (_statement(sentence) for sentence in dict.fromkeys(_SENTENCE_END.split(text)) if sentence.strip())
    return [one for one in said if one.says_enough]


def conflict(one: Statement, other: Statement) -> str | None:
    """How two sentences about the same matter disagree, in words; None when they do not."""
    if _are_of_different_things(one, other):
        return None
    for number, beside in one.numbers.items():
        for instead, there in other.numbers.items():
            if number not in other.numbers and instead not in one.numbers and beside & there:
                return f"it says {instead}, not {number}"
    if (one.denied & other.affirmed) | (one.affirmed & other.denied):
        return "one says it, the other denies it"
    return None


def coverage(claim: Statement, other: Statement) -> float:
    """The share of a sentence's words that another one holds."""
    return len(claim.about & other.about) / len(claim.about) if claim.about else 0.0


def likeness(one: Set[str], other: Set[str]) -> float:
    """The share of words that two texts have in common (Dice 1945)."""
    return 2 * len(one & other) / (len(one) + len(other)) if one and other else 0.0


# --- against sources ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Finding:
    """What the sources say of one sentence. `agreed` None: they leave it open."""

    agreed: bool | None
    share: float
    reason: str = ""
    passage: str = ""


class Sources:
    """Texts known to be right, looked up by their words."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = tuple(texts)
        self._said = list({one.text: one for text in texts for one in statements(text)}.values())
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for place, one in enumerate(self._said):
            for word in one.about:
                self._places[word].append(place)

    def verify(self, content: str, threshold: float) -> Verification:
        """The verdict of the words. A sentence is borne out when a source holds its numbers and that share of its
        words, and denies none of them; a text is when all its sentences are."""
        findings = [self._finding(claim, threshold) for claim in statements(content[:CLAIM_READ])]
        against = [one for one in findings if one.agreed is False]
        if against:
            worst = max(against, key=lambda one: one.share)
            return _by_words(VerificationStatus.CONTRADICTED, worst.share, worst.reason, worst.passage)
        held = sum(one.share for one in findings) / len(findings) if findings else 0.0
        if findings and all(one.agreed for one in findings):
            reason = f"the sources hold {held:.0%} of its words, and no other number or negation"
            return _by_words(VerificationStatus.VERIFIED, held, reason)
        leaving = "the sources say something like it and leave it open" if held else "the sources do not speak of it"
        reason = next((one.reason for one in findings if one.reason), leaving)
        return _by_words(VerificationStatus.UNCERTAIN, min(held, NEUTRAL), reason)

    def passages(self, content: str, most: int = PASSAGES) -> list[str]:
        """What a model is to be shown beside a text: all of the sources when they are short, else the sentences that
        share the most words with it, in their order."""
        if sum(map(len, self._texts)) <= most:
            return list(self._texts)
        shared = Counter(place for word in stems(content[:CLAIM_READ]) for place in self._places.get(word, ()))
        chosen, room = [], most
        for place, _ in shared.most_common():
            room -= len(self._said[place].text)
            if room < 0:
                break
            chosen.append(place)
        return [self._said[place].text for place in sorted(chosen)] or [text[: most // 2] for text in self._texts[:1]]

    def _finding(self, claim: Statement, threshold: float) -> _Finding:
        near = list(self._near(claim, min(SAME_MATTER, threshold)))
        held = max((coverage(claim, one) for one in near), default=0.0)
        bearing = max((_weight(claim, one) for one in near if _bears_out(claim, one, threshold)), default=0.0)
        opposing = [one for one in near if coverage(claim, one) >= SAME_MATTER and conflict(claim, one)]
        worst = max(opposing, key=lambda one: _weight(claim, one), default=None)
        if worst is None or bearing > _weight(claim, worst):
            return _Finding(True if bearing else None, held)
        if bearing == _weight(claim, worst):
            return _Finding(None, held, "the sources disagree with each other")
        return _Finding(False, _weight(claim, worst), f"a source differs: {conflict(claim, worst)}", worst.text)

    def _near(self, claim: Statement, share: float) -> Iterator[Statement]:
        """The sentences that hold the most of its words, and at least that share."""
        shared = Counter(place for word in claim.about for place in self._places.get(word, ()))
        least = len(claim.about) * share
        return (self._said[place] for place, count in shared.most_common(NEAREST) if count >= least)


def _bears_out(claim: Statement, other: Statement, threshold: float) -> bool:
    return (
        coverage(claim, other) >= threshold
        and claim.numbers.keys() <= other.numbers.keys()
        and not _are_of_different_things(claim, other)
        and conflict(claim, other) is None
    )


def _weight(one: Statement, other: Statement) -> float:
    return likeness(one.about, other.about)


# --- against other memories -----------------------------------------------------------------------------------------


class Circle:
    """The memories that one search found, each compared with the others by the words they share."""

    def __init__(self, memories: Sequence[Memory]) -> None:
        self._memories = tuple(memories)
        self._about = {one.id: stems(one.content[:CLAIM_READ]) for one in memories}

    def most_similar(self, memory: Memory, most: int) -> list[Memory]:
        """The memories most like one, itself left out; equals stay in the order in which they were found."""
        own = self._about[memory.id]
        others = [one for one in self._memories if one.id != memory.id]
        return sorted(others, key=lambda one: -likeness(own, self._about[one.id]))[:most]


def cross_verify(memory: Memory, others: Sequence[Memory], threshold: float) -> Verification:
    """The verdict without a model: contradicted by a memory that is surer, or as sure and later; else what the memory
    says of itself."""
    claims = statements(memory.content[:CLAIM_READ])
    for other in others:
        if _prevails(other, memory):
            for one in statements(other.content[:CLAIM_READ]):
                differing = next((found for claim in claims if (found := _disagreement(claim, one))), None)
                if differing is not None:
                    share, how = differing
                    reason = f"a memory that is {_standing(other, memory)} differs: {how}"
                    return _by_words(VerificationStatus.CONTRADICTED, share, reason, other.content)
    because = "no memory like it contradicts it" if others else "there is no other memory to compare it with"
    return by_confidence(memory, threshold, because)


def _disagreement(claim: Statement, other: Statement) -> tuple[float, str] | None:
    share = _weight(claim, other)
    how = conflict(claim, other) if share >= SAME_MATTER else None
    return None if how is None else (share, how)


def _prevails(other: Memory, memory: Memory) -> bool:
    return (other.confidence, other.updated_at) > (memory.confidence, memory.updated_at)


def _standing(other: Memory, memory: Memory) -> str:
    return "surer" if other.confidence > memory.confidence else "as sure and later"


def _by_words(status: VerificationStatus, share: float, reason: str, passage: str = "") -> Verification:
    return Verification(status, min(share, SUREST), reason, passage[:REASON_LIMIT] or None, Judge.WORDS)


# --- one sentence ---------------------------------------------------------------------------------------------------


def _statement(sentence: str) -> Statement:
    tokens = [token.casefold() for token in _TOKEN.findall(without_unbroken(sentence))]
    contents = [_content(token) for token in tokens]
    denied, affirmed = _polarity(tokens, contents)
    pairs = {run[at : at + 2] for run in unbroken_runs(sentence) for at in range(max(len(run) - 1, 1))}
    numbers: dict[str, frozenset[str]] = {}
    named: dict[str, str] = {}
    for at, token in enumerate(tokens):
        number = _number(token)
        if number is None:
            continue
        before = contents[at - 1] if at and tokens[at - 1] != "#" else None
        if before in _NAMED_BY_NUMBER or tokens[at - 1 : at] in (["#"], ["no"]):
            named[before or "#"] = number
        else:
            numbers[number] = numbers.get(number, frozenset()) | _beside(contents, at)
    return Statement(
        sentence.strip(),
        frozenset(pairs.union(word for word in contents if word)),
        numbers,
        frozenset(denied - affirmed),
        frozenset(affirmed - denied),
        named,
    )


def _content(token: str) -> str | None:
    """The stem of a word that says what a sentence is about."""
    if token in STOP_WORDS or token in _NEGATIONS or token in _NUMBER_WORDS or _is_contracted(token):
        return None
    if _NAME_WITH_NUMBER.match(token):
        return token.rstrip(".-_")
    return stem(token.partition("'")[0].partition("’")[0]) if token[0].isalpha() else None


def _is_contracted(token: str) -> bool:
    return token.endswith(("n't", "n’t"))


def _number(token: str) -> str | None:
    """A number in one way of writing: `two` and `2`, `1,000` and `1000`, `3.0` and `3` are the same."""
    if token in _NUMBER_WORDS:
        return _NUMBER_WORDS[token]
    if not token[0].isdigit():
        return None
    if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", token):
        token = token.replace(",", "")
    if token.count(".") == 1 and token.replace(".", "").isdigit():
        token = token.rstrip("0").rstrip(".")
    return token.lstrip("0") or "0"


def _beside(contents: Sequence[str | None], at: int) -> frozenset[str]:
    """The nearest words that a number may belong to, on either side."""
    before = next((word for word in reversed(contents[max(at - 3, 0) : at]) if word), None)
    after = next((word for word in contents[at + 1 : at + 3] if word), None)
    return frozenset(word for word in (before, after) if word)


def _polarity(tokens: Sequence[str], contents: Sequence[str | None]) -> tuple[set[str], set[str]]:
    """(denied, affirmed): a negation denies the next few words of its clause, and a second one takes that back."""
    denied: set[str] = set()
    affirmed: set[str] = set()
    reach: list[int] = []
    for at, (token, word) in enumerate(zip(tokens, contents, strict=True)):
        if token in _BREAKS:
            reach = []
        elif _negates(tokens, at):
            reach.append(_NEGATED_WORDS)
        elif word is not None:
            (denied if len(reach) % 2 else affirmed).add(word)
            reach = [left - 1 for left in reach if left > 1]
    return denied, affirmed


def _negates(tokens: Sequence[str], at: int) -> bool:
    """`not only` denies nothing, and `no. 3` is a name."""
    following = tokens[at + 1] if at + 1 < len(tokens) else ""
    if tokens[at] == "not":
        return following != "only"
    if tokens[at] == "no":
        return not following[:1].isdigit()
    return tokens[at] in _NEGATIONS or _is_contracted(tokens[at])


def _are_of_different_things(one: Statement, other: Statement) -> bool:
    """Both name a thing by number, and not the same one."""
    return any(other.named.get(word, number) != number for word, number in one.named.items())
