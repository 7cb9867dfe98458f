"""Who sees the page, and what a browser is told to allow it."""

from __future__ import annotations

import httpx
import pytest

from tests.page.conftest import Served, served


@pytest.mark.requirement("P25")
def test_the_link_works_once_and_gives_its_browser_alone_a_cookie(page: Served) -> None:
    with served(page.home) as fresh:
        assert fresh.get("/").status_code == 401
        first = fresh.web.get(fresh.link)
        assert {"HttpOnly", "SameSite=Strict"} <= set(first.headers["set-cookie"].split("; "))
        assert fresh.get("/").status_code == 200
        with httpx.Client(trust_env=False, timeout=60) as other:
            again = other.get(fresh.link)
            assert (again.status_code, "set-cookie" in again.headers) == (401, False)
            assert "each link works once" in again.text
            [name] = fresh.web.cookies.keys()
            assert other.get(fresh.base + "/", headers={"Cookie": f"{name}=guess"}).status_code == 401


@pytest.mark.requirement("P25")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "rebound.example"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_pages_of_others_get_nothing_even_with_the_cookie(page: Served, headers: dict[str, str], status: int) -> None:
    assert page.web.get(page.base + "/", headers=headers).status_code == status
    form = {"key_or_id": "deploy", "back": "/"}
    assert page.web.post(f"{page.base}/do/forget", data=form, headers=headers).status_code == status


@pytest.mark.requirement("P25")
def test_a_form_without_the_seal_changes_nothing(page: Served) -> None:
    for seal in ({}, {"seal": ""}, {"seal": "x" * 43}):
        answer = page.web.post(f"{page.base}/do/forget", data={"key_or_id": "deploy", **seal})
        assert (answer.status_code, "load it again" in answer.text) == (403, True)
    assert page.get("/do/forget?key_or_id=deploy").status_code == 405
    with page.store() as store:
        assert store.get("deploy") is not None


@pytest.mark.requirement("P25")
@pytest.mark.parametrize("path", ["/", "/memory?m=deploy", "/page.js", "/page.css", "/memory?m=nobody", "/state"])
def test_every_answer_allows_a_browser_its_own_files_alone(page: Served, path: str) -> None:
    answer = page.get(path)
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src", "form-action")} == {"'self'"}
    assert (answer.headers["cache-control"], answer.headers["x-content-type-options"]) == ("no-store", "nosniff")


def test_only_verbs_that_are_offered_can_be_called_and_answers_lead_nowhere_else(page: Served) -> None:
    assert page.do("backup", file="/tmp/x").status_code == 404
    assert page.do("close").status_code == 404
    for back in ("https://evil.example/", "//evil.example", "/\\evil.example", "/\r\nX: y"):
        assert page.do("reinforce", key_or_id="deploy", back=back).url.path == "/"
    assert page.do("store", content="x" * 9_000_000).status_code == 400
