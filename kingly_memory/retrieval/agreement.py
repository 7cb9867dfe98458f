"""Whether texts say the same, by the words they share, their numbers and their negations: no model is asked. Pure.

It takes a text at its words. What is said in other words is left open; it is never guessed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from kingly_memory.models import Memory
from kingly_memory.retrieval.verdicts import REASON_LIMIT
from kingly_memory.retrieval.verification import NEUTRAL, Judge, Verification, VerificationStatus, by_confidence
from kingly_memory.stemming import stem
from kingly_memory.writing import STOP_WORDS, shared, stems, unbroken_runs, without_unbroken

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

_NEGATIONS = frozenset("not no never cannot without none neither nor nobody nothing nowhere".split())
_NEGATED_WORDS = 3
_JOINTS = (["and"], ["or"])
_BREAKS = frozenset((*".,;:()!?—–", "but", "because", "although", "though", "unless", "until", "except", "instead"))
_NUMBER_WORDS = {
    word: str(number)
    for number, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
}
_NAMED_BY_NUMBER = frozenset(
    stem(word)
    for word in """number no task step item fact memory note test version issue part chapter phase day week page line
    row section case example entry event ticket sprint round attempt user agent release room team group server node
    shard zone region customer order account project build job floor id bug question january february march april may
    june july august september october november december""".split()
)
"""After these a number does not count but names: task 3 and task 4 are two things that say nothing of each other."""
_SECONDS = {
    word: Decimal(seconds)
    for seconds, several in {
        "0.001": "ms millisecond milliseconds",
        "1": "s sec secs second seconds",
        "60": "min mins minute minutes",
        "3600": "h hr hrs hour hours",
        "86400": "day days",
        "604800": "week weeks",
    }.items()
    for word in several.split()
}
"""Behind a number: 30 seconds and 30,000 ms are one length of time."""
_DATE = "date"
_ISO_DATE = re.compile(r"\d{4}[-/]\d\d?([-/]\d\d?)?")
_YEAR = re.compile(r"(19|20)\d\d")
_BOUNDS = frozenset(
    "least most about around approximately roughly nearly almost over under than maximum minimum".split()
)
"""Beside one of these a number leaves room for others."""
_PREPOSITIONS = frozenset(
    "about after at before between by during for from in into of on over per since through under until via with "
    "within without".split()
)
_ASIDE = frozenset(
    stem(word) for word in "always already current currently every exactly regularly still usually".split()
)
"""Words that narrow nothing down."""
_REVERSALS = frozenset(
    stem(word)
    for word in """avoid avoided ban banned disable disabled disallowed drop dropped fail failed forbid forbidden lack
    prevent prohibit prohibited refuse refused remove removed skip skipped stop stopped""".split()
)
"""What says the opposite without a negation: a negation on the other side may agree with it."""
_POINTING = frozenset("it he she they this that these those its his her their".split())
"""A sentence that begins with one of these speaks of what was named before it."""
_OWN = frozenset("i my me mine myself".split())
"""Who is meant depends on who speaks."""

_TOKEN = re.compile(r"[^\W\d_]+[-_.#]?\d[\w.-]*|\d+(?:[.,:/-]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)*|[.,;:()!?—–#]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|[\n。！？]+")
_NAME_WITH_NUMBER = re.compile(r"[^\W\d_]+[-_.#]?\d")


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence: the stems of what it is about, and those of them that narrow down what is meant; its numbers with
    the stems beside each, and as they are written; what it denies and affirms, and what it names by number or date."""

    text: str
    about: frozenset[str]
    narrowing: frozenset[str]
    numbers: Mapping[str, frozenset[str]]
    written: Mapping[str, str]
    denied: frozenset[str]
    affirmed: frozenset[str]
    named: Mapping[str, str]
    is_bounded: bool = False
    is_pointing: bool = False
    is_own: bool = False

    @property
    def says_enough(self) -> bool:
        return len(self.about) + len(self.numbers) >= FEWEST_WORDS


def statements(text: str) -> list[Statement]:
    """The sentences of a text that say anything, each once. `3.5` and `v1.2` end none."""
    said = (_statement(sentence) for sentence in dict.fromkeys(_SENTENCE_END.split(text)) if sentence.strip())
    return [one for one in said if one.says_enough]


def conflict(one: Statement, other: Statement) -> str | None:
    """How two sentences about the same matter disagree, in words; None when they do not.

    Only a number or a negation may differ. Where each has a word of its own, or one says of what narrower thing it
    speaks, both may be true."""
    if _are_of_different_things(one, other) or _may_both_hold(one, other):
        return None
    number, instead = one.numbers.keys() - other.numbers.keys(), other.numbers.keys() - one.numbers.keys()
    if len(number) == len(instead) == 1 and not (one.is_bounded or other.is_bounded):
        [said], [there] = number, instead
        if one.numbers[said] & other.numbers[there]:
            return f"it says {other.written[there]}, not {one.written[said]}"
    return "one says it, the other denies it" if number == instead and _is_denied(one, other) else None


def coverage(claim: Statement, other: Statement) -> float:
    """The share of a sentence's words that another one holds."""
    return len(claim.about & other.about) / len(claim.about) if claim.about else 0.0


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
        and not (claim.narrowing - other.about and other.narrowing - claim.about)
        and not _is_denied(claim, other)
    )


def _weight(one: Statement, other: Statement) -> float:
    return shared(one.about, other.about)


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
        return sorted(others, key=lambda one: -shared(own, self._about[one.id]))[:most]


def cross_verify(memory: Memory, others: Sequence[Memory], threshold: float) -> Verification:
    """The verdict without a model: contradicted by a memory that is surer, or as sure and later; else what the memory
    says of itself."""
    claims = statements(memory.content[:CLAIM_READ])
    for other in others:
        if _prevails(other, memory):
            by_another = _speaker(other) != _speaker(memory)
            for one in statements(other.content[:CLAIM_READ]):
                comparable = [claim for claim in claims if not (by_another and (claim.is_own or one.is_own))]
                differing = next((found for claim in comparable if (found := _disagreement(claim, one))), None)
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


def _speaker(memory: Memory) -> tuple[object, ...]:
    return memory.origin, memory.scope.agent, memory.metadata.get("speaker")


def _standing(other: Memory, memory: Memory) -> str:
    return "surer" if other.confidence > memory.confidence else "as sure and later"


def _by_words(status: VerificationStatus, share: float, reason: str, passage: str = "") -> Verification:
    return Verification(status, min(share, SUREST), reason, passage[:REASON_LIMIT] or None, Judge.WORDS)


# --- one sentence ---------------------------------------------------------------------------------------------------


def _statement(sentence: str) -> Statement:
    spelt = _TOKEN.findall(without_unbroken(sentence))
    tokens = [token.casefold() for token in spelt]
    names = _names(spelt)
    contents = [_word(tokens, at, is_name=at in names) for at in range(len(tokens))]
    denied, affirmed = _polarity(tokens, contents)
    pairs = {run[at : at + 2] for run in unbroken_runs(sentence) for at in range(max(len(run) - 1, 1))}
    numbers: dict[str, frozenset[str]] = {}
    written: dict[str, str] = {}
    named: dict[str, str] = {}
    for at, token in enumerate(tokens):
        number = _number(token)
        if number is None:
            continue
        before = contents[at - 1] if at and tokens[at - 1] != "#" else None
        if _is_date(tokens, at):
            named[_DATE] = number
        elif before in _NAMED_BY_NUMBER or tokens[at - 1 : at] in (["#"], ["no"]):
            named[before or "#"] = number
        else:
            figure = _figure(tokens, at, number)
            numbers[figure] = numbers.get(figure, frozenset()) | _beside(contents, at)
            written[figure] = f"{token} {tokens[at + 1]}" if _is_unit(tokens, at + 1) else number
    first = next(iter(tokens), "")
    return Statement(
        text=sentence.strip(),
        about=frozenset(pairs.union(word for word in contents if word)),
        narrowing=frozenset(_narrowing(tokens, contents, names)),
        numbers=numbers,
        written=written,
        denied=frozenset(denied - affirmed),
        affirmed=frozenset(affirmed - denied),
        named=named,
        is_bounded=not _BOUNDS.isdisjoint(tokens),
        is_pointing=first in _POINTING,
        is_own=not _OWN.isdisjoint(tokens),
    )


def _names(spelt: Sequence[str]) -> frozenset[int]:
    """The places of words with a capital letter that no sentence or clause begins with: `Berlin`, server `A`."""
    return frozenset(
        at
        for at, (before, word) in enumerate(pairwise(spelt), start=1)
        if word[0].isupper() and word != "I" and before[0].isalnum()
    )


def _word(tokens: Sequence[str], at: int, *, is_name: bool) -> str | None:
    if is_name and len(tokens[at]) == 1:
        return tokens[at]
    return None if _is_unit(tokens, at) else _content(tokens[at])


def _is_unit(tokens: Sequence[str], at: int) -> bool:
    return 0 < at < len(tokens) and tokens[at] in _SECONDS and _number(tokens[at - 1]) is not None


def _figure(tokens: Sequence[str], at: int, number: str) -> str:
    """A number as it is compared: a length of time in seconds."""
    if not _is_unit(tokens, at + 1) or not number.replace(".", "", 1).isdecimal():
        return number
    return f"{(Decimal(number) * _SECONDS[tokens[at + 1]]).normalize():f} s"


def _is_date(tokens: Sequence[str], at: int) -> bool:
    if _ISO_DATE.fullmatch(tokens[at]):
        return True
    return at > 0 and _YEAR.fullmatch(tokens[at]) is not None and tokens[at - 1] in _PREPOSITIONS


def _narrowing(tokens: Sequence[str], contents: Sequence[str | None], names: Set[int]) -> Iterator[str]:
    """The words that say which of several is meant: names, and what stands right before another word or behind a
    preposition."""
    for at, word in enumerate(contents):
        if word is None or word in _ASIDE:
            continue
        leading = at + 1 < len(contents) and contents[at + 1] is not None
        before = at - 1
        while before >= 0 and tokens[before] in STOP_WORDS and tokens[before] not in _PREPOSITIONS:
            before -= 1
        if at in names or leading or (before >= 0 and tokens[before] in _PREPOSITIONS):
            yield word


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
    """A number in one way of writing: `two` and `2`, `1,000` and `1000`, `3.0` and `3`, `9:00` and `9` are the same."""
    if token in _NUMBER_WORDS:
        return _NUMBER_WORDS[token]
    if not token[0].isdigit():
        return None
    if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", token):
        token = token.replace(",", "")
    token = token.removesuffix(":00")
    if token.count(".") == 1 and token.replace(".", "").isdigit():
        token = token.rstrip("0").rstrip(".")
    return token.lstrip("0") or "0"


def _beside(contents: Sequence[str | None], at: int) -> frozenset[str]:
    """The nearest words that a number may belong to, on either side."""
    before = next((word for word in reversed(contents[max(at - 3, 0) : at]) if word), None)
    after = next((word for word in contents[at + 1 : at + 3] if word), None)
    return frozenset(word for word in (before, after) if word)


def _polarity(tokens: Sequence[str], contents: Sequence[str | None]) -> tuple[set[str], set[str]]:
    """(denied, affirmed): a negation denies the next few words of its clause. A second one takes that back and affirms
    what follows: of what stands between the two neither is said. `not this and not that` are two clauses."""
    denied: set[str] = set()
    affirmed: set[str] = set()
    clause: set[str] = set()
    left = negations = 0
    is_joined = False
    for at, (said, word) in enumerate(zip(tokens, contents, strict=True)):
        if said in _BREAKS:
            left, negations, clause = 0, 0, set()
        elif _negates(tokens, at):
            is_anew = said == "nor" or tokens[at - 1 : at] in _JOINTS or (is_joined and said != "without")
            negations = 1 if is_anew else negations + 1
            left = _NEGATED_WORDS if negations % 2 else 0
            if negations > 1:
                denied -= clause
            clause, is_joined = set(), False
        elif [said] in _JOINTS:
            is_joined = True
        elif word is not None:
            if left:
                clause.add(word)
            (denied if left else affirmed).add(word)
            left = max(left - 1, 0)
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
    """Both name a thing by number or date, and not the same one."""
    return any(other.named.get(word, number) != number for word, number in one.named.items())


def _may_both_hold(one: Statement, other: Statement) -> bool:
    """They differ in more than a number or a negation: in a name, a place, a day, or what is said of it."""
    if one.is_pointing or other.is_pointing:
        return True
    own, others = one.about - other.about - _ASIDE, other.about - one.about - _ASIDE
    telling = (own & one.narrowing) | (others & other.narrowing) | ((own | others) & _REVERSALS)
    return bool((own and others) or telling or one.named.keys() ^ other.named.keys())


def _is_denied(one: Statement, other: Statement) -> bool:
    """One denies a word that the other affirms."""
    return bool((one.denied & other.affirmed) | (one.affirmed & other.denied))
