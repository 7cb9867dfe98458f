"""Forms of a word that its stem does not tell: who asks where somebody went is answered by where they go."""

from __future__ import annotations

from kingly_memory.stemming import stem

_FAMILIES = """
arise arose arisen|become became|begin began begun|bend bent|bite bit bitten|bleed bled|blow blew blown
break broke broken|bring brought|build built|buy bought|catch caught|choose chose chosen|come came|creep crept
deal dealt|dig dug|draw drew drawn|dream dreamt|drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen
feed fed|feel felt|fight fought|find found|fly flew flown flies|forbid forbade forbidden|forget forgot forgotten
forgive forgave forgiven|freeze froze frozen|get got gotten|give gave given|go went gone goes|grow grew grown
hang hung|hear heard|hide hid hidden|hold held|keep kept|know knew known|lay laid|lead led|leave left|lend lent
lose lost|make made|mean meant|meet met|pay paid|ride rode ridden|ring rang rung|rise rose risen|run ran|say said
see saw seen|seek sought|sell sold|send sent|shake shook shaken|shine shone|shoot shot|shrink shrank shrunk
sing sang sung|sink sank sunk|sit sat|sleep slept|slide slid|speak spoke spoken|spend spent|spin spun|stand stood
steal stole stolen|stick stuck|strike struck|swear swore sworn|sweep swept|swim swam swum|swing swung|take took taken
teach taught|tear tore torn|tell told|think thought|throw threw thrown|understand understood|wake woke woken
wear wore worn|weave wove woven|weep wept|win won|withdraw withdrew withdrawn|write wrote written
child children kid|man men|woman women|person people|foot feet|tooth teeth|mouse mice|life lives|wife wives
"""
_FAMILY = {
    word: family for line in _FAMILIES.split("\n") for family in map(str.split, line.split("|")) for word in family
}


def other_forms(word: str) -> tuple[str, ...]:
    """Words with other stems that mean the same, for a word in lower case."""
    own = stem(word)
    plain = (word, own, own + "e", own[:-1] + "y")
    family = next((_FAMILY[one] for one in plain if one in _FAMILY and stem(one) == own), [])
    return tuple(one for one in family if stem(one) != own)


def is_irregular(word: str) -> bool:
    """Whether it is a word of such a family, in lower case."""
    return word in _FAMILY
