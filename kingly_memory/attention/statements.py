"""What of a conversation is worth keeping, and as what: a decision, preference, deadline, correction, request, fact or
outcome.

The rules look at the words of one sentence, each once: a user's in English, German, Spanish and Chinese, an assistant's
in English. They would rather miss a statement than keep small talk: questions, plans and guesses are never kept.
`python -m benchmarks.capturing` measures them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from kingly_memory.attention.fence import harmless
from kingly_memory.dataclass import dataclass
from kingly_memory.models import MemoryType
from kingly_memory.text.redaction import redact
from kingly_memory.text.writing import UNBROKEN, stems, words

Speaker = Literal["user", "assistant"]

LONGEST = 500
"""Characters of a statement."""
FEWEST_WORDS = 3
"""Words of a statement that are not stop words; "let's do that" says nothing by itself."""
PER_MESSAGE = 6
PASTED = 4_000
"""A longer message holds something pasted; only what is written around it, at its two ends, is looked at."""
PASTED_PARAGRAPHS = 1_000
"""The same of a user's message of several paragraphs or lines: what was pasted must not pass for the user's word."""
_EDGE, _EDGE_LINE = 300, 600
"""A longer first or last paragraph is pasted too, but for its outermost line, and that as well when it is so long."""
_AROUND_PASTED = 1_000
_READ = 25_000
"""Characters at either end of a message that are looked at for secrets: far more than can be kept."""


@dataclass(frozen=True, slots=True)
class Message:
    """What the user or the assistant said, without what host and hooks added. A resumed session keeps the `id`."""

    id: str
    speaker: Speaker
    text: str
    at: datetime | None


class Sort(StrEnum):
    """What a statement is; also the tag it gets."""

    REQUEST = "request"
    PREFERENCE = "preference"
    DECISION = "decision"
    DEADLINE = "deadline"
    CORRECTION = "correction"
    FACT = "fact"
    OUTCOME = "outcome"


@dataclass(frozen=True, slots=True)
class Worth:
    """What a sort of statement is kept as, by who makes it."""

    type: MemoryType
    significance: float
    confidence: float


WORTH: dict[tuple[Speaker, Sort], Worth] = {
    ("user", Sort.REQUEST): Worth(MemoryType.PROCEDURAL, 0.8, 0.9),
    ("user", Sort.PREFERENCE): Worth(MemoryType.PROCEDURAL, 0.7, 0.8),
    ("user", Sort.CORRECTION): Worth(MemoryType.PROCEDURAL, 0.7, 0.8),
    ("user", Sort.DECISION): Worth(MemoryType.SEMANTIC, 0.7, 0.8),
    ("user", Sort.DEADLINE): Worth(MemoryType.SEMANTIC, 0.7, 0.8),
    ("user", Sort.FACT): Worth(MemoryType.SEMANTIC, 0.5, 0.8),
    ("assistant", Sort.DECISION): Worth(MemoryType.SEMANTIC, 0.5, 0.5),
    ("assistant", Sort.FACT): Worth(MemoryType.SEMANTIC, 0.4, 0.5),
    ("assistant", Sort.OUTCOME): Worth(MemoryType.EPISODIC, 0.4, 0.5),
}


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence worth keeping, without secrets. `message_id` is "" when the host gave none."""

    content: str
    sort: Sort
    speaker: Speaker
    message_id: str
    at: datetime | None

    @property
    def worth(self) -> Worth:
        return WORTH[self.speaker, self.sort]


_NOTHING_ELSE: Mapping[str, Sort] = MappingProxyType({})


def statements(messages: Iterable[Message], also: Mapping[str, Sort] = _NOTHING_ELSE) -> Iterator[Statement]:
    """What is worth keeping, in the order it was said; the same words only once. `also`: sentences of the user's that
    no rule knows, and what sort each is."""
    seen: set[str] = set()
    for message in messages:
        kept = 0
        for sentence in sentences(message.text, message.speaker):
            sort = sort_of(sentence, message.speaker)
            if sort is None and message.speaker == "user":
                sort = also.get(sentence)
            if sort is None or gist(sentence) in seen or kept == PER_MESSAGE:
                continue
            seen.add(gist(sentence))
            kept += 1
            yield Statement(sentence, sort, message.speaker, message.id, message.at)


def sentences(text: str, speaker: Speaker = "user") -> Iterator[str]:
    """The prose of a message, sentence by sentence, redacted before anything is cut apart."""
    both_ends = text if len(text) <= 2 * _READ else f"{text[:_READ]}\n\n{text[-_READ:]}"
    clean = redact(both_ends.replace("\r\n", "\n")).text
    prose = _QUOTED.sub(_ELSEWHERE, _CODE.sub("\n", clean))
    if speaker == "user":
        prose = _own_paragraphs(prose)
    if len(prose) > PASTED:
        prose = f"{prose[:_AROUND_PASTED]}\n\n{prose[-_AROUND_PASTED:]}"
    for line in prose.split("\n"):
        if not _NOT_PROSE.match(line):
            said = (one.strip(" *_\t") for one in _SENTENCE_END.split(_BULLET.sub("", line)))
            yield from (one for one in said if _ELSEWHERE not in one)


def _own_paragraphs(prose: str) -> str:
    """What the user has written, as far as that can be told from what he has pasted: up to a mail, or to what a line
    announces ("This is the log:"), without quotations, and without paragraphs that look like code, a page or a log."""
    if _ASKED_ABOUT.search(prose):
        return ""
    own = _OBEYED.split(_BROUGHT.split(prose, maxsplit=1)[0], maxsplit=1)[0]
    own = _edges(own) if len(own) > PASTED_PARAGRAPHS else own
    return "\n\n".join(one for one in _BLANK.split(own) if not _NOT_WRITTEN.search(one))


def _edges(text: str) -> str:
    """The first and the last paragraph, or so much of them as is not pasted. A text of one line is its own edge."""
    paragraphs = [one.strip("\n") for one in _BLANK.split(text) if one.strip()]
    if not paragraphs:
        return ""
    first, last = paragraphs[0], paragraphs[-1]
    if len(paragraphs) == 1 and "\n" not in first:
        return first
    above = first if len(first) <= _EDGE else first.split("\n", 1)[0]
    below = last if len(last) <= _EDGE else last.rsplit("\n", 1)[-1]
    return "\n\n".join(edge for edge in (above, below) if len(edge) <= _EDGE_LINE)


def gist(text: str) -> str:
    """What two texts have in common when they say the same: the words, without case, spacing and punctuation."""
    return " ".join(words(harmless(text)))


def is_echo(sentence: str, known: str) -> bool:
    """True when one of the two says little more than the other: then the sentence has been heard before."""
    said, heard = telling(sentence), telling(known)
    shared = len(said & heard)
    return shared >= FEWEST_WORDS and shared >= _ECHO * min(len(said), len(heard))


def unsorted(messages: Iterable[Message]) -> list[str]:
    """What the user says that no rule knows and none speaks against: neither a question, doubt nor order, nothing that
    held a secret, and no markup. In the order it was said, each once."""
    found: dict[str, None] = {}
    for message in messages:
        for sentence in sentences(message.text, "user") if message.speaker == "user" else ():
            said = sentence.replace("\u2019", "'")
            is_closed = _ORDERS.match(said) or _MARKUP.search(said) or not _may_be_kept(said, "user")
            if not is_closed and sort_of(sentence, "user") is None:
                found[sentence] = None
    return list(found)


def _may_be_kept(said: str, speaker: Speaker) -> bool:
    if len(said) > LONGEST or _ASKS.search(said) or len(telling(_REDACTED.sub("", said))) < FEWEST_WORDS:
        return False
    return not (_PLANS.match(said) if speaker == "assistant" else _DOUBTS.search(said))


def sort_of(sentence: str, speaker: Speaker) -> Sort | None:
    """What sort of statement this is; None when it is not worth keeping."""
    said = sentence.replace("\u2019", "'")
    plain = _REDACTED.sub("", said)
    if not _may_be_kept(said, speaker):
        return None
    if speaker == "assistant":
        return _fitting(said, _ASSISTANTS)
    if plain != said:  # what held a secret says little without it, so only what the user has asked for is kept
        return _fitting(said, _USERS[:1])
    if _ORDERS.match(said):  # what is to be written or changed stands behind a colon
        said = re.split("[::]", said, maxsplit=1)[0]
        return _fitting(said, _USERS) if _LASTING.search(said) else None
    return _fitting(said, _USERS)


def _fitting(said: str, rules: Iterable[_Rule]) -> Sort | None:
    for sort, pattern, against in rules:
        if sort is Sort.DEADLINE and not _DATED.search(said):
            continue
        if pattern.search(said) and not any(one.search(said) for one in against):
            return sort
    return None


def telling(text: str) -> set[str]:
    """What a text is about, without stop words."""
    return stems(text) - _STOP_STEMS


# --- rules -----------------------------------------------------------------------------------------------------------

_ECHO = 0.75

_STOP_STEMS = stems(
    """der die das den dem des ein eine einen einem einer und oder aber auch ich du er sie es wir ihr mir dir uns mich
    dich ist sind war bin hat habe haben wird werden nicht kein keine mit von zu zum zur im in am an auf aus bei für so
    dann doch mal noch schon jetzt bitte mein meine unser unsere wie was wenn dass el la los las un una unos unas y o
    pero yo tú me te se nos mi mis tu su es son era soy está están con de del al en por para que no sí ya muy lo le como
    más nuestro nuestra please let let's ok yes thanks"""
)

_ELSEWHERE = "\0"
"""Stands for a quotation: a sentence with one is not all the speaker's."""
_QUOTED = re.compile(
    r"[\"\u201c\u201e\u00ab](?:[^\s\"\u201d\u00bb]+\s+){4}[^\"\u201d\u00bb]{1,2000}[\"\u201c\u201d\u00bb]"
    rf"|[\"\u201c\u300c\u300e\u300a](?=[^\"\u201d]{{0,6}}[{UNBROKEN}])[^\"\u201d\u300d\u300f\u300b]{{5,2000}}[\"\u201d\u300d\u300f\u300b]"
)
"""Of five words or more; of five characters in a script without spaces."""
_BROUGHT = re.compile(
    r"^(?:[ \t]*(?:from|to|subject|sent|cc|von|an|betreff|gesendet|objet|reporter|de|para|asunto|enviado|发件人|收件人"
    r"|主题)"
    r"[ \t]?[::][ \t]*\S"
    r"|[-\s_]*(?:original|forwarded|begin forwarded|ursprüngliche|weitergeleitete) (?:message|nachricht)"
    r"|.*(?:\bwrote|\bschrieb|\ba écrit|\bescribió|写道)\b.{0,60}[::]"
    r"|(?!.*(?:\b(?:remember|rules?|note|conventions?|preferences?|decisions?|decided|regeln|reglas)\b|规则|记住))"
    r"(?:.*\b(?:this|these|that|below|following|page|mail|error|log|output|message|article|text|ticket|comment|file"
    r"|says?"
    r"|said|got|gave|read|summari[sz]e|translate|explain|review|look)\b.*[:?][ \t]*\n(?=\s*\S)"
    r"|.*[::][ \t]*\n(?=\s*[^\s*•\d-])))",
    re.IGNORECASE | re.MULTILINE,
)
"""A mail, and what a line announces that ends in a colon, unless a list of the user's own follows."""
_ASKED_ABOUT = re.compile(
    r"\n[ \t]*\n.*(?:\b(?:(?:summari[sz]e|translate|explain) (?:this|that|it)"
    r"|what (?:does|do|is|was) (?:this|that|it|they)"
    r"|(?:was (?:bedeutet|heißt|soll)|übersetze?|erkläre?) (?:das|dies|mir|ich)|fasse? das"
    r"|qué (?:significa|quiere decir)|(?:resume|traduce|explica)(?:lo| esto))\b|什么意思|翻译|总结|解释).*\s*\Z",
    re.IGNORECASE,
)
"""The last paragraph asks about what stands above it."""
_NOT_WRITTEN = re.compile(
    r"^[ \t]*(?:\[?\d{1,2}:\d\d|\d{4}-\d\d-\d\d[ T]|HTTP/|Traceback|FAILED |error(?:\[|:)|\$ |</?[a-z!]|//|/\*|\"\"\"|#"
    r"|--(?:[ \t]|$)|[+-]{1,3}[#\w]|\d+,)",
    re.IGNORECASE | re.MULTILINE,
)
_CODE = re.compile(r"^ *(```|~~~).*?(?:^ *\1[^\n]*$|\Z)", re.DOTALL | re.MULTILINE)
_NOT_PROSE = re.compile(r"\s*(?:[|>]|#!|\$ |[-=+*_]{3,}\s*$|[{}\[\]();]|@@|at [\w.$]+\(|File \")| {4,}\S")
_BLANK = re.compile(r"\n[ \t]*\n")
_BULLET = re.compile(r"^\s*(?:[-*•+]|#{1,6}|\d{1,3}[.)])\s+")
_REDACTED = re.compile(r"\[redacted [a-z ]+\]")
_MARKUP = re.compile(r'[<>\[\]{}|]|^[^"]*"(?:[^"]*"[^"]*")*[^"]*$')
"""Also a secret that was taken out, and a quotation that begins or ends elsewhere."""
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\s\d\.)(?<!\s\d\d\.)[\"')\]*_]{0,3}\s+(?=[\"'(\[*_`¿¡„«0-9]|[^\W\d_a-zß-ÿ])|(?<=[。!?])"
)
"""Not behind the number of a day, as in `am 15. Februar`."""


def _any(*spaced: str, unspaced: str = "") -> re.Pattern[str]:
    """Whole words and phrases of the languages with spaces, and what stands anywhere in one without."""
    words = rf"(?<!\w)(?:{'|'.join(spaced)})(?!\w)"
    return re.compile(f"{words}|{unspaced}" if unspaced else words, re.IGNORECASE)


_ASKS = re.compile(
    r"[??]\W*$|(?:^|, )how (?:to|do|can|would|should|could|does|is|are|about|much|many) "
    r"|^(?:and |but |so |ok,? )?(?:what|who|whom|whose|when|where|why|which|how|can|could|would|will|shall|should|do"
    r"|does|did|is|are|was|were|have|has|had|may|might|am)(?:n't)? "
    r"(?:you|we|i|it|they|he|she|the|this|that|there|my|our|your|to|a|an)\b"
    r"|^(?:wie|was|wer|wo|wann|warum|wieso|welche[rsn]?|kannst|könntest|könnten) \w+"
    r"|^¿|^(?:cómo|qué|quién|dónde|cuándo|por qué|cuál|puedes|podrías) \w+"
    r"|[吗呢]\W*$|为什么|怎么|什么|如何|是否|哪[个里些]|能不能|可不可以",
    re.IGNORECASE,
)
_PLANS = _any(
    r"(?:now |next,? |then |first,? |okay,? |ok,? |great[,.!] |good[,.!] |so,? )*"
    r"(?:i'll|i will|i'm going to|i am going to|let me|let's|we should|we could|i can|i need to|i should|next|to )"
)
_GUESSES = _any(
    r"might|maybe|perhaps|probably|possibly|likely|seems?|appears?|could be|may be|i think|i guess|not sure|unless|if"
)
"""Of an assistant."""
_DOUBTS = _any(
    r"maybe|perhaps|possibly|not sure|no idea|don't know|i guess|i wonder|(?:not|n't) (?:yet )?(?:decided|settled)",
    r"vielleicht|eventuell|möglicherweise|weiß (?:noch )?nicht|nicht sicher|keine ahnung|noch nicht (?:entschieden"
    r"|klar)",
    r"quizás?|tal vez|a lo mejor|no sé|no estoy segur[oa]|ni idea|(?:aún|todavía) no",
    unspaced="也许|可能|或许|大概|不确定|不知道|没想好|没决定|还没",
)
_SUPPOSES = _any(
    r"if|unless|suppose|i think|would|could|wenn|falls|würden?|wären?|hätten?|könnten?|si|supongamos|sería|tuviera\w*",
    unspaced="如果|假如|要是|的话|想试|试试",
)
"""A condition makes no fact. It may be part of a rule."""
_OBEYED = _any(
    r"(?:ignore|disregard|forget|override) (?:\w+ ){0,4}(?:instructions?|prompts?|rules|guidelines)",
    r"(?:ignoriere?|vergiss|missachte) (?:\w+ ){0,4}(?:anweisungen|regeln|vorgaben)",
    r"(?:ignora|olvida) (?:\w+ ){0,4}(?:instrucciones|reglas|indicaciones)",
    unspaced="(?:忽略|无视|忘记|忘掉).{0,8}(?:指令|指示|提示|规则)",
)
"""What only a text from elsewhere says to an assistant: nothing behind it in the message counts."""
_OPENING = (
    r"(?:(?:no|nope|nein|不对?|ok(?:ay)?|so|and|but|also|well|yes|please|hey|hi|then|now|actually|just"
    r"|dann|und|aber|ja|bitte|y|pero|bueno|entonces|vale|por favor|那么?|好的?|请你?|麻烦你?)[,,:.!]*\s*)*"
)
_ORDERS = re.compile(
    _OPENING
    + r"(?:(?:write|rewrite|translate|summari[sz]e|draft|generate|compose|create|make|rename|fix|run|rerun|add|explain"
    r"|show|give|find|check|change|update|refactor|implement|remove|delete|move|look|help|try|tell|list|use|put|set"
    r"|open"
    r"|read|test|build|install|be|conduct|determine|calculate|provide|implement|design|solve|prove|analy[sz]e|suggest"
    r"|act|assume"
    r"|imagine|consider|convert|replace|describe|compare|review|continue|go|do|let me|commit|push|deploy|merge"
    r"|sort"
    r"|schreibe?|mache?|zeige?|gib|erkläre?|füge?|ändere|lösche?|erstelle?|prüfe?|suche?|fasse?|übersetze?|korrigiere?"
    r"|benenne|hilf|sage?|nimm|lasse?|teste?|führe?|entferne?|ersetze?|verschiebe?|schau"
    r"|haz|escribe|muestra|muéstrame|dame|explica|explícame|añade|agrega|cambia|borra|crea|corrige|traduce|resume|busca"
    r"|ayúdame|pon|renombra|revisa|arregla|usa|dime|ejecuta|quita|mueve|prueba)\b"
    r"|帮我?|给我|把|写|翻译|总结|解释|修改|改|运行|看|告诉|检查|创建|添加|删除|用)",
    re.IGNORECASE,
)
"""Something to do now, unless it says from when on or how often."""
_PASSING = _any(
    r"just|right now|(?:i'm|i am|we're|we are) (?:\w+ ){0,2}(?:\w+ing|going to|about to)|let me",
    r"gerade|gleich|eben|kurz|erst ?mal|ahora mismo|acabo de|voy a|estoy \w+ndo",
    unspaced="正在|刚刚?|马上|等一下|已经",
)
_MOOD = _any(
    r"feel\w*|felt|(?:would|\w+'d) (?:also )?like to|i want|i hope|i was|thanks?|thank you|grateful|today|lately"
    r"|recently|yesterday",
    r"fühle?|hoffe|möchte gern\w*|danke|heute|gestern|neulich|siento|espero|quisiera|gracias|hoy|ayer|últimamente",
    unspaced="想|感到|感觉|觉得|希望|谢|感激|建议|今天|昨天|最近|这几天|打算",
)
"""How one feels, and what one would like to do, today."""
_TROUBLE = _any(
    r"errors?|bugs?|issues?|problems?|questions?|ideas?|fail(?:s|ed|ing|ures?)?|broken|breaks?|crash\w*|(?:not"
    r"|n't) work\w*|hangs",
    r"fehler\w*|frage|probleme?|idee|kaputt|funktioniert|klappt|stürzt|abgestürzt",
    r"error\w*|fallos?|falla|pregunta|problemas?|duda|idea|funciona|roto",
    unspaced="报错|错误|问题|失败|崩溃|不行|想法",
)
"""What goes wrong today is no fact that lasts."""
_DAY = (
    r"\d{4}-\d\d-\d\d|\d{1,2}\.\d{1,2}\.(?:\d{2,4})?|\d{1,2}/\d{1,2}/\d{2,4}|q[1-4]|noon|midnight|tomorrow"
    r"|tonight"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|jan(?:uary)?|feb(?:ruary)?|march|apr(?:il)?|(?:by|in|until|before"
    r"|on|\d{1,2}) may|may \d{1,2}|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?|(?:next|this|end of(?: the)?) (?:week|month|quarter"
    r"|year)"
    r"|(?:mon|diens|donners|frei|sams|sonn)tags?|mittwochs?|morgen|januar|februar|märz|mai|juni|juli|oktober|dezember"
    r"|ende (?:der|des|dieser|nächster) \w+|(?:nächste|kommende|diese)\w* (?:woche|monat|quartal|jahr)"
    r"|lunes|martes|miércoles|jueves|viernes|sábado|domingo|mañana|enero|febrero|marzo|abril|mayo|junio|julio|agosto"
    r"|septiembre|octubre|noviembre|diciembre|fin de (?:mes|año)|(?:próxim[oa]|est[ea]) (?:semana|mes|año)"
)
_DAY_UNSPACED = (
    r"[\d一二三四五六七八九十]+[月号日]|(?:周|星期|礼拜)[一二三四五六日天末]|下个?[周月]|[月年]底|明天|后天|季度"
)
_DATED = _any(_DAY, unspaced=_DAY_UNSPACED)
_DUE = (
    r"due|deadline|by|until|till|before|no later than|(?:have|has|need|needs) to|must|expires?|ends?|starts?|begins?"
    r"|launch\w*"
    r"|freeze\w*|ships?|releases?|goes live|moved to|is on",
    r"bis|spätestens|vor|muss|müssen|fällig|abgabe\w*|\w*frist|termin\w*|beginnt|startet|endet|läuft|ist am|findet",
    r"antes del?|hasta|vence|caduca|plazo|entrega\w*|(?:tengo|tenemos|hay) que|deb(?:o|e|emos)|empieza|comienza|termina"
    r"|es el|a más tardar",
)
_DUE_UNSPACED = "[之以]?前|截止|必须|到期|开始|上线|交付|要交|要把|最晚"

_THING = (
    r"(?:our|the|this|my) (?:(?!(?:can|may|might|should|could|will|would|must|i|you|we|they|to|that|which"
    r"|when)\b)[\w/.'-]+ ){0,4}?"
    r"[\w/.'-]{2,30}"
)
_STATE = (
    r"(?:is|are) (?:called|named|located|hosted|deployed|owned|maintained|written|stored|kept|pinned|based|licensed|at"
    r"|on|in|behind|under)"
)
_HABIT = r"(?:runs?|lives?|listens?|depends?|uses?|requires?|needs?|belongs?|expires?|stands for|moved|expects?)"
_OFTEN = r"(?:(?:\w+ly|also|much|always|now|never|still) ){0,2}+"

_CLAUSE = r"^(?:(?:since|after|for|in|due|because|as|when) [\w' -]+? |[\w' -]+[,:] ?)?"
_MOMENTARY = (
    r"(?:want|need|think|guess|know|see|get|hope|mean|assume|wonder|wish|try|understand|believe|suppose|expect|notice"
    r"|look"
    r"|can|could|may|might|shall|should|will|would|must|do|does|not|did|was|were|had|went|got|saw|made|said|found"
    r"|thought"
    r"|wrote|ran|came|took|gave|put|set|let|forgot|am|are|is|has|ask|appreciate|agree|remember|just|added"
    r"|have (?:to|been|no idea|this|the|a (?:\w+ )?(?:file|function|class|list|table|string|script)|\w+ed|got|done|made"
    r"|seen"
    r"|written|found|set|put|had))\b"
)
"""What one says of the moment: no habit."""
_LASTING = _any(
    r"always|never|(?:don't|do not|never) forget|remember|from now on|going forward|keep .{0,10}in mind|every time"
    r"|whenever",
    r"immer|nie|niemals|ab (?:jetzt|sofort|heute)|von (?:nun|jetzt) an|künftig|in zukunft|merke? dir|vergiss nicht",
    r"siempre|nunca|jamás|(?:a partir|desde) (?:de )?(?:ahora|hoy)|en adelante|recuerda|no olvides",
    unspaced="总是|永远|一直|从不|以后|今后|从现在起|记住|不要|别忘",
)
"""What makes a rule of an order."""
_OTHERS = _any(r"(?:he|she|they|you) (?:has |have |had )?(?:already )?(?:decided|agreed|opted|settled)")
_Rule = tuple[Sort, re.Pattern[str], tuple[re.Pattern[str], ...]]

_USERS: tuple[_Rule, ...] = (
    (
        Sort.REQUEST,
        _any(
            r"(?<!n't )(?<!not )remember (?:that|to|this|we|i|the|our|my)|^(?:please )?remember",
            r"(?<!will )(?<!'ll )keep (?:that |this )?in mind|for future reference|make a note|take note"
            r"|^(?:please )?(?:note|nb)(?: that|(?=:))",
            r"(?:don't|do not|never) forget|from now on|going forward|^(?:please,? )?in (?:the )?future",
            r"merke? dir|denke? (?:daran|dran)|vergiss nicht|behalte? im kopf|ab (?:jetzt|sofort|heute)|von (?:nun"
            r"|jetzt) an",
            r"künftig|in zukunft|(?:recuerda|ten en cuenta|no olvides)(?: que)?|(?:a partir|desde) (?:de )?(?:ahora"
            r"|hoy)",
            r"(?:de ahora )?en adelante",
            unspaced="记住|请记得|别忘了|从现在起|今后|(?:^|[,,])以后",
        ),
        (),
    ),
    (
        Sort.CORRECTION,
        _any(
            r"^(?:no(?! (?:problem|worries|thanks|need|idea|wonder))|nope|wrong|actually|correction|nein|falsch"
            r"|eigentlich|korrektur|en realidad|corrección)(?=[,:.!\s])",
            r"(?:that|this)(?:'s| is| was) (?:wrong|incorrect|not (?:right|correct|true|what))|i meant",
            r"you (?:should(?:n't| not)? have|got .{1,40} wrong|forgot|mis\w+|mixed|confused)",
            r"(?:stop|quit) (?:using|adding|doing|writing|making|calling|changing|creating|putting)",
            r"stimmt (?:so )?nicht|ich meinte|(?:eso|esto) (?:ya )?no es|me refería",
            unspaced="^(?:不对|不是|错了|其实|更正)|[记搞弄说]错|我的意思是",
        ),
        (_MOOD,),
    ),
    (
        Sort.PREFERENCE,
        _any(
            rf"(?:i|we)(?:'d| would)? {_OFTEN}(?:prefer|rather|favou?r|avoid|hate|dislike|can't stand|cannot stand"
            rf"|reach for)",
            rf"i {_OFTEN}(?:don't )?(?:like|love|enjoy)(?! to )(?! (?:it|this|that|your|the (?:idea|new"
            rf"|look)) )",
            r"^(?:please,? )?(?:always|never)",
            r"(?:(?:we|i|one|please)|you (?:should|must|have to|need to)) (?:should |must |have to |need to )?(?:always"
            r"|never) (?!feels?|felt|seems?"
            r"|brings?|been)\w+",
            r"(?:must|should) (?:always|never|not)",
            r"^(?:please,? )?(?:don't|do not|avoid) "
            r"(?:use|add|write|put|call|touch|commit|push|create|change|mock|ever|\w+ing)",
            r"(?:our|the|my) (?:convention|standard|style|rule|policy|guideline|favou?rite|preference)s? .{0,40}?(?:is"
            r"|are|says?)",
            r"ich (?:\w+ )?(?:bevorzuge|mag|hasse|liebe|vertrage|möchte (?:immer|nie|keine?)|esse|trinke)|am liebsten"
            r"|mir gefällt",
            r"(?:ich|wir) \w+ lieber|lieber \w+ (?:als|statt)|(?:mag|bevorzuge) ich|bitte (?:nie|kein\w*)",
            r"(?:^|bitte|du|ich|wir|man|mir|uns)\b.{0,60}?(?<!noch )(?<!wie )\b(?:immer(?! noch)|nie|niemals|stets)",
            r"prefiero|preferimos|(?:no )?me (?:gustan?|encantan?|molestan?)|odio|no soporto|evito|no (?:como|bebo)",
            r"^(?:por favor,? )?(?:siempre|nunca|jamás|no (?:uses|pongas|escribas|añadas|hagas|cambies|toques|borres))",
            r"(?:quiero|debes|hay que|tienes que|por favor) .{0,40}?(?:siempre|nunca|jamás)",
            unspaced="我.{0,8}?(?:喜欢|讨厌|习惯|偏好|更爱|不吃|不喝|宁愿|受不了)|(?:请|要|必须|应该).{0,6}?(?:总是"
            "|永远|从不|一直)"
            "|(?:^|[,,]|请)(?:不要|别(?!人|的)|不许|禁止|千万)",
        ),
        (),
    ),
    (
        Sort.DECISION,
        _any(
            r"(?:let's|let us) (?:go with|use|keep|stick|switch|move|drop|adopt|settle)",
            r"(?:decided|agreed|opted)(?! with)|settled on|(?:we|i)(?:'ve"
            r"| have)? (?:chose|chosen|picked)",
            r"we(?:'ll| will|'re going to| are going to|'re| are| won't| will not) (?:no longer )?"
            r"(?:us|go(?:ing)? with|keep|stick|switch|mov|migrat|drop|adopt|support|ship|replac|retir|releas)(?:e|t?ing"
            r"|p?ing)?",
            r"the decision (?:is|was)|^decision|^(?:ok,? |yes,? )?(?:go with|stick (?:with|to))|(?:we|i) went with",
            r"entschieden|beschlossen|geeinigt|vereinbart|festgelegt|entscheidung (?:ist|war|lautet)",
            r"(?:wir|ich) (?:stellen?|wechseln?|steigen?|nehmen?|behalten|bleiben?|verzichten?|setzen?|ziehen) .+",
            r"(?:machen|nehmen|bleiben|behalten|setzen) wir|(?:wir|ich) (?:werden?|verwenden|nutzen) (?:kein\w*|nicht)",
            r"(?:hemos|he) (?:decidido|acordado|elegido|optado)|decidimos|acordamos|acordó|decidió|elegimos|optamos"
            r"|quedamos con",
            r"vamos a (?:usar|dejar|cambiar|pasar|migrar|quitar|mantener|seguir)|dejamos de|ya no (?:usamos|vamos)",
            unspaced="决定|选了|选定|选择了|定了|敲定|同意|商定|改用|换成|改成|不再(?!那么|这么)|弃用|采用",
        ),
        (_SUPPOSES, _OTHERS),
    ),
    (
        Sort.DEADLINE,
        _any(*_DUE, unspaced=_DUE_UNSPACED),
        (_SUPPOSES,),
    ),
    (
        Sort.FACT,
        _any(
            rf"{_CLAUSE}(?:my|our) (?:[\w'.-]+ ){{1,5}}?(?:is|are|has|have|was|turned|works?|likes?|loves?|hates?"
            rf"|speaks?|{_HABIT[3:-1]})",
            rf"{_CLAUSE}i(?:'m| am) (?:not |really |quite )*(?!sorry|afraid (?!of)|glad|happy|curious|confused|stuck"
            rf"|done|ready|back|here|fine|good|in (?:a|need"
            r"|the (?:market|process|mood|middle))|at a|a bit|a little|so|very|also|still|wrong|right|missing|sure|able"
            r"|about|aware|\w+ing|\w+ed)"
            r"(?! )\w+",
            rf"{_CLAUSE}(?:i|we) {_OFTEN}(?:do not |don't |cannot |can't )?(?!{_MOMENTARY})(?!\w+ed )[a-z]+ .*\w",
            rf"we {_OFTEN}(?:use|run|host|deploy|store|support|target|own|release|ship)|i {_OFTEN}(?:use|run)",
            rf"{_THING} (?:{_STATE}|{_HABIT})|\w+ stands for|\w+ (?:owns|leads|maintains|is responsible for"
            rf"|is in charge of)",
            r"\w+ (?:tests?|builds?|deploys?|releases?|services?) (?:needs?|requires?|expects?)",
            r"(?:mein|unser)\w* (?:[\w'.-]+ ){1,4}?(?:ist|sind|heißt|heißen|hat|haben|läuft|laufen|liegt|steht|wohnt"
            r"|arbeitet|mag"
            r"|nutzt|braucht|wird)",
            r"(?:ich|wir) (?:bin|sind) (?!mir|nicht|gerade|dabei|fertig|bereit|froh|gespannt|verwirrt|so |sehr )\w+",
            r"(?:ich|wir) (?:\w+ )?(?:wohnen?|leben?|arbeiten?|nutzen?|verwenden?|benutzen?|heißen?|sprechen?"
            r"|studieren?|leiten?"
            r"|betreiben?|haben? (?:eine?n?|zwei|drei|vier|\d+))",
            r"(?:wohne|lebe|arbeite|nutze|verwende|heiße) ich|(?:nutzen|verwenden|benutzen|arbeiten|haben) wir",
            r"zuständig|verantwortlich",
            r"(?:soy|somos|vivo|vivimos|me llamo|uso|usamos|utilizo|utilizamos|hablo)|trabaj(?:o|amos) (?:como|en|de"
            r"|para|con)",
            r"(?:tengo|tenemos) (?:una?|dos|tres|cuatro|\d+)|(?:se encarga|es responsable|está a cargo) de",
            r"(?:mis?|nuestr[oa]s?) (?:[\w'.-]+ ){1,4}?(?:es|son|está|están|se llama|tienen?|corren?|usan?|vive|trabaja"
            r"|necesita)",
            unspaced="我们?(?:现在|目前|主要|平时|都)?(?:是|叫|姓|住|用|负责|养|会说|有(?!点|些|时|[^,,]{0,4}(?:烦恼"
            "|疑问))|在[^,,]{1,12}(?:当|工作|上班|读|教))"
            "|我们?的?[^,,的]{0,6}(?:的名字|是|叫|跑在|部署在|运行在|用的|使用|住在|对[^,,]{1,8}过敏)|负责人",
        ),
        (_SUPPOSES, _PASSING, _MOOD, _TROUBLE),
    ),
)
"""The first rule that fits decides: its words occur, and none of the words that speak against it. A deadline also names
a day."""

_ASSISTANTS: tuple[_Rule, ...] = (
    (
        Sort.OUTCOME,
        _any(
            r"root cause|turned out|turns out|caused by|came down to",
            r"the (?:\w+ ){0,2}"
            r"(?:bug|problem|issue|failure|error|crash|cause|culprit|fix|solution) (?:was|is|came|lay)",
            r"(?:fixed|resolved|solved) (?:the|a|an|by|it|this|that)",
            r"(?:all|the) (?:[\d,]+ )?(?:\w+ )?tests "
            r"(?:now |all |still )?(?:pass|passed|are passing|fail|failed)",
            r"now (?:works|passes|builds|runs|returns)",
            r"(?:is|are) (?:now )?(?:fixed|resolved|deployed|merged|released)",
        ),
        (_GUESSES,),
    ),
    (
        Sort.DECISION,
        _any(
            r"(?:we|i)(?:'ve| have)? (?:decided|chose|chosen|settled on|went with|opted|agreed|switched)",
            r"^decision|the decision (?:is|was)",
        ),
        (_GUESSES,),
    ),
    (
        Sort.FACT,
        _any(
            r"(?:the|this) "
            r"(?:project|repo|repository|codebase|service|server|api|app|application|database|build|pipeline"
            rf"|deployment|package|library|module|config|configuration|test suite) (?:{_STATE}|{_HABIT})",
        ),
        (_GUESSES,),
    ),
)
