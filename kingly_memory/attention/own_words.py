"""What of a message its author has written: told by how it is built, not by what it says.

A message may hold what somebody else wrote: a mail, a chat, a page, a log, a text to be translated. All of that looks
different from what people type to an assistant: it stands between quotation marks or behind an announcement, has
greetings, times and names at the beginning of its lines, or is what the message asks to have worked on. Where it is
not certain where something foreign ends, the rest of the message counts as foreign.
"""

from __future__ import annotations

import re

from kingly_memory.text.writing import UNBROKEN

PASTED_PARAGRAPHS = 1_000
"""Of a longer message only the first and the last paragraph are looked at: what was pasted stands between them."""
_EDGE, _EDGE_LINE = 300, 600
"""A longer first or last paragraph is pasted too, but for its outermost line, and that as well when it is so long."""

ELSEWHERE = "\0"
"""Stands for a quotation: a sentence with one is not all the speaker's."""
_CODE = re.compile(r"^ *(```|~~~).*?(?:^ *\1[^\n]*$|\Z)", re.DOTALL | re.MULTILINE)
_QUOTED = re.compile(
    r"[\"\u201c\u201e\u00ab](?:[^\s\"\u201d\u00bb]{1,200}\s{1,20}){2}[^\"\u201d\u00bb]{1,2000}[\"\u201c\u201d\u00bb]"
    rf"|[\"\u201c\u300c\u300e\u300a](?=[^\"\u201d]{{0,6}}[{UNBROKEN}])[^\"\u201d\u300d\u300f\u300b]{{5,2000}}[\"\u201d\u300d\u300f\u300b]"
)
"""Of three words or more; of five characters in a script without spaces. Every repetition has a limit: without one, a
message of nothing but opening quotation marks takes minutes."""
_SENTENCE_END = re.compile(r"[.!?]\s|[。！？]")
_BLANK = re.compile(r"\n[ \t]*\n")

_HEADER = re.compile(
    r"^(?:[ \t]*(?:from|to|subject|sent|cc|date|von|an|betreff"
    r"|gesendet|datum|de|para|asunto|enviado|fecha|发件人|收件人"
    r"|主题|日期)[ \t]?[:：][ \t]*\S"
    r"|[-\t _]*(?:\w+ )?(?:original|forwarded|ursprüngliche|weitergeleitete|mensaje|原始|转发)[ \w]*"
    r"(?:message|nachricht|reenviado|original|邮件)"
    r")",
    re.IGNORECASE | re.MULTILINE,
)
"""How a mail begins, or the answer to one."""
_SOURCE = (
    r"\b(?:wrote|writes|says?|said|sent|posted|got|read|page|site"
    r"|website|mail|e-?mail|letter|article|ad|log|output|readme"
    r"|error|ticket|comment|review|message|text|file|document"
    r"|docs|schreib\w*|schrieb|sagt\w*|steht|stand|webseite|seite"
    r"|brief|nachricht|artikel|anzeige|fehler|escri\w+|dice|dijo|manda\w*|web|página|correo|carta|mensaje|artículo"
    r"|anuncio)\b|写|说|发的|通知|邮件|网站|网页|消息|文章"
)
_ANNOUNCED = re.compile(
    rf"^(?!.*(?:\b(?:i (?:said|wrote|meant)|remember|rules?|note|conventions?"
    rf"|preferences?|decisions?|decided|regeln|reglas|merk\w*)\b|规则|记))"
    rf"(?:.*(?:{_SOURCE}|\b(?:this|these|that|below|following|hier|das|esto|este)\b).{{0,40}}[:：?？]?[ \t]*\n(?=\s*\S)"
    rf"|.*[:：][ \t]*\n(?=\s*[^\s*•\d-])"
    rf"|[^:：\n]*(?:{_SOURCE})[^:：\n]{{0,30}}[:：](?=[ \t]*\S))",
    re.IGNORECASE | re.MULTILINE,
)
_WORKED_ON = re.compile(
    r"\b(?:summari[sz]e|sum (?:this |that |it )?up|summary of|tl;?dr"
    r"|translate|proof-?read|rephrase|reword|rewrite|paraphrase"
    r"|polish|grammar|spelling|(?:reply|answer|respond)(?: to)? (?:him|her|them|this|that|it)"
    r"|(?:i|we) (?:answer|reply|say)"
    r"|explain (?:this|that|it)|what (?:does|do|is|was|are)(?: all)? (?:this|that|it|they|these|he|she)\b"
    r"|is (?:it|this|that) (?:\w+ )?(?:ok|okay|right|true|legit|correct|fine)"
    r"|any ideas?\b|what is going on|what happened"
    r"|make (?:this|it) |ask (?:him|her|them)|sound(?:s)? (?:ok|right|more)|my cv"
    r"|fasse? .{0,20}zusammen|zusammenfass\w*|übersetz\w*|formulier\w*"
    r"|korrigier\w*|korrektur|umschreib\w*|erklär\w* (?:das"
    r"|mir|dies)|antworte\w*|(?:sag|schreib)e? ich|soll ich (?:sagen"
    r"|schreiben)|ist (?:der|das|die) \w* ?(?:ok|okay|gut|richtig"
    r"|seriös|so)|darf (?:der|die|er|sie) das|was (?:bedeutet|heißt|ist|soll) (?:das|dies)|warum kommt das"
    r"|resum[ei]\w*|traduc\w*|corri[gj]\w*|reformul\w*|ponlo|redact\w*|contest[oa]\w*|respond[oae]\w*|(?:les|le) digo"
    r"|qué (?:significa|quiere decir|es esto)|explica(?:lo| esto)|está bien|es fiable|nos? sirven?)"
    r"|总结|概括|翻译|译成|润色|病句|语法|改得|改写|解释|什么意思|怎么回|[该应怎]?.{0,3}回复?(?:什么|他|她|吗)|这样写"
    r"|写得|能用",
    re.IGNORECASE,
)
"""A text is to be worked on or answered, and stands in the other lines, or behind a colon."""
_PRETENDED = re.compile(
    r"^\W*(?:please )?(?:imagine|suppose|assume|pretend|let's say"
    r"|you are|act as|write (?:me )?an? |stell dir vor|angenommen"
    r"|schreib (?:mir )?eine? "
    r"|imagina|supón|supongamos|escribe (?:una? |me )|假设|想象|假如|写一?[个首篇])",
    re.IGNORECASE,
)
"""What follows is made up."""
_GREETING = re.compile(
    r"^[ \t]*(?:dear|hi|hey|hello|good (?:morning|day)|sehr geehrte\w*|liebe[rs]?|hallo|guten (?:tag|morgen)|moin"
    r"|estimad[oa]s?|querid[oa]s?|hola|buenos días|各位|尊敬的"
    r"|亲爱的|您好|你好|[\w\u4e00-\u9fff]{1,6}(?:经理|老师|先生|女士|总))"
    r"(?:[ \t][^\n.?]{0,40})?(?:[,,:!!:][ \t]*|$)",
    re.IGNORECASE | re.MULTILINE,
)
_FAREWELL = re.compile(
    r"^[ \t]*(?:(?:kind|best|warm)? ?(?:regards|wishes)|best|cheers|love|xx+|(?:yours|sincerely)[ \w]*"
    r"|mit (?:freundlichen|besten)"
    r" grüßen|(?:viele|liebe|beste|herzliche) grüße|gruß|lg|vg|mfg"
    r"|eure? \w+|(?:un )?(?:cordial )?(?:saludos?|abrazo)|atentamente"
    r"|此致|敬礼|祝好|\w{0,12}(?:管理处|办公室|部门?|敬上))(?:[ \t,.!，].{0,40})?$",
    re.IGNORECASE | re.MULTILINE,
)
_CHAT = re.compile(
    r"^[ \t]*(?:[\[(]?(?:[\d./-]{4,10},? )?\d{1,2}[:.]\d\d(?::\d\d)?(?:, [\d/.]+)?(?: ?[ap]m)?[\])]?[ \t-]*"
    r"[^\s:：][^:：\n]{0,30}[:：]"
    r"|[^\s:：][^:：\n]{0,30}?[ \t]+[\[(]?\d{1,2}:\d\d(?: ?[ap]m)?[\])]?[ \t]*$).*",
    re.IGNORECASE | re.MULTILINE,
)
_LABELLED = re.compile(r"^[ \t]*[^\W\d_][\w .'-]{0,20}[:：] *\S", re.MULTILINE)
_OBEYED = re.compile(
    r"\b(?:ignore|disregard|forget|override) (?:\w+ ){0,4}(?:instructions?|prompts?|rules|guidelines|told)\b"
    r"|\b(?:ai|assistants?|chatbots?|language models?|llms?)\b.{0,40}\b(?:must|should|shall|have to|always|never)\b"
    r"|\bthe user (?:wants|prefers|has (?:asked|already|agreed))\b"
    r"|\b(?:ignoriere?|vergiss|missachte) (?:\w+ ){0,4}(?:anweisungen|regeln|vorgaben)\b"
    r"|\b(?:ignora|olvida) (?:\w+ ){0,4}(?:instrucciones|reglas|indicaciones)\b"
    r"|(?:忽略|无视|忘记|忘掉).{0,8}(?:指令|指示|提示|规则)|(?:助手|模型).{0,8}(?:必须|应该)",
    re.IGNORECASE,
)
"""What only a text from elsewhere says to an assistant."""
_NOT_WRITTEN = re.compile(
    r"^[ \t]*(?:\[?\d{1,2}:\d\d|\d{4}-\d\d-\d\d[ T]|HTTP/|Traceback"
    r"|FAILED |(?:error|warning|info|debug)\b[\[: ]|\$ |</?[a-z!]|//"
    r"|/\*|\"\"\"|#|--(?:[ \t]|$)|[+-]{1,3}[#\w]|\d+,)",
    re.IGNORECASE | re.MULTILINE,
)
"""A paragraph with such a line is code, a page or a log."""


def prose(text: str) -> str:
    """The text without code and with a mark for each quotation."""
    return _QUOTED.sub(ELSEWHERE, _CODE.sub("\n", text))


def own(text: str) -> str:
    """What the author of such prose has written himself."""
    if _PRETENDED.match(text):
        return ""
    announced, questions = _ANNOUNCED.search(text), [line for line in text.split("\n") if _WORKED_ON.search(line)]
    if questions and not (announced and "\n" not in text[: announced.start()].rstrip()):
        return "\n".join(re.split("[:：]", line, maxsplit=1)[0] for line in questions)
    foreign = [found.start() for found in (_HEADER.search(text), _OBEYED.search(text)) if found]
    foreign += _letters(text)
    if announced:
        before = text[: announced.end()].rstrip()
        foreign.append(max([announced.start(), *(end.end() for end in _SENTENCE_END.finditer(before[:-1]))]))
    text = text[: min(foreign, default=len(text))]
    if len(text) > PASTED_PARAGRAPHS:
        text = _edges(text)
    return "\n\n".join(one for one in _BLANK.split(text) if not _is_foreign(one))


def _letters(text: str) -> list[int]:
    """Where a letter begins: at its greeting, or where it has none at the beginning."""
    greeted = [found.start() for found in _GREETING.finditer(text) if found.start() > 0]
    return greeted[:1] or ([0] if _FAREWELL.search(text) else [])


def _is_foreign(paragraph: str) -> bool:
    if _NOT_WRITTEN.search(paragraph) or _CHAT.search(paragraph):
        return True
    return len(_LABELLED.findall(paragraph)) > 1


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
