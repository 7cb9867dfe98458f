"""Hits that say what another hit says: those that say the same are one hit, and of facts that change (decision D14) the
one that was said later stands first. By words alone. Pure.

Two sentences that are alike but for one value may be about two things. So a memory takes another one's place only where
all but that value is the same and both values are of one sort, or where it takes the other's value back itself (`not X
any more`, `Y, not X`, `Y statt X`). Changes that are told in quite other words are not noticed.

To stand first is less than to take a place, and costs less where it is wrong: the earlier hit is the next one. So a hit
that tells of a change stands before an earlier one where it is about the same subject of the question.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Sequence
from datetime import date
from functools import cache, lru_cache
from heapq import nlargest
from itertools import pairwise
from operator import attrgetter

from kingly_memory.dataclass import replace
from kingly_memory.models import Hit, Memory, MemoryType, Origin
from kingly_memory.text.writing import STOP_WORDS, has_unbroken, stem, stems, without_marks, words

READ, LOOKED_AT, COMPARED = 400, 20, 6
"""Characters of a memory that are read, since a change is told in a sentence or two; hits of a search that are looked
at; and the latest of those like one that it is compared with."""
LEAST_FRAME, LEAST_ABOUT, LEAST_SHARE = 3, 2, 0.3
"""Words that both have around the value, telling words that both have where one is taken back, and which part the
telling words of both are of the shorter one's."""
LONGEST_VALUE = 4
"""Words of a value, and of what says since when it is so."""
LEAST_RELEVANCE = 0.3
"""Which share of the earlier hit's relevance a later one has at least that stands before it: what is told in
other words shares few with the question. Below it routine notes that share a word with it stood before the answer."""
LEAST_PART, FEW = 0.5, 5
"""Which part of what is asked about a later hit holds at least in a script without spaces, whose pairs of characters go
across words; and hits that hold all of it at most. Where more do, as a name in a long conversation, a later one that
tells of some change stood before the answer."""


# --- what says the same ---------------------------------------------------------------------------------------------

READ_WHOLE = 2_048
"""Characters up to which texts are compared word by word; longer ones say the same when they are the same."""
_LINE = "\n"
"""Where a line ends is a mark too: it keeps the items of a list apart."""
_QUOTES = str.maketrans("“”„«»‘’", '"""""\'\'')


def fold(hits: Sequence[Hit]) -> tuple[tuple[Hit, ...], dict[str, tuple[str, ...]]]:
    """The hits that say something new, in their order, and the ids of those behind each that repeat it, by its id."""
    grouped = groups([hit.memory for hit in hits])
    under: dict[str, tuple[str, ...]] = {
        hits[first].memory.id: tuple(hits[index].memory.id for index in others) for first, *others in grouped if others
    }
    return tuple(hits[group[0]] for group in grouped), under


def groups(memories: Sequence[Memory]) -> list[list[int]]:
    """The places of memories that say the same: groups in the order of their first members, members in theirs."""
    by_statement: dict[Hashable, list[int]] = {}
    for index, memory in enumerate(memories):
        by_statement.setdefault(statement(memory), []).append(index)
    return list(by_statement.values())


def statement(memory: Memory) -> Hashable:
    """What a memory says and who says it: equal for those that say the same.

    Texts say the same when they are the same words and marks in the same order. Only the capital that a text begins
    with, the mark that ends it, room between words, and a date in front that is the day of storing make no difference.
    Everything else may: an article (`hepatitis a`), a comma (`the team lost, deploys won`), a capital (`US`).
    """
    text, metadata = memory.content, memory.metadata
    day = memory.created_at.date()
    content = text if len(text) > READ_WHOLE else _compared(text, day) or text
    teller = memory.origin, memory.scope.agent, str(metadata.get("speaker"))
    about = frozenset(memory.tags), metadata.get("record"), str(metadata.get("status"))
    return teller, about, _compared(memory.title or "", day), content


def _compared(text: str, day: date) -> tuple[str, ...]:
    """The words and the ends of lines, as they are compared."""
    if not text.isascii():
        from unicodedata import normalize

        text = normalize("NFC", text).translate(_QUOTES)
    tokens = [word for line in text.splitlines() if line.strip() for word in (*line.split(), _LINE)][:-1]
    if len(tokens) > 1 and tokens[0].strip("[]():,") == day.isoformat():
        del tokens[: 2 if tokens[1] == _LINE else 1]
    if tokens:
        tokens[-1] = tokens[-1].rstrip(".!…。！") or tokens[-1]  # but a question is no statement
        letters = tokens[0].replace("'", "").replace("-", "").strip('",;:()')
        if letters.isalpha() and letters[1:].islower():  # neither a name of letters nor a code
            tokens[0] = tokens[0].lower()
    return tuple(tokens)


# --- of hits ----------------------------------------------------------------------------------------------------------


def newer_first(hits: Sequence[Hit], question: str = "") -> tuple[Hit, ...]:
    """The hits in their order, but each behind the one that says it anew, which it names as `superseded_by`, and behind
    those that tell of a change of what is asked about. What stands before another is as relevant as that at least."""
    near = {hit.memory.id: hit for hit in hits[:LOOKED_AT]}
    about = cache(lambda one: stems(near[one].memory.content[:READ]))  # of most hits nobody asks
    asked = stems(question)
    instead: dict[str, Memory] = {}
    for one, hit in near.items():
        later = [
            near[other].memory
            for other in near
            if may_follow(near[other].memory, hit.memory) and _are_near(about(one), about(other))
        ]
        latest = nlargest(COMPARED, later, key=attrgetter("updated_at"))
        if (newer := next((other for other in latest if supersedes(other, hit.memory)), None)) is not None:
            instead[one] = newer
    ranked: dict[str, Hit] = {}

    def put(hit: Hit, relevance: float) -> None:
        one = hit.memory.id
        if one in ranked:
            return
        if hit.relevance < relevance:
            hit = replace(hit, relevance=relevance)
        if one in instead:
            put(near[instead[one].id], hit.relevance)  # later and later ones, so there is a last one
            hit = replace(hit, superseded_by=instead[one].id)
        may_change = one in near and hit.memory.type is not MemoryType.EPISODIC
        held = asked & about(one) if may_change else set()
        subject = _subject(question, held) if held else held
        for other in near if subject else ():
            later, share = near[other], near[other].relevance / hit.relevance if hit.relevance else 0.0
            if other in ranked or share < LEAST_RELEVANCE or not may_follow(later.memory, hit.memory):
                continue
            if not _is_about(subject, hit.memory, about(other), list(map(about, near))):
                continue
            if tells_of_a_change(later.memory):
                put(later, hit.relevance)
        ranked[one] = hit

    for hit in hits:
        put(hit, 0.0)
    return tuple(ranked.values())


def _subject(question: str, held: set[str]) -> set[str]:
    """What a question is about, of the words that a text has of it: not how it is asked (`which lessons`)."""
    form = re.search(_ASKED_FOR, question, re.IGNORECASE)
    about = held - _predicates()
    return about - stems(form[1] if form else "") or about or held


def _is_about(subject: set[str], earlier: Memory, held: set[str], by_all: Collection[set[str]]) -> bool:
    """Whether a text with these words is about the subject of an earlier one, which has it whole. `by_all` are the
    words of all hits: what many of them hold says little about which thing is meant.

    A text may lack one word of it. The platform team `sits` somewhere; where it went says who names the platform team.
    What it has to hold is the word that came first, since another team has another one in front, a name, a number, and
    what has an article of its own (`the key of the cellar`). German nouns look like names.
    """
    lost, text = subject - held, earlier.content[:READ]
    if has_unbroken(text):
        return len(lost) <= (1 - LEAST_PART) * len(subject)
    if not lost:
        return sum(subject <= each for each in by_all) <= FEW
    if len(lost) > 1:
        return False
    said = [(word, stem(without_marks(word.casefold()))) for word in re.findall(r"[^\W_]+", text)]
    first = next((one for _, one in said if one in subject), None)
    needed = {first} | {
        one
        for (before, _), (word, one) in pairwise(said)
        if one in subject and (word[0].isdigit() or word[0].isupper() or before.casefold() in _THE)
    }
    return needed <= held and sum(needed <= each for each in by_all) == 2  # noqa: PLR2004  # these two alone


def _are_near(one: set[str], other: set[str]) -> bool:
    both = len(one & other)
    return both > 0 and both >= LEAST_SHARE * min(len(one), len(other))


# --- of two memories --------------------------------------------------------------------------------------------------

# Texts, which `re` compiles for the first pair of hits that is near enough: most new processes never see one.
_OWN = r"\b(?:I|(?i:me|my|mine|ich|mein\w*|yo|mi|mis))\b"
_WORD = r"#?\w+(?:[.,:/_@-]\w+)*(?:['’]\w+)?"
_PARTS = r"(?<=[.!?。！？])\s+|[\n;]+|,\s+"


def supersedes(newer: Memory, older: Memory) -> bool:
    """Whether the newer one of two memories says anew what the older one says."""
    if not may_follow(newer, older):
        return False
    before, after = older.content[:READ], newer.content[:READ]
    old = _parts(before)[0]
    return any(_differs_in_a_value(old, part) for part in _parts(after)) or _is_taken_back(before, after)


def may_follow(newer: Memory, older: Memory) -> bool:
    """Whether it is for the newer one of two memories to say that the older one is so no more.

    Nobody but the user takes back what the user has said, no web page or file what an agent has, and nobody else what
    one says of himself. Two keys are two things: who corrects a memory that has a key stores it again.
    """
    if newer.key is not None and older.key is not None:
        return False
    if newer.updated_at <= older.updated_at or (older.origin is Origin.USER and newer.origin is not Origin.USER):
        return False
    if newer.origin not in (older.origin, Origin.USER, Origin.AGENT):
        return False
    return speaker(newer) == speaker(older) or not re.search(_OWN, older.content)


def speaker(memory: Memory) -> tuple[object, ...]:
    """Who says it, as far as the memory tells."""
    return memory.origin, memory.scope.agent, memory.metadata.get("speaker")


# --- a change is told -----------------------------------------------------------------------------------------------

_CHANGES = """
now currently anymore longer instead since meanwhile lately newly new until changed moved moving switched
switching replaced renamed dropped cancelled canceled upgraded migrated converted ported rewritten raised lowered
reduced increased cut halved doubled tripled extended extension shortened postponed pushed delayed adjourned
rescheduled brought retired resigned left quit sold bought took taken handed corrected correction wrong mistaken gone
gave given merged updated became becomes elected promoted succeeded stopped ended expired started joined
bankrupt settled agreed decided booked picked lost turned permanent registered finally down jetzt nun inzwischen
mittlerweile seit ab mehr statt sondern stattdessen neu neue neuer neues neuen geändert gewechselt ersetzt verlegt
verschoben verlängert gekürzt umgezogen gezogen umbenannt übernommen aufgegeben korrektur falsch abgeschafft gekündigt
verkauft beendet künftig rente worden wurde wurden ahora ya desde nuevo nueva nuevos nuevas corrección deja dejan final
"""
_CHANGE = (
    r"\b(?:from (?:here|now|today) on|these days|as of|any more|fell through|used to|(?:has|have) been|de ahora"
    r"|(?:he|ha|han|hemos) \w+(?:ado|ido|to|cho)|\w{3,}(?:ó|aron|ieron)|cambi\w+|dejé|(?:auf|um|ab|ver)ge\w+t)\b"
)
_CHANGE_UNBROKEN = "现在|目前|已经|改|换|搬|不再|不用|了[，。,.;；！]|了$|涨|推迟|提前|离职|接手|新|从.{1,8}起|升|迁移"


@lru_cache(maxsize=1)
def _changes() -> frozenset[str]:
    return frozenset(map(stem, _CHANGES.split()))


def tells_of_a_change(memory: Memory) -> bool:
    """Whether its words say that something is other than it was. What has happened stays so: an episode never does."""
    if memory.type is MemoryType.EPISODIC:
        return False
    text = memory.content[:READ]
    if has_unbroken(text) and re.search(_CHANGE_UNBROKEN, text):
        return True
    return not _changes().isdisjoint(map(stem, words(text))) or re.search(_CHANGE, text, re.IGNORECASE) is not None


# --- what a question is about -----------------------------------------------------------------------------------------

_ASKED_FOR = r"\b(?:what|which|whose|how (?:many|much)|welche[rsnm]?|wie viele?|qué|cuánt[oa]s?)\s+(\w+)"
_PREDICATES = """
sich der die das den dem des ein eine einen einem einer und ich du er sie es wir ihr mir mich uns man ist sind war hat
habe haben wird werden nicht mit von zu zum zur im in am an auf aus bei für mein meine unser unsere wie was wer wo wann
warum welche welcher welches welchem womit worauf wohin viel hoch bis el la los las un una y o mi mis tu su nuestro
nuestra es son está están con de del al en por para que cuándo dónde quién qué cómo cuánto cuál tiene se lo live work
use take run go start begin call name write cost hang listen drive meet leave get belong own keep lie stay want need
like prefer type kind sort user's much many number heißt heißen wohnt wohne liegt steht läuft kostet beträgt nutzen
nutzt trifft fährt geht leitet findet llama llamo vive vivo usamos uso cuesta trabajo trabaja hacemos hace escucha
estudia lleva
"""
"""Words of grammar, and what is said of many things."""


@lru_cache(maxsize=1)
def _predicates() -> frozenset[str]:
    return frozenset(stems(_PREDICATES))


# --- all but a value is the same --------------------------------------------------------------------------------------

_WHEN = frozenset(
    "now currently today meanwhile correction update corrected from since as of this last next week month quarter year "
    "jetzt nun seit ab inzwischen korrektur ahora desde ya hoy corrección".split()
)
_WHY = frozenset("as under because after with at by starting per until weil nach porque".split())
"""How what is added begins: since when it is so, or why. Anything else may say of which cases it is true."""
_CASES = frozenset(
    "if when unless except only during while wenn falls außer nur während cuando si salvo solo sólo durante".split()
)
"""A sentence with one of these is about some cases alone."""
_HAPPENED = frozenset(
    "was were had did took went came got made gave sold bought met said told war waren hatte wurde fue fueron tuvo "
    "hubo".split()
)
"""What has happened once stays so, whatever happens another time."""
_DAYS = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday montag dienstag mittwoch donnerstag freitag samstag "
    "sonntag lunes martes miércoles jueves viernes sábado domingo".split()
)
_MONTHS = frozenset(
    "january february march april may june july august september october november december januar februar märz mai "
    "juni juli oktober dezember enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre "
    "diciembre".split()
)
_NUMBERS = frozenset(
    "one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty hundred eins zwei drei "
    "vier fünf sechs sieben acht neun zehn uno dos tres cuatro cinco seis siete ocho nueve diez".split()
)
NAMED_BY_NUMBER = frozenset(
    """number task step item issue ticket test part chapter phase page line row question day week version release round
    team group room floor server node user customer order account project january february march april may june july
    august september october november december""".split()
)
"""A number after one of these is a name: task 3 and task 4 are two things, and so are March 3 and March 4."""
_IS = frozenset("is are am named called lives live in at ist sind heißt liegt es son está vive".split())
"""What stands before a value of which there is one."""
_THE = frozenset("the our my user's your der die das unser unsere mein meine el la los las nuestro nuestra mi".split())
_LINKS = STOP_WORDS - {"s", "t"}


@lru_cache(maxsize=LOOKED_AT * 2)  # each is compared with several
def _parts(text: str) -> list[list[str]]:
    """The words of each part of a text."""
    return [re.findall(_WORD, part) for part in re.split(_PARTS, text)]


def _differs_in_a_value(old: Sequence[str], new: Sequence[str]) -> bool:
    from difflib import SequenceMatcher  # most searches find nothing that is this much alike

    one, other = ([word.casefold() for word in said] for said in (old, new))
    if (
        len(set(one).difference(other)) > LONGEST_VALUE
        or _HAPPENED.intersection(one)
        or _CASES.intersection(other) - set(one)
    ):
        return False
    spots = [
        spot
        for kind, *spot in SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
        if kind != "equal" and not (kind == "insert" and _is_added(other, *spot[2:]))
    ]
    if len(spots) != 1:
        return False
    start, end, begin, stop = spots[0]
    if end == len(one):  # behind the value may stand since when, or why
        stop = next((at for at in range(begin + 1, stop) if other[at] in _WHEN | _WHY), stop)
    frame = [*one[:start], *one[end:]]
    if len(frame) < LEAST_FRAME or STOP_WORDS.issuperset(frame) or max(end - start, stop - begin) > LONGEST_VALUE:
        return False
    if start == end:
        return other[begin:stop] == ["not"]
    if start and one[start - 1] in NAMED_BY_NUMBER - {"version", "release"}:
        return False
    if _LINKS.intersection(other[begin:stop]) - set(one[start:end]):
        return False  # `7 % for books` is no other price than 20 %
    sorts = {_sort(old[start:end]), _sort(new[begin:stop])}
    if start == 0:  # who holds an office that one alone holds
        return sorts == {"name"} and len(one) > end + 1 and one[end] in _IS and one[end + 1] in _THE
    return len(sorts) == 1 and "" not in sorts and (sorts != {"name"} or one[start - 1] in _IS)


def _is_added(said: Sequence[str], begin: int, stop: int) -> bool:
    """Whether these words of a sentence only say since when it is so, or why."""
    longest = LONGEST_VALUE if begin == 0 else 2
    is_when = said[begin] in _WHEN and stop - begin <= longest
    return is_when or (stop == len(said) and said[begin] in _WHEN | _WHY)


def _sort(value: Sequence[str]) -> str:
    """What sort of value these words are; empty where nothing is left of them."""
    folded = [word.casefold() for word in value]
    for sort, known in (("day", _DAYS), ("month", _MONTHS)):
        if not known.isdisjoint(folded):
            return sort
    if any(word[0].isdigit() or word[0] == "#" or word in _NUMBERS for word in folded):
        return "number"
    return "name" if folded else ""


# --- a value is taken back --------------------------------------------------------------------------------------------

_DENIALS = frozenset("not no never nicht kein keine keinen nie niemals nunca ningún ninguna".split())
_VALUE = r"(?P<value>#?\w+(?:[.,:/_@-]\w+)*)"
_TAKEN_BACK = (
    r"(?:,\s+not|\bno longer|\binstead of|\brather than|\bin place of|,\s+nicht|\bnicht mehr|\bstatt|\banstelle von"
    r"|\bya no(?: es| está| son)?|\ben lugar de|\ben vez de)\s+"
    rf"(?:(?:at|in|on|the|a|an|use|is|are|im|am|der|die|das|el|la|los|las)\s+){{0,2}}{_VALUE}"
)
_ANY_MORE = rf"\bnot\s+(?:\w+\s+){{0,3}}?{_VALUE}\s+any ?more\b"


def _is_taken_back(before: str, after: str) -> bool:
    """Whether the newer text, which is about the same, says that something in the older one is so no more."""
    found = re.search(_TAKEN_BACK, after, re.IGNORECASE) or re.search(_ANY_MORE, after, re.IGNORECASE)
    said, now = words(before), words(after)
    if found is None or _DENIALS.intersection(said) or _CASES.intersection(now) - set(said):
        return False
    value, old = stems(found["value"]), stems(before)
    return value <= old and len((old & stems(after)) - value) >= LEAST_ABOUT
