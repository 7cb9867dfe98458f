"""What of a conversation is worth keeping, and as what: a decision, preference, deadline, correction, request, fact or
outcome.

Of what a user has written himself (`own_words`) a sentence is left without its clauses that ask or order something for
now. What supposes or doubts, and what holds a secret, is never kept. Of the rest, cues speak for what lasts (whose it
is, since when, how often, by what name) and against what is of this moment (moods, what fails, what was just done):
where their points are more than none, the sentence is kept. The cues are of English, German, Spanish and
Chinese. Of an assistant's sentences, in English, those that conclude something are kept. `python -m
benchmarks.capturing` measures all that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from kingly_memory.attention.fence import harmless
from kingly_memory.attention.own_words import ELSEWHERE, own, prose
from kingly_memory.dataclass import NamedTuple, dataclass
from kingly_memory.models import MemoryType
from kingly_memory.text.redaction import redact
from kingly_memory.text.writing import stems, words

Speaker = Literal["user", "assistant"]

LONGEST = 500
"""Characters of a statement."""
FEWEST_WORDS = 2
"""Words of a statement that are not stop words; "let's do that" says nothing by itself."""
PER_MESSAGE = 6
TASK = 5
"""Sentences of a message: a longer one describes a task, so that only what the user says of himself is a fact in it. So
it is behind an order, and with what a question of the same message is about."""
PASTED = 4_000
"""A longer message holds something pasted; only what is written around it, at its two ends, is looked at."""
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
        said = [(one, *judged(one, message.speaker)) for one in sentences(message.text, message.speaker)]
        asked = telling(
            " ".join(one.removeprefix(stated) for one, stated, _ in said if one.rstrip().endswith(("?", "？")))
        )
        is_task = len(said) > TASK
        for sentence, stated, judgement in said:
            sort = judgement
            if message.speaker == "user":
                is_task = is_task or (not stated and _ORDERS.match(sentence) is not None)
                if judgement is Sort.FACT and not _OWN.search(stated) and (is_task or asked & telling(stated)):
                    continue
                sort = judgement or also.get(sentence)
            if sort is None or gist(stated) in seen or kept == PER_MESSAGE:
                continue
            seen.add(gist(stated))
            kept += 1
            yield Statement(stated, sort, message.speaker, message.id, message.at)


def sentences(text: str, speaker: Speaker = "user") -> Iterator[str]:
    """The prose of a message, sentence by sentence, redacted before anything is cut apart."""
    both_ends = text if len(text) <= 2 * _READ else f"{text[:_READ]}\n\n{text[-_READ:]}"
    said = prose(redact(both_ends.replace("\r\n", "\n")).text)
    if speaker == "user":
        said = own(said)
    if len(said) > PASTED:
        said = f"{said[:_AROUND_PASTED]}\n\n{said[-_AROUND_PASTED:]}"
    for line in said.split("\n"):
        if not _NOT_PROSE.match(line):
            ended = (one.strip(" *_\t") for one in _SENTENCE_END.split(_BULLET.sub("", line)))
            yield from (one for one in ended if one and ELSEWHERE not in one)


def gist(text: str) -> str:
    """What two texts have in common when they say the same: the words, without case, spacing and punctuation."""
    return " ".join(words(harmless(text)))


def is_echo(sentence: str, known: str) -> bool:
    """True when one of the two says little more than the other: then the sentence has been heard before."""
    said, heard = telling(sentence), telling(known)
    shared = len(said & heard)
    return shared > FEWEST_WORDS and shared >= _ECHO * min(len(said), len(heard))


def telling(text: str) -> set[str]:
    """What a text is about, without stop words."""
    return stems(text) - _STOP_STEMS


def unsorted(messages: Iterable[Message]) -> list[str]:
    """What the user says that the cues do not keep and nothing speaks against: neither a question, doubt nor order,
    nothing that held a secret, and no markup. In the order it was said, each once."""
    found: dict[str, None] = {}
    for message in messages:
        for sentence in sentences(message.text) if message.speaker == "user" else ():
            stated, sort = judged(sentence, "user")
            if stated == sentence and sort is None and not _MARKUP.search(sentence):
                found[sentence] = None
    return list(found)


def judged(sentence: str, speaker: Speaker) -> tuple[str, Sort | None]:
    """So much of a sentence as states something, "" for a question, doubt or order, and what sort of statement that is,
    None when it is not worth keeping."""
    if len(sentence) > LONGEST:
        return "", None
    plain = sentence.translate(_PLAIN)
    if speaker == "assistant":
        if _ASKS.match(plain) or len(telling(plain)) <= FEWEST_WORDS or _PLANS.match(plain):
            return "", None
        return sentence, next((sort for sort, pattern in _CONCLUDES if pattern.search(plain)), None)
    clauses = [] if _UNCERTAIN.search(plain) or _is_secret(plain) else _stating(_TAGGED.sub("", plain))
    about = ", ".join(clauses)
    if len(telling(about)) < FEWEST_WORDS:
        return "", None
    stated = sentence[: plain.rindex(clauses[-1]) + len(clauses[-1])].strip()
    cues = [cue for cue in _CUES if cue.pattern.search(about)]
    sort = next(
        (cue.sort for cue in cues if cue.sort and (cue.sort is not Sort.DEADLINE or _DATED.search(about))), None
    )
    points = (
        sum(cue.points for cue in cues)
        + sum(more for length, more in _LONGER if len(telling(about)) >= length)
        - _NEEDED
    )
    return stated, (sort or Sort.FACT) if points > 0 else None


def _is_secret(plain: str) -> bool:
    """Whether a sentence holds a secret, or seems to. What is left of it without the secret says little."""
    if _REDACTED.search(plain) or _SECRETIVE.search(plain):
        return True
    return _GUARDING.search(plain) is not None and _VALUE.search(plain) is not None


def _stating(plain: str) -> list[str]:
    """The clauses of a sentence that neither ask nor order something for now."""
    clauses = [one for one in _CLAUSE_END.split(plain) if one.strip()]
    if plain.rstrip(" \"')").endswith("?"):  # up to where the question begins
        begins = next((at for at, one in enumerate(clauses) if _ASKS.search(one)), 0)
        clauses = clauses[:begins]
    return [one for one in clauses if not _ASKS.search(one) and (not _ORDERS.match(one) or _LASTING.search(one))]


# --- rules -----------------------------------------------------------------------------------------------------------

_ECHO = 0.75

_STOP_STEMS = stems(
    """der die das den dem des ein eine einen einem einer und oder aber auch ich du er sie es wir ihr mir dir uns mich
    dich ist sind war bin hat habe haben wird werden nicht kein keine mit von zu zum zur im in am an auf aus bei für so
    dann doch mal noch schon jetzt bitte mein meine unser unsere wie was wenn dass el la los las un una unos unas y o
    pero yo tú me te se nos mi mis tu su es son era soy está están con de del al en por para que no sí ya muy lo le como
    más nuestro nuestra please let let's ok yes thanks"""
)


def _any(spaced: str, unspaced: str) -> re.Pattern[str]:
    """Whole words and phrases of the languages with spaces, and what stands anywhere in one without. Line ends and the
    blanks behind them are left out."""
    spaced, unspaced = (re.sub(r"\n\s*", "", one) for one in (spaced, unspaced))
    return re.compile(rf"(?<!\w)(?:{spaced})(?!\w)|{unspaced}", re.IGNORECASE)


_PLAIN = str.maketrans("，：；？！’（）", ",:;?!'()")
_REDACTED = re.compile(r"\[redacted [a-z ]+\]")
_SECRETIVE = _any(
    r"""pass(?:word|phrase|code)s?|pw|pwd|pin|cvv|cvc|ssn|social security|credentials|seed phrase|passw[oö]rt\w*|
    kennw[oö]rt\w*|zugangsdaten|geheimzahl|tan|prüfnummer|contraseñas?|claves?|código de seguridad|dni|nif""",
    "密码|口令|安全码|验证码|身份证|密钥",
)
_GUARDING = _any(
    r"""codes?|keys?|tokens?|log(?:ged)? ?in|logins?|cards?|account|passport|secrets?|combination|license|schlüssel|
    karten?|konto\w*|ausweis\w*|steuer-?id\w*|\w*nummer|zugang|códigos?|llaves?|tarjetas?|cuentas?|pasaporte|acceso""",
    "卡号|账号|护照|银行卡|信用卡",
)
_VALUE = re.compile(r"\d[\d -]{2,}|(?=\w*[a-z])(?=\w*\d)\w{6,}", re.IGNORECASE)
"""Words for what is secret; words for what may be, in a message with such a value."""
_MARKUP = re.compile(r'[<>\[\]{}|]|^[^"]*"(?:[^"]*"[^"]*")*[^"]*$')
"""Also a secret that was taken out, and a quotation that begins or ends elsewhere."""
_NOT_PROSE = re.compile(
    r"\s*(?:[|>]|#!|\$ |[-=+*_]{3,}\s*$|[{}\[\]();]|@@|at [\w.$]+\(|File \")| {4,}\S|.*<[a-z][^>]*>"
)
_BULLET = re.compile(r"^\s*(?:[-*•+]|#{1,6}|\d{1,3}[.)])\s+")
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\b\w\.)(?<!\b\d\d\.)(?<!\b[DMS][rtsa]\.)(?<!\b[MS]r[as]\.)(?<!\b[Pp]rof\.)(?<!\b(?:etc|bzw|usw)\.)"
    r"[\"')\]*_]{0,3}\s+|(?<=[。！？])"
    r"|(?<=\d\.)\s+(?=[¿¡]|(?:I|We|You|He|She|They|It|This|That|The|My|Our|Your|Please|Always|Never|Can|Could|Would|Will"
    r"|Should|Do|Does|Don't|Is|Are|Have|Has|What|When|Where|Who|Why|How|Let|Let's|If|But|So|Also|No|Remember|Note|Thanks"
    r"|Ich|Wir|Du|Er|Sie|Es|Das|Die|Der|Meine?|Unsere?|Bitte|Immer|Nie|Kannst|Könn(?:en|test)|Kann|Soll(?:en)?|Wie|Was"
    r"|Wann|Wer|Wo|Und|Aber|Wenn|Danke|Yo|El|La|Los|Las|Mis?|Nuestr[oa]|Siempre|Nunca|Pero|Y|Puedes|Por)(?![\w-]))"
)
"""Not behind the number of a day, as in `am 15. Februar`, unless a word follows that begins a sentence, nor behind what
is shortened, as in `Dr. Lang`."""
_CLAUSE_END = re.compile(
    r"[,;:—–、]\s*|\s-+\s|\s(?=(?:and|but|so|then|because|und|aber|also|denn|y|pero|así que|porque) )", re.IGNORECASE
)
_TAGGED = re.compile(r", ?(?:ok(?:ay)?|right|yeah|oder|ne|gell|no|vale|对吧|好吗)\?\W*$", re.IGNORECASE)
"""A question only by its end, as in `we meet on Monday, right?`."""
_OPENING = (
    r"\W*(?:(?:no|nope|nein|nee|ok(?:ay)?|alright|so|and|but|also"
    r"|well|yes|yeah|please|pls|plz|hey|hi|hm+|then|now|anyway"
    r"|actually|just|oh|wait|btw|fyi|dann|und|aber|ja|bitte|naja|y|pero|bueno|entonces|vale|por favor|pues|mira"
    r"|那么?|好的?|请你?|麻烦你?|对了|可以了)(?!\w|')[\s,.!:]*)*"
)


_ASKS = re.compile(
    rf"^{_OPENING}(?:(?:can|could|would|will|shall|should|do|does"
    rf"|did|is|are|was|were|have|has|had|may|might|am)(?:n't)?"
    r" (?:you|we|i|it|they|he|she|the|this|that|these|there|my|our|your|an?|one|people|anyone|someone)\b"
    r"|(?:what|who|whom|whose|when|where|why|which|how)(?:'s|'re"
    r"| \w+)?? (?:is|are|was|were|do|does|did|can|could|should|would"
    r"|will|have|has|to|about|if|come|not|many|much|long|often|else)\b|(?:how|why|what|where|who)(?!\w)[^.]{0,30}$"
    r"|(?:wie|was|wer|wo|wann|warum|wieso|weshalb|woher|wohin|womit|welche[rsnm]?|kannst|könntest|können|könnten|kann"
    r"|soll|sollen|darf|muss|gibt es|hast|bist|willst) \w+"
    r"|¿|(?:cómo|qué|quién|dónde|cuándo|por qué|cuál|cuánto|puedes|podrías|me (?:ayudas|haces|puedes)|hay alguna) \w+)"
    r"|[吗呢]\W*$|为什么|怎么(?!样都)|什么(?!都)|如何|是否|哪[个里些台儿]|能不能|可不可以|要不要|好不好|行吗",
    re.IGNORECASE,
)
_ORDERS = re.compile(
    rf"{_OPENING}(?:(?:let me|go|do|tell|list|show|give|find|check"
    rf"|write|draft|create|make|rename|fix|re-?run|run|add|change"
    r"|update|remove|delete|move|look|help|try|use|put|set|open|read|install|convert|replace|describe|compare|translate"
    r"|continue|push|deploy|merge|sort|bump|suggest|calculate|consider|given|search|hold|revert|undo|refactor|implement|design|solve"
    r"|generate|analy[sz]e|pick|send|summari[sz]e|explain"
    r"|schreibe?|mache?|zeige?|gib|füge?|ändere?|lösche?|erstelle?"
    r"|prüfe?|suche?|korrigiere?|benenne|hilf|sage?|nimm|lasse?"
    r"|teste?|führe?|entferne?|ersetze?|verschiebe?|schau|baue?|leg|trag|rechne|plane?|guck|lies"
    r"|haz(?:lo|me)?|escr[ií]be\w*|muéstra\w*|dame|añade|agrega"
    r"|cambia|borra|crea|busca|ayúdame|pon|renombra|revisa|arregla"
    r"|usa|dime|ejecuta|quita|mueve|prueba|paga|genera|calcula|déjame)\b(?!')"
    r"|先?帮我?|给我|把|写(?!错|代码|的)|翻译|修改|改(?!用|成|到|名|为)|运行|看|告诉|检查|创建|添加|删除|用这|换一?个"
    r"|再|接下来|等)",
    re.IGNORECASE,
)
"""Something to do now, unless it says from when on or how often."""
_UNCERTAIN = _any(
    r"""maybe|perhaps|possibly|probably|might|not (?:yet |quite |really )?sure|no idea|don'?t know|i guess|i wonder|
    i think|who knows|thinking (?:of|about)|(?:not|n't) (?:yet )?(?:decided|settled)|considering|^\W*(?:if|suppose|
    assuming)|(?:would|could) (?:have|be|need|use|like)|what if|we'd|i'd (?!rather)|\w+ would(?! rather)|according to|
    some(?:one|body)|reddit|hear[ds]?|rumou?r\w*|apparently|vielleicht|eventuell|möglicherweise|wahrscheinlich|
    weiß (?:noch )?nicht|nicht sicher|keine ahnung|noch nicht (?:entschieden|klar)|überleg\w*|glaube?|denke|würden?|
    wären?|hätten?|laut|angeblich|jemand|wollte\w*|quizás?|tal vez|a lo mejor|no (?:lo )?sé|no estoy segur[oa]|
    ni idea|(?:aún|todavía) no|creo|estoy pensando|^\W*si|tuvi\w+|fuera|sería\w*|podría\w*|habría\w*|\w+ríamos|según|
    alguien|dicen|parece""",
    r"""也许|可能|或许|大概是|不确定|不知道|没想好|没决定|还没|我觉得|在考虑|说不定|好像|如果|假如|要是|的话|想试|
    试试|就好了|据说|听说|有人|上说""",
)
"""What doubts or supposes makes no fact."""
_DATED = _any(
    r"""\d{4}-\d\d-\d\d|\d{1,2}\.\d{1,2}\.(?:\d{2,4})?|\d{1,2}[/.]\d{1,2}(?:[/.]\d{2,4})?|q[1-4]|noon|midnight|tomorrow|
    tonight|\d{1,2}(?:st|nd|rd|th)|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|jan(?:uary)?|feb(?:ruary)?|march|
    apr(?:il)?|(?:by|in|until|before|on|\d{1,2}) may|may \d{1,2}|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|
    nov(?:ember)?|dec(?:ember)?|(?:next|this|end of(?: the)?) (?:week|month|quarter|year)|(?:mon|diens|donners|frei|
    sams|sonn)tags?|mittwochs?|januar|februar|märz|mai|juni|juli|oktober|dezember|ende (?:der|des|dieser|
    nächster) \w+|(?:nächste|kommende|diese)\w* (?:woche|monat|quartal|jahr)|jahresende|lunes|martes|miércoles|jueves|
    viernes|sábados?|domingos?|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|
    diciembre|fin(?:al)? de (?:mes|año)|(?:próxim[oa]|est[ea]) (?:semana|mes|año)|día \d+""",
    r"""[\d一二三四五六七八九十]+(?:月份?|号|日)|(?:周|星期|礼拜)[一二三四五六日天末]|下个?[周月]|[月年]底|月[初末]|
    明天|后天|季度""",
)
_LASTING = _any(
    r"""always|never|every \w+|each \w+|whenever|usually|normally|generally|in general|only|no longer|any ?more|
    from (?:now|here|today) on|as of|since|until|in (?:the )?future|going forward|by default|no exceptions|nobody|
    every(?:body|one|thing)|all|unless|when(?:ever)? (?:you|i|we)|no more|(?:^\W*|[,:] |please |pls )(?:don'?t|stop|
    quit|avoid|keep (?:it|them|your|all))|anything|nothing|everywhere|no (?!idea|clue|luck|problem|worries|wonder|
    thanks|wait)\w+|immer|nie|niemals|jede[nrsm]?|grundsätzlich|normalerweise|meist(?:ens)?|nur(?: noch)?|nicht mehr|
    kein\w*|ab \w+|von (?:nun|jetzt) an|seit|künftig|in zukunft|stets|nichts|überall|\w{3,7}tags|mittwochs|abends|
    morgens|generell|üblich|siempre|nunca|jamás|cada|tod[oa]s (?:los|las)|normalmente|solo|sólo|ya no|(?:a partir|
    desde)(?: de)?|en adelante|por defecto|los (?:lunes|martes|miércoles|jueves|viernes|sábados|domingos)|por las \w+|
    no me \w+[ae]s|nada|no \w+as""",
    r"""总是|永远|一直|从不|从来|每[天周月年次个晚]|一律|都|只|以后|今后|不再|不用[^,]*了|[从自].{1,10}[起开始]|
    尽量|通常|一般|全部|凌晨|早就|统一|共用|全是|(?:^|,)别(?!人|的)|不要|不许|禁止|千万""",
)
_OWN = _any(
    r"""i|i'm|i've|my|our|we|we're|us|ich|mein\w*|unser\w*|wir|uns|mir|yo|mis?|nuestr[oa]s?|nos|nosotros|soy|somos|
    teng\w+|\w+(?:amos|emos|imos)""",
    "我|咱",
)


class _Cue(NamedTuple):
    """What speaks for keeping a statement, or with fewer than no points against it, and what sort it makes it."""

    points: int
    pattern: re.Pattern[str]
    sort: Sort | None = None


_NEEDED = 2
_LONGER = ((4, 2), (7, 1))
"""Points for so many telling words and more."""
_CUES = (
    _Cue(
        3,
        _any(
            r"""(?<!n't )(?<!not )remember (?:that|to|this|we|i|the|our|my)|^\W*(?:please |pls )?remember|
            (?<!will )(?<!'ll )keep (?:that |this |it )?in mind|for (?:future reference|next time)|(?:make a |
            take )?note (?:that|to self)|^\W*(?:please )?(?:note|nb)(?: that|(?=:))|(?:don't|do not|never) forget|
            from (?:now|here) on|going forward|in (?:the )?future|merke? dir|notiere? dir|denke? (?:daran|dran)|
            vergiss nicht|behalte? im kopf|ab (?:jetzt|sofort|heute)|von (?:nun|jetzt) an|künftig|in zukunft|
            (?:recuerda|acuérdate|ten en cuenta|tenlo en cuenta|no olvides|apunta|anota|apúntalo)(?: de)?(?: que)?|
            (?:a partir|desde) (?:de )?(?:ahora|hoy)|en adelante""",
            "记住|记一?下|请?记得|别忘|从现在起|今后|(?:^|[,]|请)以后",
        ),
        Sort.REQUEST,
    ),
    _Cue(
        2,
        re.compile(
            r"^\W*(?:no(?! (?:problem|worries|thanks|need|idea|wonder|more))"
            r"|nope|wrong|actually|correction|nein|nee|falsch"
            r"|eigentlich|korrektur|en realidad|corrección|perdón"
            r"|不对|不是|错了|其实|更正|写错)(?=[,:.!\s]|\W*[\u4e00-\u9fff])"
            r"|\b(?:that|this)(?:'s| is| was) (?:wrong|not (?:right|true|correct))|\bi meant|\byou (?:keep|got|forgot"
            r"|mis\w+|mixed|wrote|put|said)|\bdu hast|\bhas (?:puesto|escrito|dicho)|你[写说记]成?"
            r"|\b(?:stop|quit) \w+ing|\bscratch|\bmy bad|\bspelled|stimmt (?:so |ganz )?nicht|ich meinte|verschrieben"
            r"|eso (?:ya )?no es|me refería|me lié|te equivocas|se escribe|[记搞弄说写]错",
            re.IGNORECASE,
        ),
        Sort.CORRECTION,
    ),
    _Cue(
        3,
        _any(
            r"""prefer\w*|rather(?! than)|favou?r\w*|avoid|hates?|dislikes?|(?:can'?t|cannot) (?:stand|do|eat|have|
            bear)|
            (?:i|we|he|she|they|\w+s) (?:\w+ )?(?:like|love|enjoy)|likes|loves|more of an?|find \w+ \w+able|allergic|
            vegetarian|vegan|intoleran\w+|(?:convention|standard|style|rule|policy)s? .{0,40}?(?:is|are|says?)|
            call me|(?:must|should|do(?:es)?n't|do not) (?:always|never|not|ever|use|add|write|put|touch|commit|push|
            create|mock|\w+ing)|(?:we|i|one|please|you) (?:should |must |have to |need to )?(?:always|never)|
            ^(?:please )?(?:always|never|avoid)|bevorzuge\w*|mag|mögen|hass\w*|liebe|lieber|am liebsten|vertr(?:age|
            ägt)\w*|esse[n]?|trinke[n]?|gefällt|allergi\w*|\w*allergie|vegetari\w+|vegan\w*|duz\w*|nervt|bitte (?:nie|
            kein\w*|immer)|^(?:immer|nie|keine?)|prefier\w+|preferimos|gustan?|encantan?|molestan?|odi[oa]\w*|
            soport\w+|evito|com(?:o|emos)|beb(?:o|emos)|alérgic[oa]s?|celíac[oa]s?|vegan[oa]|vegetarian[oa]|
            intolerante|trátame|^(?:siempre|nunca|jamás)|no me \w+[ae]s|no (?:uses|pongas|escribas|añadas|hagas|
            cambies|toques|borres)""",
            r"""喜欢|讨厌|习惯|偏好|更爱|不吃|不喝|宁愿|受不了|过敏|吃素|最爱|只要|叫我|(?:^|,)别(?!人|的)|不要|
            不许|禁止|千万""",
        ),
        Sort.PREFERENCE,
    ),
    _Cue(
        2,
        _any(
            r"""decided|decision|agreed|settled|signed off|final answer|chosen?|picked|opted|went with|go(?:ing)? with|
            dropping|switch(?:ing|ed)|moving|migrat\w+|replac\w+|stick(?:ing)? (?:to|with)|\w+ it is|let'?s (?:keep|
            use|go|stick|drop|switch|adopt|move)|(?:will|won'?t) (?:not )?(?:ship|support|be|use)|no more|entschieden|
            entscheid\w*|beschlossen|geeinigt|vereinbart|festgelegt|abgemacht|(?:machen|nehmen|bleiben|behalten|
            setzen) wir|wir (?:stellen?|wechseln?|nehmen?|behalten|bleiben?|verzichten?|setzen?|ziehen)|statt|
            steht fest|dann eben|wird .* (?:abgeschaltet|ersetzt|umgestellt|eingestellt)|bleibt|decidi\w+|acord\w+|
            elegi\w+|opt(?:amos|ado)|quedamos|vamos a \w+|dejamos de|descart\w+|al final|hablado|en lugar de|
            en vez de|será|se lanza|pasamos a|cambiamos""",
            r"""决定|选了|选定|选择了|定了|敲定|同意|商定|商量|改用|换成|改成|转到|不再|不做了|弃用|采用|最后|
            就.{1,8}办|说好""",
        ),
        Sort.DECISION,
    ),
    _Cue(
        1,
        _any(
            r"""due|deadlines?|by|no later than|(?:have|has|need|needs) to|must|expires?|runs? out|ends?|starts?|
            begins?|
            closes?|launch\w*|freeze|ships?|releases?|go(?:es)?[- ]live|is (?:on|in|up)|lands?|promised|until|before|
            notice|out|bis|spätestens|muss|müssen|fällig|abgabe\w*|abgeben|\w*frist|termin\w*|beginnt|startet|endet|
            läuft|ist (?:am|im)|findet|wird|antes|hasta|vence|caduca|plazo|entrega\w*|(?:tengo|tenemos|hay) que|
            deb(?:o|e|emos)|empieza|comienza|termina|es el|a más tardar|presentar|máximo""",
            "[之以]?前|截止|必须|到期|开始|上线|交付|要交|要把|最晚|封版|答应",
        ),
        Sort.DEADLINE,
    ),
    _Cue(3, _DATED),
    _Cue(2, _LASTING),
    _Cue(  # what begins like this is told to be known
        2,
        _any(
            r"""for (?:context|the record|what it'?s worth)|heads? ?up|fyi|btw|by the way|background|just so you know|
            note|zum hintergrund|zur info|übrigens|für die akten|ojo|te cuento|por cierto|para que (?:lo )?sepas|
            contexto""",
            "注意|背景|补充|对了|顺便|是这样的|说明一下",
        ),
    ),
    _Cue(
        1,
        _any(
            r"""not \S+ (?:but|like)|, not|rather than|instead(?: of)?|with an? \w|nicht .{1,30}sondern|, nicht|
            und nicht|
            statt|mit \w{1,3}|no .{1,30}sino|, no|y no|en lugar de|con \w+""",
            "不是.{1,20},?(?:而)?是|,不是",
        ),
    ),
    _Cue(
        1,
        _any(
            r"""my|our|wife|husband|partner|(?:boy|girl)friend|son|daughter|kids?|child(?:ren)?|boys?|girls?|mom|mum|
            mother|dad|father|parents?|sister|brother|grand\w+|aunt|uncle|boss|manager|landlord|clients?|customers?|
            team|supervisor|colleagues?|dentist|doctor|teacher|neighbou?rs?|dog|cat|mr|mrs|ms|dr|prof|we|we're|us|
            mein\w*|unser\w*|wir|uns|frau|mann|kind(?:er)?|sohn|tochter|kleiner?|mutter|vater|mama|papa|eltern|
            schwester|bruder|oma|opa|chef\w*|kund\w+|team|leute|betreuer\w*|kolleg\w+|ärztin|arzt|lehrer\w*|hund|
            katze|vermieter\w*|firma|herr|mis?|nuestr[oa]s?|nosotros|nos|somos|mujer|marido|espos[oa]|novi[oa]|
            hij[oa]s?|niñ[oa]s?|madre|padres?|herman[oa]s?|abuel[oa]|jef[ea]|client[ea]s?|equipo|director\w*|
            médic[oa]|profesor\w*|vecin[oa]s?|perr[oa]|gat[oa]|caser[oa]|don|doña|señora?|tíos?""",
            r"""我们|咱们|我家|公司|我的|老婆|老公|妻子|丈夫|儿子|女儿|孩子|妈|爸|父母|姐|哥|弟|妹|爷爷|奶奶|外婆|
            老板|经理|客户|团队|同事|医生|老师|导师|房东|猫|狗|邻居""",
        ),
    ),
    _Cue(
        1,
        _any(
            r"""(?:^\W*|[,;:.] ?|(?:and|but|so|because|also|btw|is|background) )(?:i|we) (?:(?:\w+ly|also|both|all|
            still|
            just) )*(?!\w+ed\b|(?:want|need|think|guess|know|see|hope|mean|assume|wonder|wish|try|understand|believe|
            suppose|notice|look|can|could|may|might|shall|should|will|would|must|do|did|was|were|had|went|got|saw|
            made|said|found|wrote|ran|came|took|gave|put|set|let|forgot|am|ask|appreciate|agree|miss|feel|get|thought|
            have (?:to|been|no|an? (?:question|problem)|\w+ed))\b)[a-z]+|(?:i'?m|we'?re|i am|we are) (?:an?|the|on|in|
            from|based|married|single|responsible|\w+ of|not on|more)|(?:ich|wir) (?:bin|sind) (?!mir|nicht sicher|
            gerade|dabei|fertig|bereit|froh|heute)\w+|(?:wohne|lebe|arbeite|nutze|verwende|heiße|bin|habe?|gehe) ich|
            (?:ich|wir) (?:habe?|haben) (?!das|es|ihn|sie|dir|mal|jetzt|gerade|noch|schon)(?!.*\bge\w+[tn]\b)\w+|soy|
            somos|tengo|tenemos|viv(?:o|imos)|trabaj(?:o|amos)|me llamo|us(?:o|amos)|llevo|estudio|vend(?:o|emos)""",
            r"""我(?:们|家)?(?:现在|目前|主要|平时|都|一个人|上)?(?:是|叫|姓|住|用|负责|养|会说|有(?!点|些|时|
            个问题)|在|开|做|卖|读)""",
        ),
    ),
    _Cue(
        1,
        _any(
            r"""is|are|'s|has|have|works?|runs?|lives?|uses?|called|named|needs?|requires?|costs?|wants?|goes|go|kept|
            builds?|stands for|owns?|leads?|does|sells?|speaks?|takes?|gets?|turned|answers?|stays?|belongs?|listens?|
            depends?|pays?|ist|sind|bin|heißt|heißen|hat|habe?n?|läuft|laufen|liegt|steht|stehen|wohn\w+|arbeit\w+|
            nutz\w+|brauch\w+|geht|gehe|gibts?|lebe\w*|spreche\w*|studier\w+|leite\w*|verkauf\w+|mach\w*|kommt|dürfen|
            kann|wird|verwend\w+|zuständig|verantwortlich|nimmt|es|son|están?|soy|somos|teng\w+|tiene[ns]?|tenemos|
            viv\w+|trabaj\w+|us[oa]\w*|llam[ao]|van?|hablo|estudi[oa]\w*|vend[oe]\w*|pag\w+|factur\w+|llev[oa]\w*|
            c[ie]+rr\w+|necesit\w+|corren?|hacen?|guarda\w*|tom[oa]|contesta|vienen""",
            "是|叫|姓|住|用|有|在|负责|养|做|开了|卖|跑|读|学|需要|属于",
        ),
    ),
    _Cue(1, re.compile(r"(?<=[\w,] )[A-Z]\w+|\d|\w[._/@-]\w|`")),  # a name, number, version or address
    _Cue(
        -3,
        _any(
            r"""just|right now|currently|again|still|yet|today|tonight|finally|almost|(?:one|a) (?:sec|moment)|late|
            soon|
            this (?:morning|afternoon|evening)|in (?:an?|ten|five|\d+) (?:minutes?|sec\w*|moment)|yesterday|lately|
            recently|already|earlier|gerade|gleich|eben|endlich|^moment|kurz|erst ?mal|wieder|immer noch|heute|vorhin|
            gestern|neulich|bald|ahora(?: mismo)?$|por fin|un momento|tarde|acab[oa] de|sigue|todavía|otra vez|hoy|
            ayer|esta (?:mañana|tarde|noche)|últimamente|de nuevo""",
            "正在|刚|马上|等一?下|稍等|终于|晚点|今晚|今天|昨天|还是|又|再|这几天",
        ),
    ),
    _Cue(
        -3,
        _any(
            r"""errors?|bugs?|issues?|problems?|questions?|ideas?|fail\w*|broken|breaks?|crash\w*|(?:not|
            n'?t) (?:\w+ )?work\w*|didn'?t|hangs?|blank|typos?|missing|slow|denied|green|wrong|confus\w*|too \w+|
            stuck|weird|[45]0\d|click\w*|angry|lost|(?:not|n'?t) understand|fehler\w*|verwirrt|frage|probleme?|idee|
            kaputt|funktioniert|klappt|geklappt|stürzt|abgestürzt|zu \w+ und|passt nicht|geht nicht|hängt|[45]0\d|
            klick\w*|sauer|versteh\w*|error\w*|fallos?|fallan?|confundid\w*|pregunta|problemas?|duda|idea|funciona|
            roto|falta\w*|compila|en blanco|no hace nada|demasiado|[45]0\d|enfadad[oa]|no (?:la |lo )?entiendo""",
            r"报错|错误|问题|失败|崩溃|不行|想法|没反应|少了|通过|出错|卡住|慢|[45]0\d|生气|不太?懂",
        ),
    ),
    _Cue(
        -2,
        _any(
            r"""(?:^|, )(?:it(?:'s an?)?|that|this|they|there'?s|these|those|that's)|it (?:says|still|works|was|does)|
            this (?:test|file|function|page|code|line|one|thing|regex|chart|script|query)|line \d+|first|second|third|
            last one|others?|above|below|the (?:button|import|page|build|paragraph|function|output|image|header|
            colou?r|text|title|heading)|(?:^|, )(?:er|es ist ein\w*)|(?:das|dies(?:e[rsnm]?)?|da|hier|jetzt) (?:ist|
            steht|geht|sieht|kommt|läuft|hat)|zeile \d+|erste|zweite|dritte|anderen?|der (?:knopf|button|absatz|text|
            satz|build|test|job)|die (?:farbe|zeile|seite|überschrift|datei|funktion)|^es una?|eso|esto|est[ea]|
            primera?|segunda?|tercera?|otras?|ahí|aquí|línea \d+|el (?:botón|color|test|texto|párrafo|encabezado|
            título|archivo)|me sale|la (?:línea|frase|función|página|imagen)""",
            "^(?:它|是给)|第.{1,3}[行段句个版张]|最后一|另外|这[个段行里样]|那个|按钮|标题",
        ),
    ),
    _Cue(  # what is being made just now, unless it is what the user prefers
        -3,
        _any(
            r"""(?<!prefer )(?<!prefers )(?<!prefer e-)(?<!bevorzuge )(?:the user|slides?|docs|functions?|story|stories|
            output|e?mail|message|poem|essay|versions?|columns?|rows?|
            arguments?|paragraphs?|sentences?|words|menu|screen|list|part|fields?|sum|der nutzer|doku|funktion|
            geschichte|ausgabe|mail|gedicht|aufsatz|version|spalten?|zeilen?|absatz|satz|wörter|menü|liste|teil|summe|
            el usuario|función|cuento|historia|salida|correo|poema|ensayo|versión|columnas?|filas?|párrafo|frase|
            palabras|menú|pantalla|lista|parte|suma)""",
            "(?<!喜欢)(?:用户点|函数|故事|输出|邮件|诗|作文|版|列|段落|句子|菜单|屏幕)",
        ),
    ),
    _Cue(
        -2,
        re.compile(
            r"\b(?:i|we|he|she|they|it|you)(?: just| already| also|'ve"
            r"| have)? (?!decided|agreed|settled|moved|switched|used to)"
            r"(?:\w+ed|was|were|went|got|had|did|saw|made|came|took|gave"
            r"|found|said|told|wrote|put|ran|bought|lost|forgot|read)\b"
            r"|\b(?:was|were|went|happened|died|tested|tried)\b"
            r"|\b(?:war|waren|hatte\w*|kam\w*|ging\w*|wollte\w*|sagte\w*|gab|fand)\b"
            r"|\b(?:habe?n?|hat|sind|bin|hab's)\b.{0,40}\b(?!entschieden"
            r"|beschlossen|geeinigt|vereinbart|gewechselt|gezogen)"
            r"(?:(?:aus|an|ein|ab|um|auf|nach|hoch|zurück)?ge\w{3,}(?:t|en)"
            r"|\w+iert|probiert|versucht|bekommen|verloren|gefunden)\b"
            r"|\b(?:he|has|ha|han|hemos) (?!decidido|acordado|quedado|elegido|mudado|cambiado)\w+(?:ado|ido|cho|to)\b"
            r"|\b(?!decidió|acordó|cambió|pasó)\w{2,}(?:ó|aron|ieron|é|aste|iste)\b"
            r"|\b(?:fui|fue|fuimos|estuv\w+|tuv\w+|hic\w+|dij\w+"
            r"|pus\w+|prob(?:é|amos))\b"
            r"|(?:[试看改跑加弄装推去吃花买说写找做上玩]|重启|上传|测试|部署)(?:了|过)|去年|上周",
            re.IGNORECASE,
        ),
    ),
    _Cue(
        -2,
        _any(
            r"""feel\w*|felt|tired|exhausted|happy|sad|glad|bored|annoyed|i (?:want|hope|wish|need|was)|thanks?|
            thank you|
            thx|great|nice|cool|awesome|perfect|lol|haha|good (?:morning|night|evening)|sorry|hmm+|wow|ugh|
            you'?re right|i see|never mind|makes sense|grateful|let me|i'?ll|(?:i am|i'?m) going to|gonna|fühle?|
            hoffe|möchte|danke|super|klasse|toll|prima|müde|platt|genervt|schade|moin|genau|brauche|ich will|
            ich werde|hä|siento|espero|quisiera|gracias|genial|perfecto|cansad[oa]|agotad[oa]|content[oa]|triste|
            jaja\w*|voy a|quiero|necesito|buenos días|buenas""",
            "想|感到|感觉|觉得|希望|谢|感激|建议|打算|累|开心|高兴|难过|太好了|哈哈|早上好|你说得对|等等|继续",
        ),
    ),
)

_GUESSES = (
    r"(?!.*\b(?:might|maybe|perhaps|probably|possibly|likely|seems?"
    r"|appears?|could be|may be|i think|i guess|not sure|unless"
    r"|if)\b)"
)
_PLANS = re.compile(
    r"(?:(?:now|next|then|first|okay|ok|great|good|so)[,.!]* )*"
    r"(?:i'll|i will|i'm going to|i am going to|let me|let's|we should|we could|i can|i need to|i should|next|to )\b",
    re.IGNORECASE,
)
_CONCLUDES = tuple(
    (sort, re.compile(rf"^{_GUESSES}.*?(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE | re.DOTALL))
    for sort, pattern in (
        (
            Sort.OUTCOME,
            r"root cause|turned out|turns out|caused by|came down to|(?:i )?found the (?:cause|bug|problem|reason)"
            r"|the (?:\w+ ){0,2}(?:bug|problem|issue|failure|error"
            r"|crash|cause|culprit|fix|solution) (?:was|is|came|lay)"
            r"|(?:fixed|resolved|solved) (?:the|a|an|by|it|this|that)"
            r"|(?:all|the) (?:[\d,]+ )?(?:\w+ )?tests (?:now |all |still )?(?:pass|passed|are passing|fail|failed)"
            r"|now (?:works|passes|builds|runs|returns)|(?:is|are) (?:now )?(?:fixed|resolved|deployed|merged"
            r"|released)",
        ),
        (
            Sort.DECISION,
            r"(?:we|i)(?:'ve| have)? (?:decided|chose|chosen|settled on|went with|opted|agreed|switched)"
            r"|decision:|the decision (?:is|was)",
        ),
        (
            Sort.FACT,
            r"(?:the|this) (?:project|repo|repository|codebase|service"
            r"|server|api|app|application|database|build|pipeline"
            r"|deployment|package|library|module|config|configuration"
            r"|test suite) (?:(?:is|are) (?:called|named|located|hosted"
            r"|deployed|owned|maintained|written|stored|kept|pinned|based|licensed|at|on|in|behind|under)"
            r"|runs?|lives?|listens?|depends?|uses?|requires?|needs?|belongs?|expires?|stands for|moved|expects?)",
        ),
    )
)
"""The first that fits decides."""
