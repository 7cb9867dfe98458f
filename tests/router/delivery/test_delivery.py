"""Laws of the pure moves: of one memory's delivery, and of the link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.adapters.local import rows
from kingly_memory.models import DeliveryState
from kingly_memory.ports import Delivery
from kingly_memory.router.delivery import moves as delivery
from kingly_memory.router.delivery.link import Link, broken, mended, probe_is_due

NOW = 1_000_000.0
LEASE_S = 60.0
AT_REST = (DeliveryState.DELIVERED, DeliveryState.DEAD)
YEAR_S = 365.25 * 24 * 3_600

Step = Callable[["Course"], None]


class Course:
    """One memory's way through the outbox, moved only as the outbox moves it."""

    def __init__(self) -> None:
        self.now_s = NOW
        self.facet = Delivery(wanted=1, due=NOW)
        self.unleased = self.leased = self.facet
        self.seen: list[Delivery] = [self.facet]

    def go(self, facet: Delivery) -> None:
        self.facet = facet
        self.seen.append(facet)


def revise(course: Course) -> None:
    course.go(delivery.wanted(course.facet, course.facet.wanted + 1, course.now_s))


def forget(course: Course) -> None:
    course.go(delivery.wanted(course.facet, 0, course.now_s))


def lower(course: Course) -> None:
    course.go(delivery.at_rest(course.facet))


def lease(course: Course) -> None:
    lapsed = course.facet.due is not None and course.facet.due <= course.now_s
    if course.facet.state is DeliveryState.PENDING or (course.facet.state is DeliveryState.LEASED and lapsed):
        course.unleased = course.facet
        course.go(delivery.leased(course.facet, "me", course.now_s, LEASE_S))
        course.leased = course.facet


def _answered(move: Callable[[Course], Delivery]) -> Step:
    def step(course: Course) -> None:
        if course.facet.state is DeliveryState.LEASED:
            course.go(move(course))

    step.__name__ = move.__name__
    return step


@_answered
def acknowledge(course: Course) -> Delivery:
    change = delivery.confirmed_change(course.leased)
    return delivery.acknowledged(course.facet, change, "remote-1", course.now_s)


@_answered
def acknowledge_forgetting(course: Course) -> Delivery:
    return delivery.acknowledged(course.facet, course.leased.wanted, course.leased.remote_id, course.now_s)


@_answered
def postpone(course: Course) -> Delivery:
    return delivery.postponed(course.facet, "HTTP 503", course.now_s + 10)


@_answered
def refuse_clearly(course: Course) -> Delivery:
    return delivery.refused(course.facet, course.leased.wanted, "HTTP 422", clear=True, due=course.now_s + 1)


@_answered
def refuse_perhaps(course: Course) -> Delivery:
    return delivery.refused(course.facet, course.leased.wanted, "HTTP 409", clear=False, due=course.now_s + 1)


@_answered
def give_back(course: Course) -> Delivery:
    return delivery.released(course.facet, course.unleased)


def retry(course: Course) -> None:
    if course.facet.state in (DeliveryState.DEAD, DeliveryState.PENDING):
        course.go(delivery.retried(course.facet, course.now_s))


def let_time_pass(course: Course) -> None:
    course.now_s += 45


STEPS: list[Step] = [
    revise,
    forget,
    lower,
    lease,
    acknowledge,
    acknowledge_forgetting,
    postpone,
    refuse_clearly,
    refuse_perhaps,
    give_back,
    retry,
    let_time_pass,
]


@st.composite
def courses(draw: st.DrawFn) -> list[Delivery]:
    course = Course()
    for step in draw(st.lists(st.sampled_from(STEPS), max_size=25)):
        step(course)
    return course.seen


@given(courses())
def test_due_is_told_exactly_while_something_is_to_be_sent(seen: list[Delivery]) -> None:
    assert all((facet.due is None) == (facet.state in AT_REST) for facet in seen)


@given(courses())
def test_an_owner_is_named_exactly_while_it_is_leased(seen: list[Delivery]) -> None:
    assert all((facet.owner is not None) == (facet.state is DeliveryState.LEASED) for facet in seen)


@given(courses())
def test_what_is_wanted_and_what_is_acknowledged_only_grow_and_nothing_is_acknowledged_unwanted(
    seen: list[Delivery],
) -> None:
    for before, after in pairwise(seen):
        assert before.wanted <= after.wanted
        assert before.acknowledged <= after.acknowledged
    assert all(facet.acknowledged <= facet.wanted for facet in seen)


@given(courses())
def test_delivered_means_that_the_newest_change_is_acknowledged(seen: list[Delivery]) -> None:
    assert all(facet.acknowledged == facet.wanted for facet in seen if facet.state is DeliveryState.DELIVERED)


@given(courses())
def test_a_remote_id_is_never_forgotten(seen: list[Delivery]) -> None:
    for before, after in pairwise(seen):
        assert before.remote_id is None or after.remote_id == before.remote_id


@given(courses())
def test_what_was_sent_is_in_doubt_until_it_is_confirmed_or_given_back_unsent(seen: list[Delivery]) -> None:
    for before, after in pairwise(seen):
        is_given_back = before.state is DeliveryState.LEASED and after == replace(
            before, state=DeliveryState.PENDING, owner=None, due=after.due, first_sent=after.first_sent
        )
        if before.first_sent and after.first_sent != before.first_sent:
            assert after.acknowledged >= before.first_sent or is_given_back


@given(courses())
def test_once_sent_a_memory_is_never_taken_for_untried_again(seen: list[Delivery]) -> None:
    sent = False
    for facet in seen:
        sent = sent or facet.attempts > 0 or facet.state is DeliveryState.DEAD
        assert not (sent and facet.untried)


@given(courses())
def test_a_delivery_comes_back_from_its_columns_unchanged(seen: list[Delivery]) -> None:
    for one in seen:
        remote, item, *columns = rows.delivery_columns("remote", "item", one)
        assert rows.read_delivery(remote, item, columns) == one


def test_a_delivery_in_an_unknown_state_is_dead() -> None:
    digest = rows.delivery_digest("remote", "item", "gone", None, 3, 0, 0, 0, 0, None, None, None)
    found = rows.read_delivery("remote", "item", ["gone", None, 3, 0, 0, 0, 0, None, None, None, digest])
    assert found.state is DeliveryState.DEAD


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("at", range(10))
def test_a_delivery_that_is_not_as_it_was_written_or_another_ones_is_dead(at: int) -> None:
    _, _, *columns = rows.delivery_columns("remote", "item", Delivery(2, 1.0, DeliveryState.LEASED, 1, 1, 1, 1, "me"))
    assert rows.read_delivery("remote", "item", columns).state is DeliveryState.LEASED
    assert rows.read_delivery("remote", "another", columns).state is DeliveryState.DEAD
    columns[at] = "pending" if at == 0 else "x" if at > 6 else 0
    assert rows.read_delivery("remote", "item", columns).state is DeliveryState.DEAD


def test_refusals_that_are_not_clear_kill_at_the_limit_and_not_before() -> None:
    facet = Delivery(wanted=1, due=NOW)
    states = []
    for _ in range(10):
        facet = delivery.leased(facet, "me", NOW, LEASE_S)
        facet = delivery.refused(facet, 1, "HTTP 409", clear=False, due=NOW)
        states.append(facet.state)
    assert states == [DeliveryState.PENDING] * 9 + [DeliveryState.DEAD]


@pytest.mark.parametrize("clear", [True, False])
def test_a_change_that_was_not_the_one_refused_lives_on(clear: bool) -> None:
    under_way = replace(delivery.leased(Delivery(wanted=1, due=NOW), "me", NOW, LEASE_S), refusals=9)
    revised = delivery.wanted(under_way, 2, NOW)
    facet = delivery.refused(revised, 1, "HTTP 422", clear=clear, due=NOW + 1)
    assert (facet.state, facet.refusals, facet.due) == (DeliveryState.PENDING, 0, NOW + 1)


def test_the_answer_to_a_repeated_first_store_confirms_only_what_was_sent_first() -> None:
    lost = delivery.postponed(delivery.leased(Delivery(wanted=1, due=NOW), "me", NOW, LEASE_S), "reset", NOW)
    revised = delivery.wanted(lost, 2, NOW)
    repeated = delivery.leased(revised, "me", NOW, LEASE_S)
    facet = delivery.acknowledged(repeated, delivery.confirmed_change(repeated), "remote-1", NOW)
    assert (facet.acknowledged, facet.state, facet.due) == (1, DeliveryState.PENDING, NOW)


# --- backing off ------------------------------------------------------------------------------------------------------

chances = st.floats(0, 1, exclude_max=True)


@given(st.integers(0, 10**9), st.floats(0, 1e6), chances)
def test_backoff_lies_between_nothing_and_the_longest_wait(attempts: int, longest_s: float, chance: float) -> None:
    assert 0 <= delivery.backoff_s(attempts, longest_s, chance) <= min(longest_s, 2.0 ** min(attempts, 30))


@given(st.integers(0, 40), st.integers(0, 40), chances)
def test_backoff_never_shrinks_as_attempts_grow(fewer: int, more: int, chance: float) -> None:
    fewer, more = sorted((fewer, more))
    assert delivery.backoff_s(fewer, 300, chance) <= delivery.backoff_s(more, 300, chance)


@given(st.integers(0, 40))
def test_backoff_uses_the_whole_range(attempts: int) -> None:
    whole = min(300.0, 2.0**attempts)
    assert delivery.backoff_s(attempts, 300, 0.0) == 0
    assert delivery.backoff_s(attempts, 300, 0.5) == whole / 2


# --- the link ---------------------------------------------------------------------------------------------------------

intervals = st.floats(1, 3_600)
jumps = st.one_of(st.sampled_from([-YEAR_S, -3_600.0, 3_600.0, YEAR_S]), st.floats(-YEAR_S, YEAR_S))


@pytest.mark.requirement("KNG-045")
@given(intervals, st.floats(0, 1, exclude_max=True))
def test_a_probe_is_due_when_the_interval_is_over_and_not_before(interval_s: float, share: float) -> None:
    link = broken(Link(), "refused", NOW, interval_s)
    early = NOW + interval_s * share
    assert probe_is_due(link, early, interval_s + 1) == (early >= NOW + interval_s)
    assert probe_is_due(link, NOW + interval_s, interval_s + 1)


@given(intervals, jumps)
def test_no_jump_of_the_clock_keeps_a_probe_away_for_longer_than_an_interval(interval_s: float, jump: float) -> None:
    longest_s = interval_s + 1
    link = broken(Link(), "refused", NOW, interval_s)
    assert link.next_probe is not None
    now_s = NOW + jump
    assert probe_is_due(link, now_s, longest_s) or link.next_probe - now_s <= longest_s


@given(st.floats(0, 2 * NOW))
def test_a_link_that_stands_is_not_probed(now_s: float) -> None:
    assert not probe_is_due(Link(), now_s, 301)
    assert not probe_is_due(mended("exactly_once", "hub"), now_s, 301)


@given(st.booleans(), intervals)
def test_a_broken_link_keeps_what_is_known_of_the_server(unauthorised: bool, interval_s: float) -> None:
    known = mended("exactly_once", "hub")
    link = broken(known, "HTTP 401", NOW, interval_s, unauthorised=unauthorised)
    assert (link.effects, link.server) == ("exactly_once", "hub")


def test_what_a_later_version_notes_of_a_link_is_left_out() -> None:
    assert Link.from_json({**Link(server="hub").to_json(), "weather": "fair"}) == Link(server="hub")


@given(st.booleans(), intervals)
def test_a_link_comes_back_from_its_json_form_unchanged(unauthorised: bool, interval_s: float) -> None:
    link = broken(Link(effects="at_least_once"), "refused", NOW, interval_s, unauthorised=unauthorised)
    assert Link.from_json(link.to_json()) == link
