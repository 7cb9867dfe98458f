"""What a long text asks for: the question in a pasted prompt, log, trace, file or mail, or else its telling words.

A search for all the words of a paste finds whatever resembles the paste. Nothing here knows what is stored.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NamedTuple

from kingly_memory.asking.length import MOST_CHARACTERS, MOST_WORDS, is_long
from kingly_memory.asking.pasted import Pasted, Sentence, taken_apart
from kingly_memory.writing import STOP_WORDS, unbroken_runs, without_unbroken, words

READ = 32_768
"""Characters that are looked at: half of them at the beginning, half at the end, where questions are."""
MOST_PLAIN = 4_096
"""Characters of a longer text that is asked for as it is, since somebody says all of it and no word of it is lost."""
ENOUGH, ENOUGH_POINTING = 2, 6
"""Telling words of a question that can be looked up by itself; more when it points at what was pasted."""
ADDED = 10
"""Words from around it that another question gets besides."""
_CHARACTERS_PER_WORD = 3
"""Of scripts that are written without spaces."""
_SHORTEST_WORD, _LONGEST_WORD = 3, 40

_RULE_READ = 1_000
"""Characters of a sentence in which a rule is looked for."""
_ASKS = 5
"""Points from which a sentence is taken for a question."""
_RULE = re.compile(
    r"\byou(?:r (?:task|role|job|answers?|repl(?:y|ies)|responses?|output|knowledge)\b"
    r"|(?:'re| are| must| should| may| will| have| need)\b)"
    r"|\bthe user\b|\binstructions?\b|\bassistant\b",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"\W{0,8}(?:always|never|do not|don't|use|respond|reply|answer|return|output|format|avoid|be|if|when|keep|only"
    r"|think|no|follow|ensure|make|should|quote|current|act|write|include|stay)\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"\W{0,8}(?:(?:please|so|ok|okay|and|now|also|then)[ ,]+){0,3}"
    r"(?:use|make|keep|return|write|act|include|follow|fix|add|change|update|move|remove|delete|create|set|rename|deploy"
    r"|book|send|order|call|check|plan|help|prepare|replace|install|run|test|review|translate|schedule|cancel|buy|pay"
    r"|build|implement|investigate|debug|draft|continue)\b",
    re.IGNORECASE,
)
"""What somebody wants done: a question where it is not one of many rules."""
_BEGINNING = re.compile(
    r"\W{0,8}(?:(?:please|hey|hi|so|ok|okay|and|now|also|can you|could you|i want to know|i need to know)[ ,]+){0,3}"
    r"(?:what|when|where|who|whom|whose|which|why|how|is|are|was|were|do|does|did|has|have|had|can|could|should|would|will"
    r"|find|show|list|tell|give|explain|recall|remember|remind|search|look|summari[sz]e|describe|compare|name)\b",
    re.IGNORECASE,
)
_POINTING = re.compile(
    r"\b(?:(?:this|these)\b(?! (?:year|month|week|morning|evening|spring|summer|autumn|fall|winter|time)s?\b)"
    r"|above\b|below\b|the following\b|here\b)",
    re.IGNORECASE,
)
_GREETING = re.compile(
    r"\W{0,8}(?:hello|hi|hey|dear|thanks?|(?:best|kind|warm)? ?regards|best|cheers)\b.{0,30}$", re.IGNORECASE
)
_FAILING = re.compile(
    r"error|exception|fail|fatal|panic|denied|refused|timed? ?out|cannot|not found|unable|missing", re.IGNORECASE
)
_NUMBERED = re.compile(r"\d+\w{0,2}|0x\w+|(?=[a-f]*\d)[0-9a-f]{4,}|(?:[^\W\d]*\d){4}\w*", re.IGNORECASE)
_NOISE = frozenset(
    """trace debug info notice warn warning error fatal critical http https www com org file line lines recent call last
    traceback none null true false import from def class self return const var let function public private static void
    int str string lib usr src python site packages exec thread main during handling exception another occurred raise
    get set new""".split()
)
"""Words that logs, traces and files are made of, whatever they are about."""


def asked(text: str) -> str:
    """What to look up for a text: the text itself when it is short or plain, else at most 32 words of it.

    The question comes as it stands. One that says little by itself ("why does this fail?") is followed by telling words
    of what stands around it; without any question those are all there is.
    """
    if not is_long(text):
        return text
    pasted = taken_apart(_ends(text))
    if _is_plain(text, pasted):
        return text
    weighed = _weighed(pasted)
    best = max(weighed.points, default=0)
    if best < _ASKS:
        return _cut(_first_new(_all_words(pasted, weighed), "", MOST_WORDS)) or text[:MOST_CHARACTERS]
    chosen = _chosen(pasted.sentences, weighed.points, best)
    question = " ".join(dict.fromkeys(pasted.sentences[at].text for at in chosen))
    if _says_enough(question):
        return _cut(question.split())
    return _cut([*question.split(), *_first_new(_around(pasted, weighed, chosen), question, ADDED)])


class _Weighed(NamedTuple):
    """For each sentence how much it looks like what is asked; and which ones look like rules."""

    points: Sequence[int]
    rules: frozenset[int]

    def telling(self, at: int) -> bool:
        return self.points[at] > 0 and at not in self.rules


def _ends(text: str) -> str:
    return text if len(text) <= READ else f"{text[: READ // 2]}\n\n{text[-READ // 2 :]}"


def _weighed(pasted: Pasted) -> _Weighed:
    """By the sentences' form and by where they stand."""
    sentences = pasted.sentences
    if not sentences:
        return _Weighed((), frozenset())
    is_noisy = _is_noisy(pasted)
    edges = {sentences[0].paragraph, sentences[-1].paragraph}
    turn = _last_turn(sentences)
    looking = {at for at, one in enumerate(sentences) if _is_rule(one) or _is_order(one)}
    own = _own(sentences, turn, looking)
    points = [
        _form(one, is_own=at in own)
        + 2 * (one.paragraph in edges)
        + (at in (0, len(sentences) - 1))
        + one.beside
        + (is_noisy and one.alone and one.paragraph in edges)
        + (0 if one.turn is None else 3 if at in turn else -4)
        for at, one in enumerate(sentences)
    ]
    return _Weighed(points, frozenset(looking - own))


def _own(sentences: Sequence[Sentence], turn: range, looking: Set[int]) -> set[int]:
    """Sentences that are somebody's own wish where rules for a model would look the same (those in `looking`).

    They are what the asking side of a chat said last, but for rules before the last paragraph of that. Else it is the
    last paragraph unless several of them stand in it, and before what was pasted the first with one order at most.
    """
    paragraphs: defaultdict[int, set[int]] = defaultdict(set)
    for at in turn or range(len(sentences)):
        paragraphs[sentences[at].paragraph].add(at)
    first, last = min(paragraphs), max(paragraphs)
    ruling = {
        number
        for number, said in paragraphs.items()
        if len(said & looking) > 1 or any(_is_rule(sentences[at]) for at in said)
    }
    if turn:
        return set().union(*(said for number, said in paragraphs.items() if number == last or number not in ruling))
    own = paragraphs[last] if len(paragraphs[last] & looking) <= 1 else set()
    return own | paragraphs[first] if sentences[0].beside and first not in ruling else own


def _is_rule(one: Sentence) -> bool:
    return bool(_RULE.search(one.text[:_RULE_READ]))


def _is_order(one: Sentence) -> bool:
    return not _is_question(one) and bool(_ORDER.match(one.text))


def _is_question(one: Sentence) -> bool:
    return one.text.rstrip("\"')]}>* ").endswith(("?", "？"))


def _last_turn(sentences: Sequence[Sentence]) -> range:
    """Where the asking side of a chat spoke last."""
    own = [at for at, one in enumerate(sentences) if one.turn]
    if not own:
        return range(0)
    others = [at for at, one in enumerate(sentences[: own[-1]]) if not one.turn]
    return range(others[-1] + 1 if others else 0, own[-1] + 1)


def _form(one: Sentence, *, is_own: bool) -> int:
    begins = bool(_BEGINNING.match(one.text) or (is_own and _REQUEST.match(one.text)))
    told = _size(one.text)
    return (
        4 * _is_question(one)
        + 2 * begins
        - 3 * (not is_own and _is_rule(one))
        - 4 * (not is_own and _is_order(one))
        - 2 * one.listed
        - 3 * bool(_GREETING.match(one.text))
        - 3 * one.text.endswith(":")
        + (1 if told >= 2 else -3 if told == 0 else 0)  # noqa: PLR2004  # two words make a subject
    )


def _chosen(sentences: Sequence[Sentence], points: Sequence[int], best: int) -> list[int]:
    """The best sentence, the later one of equals, and others nearly as good while there is room; in their order."""
    ranked = sorted(range(len(sentences)), key=lambda at: (points[at], at), reverse=True)
    chosen, room = ranked[:1], MOST_WORDS - len(sentences[ranked[0]].text.split())
    for at in ranked[1:]:
        length = len(sentences[at].text.split())
        if points[at] < max(best - 1, _ASKS) or length > room:
            break
        chosen.append(at)
        room -= length
    return sorted(chosen)


def _says_enough(question: str) -> bool:
    return _size(question) >= (ENOUGH_POINTING if _POINTING.search(question) else ENOUGH)


def _around(pasted: Pasted, weighed: _Weighed, chosen: Sequence[int]) -> Iterator[str]:
    """Telling words of what the question may point at: what failed, what is said beside it, the material."""
    beside = {at: one for at, one in enumerate(pasted.sentences) if at not in chosen and weighed.telling(at)}
    for line in _failures([*(one.text for one in beside.values()), *pasted.material]):
        yield from _telling(line)
    taken = {pasted.sentences[at].paragraph for at in chosen}
    for reach in (0, 2):
        for one in beside.values():
            if min(abs(one.paragraph - near) for near in taken) <= reach:
                yield from _telling(one.text)
    yield from _most_frequent(pasted.material)


def _all_words(pasted: Pasted, weighed: _Weighed) -> Iterator[str]:
    """Telling words of what is said and looks best, then of the material, then of the rest that is no rule. Of rules
    alone those of the last one: there is nothing else."""
    said = [at for at in range(len(weighed.points)) if at not in weighed.rules]
    ranked = sorted(said, key=lambda at: -weighed.points[at])
    for at in ranked:
        if weighed.telling(at):
            yield from _telling(pasted.sentences[at].text)
    for line in _failures(pasted.material):
        yield from _telling(line)
    yield from _most_frequent(pasted.material)
    for at in ranked:
        if not weighed.telling(at):
            yield from _telling(pasted.sentences[at].text)
    if weighed.rules and not said and not pasted.material:
        last = next((one for one in reversed(pasted.sentences) if _size(one.text) >= ENOUGH), pasted.sentences[-1])
        yield from _telling(last.text)


def _failures(lines: Sequence[str]) -> list[str]:
    """The lines that speak of a failure: the last and the first before the others, for a cause is named at an end."""
    failing = [line for line in dict.fromkeys(lines) if _FAILING.search(line)]
    return [*failing[-1:], *failing[:-1]]


def _most_frequent(material: Sequence[str]) -> Iterator[str]:
    """Telling words of different lines, what is said most often first."""
    counts = Counter(word for line in dict.fromkeys(material) for word in _telling(line))
    yield from sorted(counts, key=lambda word: -counts[word])


def _telling(text: str) -> Iterator[str]:
    for word in words(text):
        is_sized = _SHORTEST_WORD <= len(word) <= _LONGEST_WORD
        if is_sized and word not in STOP_WORDS and word not in _NOISE and not _NUMBERED.fullmatch(word):
            yield word


def _first_new(found: Iterable[str], said: str, most: int) -> list[str]:
    known = set(words(said))
    new: dict[str, None] = {}
    for word in found:
        if len(new) == most:
            break
        if word not in known:
            new[word] = None
    return list(new)


def _size(text: str) -> int:
    """How many telling words a sentence has."""
    folded = text.casefold()
    runs = sum(-(-len(run) // _CHARACTERS_PER_WORD) for run in unbroken_runs(folded))
    return runs + len({word for word in words(without_unbroken(folded)) if word not in STOP_WORDS})


def _is_plain(text: str, pasted: Pasted) -> bool:
    return len(text) <= MOST_PLAIN and not _is_noisy(pasted) and _size(text) <= MOST_WORDS


def _is_noisy(pasted: Pasted) -> bool:
    """Whether there is anything that nobody asks with: lines of a log or a file, rules for a model, turns of a chat."""
    return bool(pasted.material) or any(one.turn is not None or _is_rule(one) for one in pasted.sentences)


def _cut(said: Sequence[str]) -> str:
    """Never long, so that what was asked for once asks for itself. Of too many words the telling ones are kept."""
    if len(said) > MOST_WORDS:
        said = [word for word in said if _size(word)] or said
    return " ".join(said[:MOST_WORDS])[:MOST_CHARACTERS].strip()
