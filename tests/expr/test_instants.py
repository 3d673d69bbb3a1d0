"""Times of a clock as instants, near the transitions of time zones."""

from __future__ import annotations

import datetime
import zoneinfo

import pytest

from hindex.expr.instants import first_instant, is_shown_once, to_wall_clock

MINUTE = 60 * 10**6
HOUR = 60 * MINUTE


def micros(text: str) -> int:
    return int(datetime.datetime.fromisoformat(text + "+00:00").timestamp()) * 10**6


#: Of each zone, the time of UTC of a transition: an hour or less on or back, at midnight
#: or across it, and a day on.
TRANSITIONS = [
    ("Europe/Berlin", "2024-03-31 01:00"),
    ("Europe/Berlin", "2024-10-27 01:00"),
    ("Australia/Lord_Howe", "2024-04-06 15:00"),
    ("America/Sao_Paulo", "2018-11-04 03:00"),
    ("America/Sao_Paulo", "2018-02-18 02:00"),
    ("America/St_Johns", "2000-10-29 02:31"),
    ("America/Havana", "2024-11-03 05:00"),
    ("Pacific/Apia", "2011-12-30 10:00"),
    ("Asia/Kolkata", "2024-03-31 01:00"),
]


@pytest.mark.parametrize(("name", "text"), TRANSITIONS)
def test_the_first_instant_at_which_a_clock_shows_a_time(name: str, text: str) -> None:
    """Before it, the clock shows earlier times only; it is None where the clock is put back across the time."""
    zone, transition = zoneinfo.ZoneInfo(name), micros(text)
    shown = {at: to_wall_clock(transition + at * 15 * MINUTE, zone) for at in range(-200, 200)}
    before, after = to_wall_clock(transition - 1, zone), to_wall_clock(transition, zone)
    assert before is not None
    assert after is not None
    for wall in (before + 1 + at * 15 * MINUTE + extra for at in range(-12, 13) for extra in (-1, 0, 1)):
        first = first_instant(wall, zone)
        is_unsure = after < wall < before + 1 or before + 1 < wall < after
        assert (first is None) is is_unsure, wall
        if first is not None:
            for at, time in shown.items():
                assert time is not None
                assert (time >= wall) is (transition + at * 15 * MINUTE >= first), (wall, at)
            assert first_instant(wall, datetime.UTC) == wall


@pytest.mark.parametrize(("name", "text"), TRANSITIONS)
def test_times_that_a_clock_shows_once(name: str, text: str) -> None:
    """Not those that it skips or shows twice, nor the one that it is put to."""
    zone, transition = zoneinfo.ZoneInfo(name), micros(text)
    before, after = to_wall_clock(transition - 1, zone), to_wall_clock(transition, zone)
    assert before is not None
    assert after is not None
    for wall in (before + 1 + at * 15 * MINUTE for at in range(-12, 13)):
        is_unsure = after <= wall < before + 1 or before + 1 <= wall <= after != before + 1
        assert is_shown_once(wall, zone) is not is_unsure, wall
