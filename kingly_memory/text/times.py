"""How times and lengths of time are told to people."""

from __future__ import annotations

from datetime import UTC, datetime

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_FORTNIGHT = 14 * _DAY
_JUST_NOW = 45


def ago(moment: datetime, now: datetime | None = None) -> str:
    """How long ago, in the largest unit that fits; the date when that was more than a fortnight ago."""
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    if abs(seconds) >= _FORTNIGHT:
        return moment.date().isoformat()
    if abs(seconds) < _JUST_NOW:
        return "just now"
    whole = round(abs(seconds))
    span = f"{whole} s" if whole < _MINUTE else duration(whole)
    return f"{span} ago" if seconds > 0 else f"in {span}"


def when(moment: datetime) -> str:
    """A time to the minute, and how far it is from now."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC ({ago(moment)})"


def duration(seconds: float) -> str:
    """A length of time in one unit: `3 ms`, `1.2 s`, `4 min`, `2 h`, `3 d`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 or seconds == 0 else f"{seconds * 1000:.1f} ms"  # noqa: PLR2004
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    size, name = next(one for one in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")) if seconds >= one[0])
    return f"{seconds / size:.0f} {name}"
