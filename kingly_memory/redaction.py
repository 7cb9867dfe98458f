"""Taking secrets out of a text before anything of it is kept. Rather one word too many than one too few."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable

from kingly_memory.dataclass import dataclass

_Replacement = str | Callable[[re.Match[str]], str]


@dataclass(frozen=True, slots=True)
class Redacted:
    """The text with `[redacted …]` in the place of each secret. `count` says how many there were."""

    text: str
    count: int


def redact(text: str) -> Redacted:
    """Doing it again changes nothing."""
    count = 0
    for pattern, replacement in _RULES:
        text, found = pattern.subn(replacement, text)
        count += found
    text, near = _near_secret_words(text)
    text, dense = _dense_alone(text)
    text, cards = _cards(text)
    return Redacted(text, count + near + dense + cards)


def placeholder(kind: str) -> str:
    return f"[redacted {kind}]"


_SENSITIVE = (
    r"(?:pass(?:word|wd|phrase|code)?|pwd|secrets?|tokens?|api[_ -]?keys?|apikeys?|access[_ -]?keys?|private[_ -]?keys?"
    r"|signing[_ -]?keys?|encryption[_ -]?keys?|account[_ -]?keys?|auth[_ -]?keys?|shared[_ -]?access[_ -]?signature"
    r"|credentials?|bearer|cookie|session[_ -]?id|(?<![a-z])pw(?![a-z]))"
)
"""Words that are followed by what must not be kept."""

_QUOTED = r"""(?:"(?:[^"\\\n]|\\.){1,400}"|'(?:[^'\\\n]|\\.){1,400}'|`[^`\n]{1,400}`){1,8}"""
_VALUE = (
    rf"""(?:{_QUOTED}"""
    r"""|[^\s"'`]\S{0,399}?(?=[.,;:!?)\]}"'`]{0,4}(?:\s|$)|(?<=\S{400})))"""
)
"""In quotation marks, or up to the next space without the marks that end a sentence."""
_NOT_YET = r"(?!\[redacted )"

_SAYS = (
    r"(?:pass(?:word|wd|phrase|code)s?|(?<![a-z])pw(?![a-z])|pwd|pins?(?: code)?|api[_ -]?keys?|access[_ -]?keys?"
    r"|(?:access |auth |api |deploy )?tokens?)"
)
"""Of those, the words that a sentence can end with: "hunter2 is our admin password"."""
_END = r"(?=[.,;:!?)\]}\"'`]{0,4}(?:\s|\Z)|(?<=\S{400}))"
_CLAUSE_END = r"(?:[ \t]*(?:[.,;:!?)\]}\"'`]+(?:\s|\Z)|[)\]}\"'`]+[.,;:!?)\]}]|[\r\n]|\Z|#|- |\u2013 |\u2014 ))"
_GOES_ON = (
    r"(?:(?:and|or|but) (?:so|that|then|the|this|we|it|i|you|he|she|they|my|our|your|never|always|is|are|was|has|have"
    r"|do|does|don't|please|not|also|only|ask|use|must|should|will|can)\b"
    r"|(?:but|so|because|which|when|while|unless|#)(?!\S))"
)
"""Where what was told ends and the sentence goes on."""
_CLAUSE = rf"\S{{1,400}}?{_END}(?:[ \t]{{1,3}}(?!{_GOES_ON}|\[redacted )\S{{1,400}}?{_END}){{0,30}}+"
"""To the end of the clause, without the marks that end it."""

_LINK = (
    r"(?:after|again|all|already|and|anyway|as|at|because|before|but|by|during|enough|every|everywhere|for|from|here|if|in"
    r"|inside|into|on|once|only|or|outside|per|since|so|than|there|through|to|today|tomorrow|too|twice|under|until|via"
    r"|when|where|which|while|with|within|without|yet|yesterday)(?!\S)"
)
_DONE = (
    r"(?:accepted|cached|changed|checked|compromised|created|deleted|disabled|documented|enabled|encrypted|expired|expires"
    r"|exposed|generated|hashed|kept|leaked|limited|looked up|lost|managed|masked|needed|passed|read|refreshed|rejected"
    r"|removed|required|reset|revoked|rotated|saved|sent|set|shared|signed|stored|unset|updated|used|validated|verified)"
)
_SUCH = (
    r"(?:available|bad|correct|different|easy|empty|fine|gone|good|hidden|incorrect|invalid|long|longer|mandatory|missing"
    r"|new|null|none|off|ok|okay|old|optional|out|public|right|safe|secure|short|shorter|simple|stale|strong|stronger|true"
    r"|false|unavailable|undefined|unknown|valid|weak|wrong)"
)
_PLAIN = r"(?![^\n.,;!?]{0,200}\d)"
"""A clause without digits."""
_PREDICATE = (
    r"(?:(?:(?:not|no longer|never|now|still|always|also|too|already|only|being|very|currently|just) ){0,3}"
    rf"(?:{_DONE}(?= {_LINK}|{_CLAUSE_END})|{_PLAIN}{_SUCH}(?= {_LINK}|{_CLAUSE_END})"
    rf"|(?<=not |ver |ger |ing ){_PLAIN}[a-z]{{2,}}ed(?= {_LINK}|{_CLAUSE_END}))"
    rf"|{_PLAIN}(?:the|an?|our|your|my) (?:same|one|wrong one|right one|old one|new one|problem|issue|secret|string)"
    rf"(?= {_LINK}|{_CLAUSE_END})"
    rf"|{_PLAIN}(?:in|on|from|for|at|by|with|without|inside|under|behind) "
    r"(?:the|an?|our|your|my|this|that|its|their)(?!\S)"
    rf"|{_PLAIN}(?:supposed|meant|going|able|unable|due) to(?!\S)"
    rf"|{_PLAIN}(?:that|what|where|how|why|whatever) (?:we|you|it|the|they|i|he|she|this)(?!\S))"
)
"""What may follow "the password is" without being one: the whole of what is said, not only how it begins."""
_NOBODY = (
    r"(?:it|this|that|these|those|which|what|who|where|here|there|he|she|they|we|you|i|and|but|so|because|remember|note"
    r"|if|when|is|are|was)(?!\S)"
)


def _assigned(match: re.Match[str]) -> str:
    return f"{match['name']}{match['sign']}{placeholder('secret')}"


def _told(match: re.Match[str]) -> str:
    return f"{match['words']}{placeholder('secret')}"


_RULES: tuple[tuple[re.Pattern[str], _Replacement], ...] = (
    (
        re.compile(
            r"-----BEGIN (?P<kind>[A-Z0-9 ]{0,40})(?:PRIVATE KEY(?: BLOCK)?)-----.*?"
            r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
            re.DOTALL,
        ),
        placeholder("private key"),
    ),
    (re.compile(r"\bAGE-SECRET-KEY-1[0-9A-Z]{20,}", re.IGNORECASE), placeholder("private key")),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?"), placeholder("token")),
    # user:password in front of a host
    (
        re.compile(
            r"(?P<words>\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@?#\"'<>]{0,200}:)" + _NOT_YET + r"[^\s/\"'<>]{1,400}(?=@)",
            re.IGNORECASE,
        ),
        _told,
    ),
    (re.compile(r"(?P<words>\b[a-z][a-z0-9+.-]{1,20}://)[^\s/:@?#\"'<>\[]{16,400}(?=@)", re.IGNORECASE), _told),
    # secrets in the query of an address
    (
        re.compile(
            r"(?P<words>[?&;](?:[\w.-]{0,40}(?:token|key|secret|password|passwd|pwd|signature|credential)[\w.-]{0,20}"
            r"|sig|auth|code|jwt|sid)=)" + _NOT_YET + r"[^\s&#\"'<>]{1,2000}",
            re.IGNORECASE,
        ),
        _told,
    ),
    (re.compile(r"(?P<words>hooks\.slack\.com/services/)" + _NOT_YET + r"[\w/]{10,}"), _told),
    (re.compile(r"(?P<words>discord(?:app)?\.com/api/webhooks/)" + _NOT_YET + r"[\w/-]{10,}"), _told),
    # keys that say by their beginning what they are
    (
        re.compile(
            r"\b(?:"
            r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{12,}"
            r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}"
            r"|gl(?:pat|dt|rt|cbt|ptt|soat)-[\w-]{16,}"
            r"|xox[abeprs]-[\w-]{10,}|xapp-[\w-]{10,}"
            r"|AIza[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}"
            r"|(?:sk|rk|pk)_(?:live|test)_\w{10,}|whsec_\w{16,}"
            r"|sk-[\w-]{16,}"
            r"|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{30,}|dckr_pat_[\w-]{20,}"
            r"|do[opr]_v1_[0-9a-f]{40,}|dapi[0-9a-f]{30,}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{30,}"
            r"|SG\.[\w-]{16,}\.[\w-]{16,}|key-[0-9a-f]{32}|lin_api_\w{20,}|hv[sb]\.[\w-]{20,}|PMAK-[\w-]{30,}"
            r"|sq0(?:atp|csp)-[\w-]{20,}|NRAK-[A-Z0-9]{20,}|glc_[\w+/=]{20,}|rubygems_[0-9a-f]{40,}"
            r")"
        ),
        placeholder("key"),
    ),
    (re.compile(r"\b\d{8,10}:[A-Za-z0-9_-]{35}\b"), placeholder("token")),
    # Authorization: Bearer …, Cookie: …
    (
        re.compile(
            r"(?P<words>\b(?:proxy-)?authorization[\"']?\s*[:=]\s*+[\"']?+(?:(?:bearer|basic|token|digest)\s++)?+)"
            + _NOT_YET
            + r"[^\s\"',;]{4,}",
            re.IGNORECASE,
        ),
        _told,
    ),
    (re.compile(r"(?P<words>\b(?:set-)?cookie:\s*+)" + _NOT_YET + r"[^\n]{3,}", re.IGNORECASE), _told),
    (
        re.compile(
            r"(?P<words>\b(?:bearer|basic)\s++)" + _NOT_YET + r"(?=\S*[\d=+/._-])[\w+/=.~-]{12,}", re.IGNORECASE
        ),
        _told,
    ),
    # a phrase, to the end of its sentence
    (
        re.compile(
            r"(?P<words>\b(?:pass[ -]?phrase|(?:seed|recovery)[ -](?:phrase|words)|mnemonic)\s*(?:is|are|was|:|=)\s*+)"
            + _NOT_YET
            + rf"(?!{_PREDICATE})"
            + r"[^\n.!?]{3,}",
            re.IGNORECASE,
        ),
        _told,
    ),
    # my password: blue monkey 42
    (
        re.compile(
            r"(?P<words>(?:(?<![\w\"'`])|(?<=[._-]))(?:pass(?:word|wd|phrase|code)?|pwd|pw)(?::| =)[ \t]{1,3})"
            + _NOT_YET
            + rf"(?!{_PREDICATE}|[\"'`=(\[{{<|>&*])"
            + _CLAUSE,
            re.IGNORECASE,
        ),
        _told,
    ),
    # NAME_WITH_A_SECRET_WORD=value, "apiKey": "value"
    (
        re.compile(
            rf"(?P<name>{_SENSITIVE}[\w.-]{{0,40}}[\"'`]?)(?P<sign>\s{{0,3}}(?:=|:=|:|=>|->)\s{{0,3}})"
            + _NOT_YET
            + rf"(?!{_PREDICATE}|[=(\[{{<])"
            + _VALUE,
            re.IGNORECASE,
        ),
        _assigned,
    ),
    (
        re.compile(
            r"(?P<name>\b[A-Z][A-Z0-9_]{0,60}_(?:KEY|PASS|PAT|DSN|AUTH|SALT))(?P<sign>\s{0,3}=\s{0,3})"
            + _NOT_YET
            + _VALUE
        ),
        _assigned,
    ),
    # --password value, -p is left alone: it means too many things
    (
        re.compile(
            rf"(?P<words>--?[\w-]{{0,30}}{_SENSITIVE}[\w-]{{0,20}}[ =])" + _NOT_YET + r"(?!-)" + _VALUE, re.IGNORECASE
        ),
        _told,
    ),
    # the password is hunter2; the pin for the door is 4711; the secret word is blue monkey
    (
        re.compile(
            rf"(?P<words>\b(?:{_SENSITIVE}s?|pin(?: code)?|otp|safe ?word)(?: (?:word|phrase|code|answer))?"
            r"(?:'s|(?: (?:for|of|to|on) (?:\w+ ){0,3}?\w+)? "
            r"(?:is|are|was|will be|reads|being|should be|must be|is now|changed to|set to|became))"
            r"(?: now| still)?[: ]\s{0,2})" + _NOT_YET + rf"(?!{_PREDICATE})(?:{_QUOTED}|{_CLAUSE})",
            re.IGNORECASE,
        ),
        _told,
    ),
    # username bob, password swordfish
    (
        re.compile(
            r"(?P<words>\b(?:user(?:[ _-]?name)?|log-?in|e-?mail|account)(?: is|:|=)? \S{1,100}? {0,2}"
            r"(?:[,;/]|and|with) {1,2}(?:and |with )?(?:the )?(?:password|passwd|pass|passcode|pwd|pw) )"
            + _NOT_YET
            + rf"(?!(?:is|are|was|for|of)\b|{_PREDICATE})"
            + _VALUE,
            re.IGNORECASE,
        ),
        _told,
    ),
    # login is admin / Winter2026!
    (
        re.compile(
            r"(?P<words>\b(?:log-?in|credentials?|creds|account)s?(?: (?:for|of|to|on) (?:\w+ ){0,3}?\w+)?"
            r"(?: is| are|:|=)\s{1,3})" + _NOT_YET + rf"\S{{1,100}} ?[/|:] ?{_CLAUSE}",
            re.IGNORECASE,
        ),
        _told,
    ),
    # hunter2 is our admin password
    (
        re.compile(
            rf"(?<![^\s(\"'`])(?!{_NOBODY}|\[redacted )[^\s\[]\S{{0,80}}(?: (?!{_NOBODY})\S{{1,80}}){{0,5}}?"
            rf"(?P<after> (?:is|was) (?:the|our|my|your|his|her|their) (?:[\w-]{{1,40}} ){{0,3}}?{_SAYS})"
            r"(?=[.,;:!?)\"'`]*(?:\s*\Z|\s*\n)|[.,;:!?)]|\s+(?:for|of|to|on|in|at|now|and|but)\b)",
            re.IGNORECASE,
        ),
        lambda match: f"{placeholder('secret')}{match['after']}",
    ),
    # a pin with a colon in front of it
    (re.compile(r"(?P<words>\b(?:pin(?: code)?|otp)\s?[:=]\s{0,3})\d{4,10}\b", re.IGNORECASE), _told),
    # curl -u admin:hunter2, but not docker run -u 1000:1000
    (
        re.compile(
            r"(?P<words>(?<!\S)(?:-u|--user|--proxy-user)[ =]?[\"']?(?!\d+:\d+(?!\S))[^\s:\"']{1,100}:)"
            + _NOT_YET
            + r"[^\s\"']{1,400}"
        ),
        _told,
    ),
    (
        re.compile(
            r"(?P<words>\b(?:mysql|mariadb)[\w-]{0,20} (?:[^\n|;]{0,200}? )?-p|\bsshpass (?:[^\n|;]{0,100}? )?-p ?)"
            + _NOT_YET
            + r"(?:'[^'\n]{1,400}'|\"[^\"\n]{1,400}\"|[^\s\"']{1,400})"
        ),
        _told,
    ),
    # use the password hunter2, with token abc123: only what does not look like a word
    (
        re.compile(
            rf"(?P<words>\b{_SENSITIVE} )"
            + _NOT_YET
            + r"(?=[^\s]{0,80}\d)(?=[^\s]{0,80}[A-Za-z])[^\s\"'`,;)\]}]{6,400}",
            re.IGNORECASE,
        ),
        _told,
    ),
)
"""In order: what has a shape of its own first, what is only named as a secret after it."""

_PLACEHOLDER = re.compile(r"\[redacted [a-z ]+\]")
_NEAR = re.compile(rf"{_SENSITIVE}|\b(?:key|auth|login|pin)", re.IGNORECASE)
_REACH = 60
"""Characters between the beginning of a secret word and what it may be about."""
_RUN = re.compile(r"[A-Za-z0-9+/=_~-]{16,}")
_CARD = re.compile(r"(?<![\w.,+-])[2-6](?:[ -]?[0-9]){12,18}(?![\w-]|[.,][0-9])")
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NAME_PIECE, _SHORT_PIECE = 3.5, 3
"""Letters that the pieces of a name in snake_case or camelCase have on the average; few have less than the latter. What
is random changes sooner: of 5,000 runs of 32 letters and digits, 7 pass for names."""
_NAME_SHORT = 1 / 3
_NAME_DIGITS = 1 / 8
"""Shares of short pieces and of digits in a name, at most."""
_SHORTEST_ALONE = 32
_ENTROPY_NEAR = 3.0
_ENTROPY_ALONE = 4.0
"""Bits per character. A word has about 3, random base64 of 32 characters 4.2 to 4.9."""


def _near_secret_words(text: str) -> tuple[str, int]:
    """Take out runs that look random and stand near a word like key or token."""
    told = _PLACEHOLDER.sub(lambda match: " " * len(match.group()), text)
    spots = [match.start() for match in _NEAR.finditer(told)]

    def is_secret(match: re.Match[str]) -> bool:
        run = match.group()
        nearest = bisect_left(spots, match.start() - _REACH)
        if "/" in run or nearest == len(spots) or spots[nearest] > match.end() + _REACH:
            return False
        return not _is_name(run) and any(map(str.isdigit, run)) and _entropy(run) >= _ENTROPY_NEAR

    return _replaced(text, is_secret) if spots else (text, 0)


def _dense_alone(text: str) -> tuple[str, int]:
    """Take out long runs of mixed letters and digits, which no word, name, hash or UUID is."""
    return _replaced(text, lambda match: len(match.group()) >= _SHORTEST_ALONE and _is_dense(match.group()))


def _cards(text: str) -> tuple[str, int]:
    """Take out the numbers of payment cards, which have a check digit."""
    return _replaced(text, lambda match: _is_card([int(one) for one in match.group() if one.isdigit()]), _CARD)


def _is_card(digits: list[int]) -> bool:
    """Luhn's check (ISO/IEC 7812-1)."""
    doubled = [sum(divmod(2 * one, 10)) for one in digits[-2::-2]]
    return len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_dense(run: str) -> bool:
    mixed = any(map(str.isupper, run)) and any(map(str.islower, run)) and any(map(str.isdigit, run))
    return mixed and not all(map(_is_name, run.split("/"))) and _entropy(run) >= _ENTROPY_ALONE


def _is_name(run: str) -> bool:
    """True for what programmers call things: words with a few digits."""
    pieces = _PIECE.findall(run)
    lengths = [len(piece) for piece in pieces if piece.isalpha()]
    digits = sum(len(piece) for piece in pieces if piece.isdigit())
    if digits > _NAME_DIGITS * len(run):
        return False
    short = sum(length < _SHORT_PIECE for length in lengths)
    return len(lengths) <= 1 or (sum(lengths) >= _NAME_PIECE * len(lengths) and short <= _NAME_SHORT * len(lengths))


def _replaced(
    text: str, is_secret: Callable[[re.Match[str]], bool], pattern: re.Pattern[str] | None = None
) -> tuple[str, int]:
    found = 0

    def replacement(match: re.Match[str]) -> str:
        nonlocal found
        if not is_secret(match):
            return match.group()
        found += 1
        return placeholder("secret")

    return (pattern or _RUN).sub(replacement, text), found


def _entropy(run: str) -> float:
    """Shannon's, in bits per character."""
    size = len(run)
    return -sum(count / size * math.log2(count / size) for count in Counter(run).values())
