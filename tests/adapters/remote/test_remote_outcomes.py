"""What each answer means for a delivery, and how a server's wish to be left alone is read."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.adapters.remote.outcomes import failure, refusal, result, retry_after_s
from kingly_memory.errors import RemoteRefused, RemoteUnauthorised, RemoteUnavailable

NOW = datetime(2026, 10, 21, 7, 28, 0, tzinfo=UTC)


LATER = (300, 302, 304, 307, 407, 408, 425, 429, 500, 502, 503, 504, 501, 599, 101, 999)
MENDED = (402, 404, 405, 406, 409, 410, 411, 415, 418, 451)
MEANS: dict[int, str] = {
    **dict.fromkeys(LATER, "later"),
    **dict.fromkeys((401, 403), "another token"),
    **dict.fromkeys((400, 413, 422), "never"),
    **dict.fromkeys(MENDED, "perhaps when it is mended"),
}


@pytest.mark.parametrize(("status", "means"), MEANS.items())
def test_what_a_status_means_is_one_of_four_things(status: int, means: str) -> None:
    error = refusal(status, b'{"detail": "Not Found"}', None, NOW)
    match error:
        case RemoteUnavailable(reached=True):
            assert means == "later"
        case RemoteUnauthorised():
            assert (error.status, means) == (status, "another token")
        case RemoteRefused(clear=clear, unknown_method=False):
            assert means == ("never" if clear else "perhaps when it is mended")
        case _:
            raise AssertionError(error)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b'{"success": false, "error": "Unknown method: update_memory"}'),
        (400, b'{"detail": "unknown tool: update_memory"}'),
        (404, b"Unknown method"),
        (501, b'{"message": "unknown method"}'),
        (400, b'{"error": {"code": -32601, "message": "nope"}}'),
        (200, b'{"success": false, "error": "Unknown tool: update_memory", "error_code": "TOOL_ERROR"}'),
        (200, b'{"error": {"code": -32601}}'),
        (200, b'{"error": "Method not found"}'),
    ],
)
def test_an_unknown_method_is_recognised_wherever_it_is_said(status: int, body: bytes) -> None:
    with pytest.raises(RemoteRefused) as refused:
        result(status, body, None, NOW)
    assert refused.value.unknown_method
    assert refused.value.clear


def test_a_long_error_text_that_quotes_a_memory_is_no_unknown_method() -> None:
    body = b'{"error": "bad content: ' + b"x" * 200 + b' unknown method"}'
    error = refusal(422, body, None, NOW)
    assert isinstance(error, RemoteRefused)
    assert not error.unknown_method


@pytest.mark.requirement("KNG-069")
@pytest.mark.parametrize(
    ("status", "text"),
    [(500, "HTTP 500: Internal Server Error"), (404, "HTTP 404: Not Found"), (799, "HTTP 799: no standard meaning")],
)
def test_a_status_is_worded_by_the_standard_not_by_the_server(status: int, text: str) -> None:
    assert text in str(refusal(status, b"the server's own words", None, NOW))


@pytest.mark.parametrize(
    ("body", "clear"),
    [
        ({"success": False, "error": "x", "error_code": "INVALID_PARAMETER"}, True),
        ({"success": False, "error": "x", "error_code": "EXECUTION_ERROR"}, False),
        ({"success": False}, False),
        ({"error": "x"}, False),
        ({"error": {"message": "x"}}, False),
        ({"success": False, "error_code": ["INVALID_PARAMETER"]}, False),
    ],
)
def test_a_success_that_is_none_is_refused(body: object, clear: bool) -> None:
    refused = failure(body)
    assert isinstance(refused, RemoteRefused)
    assert refused.clear is clear


@pytest.mark.parametrize("body", [{}, [], None, "ok", {"error": None}, {"success": True, "error": ""}, {"success": 0}])
def test_a_success_without_an_error_is_one(body: object) -> None:
    assert failure(body) is None


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("abc", None),
        ("nan", None),
        ("inf", None),
        ("0", 0.0),
        ("-1", 0.0),
        ("7", 7.0),
        (" 2.5 ", 2.5),
        ("300", 300.0),
        ("999999999", 300.0),
        ("Wed, 21 Oct 2026 07:28:30 GMT", 30.0),
        ("Wed, 21 Oct 2026 07:27:00 GMT", 0.0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", 300.0),
        ("Wed, 21 Oct 2026 07:28:30 -0000", 30.0),
        ("Wed, 99 Oct 2026 07:28:30 GMT", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_date_and_clamped(header: str | None, seconds: float | None) -> None:
    assert retry_after_s(header, NOW) == seconds


def test_a_retry_after_travels_with_the_error() -> None:
    error = refusal(429, b"", "12", NOW)
    assert isinstance(error, RemoteUnavailable)
    assert error.retry_after_s == 12.0


@given(st.text(max_size=50), st.timedeltas(min_value=timedelta(-1000), max_value=timedelta(1000)))
def test_any_retry_after_is_none_or_between_0_and_300_s(header: str, offset: timedelta) -> None:
    seconds = retry_after_s(header, NOW + offset)
    assert seconds is None or 0.0 <= seconds <= 300.0


@given(st.integers(100, 999), st.binary(max_size=80))
def test_any_status_and_body_is_a_value_or_one_of_three_errors(status: int, body: bytes) -> None:
    try:
        value = result(status, body, None, NOW)
    except (RemoteUnavailable, RemoteRefused, RemoteUnauthorised):
        return
    assert 200 <= status < 300
    assert value == json.loads(body)
