"""Taking secrets out of a text. Rather one word too many than one too few.

Each rule says where in a text a secret stands. Every text that is stored is looked at, so ordinary text has to cost
little: a rule is tried only where one of its hints occurs, and where it needs digits or a long word only in a text
that has them. Its pattern is compiled only then, so that a command that stores a sentence starts fast.
"""

from __future__ import annotations

import math
import re
from base64 import b64decode
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from typing import Any

from kingly_memory.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Redacted:
    """The text with `[redacted …]` in the place of each secret. `count` says how many there were."""

    text: str
    count: int


def redact(text: str) -> Redacted:
    """Doing it again changes nothing."""
    return Redacted(*_redacted(text))


def _redacted(text: str) -> tuple[str, int]:
    count = 0
    while spots := _spots(text):  # each round leaves fewer letters that are not redacted, so there is a last one
        parts, end = [], 0
        for start, stop, kind in spots:
            parts += [text[end:start], f"[redacted {kind}]"]
            end = stop
        text = "".join([*parts, text[end:]])
        count += len(spots)
    return text, count


@lru_cache(maxsize=4_096)
def secrets_in(name: str) -> int:
    """How many stand in a tag or another name, which is said of many memories."""
    return redact(name).count


def redacted(value: Any) -> tuple[Any, int]:
    """A text, or the texts of any JSON, without secrets, and how many there were."""
    if isinstance(value, str):
        return _redacted(value)
    if isinstance(value, list | tuple):
        pairs = [redacted(item) for item in value]
        return [one for one, _ in pairs], sum(count for _, count in pairs)
    if isinstance(value, Mapping):
        names, count = redacted(list(value))
        pairs = [_named(name, item) for name, item in value.items()]
        return dict(zip(names, (one for one, _ in pairs), strict=True)), count + sum(one for _, one in pairs)
    return value, 0


def _named(name: str, value: Any) -> tuple[Any, int]:
    """A value without secrets. What is one only by its name, as in `password: …`, is one here too."""
    found = redacted(value)
    if isinstance(value, str) and not found[1] and redact(f"{name}: {value}").count > redact(name).count:
        return "[redacted secret]", 1
    return found


def _spots(text: str) -> list[tuple[int, int, str]]:
    """Where secrets stand, in order and apart, and what sort each is."""
    seen, places = _seen(text)
    if "[redacted " in seen:
        seen = _REDACTED.sub(lambda match: _GONE * len(match.group()), seen)
    encoded = seen.encode(errors="replace")
    length, digits = _longest_word(encoded), _digits(seen, encoded)
    rules = _hints(length, digits, seen.isascii()).rules(seen.lower())
    found = [spot for rule in rules for spot in rule.spots(seen)]
    if length and _has(encoded, _IS_RUN, _RUN_LENGTH):
        found += [*(_near_names(seen) if digits else ()), *_coded(seen)]
    if not found:
        return []
    merged: list[tuple[int, int, str]] = []
    for start, stop, kind in sorted(spot for spot in found if any(map(str.isalnum, seen[spot[0] : spot[1]]))):
        if merged and start < merged[-1][1]:
            first, end, first_kind = merged[-1]
            merged[-1] = (first, max(end, stop), first_kind)
        else:
            merged.append((start, stop, kind))
    return merged if places is None else [(places[start], places[stop - 1] + 1, kind) for start, stop, kind in merged]


def _seen(text: str) -> tuple[str, list[int] | None]:
    """The text as a reader sees it: without invisible letters, and with full-width ones as usual ones. And the place
    that each letter has in the text, unless it is the same."""
    if text.isascii() or not _compiled(f"[{_INVISIBLE}\u3000\uff01-\uff5e]", re.NOFLAG).search(text):
        return text, None
    places = [match.start() for match in _compiled(f"[^{_INVISIBLE}]", re.NOFLAG).finditer(text)]
    return "".join([text[index] for index in places]).translate(_WIDE), places


_REDACTED = re.compile(r"\[redacted [a-z ]+\]")
_GONE = "\0"
"""Stands for each letter of a placeholder while rules look at a text."""
_INVISIBLE = r"\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f"
_WIDE = {0x3000: 0x20} | {point + 0xFEE0: point for point in range(0x21, 0x7F)}
_LENGTHS = (15, 32)
"""Of words. Shorter ones than the first are no secrets by their shape alone."""
_NUMBERS = (1, 2, 15)
"""Of digits in a text."""
_RUN_LENGTH = 16
_IS_WORD = bytes(0 if chr(byte).isspace() else 1 for byte in range(128)) + b"\1" * 128
_IS_RUN = bytes(chr(byte).isalnum() or chr(byte) in "+/_~-" for byte in range(128)) + b"\0" * 128
"""Of each byte of a text whether it belongs to a word, or to what `_RUN` matches."""


def _has(encoded: bytes, belongs: bytes, length: int) -> bool:
    return b"\1" * length in encoded.translate(belongs)


def _longest_word(encoded: bytes) -> int:
    """The greatest of the lengths that a word of the text has; 0 for none. One in another script counts as longer."""
    shortest, longest = _LENGTHS
    if not _has(encoded, _IS_WORD, shortest):
        return 0
    return longest if _has(encoded, _IS_WORD, longest) else shortest


def _digits(seen: str, encoded: bytes) -> int:
    """The greatest of the numbers of digits that the text has; 0 for none."""
    if seen.isascii():
        found = len(encoded) - len(encoded.translate(None, b"0123456789"))
    else:
        found = sum(map(str.isdecimal, seen))
    return max(number for number in _NUMBERS if number <= found) if found else 0


# --- what stands where -----------------------------------------------------------------------------------------------

_CHOSEN = (
    r"(?:pass(?:word|wd|phrase|code)s?|(?<![a-z])(?:pass|pw|pwd)(?![a-z])|pwd(?![a-z])"
    r"|secrets?(?: (?:word|phrase|code|answer))?|safe ?words?)"
)
"""Names of what people choose: it may look like any word."""
_ISSUED = (
    r"(?:tokens?|(?:api|access|private|secret|signing|encryption|account|auth|shared|set-?up|license|master)[_ -]?keys?"
    r"|(?<![a-z])(?:psk|preshared[_ -]?key)|shared[_ -]?access[_ -]?signature|credentials?|bearer|cookie"
    r"|session[_ -]?id|phpsessid|clé api|clave api|api-schlüssel)"
)
"""Names of what machines issue: it has letters and digits."""
_SIGN = r"(?:=>|->|:=|=|:)"
_WHICH = r"(?:[_-]?(?:\d{1,3}|prod|production|staging|dev|test|live|old|new|base))?(?![A-Za-z0-9_-])[\"'`)\]]?"
"""What may end a name. `token_file` and `password_policy` name no secret."""
_WHOSE = r"(?: (?:for|of|to|on|at) (?:[\w'-]+ ){0,3}?[\w'-]+)?"
_IS = r"(?:'s|(?: is| are| was| will be| reads| being| should be| must be| changed to| set to| became)(?: now| still)?)"

_QUOTED = r"""(?:"(?:[^"\\\n]|\\.){1,400}"|'(?:[^'\\\n]|\\.){1,400}'|`[^`\n]{1,400}`|«[^»\n]{1,400}»){1,8}"""
_END = r"(?=[.,;:!?)\]}\"'`]{0,4}(?:\s|\Z)|(?<=\S{400}))"
_VALUE = rf"(?:{_QUOTED}|[^\s\"'`]\S{{0,399}}?{_END})"
"""In quotation marks, or up to the next space without the marks that end a sentence."""
_NO_VALUE = (
    r"(?![=(\[{<>|&*\0\u2026]|\$[\w{(]|%[\w(]|\.\.\.|[A-Za-z_][\w.]*[(\[]"
    r"|(?:self|settings|config|cfg|args|os|this|request|req|options|params|process|env)\."
    r"|(?:str|string|bytes|secretstr|any|int|text|varchar|object|none|null|nil|true|false|undefined|required|optional"
    r"|token|password|passwd|secret|credentials)(?=[ \t]*(?:[,;)\]}|=#\r\n]|\Z)))"
)
"""What a program writes where it names no secret: calls, variables, types."""
_CLAUSE_END = r"(?:[ \t]*(?:[.,;:!?)\]}\"'`]+(?:\s|\Z)|[)\]}\"'`]+[.,;:!?)\]}]|[\r\n|]|\Z|#|- |\u2013 |\u2014 ))"
_GOES_ON = (
    r"(?:(?:and|or|but) (?:so|that|then|the|this|we|it|i|you|he|she|they|my|our|your|never|always|is|are|was|has|have"
    r"|do|does|don't|please|not|also|only|ask|use|must|should|will|can)\b"
    r"|(?:but|so|because|which|when|while|unless|#)(?!\S))"
)
"""Where the secret ends and the sentence goes on."""
_CLAUSE = rf"\S{{1,400}}?{_END}(?:[ \t]{{1,3}}(?!{_GOES_ON}|\0)\S{{1,400}}?{_END}){{0,30}}+"
"""To the end of the clause, without the marks that end it."""

_LINK = (
    r"(?:after|again|all|already|and|anyway|as|at|because|before|but|by|during|enough|every|everywhere|for|from|here|if|in"
    r"|inside|into|on|once|only|or|outside|per|since|so|than|that|there|through|to|today|tomorrow|too|twice|under|until"
    r"|via|when|where|which|while|with|within|without|yet|yesterday)(?!\S)"
)
_DONE = (
    r"(?:accepted|cached|changed|checked|compromised|created|deleted|disabled|documented|enabled|encrypted|expired|expires"
    r"|exposed|generated|given|hashed|kept|known|leaked|limited|looked up|lost|managed|masked|needed|passed|read"
    r"|refreshed|refused|rejected|removed|required|reset|revoked|rotated|saved|sent|set|shared|signed|stored|told|unset|updated"
    r"|used|validated|verified)"
)
_SUCH = (
    r"(?:available|bad|correct|different|easy|empty|fine|gone|good|hidden|incorrect|invalid|long|longer|mandatory|missing"
    r"|new|null|none|off|ok|okay|old|optional|out|public|right|safe|secure|short|shorter|simple|stale|strong|stronger|true"
    r"|false|unavailable|undefined|unknown|valid|weak|wrong)"
)
_PLAIN = r"(?![^\n.,;!?]{0,200}\d)"
"""A clause without digits."""
_STATE = (
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

_FOREIGN = (
    r"(?:passwort|kennwort|mot de passe|contraseña|senha|parola d'ordine|wachtwoord|hasło|lösenord|adgangskode|şifre"
    r"|пароль|كلمة المرور|סיסמה|密码|密碼|口令|パスワード|暗証番号|비밀번호)"
)
_FOREIGN_IS = (
    r"(?:\s?[:=]\s?|\s(?:ist|lautet|war|heißt|est|es|é|è|jest|är|er|to|это)[:\s]\s?|\s?(?:は|是|为|為|은|는)\s?)"
)
_FOREIGN_STATE = (
    r"(?:falsch|richtig|abgelaufen|erforderlich|geändert|gesperrt|zu|nicht|incorrecte?|obligatoire|requis|expiré|trop|pas"
    r"|incorrecta|obligatoria|caducada|muy|incorreta|obrigatória|niet|verlopen|verplicht|неверный|обязателен)(?![^\s.,;!?])"
)


def _is_made(value: str, shortest: int = 8) -> bool:
    """True for what a machine may have made: letters and digits without a call or a path."""
    bare = value.strip("\"'`")
    return (
        len(bare) >= shortest
        and any(map(str.isdecimal, bare))
        and any(map(str.isalpha, bare))
        and not re.search(r"[(\[{<]|://|^[~./]", bare)
    )


def _is_card(value: str) -> bool:
    """Luhn's check (ISO/IEC 7812-1)."""
    digits = [int(digit) for digit in value if digit.isdigit()]
    doubled = [sum(divmod(2 * one, 10)) for one in digits[-2::-2]]
    return len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_account(value: str) -> bool:
    """The check of international bank account numbers (ISO 13616): letters are numbers from 10, modulo 97."""
    bare = value.replace(" ", "").upper()
    return int("".join(str(int(character, 36)) for character in bare[4:] + bare[:4])) % 97 == 1


def _has_digits(value: str) -> bool:
    return sum(map(str.isdigit, value)) >= 2  # noqa: PLR2004  # one may be part of a word


def _is_dense(value: str) -> bool:
    """True for long runs of mixed letters and digits, which no word, name, hash or UUID is."""
    mixed = all(any(map(has, value)) for has in (str.isupper, str.islower, str.isdigit))
    return (
        mixed
        and not all(is_name(part) or set(part) <= set("0123456789abcdef") for part in value.split("/"))
        and _entropy(value) >= _ENTROPY_ALONE
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Rule:
    """A secret stands where `pattern` has its group `secret`, or matches at all, if `check` says so of that.

    Looked for only where one of the hints, which spaces part, occurs in the text in lower case; a rule without hints
    everywhere. `length`: the secret, or what says that it is one, is a word of that many characters or more; `digits`:
    so many belong to it.
    """

    kind: str
    hints: str
    pattern: str
    check: Callable[[str], bool] | None = None
    flags: re.RegexFlag = re.IGNORECASE
    length: int = 0
    digits: int = 0

    @cached_property
    def _compiled(self) -> tuple[re.Pattern[str], int]:
        """And the number of the group `secret`, 0 where there is none."""
        pattern = re.compile(self.pattern, self.flags)
        return pattern, pattern.groupindex.get("secret", 0)

    def spots(self, seen: str) -> list[tuple[int, int, str]]:
        pattern, group = self._compiled
        return [
            (*match.span(group), self.kind)
            for match in pattern.finditer(seen)
            if self.check is None or self.check(match[group])
        ]


class _Hints:
    """The hints of some rules. One search tells that a text has none, as most texts have none, but for the marks that
    stand in most."""

    def __init__(self, rules: Sequence[_Rule], is_ascii: bool) -> None:
        self._always = [rule for rule in rules if not rule.hints]
        self._marks: dict[str, list[_Rule]] = {}
        self._words: dict[str, list[_Rule]] = {}
        for rule in rules:
            for hint in rule.hints.split():
                if hint.isascii() or not is_ascii:
                    (self._marks if hint in _USUAL_MARKS else self._words).setdefault(hint, []).append(rule)
        around: dict[str, list[str]] = {}  # a letter that few others stand for, so that the search jumps over most
        for hint in self._words:
            letter = next((letter for letter in _SEARCHED if letter in hint), hint[0])
            before, _, after = hint.partition(letter)
            looks_behind = f"(?<={re.escape(before + letter)})" if before else ""
            around.setdefault(letter, []).append(looks_behind + re.escape(after))
        self._any = re.compile("|".join(f"{re.escape(letter)}(?:{'|'.join(rest)})" for letter, rest in around.items()))

    def rules(self, lowered: str) -> Iterable[_Rule]:
        """Those that may find something."""
        hinted = [rule for mark in self._marks if mark in lowered for rule in self._marks[mark]] if self._marks else []
        if self._any.search(lowered) is not None:
            hinted += [rule for hint in filter(lowered.__contains__, self._words) for rule in self._words[hint]]
        return dict.fromkeys([*self._always, *hinted]) if hinted else self._always


@cache
def _hints(length: int, digits: int, is_ascii: bool) -> _Hints:
    """Of the rules that may find something in such a text."""
    return _Hints([rule for rule in _RULES if length >= rule.length and digits >= rule.digits], is_ascii)


@cache
def _compiled(pattern: str, flags: re.RegexFlag) -> re.Pattern[str]:
    return re.compile(pattern, flags)


_USUAL_MARKS = ".:"
_SEARCHED = "$=:/_-.02jxzcpgbksn"
"""Marks and letters that stand in few places of a text. Each hint in ASCII has one of them."""
_CHOSEN_HINTS = "pass pw secret safe"
_ISSUED_HINTS = "token key api psk signature credential bearer cookie session sessid"
_RULES = (
    # what has a shape of its own; ASCII, so that a letter of another script may stand beside it
    _Rule(
        "private key",
        "-----begin",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
        r"(?:-----END [A-Z0-9 ]{0,40}(?:KEY(?: BLOCK)?-----)?|\Z)",
        flags=re.DOTALL,
    ),
    _Rule("private key", "age-secret-", r"\bAGE-SECRET-KEY-1[0-9A-Z]{20,}", None, re.IGNORECASE | re.ASCII, length=32),
    _Rule("token", "eyj", r"\beyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?", None, re.ASCII, length=15),
    _Rule(
        "key",
        "akia asia abia acca ghp_ gho_ ghu_ ghs_ ghr_ github_ glpat- gldt- glrt- glcbt- glptt- glsoat- glc_ xox xapp-"
        " aiza ya29 gocspx sk- _live_ _test_ whsec_ hf_ npm_ pypi- dckr_ _v1_ dapi shp sg. key- lin_ hvs. hvb. pmak-"
        " sq0 nrak- rubygems_",
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
        r")",
        flags=re.ASCII,
        length=15,
    ),
    # of Telegram and Discord
    _Rule("token", ":", r"(?<!\d)\d{8,10}:[\w-]{35}(?![\w-])", None, re.ASCII, length=32, digits=2),
    _Rule("token", ".", r"[MNO](?<!\w.)[\w-]{22,27}\.[\w-]{6,7}\.[\w-]{27,}", None, re.ASCII, length=32),
    _Rule(
        "secret",
        "services/ webhooks/",
        r"(?:slack\.com/services|discord(?:app)?\.com/api/webhooks)/(?P<secret>[\w/-]{10,})",
        length=15,
    ),
    _Rule("secret", "$", r"\$(?:[1567y]|2[abxy]|argon2id?)\$[\w./$=,+-]{20,}", None, re.ASCII, length=15),
    # these begin with a letter, and look behind it then: so Python jumps over all that is none
    _Rule(
        "secret",
        "",
        r"[2-6](?<![\w.,+-].)(?:(?:(?<=[46])\d|(?<=5)[1-5]|(?<=2)[2-7]|(?<=3)5)\d\d([ -]?)\d{4}\1\d{4}\1\d{4}"
        r"|(?<=3)[47]\d\d([ -]?)\d{6}\2\d{5})(?![\w-]|[.,]\d)",
        _is_card,
        re.ASCII,
        digits=15,
    ),
    _Rule(
        "secret",
        "",
        r"[A-Z](?<![A-Z0-9].)[A-Z]\d\d(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Z0-9])",
        _is_account,
        re.ASCII,
        digits=2,
    ),
    _Rule(
        "secret",
        "",
        r"\b[a-z2-7]{4}[ -](?<!-.{5})(?:[a-z2-7]{4}[ -]){4,}[a-z2-7]{4}(?![\w-])",
        _has_digits,
        re.ASCII,
        digits=2,
    ),
    _Rule(
        "secret",
        "",
        r"(?<![A-Za-z0-9+/_~-])(?!sha\d{3}-|_Z[A-Z])[A-Za-z0-9+/_~-]{32,}={0,2}",
        _is_dense,
        length=32,
        digits=1,
    ),
    # addresses
    _Rule(
        "secret",
        "://",
        r"\b[a-z][a-z0-9+.-]{1,20}://(?:[^\s/:@?#\"'<>]{0,200}:(?!\d{1,5}/)(?P<secret>[^\s\"'<>\0]{1,400}?)(?=@[\w.\[-]+(?:[:/?#\s]|$)))",
    ),
    _Rule("secret", "://", r"://(?P<secret>[^\s/:@?#\"'<>\[\0]{16,400})(?=@)", length=15),
    _Rule(
        "secret",
        "=",
        r"[?&;](?:[\w.-]{0,40}(?:token|key|secret|password|passwd|pwd|signature|credential)|sig|auth|code|jwt|sid)="
        r"(?P<secret>[^\s&#\"'<>${\0][^\s&#\"'<>\0]{3,2000})",
    ),
    _Rule("secret", "wifi:", r"WIFI:[^\n]{0,200}?\bP:(?P<secret>[^\n;]{1,200})"),
    # headers and commands
    _Rule(
        "secret",
        "authorization",
        r"\b(?:proxy-)?authorization[\"']?\s*[:=]\s*+[\"']?+(?:(?:bearer|basic|token|digest)\s++)?+"
        r"(?P<secret>[^\s\"',;<${\0][^\s\"',;\0]{3,})",
    ),
    _Rule("secret", "cookie:", r"\b(?:set-)?cookie:\s*+(?P<secret>[^\n\0][^\n]*=[^\n]*)"),
    _Rule("secret", "bearer basic", r"\b(?:bearer|basic)\s++(?=\S*[\d=+/._-])(?P<secret>[\w+/=.~-]{12,})"),
    _Rule(
        "secret",
        "-u",
        r"(?<!\S)(?:-u|--user|--proxy-user)[ =]?[\"']?(?!\d+:\d+(?!\S))[^\s:\"']{1,100}:(?P<secret>[^\s\"'\0]{1,400})",
    ),
    _Rule(
        "secret",
        "mysql mariadb sshpass redis-cli",
        r"(?:(?:mysql|mariadb)[\w-]{0,20} (?:[^\n|;]{0,200}? )?-p|\bsshpass (?:[^\n|;]{0,100}? )?-p ?"
        r"|\bredis-cli (?:[^\n|;]{0,200}? )?-a )"
        r"(?P<secret>'[^'\n]{1,400}'|\"[^\"\n]{1,400}\"|[^\s\"'\0]{1,400})",
    ),
    _Rule(
        "secret",
        _CHOSEN_HINTS,
        rf"--?[\w-]{{0,30}}{_CHOSEN}[ =](?!-|(?-i:[A-Z]+(?![\w-]))){_NO_VALUE}(?P<secret>{_VALUE})",
    ),
    # the names of what machines issue, and something made soon after
    _Rule(
        "secret",
        _ISSUED_HINTS,
        rf"{_ISSUED}{_WHICH}(?:\s{{0,3}}{_SIGN}\s{{0,3}}|{_WHOSE}{_IS}[: ]\s?|\s)(?P<secret>{_VALUE})",
        _is_made,
        digits=1,
    ),
    _Rule(
        "secret",
        "=",
        r"\b[A-Z][A-Z0-9_]{0,60}_(?:KEY|PASS|PAT|DSN|AUTH|SALT|TOKEN|SECRET|PASSWORD)\s?=\s?"
        + _NO_VALUE
        + rf"(?P<secret>{_VALUE})",
        flags=re.NOFLAG,
    ),
    # the names of what people choose, and any words after
    _Rule(
        "secret",
        _CHOSEN_HINTS,
        rf"{_CHOSEN}{_WHICH}(?: ?: ?[A-Za-z]{{3,12}}(?= ?=))?\s{{0,3}}{_SIGN}(?:\s{{0,3}}(?=[\"'`])|(?=\S))"
        rf"{_NO_VALUE}(?!{_STATE})(?P<secret>{_VALUE})",
    ),
    _Rule(
        "secret",
        _CHOSEN_HINTS,
        rf"{_CHOSEN}{_WHICH}(?:\s{{0,3}}{_SIGN}[ \t]{{1,3}}|\s{{0,3}}{_SIGN}\n\s{{0,3}}|"
        rf"{_WHOSE}{_IS}[: ]\s{{0,2}}){_NO_VALUE}(?!{_STATE})(?P<secret>{_QUOTED}|{_CLAUSE})",
    ),
    _Rule(
        "secret",
        _CHOSEN_HINTS,
        rf"{_CHOSEN} (?P<secret>{_VALUE})",
        lambda value: _is_made(value, 6),
        digits=1,
    ),
    _Rule(
        "secret",
        _CHOSEN_HINTS,
        r"\b(?:user(?:[ _-]?name)?|log-?in|e-?mail|account)(?: is|:|=)? \S{1,100}? {0,2}(?:[,;/]|and|with)? {0,2}"
        rf"(?:and |with )?(?:the )?(?:password|passwd|pass|passcode|pwd|pw) (?!(?:is|are|was|for|of)\b|{_STATE})"
        rf"{_NO_VALUE}(?P<secret>{_VALUE})",
    ),
    # login is admin / Winter2026!
    _Rule(
        "secret",
        "login log-in cred account",
        rf"\b(?:log-?in|credentials?|creds|account)s?{_WHOSE}(?: is| are|:|=)\s{{1,3}}"
        rf"(?P<secret>[^\s\0]{{1,100}} ?[/|:] ?{_CLAUSE})",
    ),
    # hunter2 is our admin password
    _Rule(
        "secret",
        _CHOSEN_HINTS,
        rf"(?<![^\s(\"'`])(?P<secret>(?!{_NOBODY}|\0)[^\s\[]\S{{0,80}}(?: (?!{_NOBODY})\S{{1,80}}){{0,5}}?)"
        rf" (?:is|was) (?:the|our|my|your|his|her|their) (?:[\w-]{{1,40}} ){{0,3}}?{_CHOSEN}"
        r"(?=[.,;:!?)\"'`]*(?:\s*\Z|\s*\n)|[.,;:!?)]|\s+(?:for|of|to|on|in|at|now|and|but)\b)",
    ),
    _Rule(
        "secret",
        "passe passwort kennwort contraseña senha parola wachtwoord hasło lösenord adgangskode şifre пароль كلمة סיסמה"
        " 密码 密碼 口令 パスワード 暗証番号 비밀번호",
        rf"{_FOREIGN}[^\n.:;=!?]{{0,40}}?{_FOREIGN_IS}(?!{_FOREIGN_STATE}|{_STATE}){_NO_VALUE}"
        rf"(?P<secret>{_QUOTED}|[!-~]{{4,400}}?{_END}|(?<=[\s:=])[^\W\d_][\w!-/-]{{2,80}}(?={_CLAUSE_END}))",
    ),
    # numbers and lists of words that have a name
    _Rule(
        "secret",
        "pin otp cvv cvc tan code",
        rf"\b(?:pin(?:[ -]?code)?s?|otp|tan|(?:verification|security|access|door|gate|alarm) code|cv[cv])\b"
        rf"(?: [\w'-]+){{0,3}}?(?:{_IS}|\slautet|\sist|\sest|\ses|\s?[:=]|(?<=cv[cv]))"
        r"[: ]{0,3}(?P<secret>\d{3,10})\b",
        digits=2,
    ),
    _Rule(
        "secret",
        "code",
        r"\b(?:(?:recovery|backup|rescue|emergency|scratch|2fa)[ -]codes?"
        r"|codes? (?:de (?:secours|récupération|respaldo|recuperación)|di recupero))\b[^\n:]{0,60}?[:\s]\s?"
        r"(?P<secret>(?:\s{0,4}(?=[\w-]{0,20}\d)[A-Za-z0-9]{4,20}(?:[ -][A-Za-z0-9]{3,20}){0,3}[,;]?){1,20})",
        _has_digits,
        digits=2,
    ),
    _Rule(
        "secret",
        "phrase words mnemonic",
        r"\b(?:(?:seed|recovery|backup|wallet)[ -](?:phrase|words)|mnemonic)\b[^\n:]{0,30}?(?: is| are| was|\s?[:=])\s+"
        r"(?P<secret>(?:(?:\d{1,2}[.)]? ?)?[a-z]{3,12}[\s,]{1,3}){2,23}(?:\d{1,2}[.)]? ?)?[a-z]{3,12})",
    ),
)


# --- what looks random -----------------------------------------------------------------------------------------------

_NAMED = rf"(?<![a-z]){_ISSUED}(?![a-z_])"
_REACH = 60
"""Characters between the beginning of a name and what it may be about."""
_RUN = re.compile(rf"[A-Za-z0-9+/_~-]{{{_RUN_LENGTH},}}={{0,2}}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_CODED = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/]{16,100000}={0,2}(?![A-Za-z0-9+/=_-])")
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NAME_PIECE, _SHORT_PIECE = 3.5, 3
"""Letters that the pieces of a name in snake_case or camelCase have on the average; few have less than the latter. What
is random changes sooner: of 5,000 runs of 32 letters and digits, 7 pass for names."""
_NAME_SHORT = 1 / 3
_NAME_DIGITS = 1 / 8
"""Shares of short pieces and of digits in a name, at most."""
_ENTROPY_NEAR = 3.0
_ENTROPY_ALONE = 4.0
"""Bits per character. A word has about 3, random base64 of 32 characters 4.2 to 4.9."""


def _near_names(seen: str) -> Iterator[tuple[int, int, str]]:
    """Runs that look random and stand near a word like key or token."""
    runs = [match for match in _RUN.finditer(seen) if any(map(str.isdigit, match.group()))]
    if not runs or not any(hint in seen.lower() for hint in _ISSUED_HINTS.split()):
        return
    names = [match.start() for match in _compiled(_NAMED, re.IGNORECASE).finditer(seen)]
    for match in runs:
        run, nearest = match.group(), bisect_left(names, match.start() - _REACH)
        if "/" in run or nearest == len(names) or names[nearest] > match.end() + _REACH:
            continue
        if not is_name(run) and not _UUID.fullmatch(run) and _entropy(run) >= _ENTROPY_NEAR:
            yield (*match.span(), "secret")


def _coded(seen: str) -> Iterator[tuple[int, int, str]]:
    """What holds a secret once it is read as base64."""
    for match in _CODED.finditer(seen):
        try:
            decoded = b64decode(match.group(), validate=True).decode("ascii")
        except ValueError:
            continue
        if decoded.replace("\n", "").isprintable() and _spots(decoded):
            yield (*match.span(), "secret")


def is_name(run: str) -> bool:
    """True for what programmers call things: words with a few digits."""
    pieces = _PIECE.findall(run)
    lengths = [len(piece) for piece in pieces if piece.isalpha()]
    digits = sum(len(piece) for piece in pieces if piece.isdigit())
    if digits > _NAME_DIGITS * len(run):
        return False
    short = sum(length < _SHORT_PIECE for length in lengths)
    return len(lengths) <= 1 or (sum(lengths) >= _NAME_PIECE * len(lengths) and short <= _NAME_SHORT * len(lengths))


def _entropy(run: str) -> float:
    """Shannon's, in bits per character."""
    size = len(run)
    return -sum(count / size * math.log2(count / size) for count in Counter(run).values())
