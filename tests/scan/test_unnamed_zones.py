"""Files whose stripes name no time zone of their writer: Java, and so Spark, takes the reader's."""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyorc
import pytest

from hindex.errors import FallbackError
from hindex.orc import OrcReader
from hindex.plan.reasons import Reason
from hindex.plan.time_zones import TimeZones
from hindex.sql import parse_predicate
from tests.fuzz.parts import FileParts, joined, put_together, take_apart
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import candidates, ids, reasons, scan_of

ZONE = "America/Los_Angeles"
#: Every six hours of the year 2000, half of them in daylight saving time.
TIMES = [datetime.datetime(2000, 1, 1, 15) + datetime.timedelta(hours=6 * at) for at in range(1460)]
SUMMER = TIMES.index(datetime.datetime(2000, 7, 12, 15))


def write_times(path: Path, times: Sequence[datetime.datetime] = TIMES) -> FileParts:
    with path.open("wb") as file:
        options: Any = {"timezone": zoneinfo.ZoneInfo("UTC"), "row_index_stride": 100}
        options["compression"] = pyorc.CompressionKind.NONE
        with pyorc.Writer(file, "struct<id:bigint,t:timestamp>", **options) as writer:
            writer.writerows([(at, time.replace(tzinfo=datetime.UTC)) for at, time in enumerate(times)])
    return take_apart(path.read_bytes())


def without_zone(parts: FileParts, stripes: Iterable[int] = (0,)) -> bytes:
    for number in stripes:
        parts.stripes[number].footer.ClearField("writer_timezone")
    return put_together(parts)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two files: only the first names its zone."""
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "1.orc").write_bytes(without_zone(write_times(folder / "0.orc")))
    return folder


def test_times_of_the_readers_clock(path: Path) -> None:
    """The offset is that of 2015-01-01, so times in summer are an hour late."""
    file = str(path / "1.orc")
    zone = zoneinfo.ZoneInfo(ZONE)
    with OrcReader(file, timezone=ZONE) as reader:
        clocks = [time.astimezone(zone).replace(tzinfo=None) for time in reader.read()["t"].to_pylist()]
    assert clocks[0] == TIMES[0]
    assert clocks[SUMMER] == datetime.datetime(2000, 7, 12, 16)
    hours = [(clock - time).total_seconds() / 3600 for clock, time in zip(clocks, TIMES, strict=True)]
    assert hours == [float(bool(clock.replace(tzinfo=zone).dst())) for clock in clocks]
    with OrcReader(file) as reader:
        assert reader.read()["t"].to_pylist() == TIMES
    with OrcReader(file, timezone="UTC") as reader:
        assert reader.read()["t"].to_pylist() == [time.replace(tzinfo=datetime.UTC) for time in TIMES]


def test_statistics_of_row_groups_are_exact_where_the_zone_is_named(tmp_path: Path) -> None:
    """Without a name, a reader's clock may move the values by days."""
    times = [TIMES[0] + datetime.timedelta(minutes=at) for at in range(12_000)]
    for name in ("named", "unnamed"):
        (tmp_path / name).mkdir()
    parts = write_times(tmp_path / "named" / "x.orc", times)
    (tmp_path / "unnamed" / "x.orc").write_bytes(without_zone(parts))
    kept: dict[str, int] = {}
    for name in ("named", "unnamed"):
        scan = scan_of(tmp_path / name, f"t = TIMESTAMP '{times[6050]}'")
        assert ids(scan) == [6050]
        kept[name] = candidates(scan)
    assert kept["named"] == 100
    assert 100 < kept["unnamed"] < len(times)


@pytest.mark.parametrize("using", ["bitmap", "btree", "bloom", "minmax"])
def test_indexes_serve_readers_in_utc_only(path: Path, connection: LocalConnection, using: str) -> None:
    table = connection.table(str(path))
    table.create_index("t", "t", using)
    table.create_index("id", "id")
    where = parse_predicate("t = TIMESTAMP '2000-07-12 16:00:00'")
    by_zone = {
        zone: table.scan().with_zones(partial(TimeZones, zone, zone)).narrowed(where, ["id"], None)
        for zone in (ZONE, "UTC")
    }
    # the first file has 15:00 and 21:00 of UTC, which its writer's clock showed; the second has the summer's 16:00
    local = by_zone[ZONE]
    assert local.to_arrow()["id"].to_pylist() == [SUMMER]
    assert local.count() == 1
    explained = local.explain()
    assert reasons(local)[Reason.NO_WRITER_ZONE] == ["t on 1.orc"]
    assert explained.rows is not None
    assert explained.rows.kept is not None
    # the statistics of the file without a zone rule out what days may not shift
    assert 0 < explained.rows.kept <= 400
    with raises(FallbackError):
        table.scan(mode="strict").with_zones(partial(TimeZones, ZONE, ZONE)).narrowed(
            where, ["id"], None
        ).count()
    # the other index is used
    other = table.scan().with_zones(partial(TimeZones, ZONE, ZONE))
    explained = other.narrowed(parse_predicate("id = 7"), ["t"], None).explain()
    assert (explained.exact, explained.rows and explained.rows.kept) == (True, 2)

    in_utc = by_zone["UTC"]
    explained = in_utc.explain()
    assert Reason.NO_WRITER_ZONE not in reasons(in_utc)
    assert explained.rows is not None
    assert explained.rows.kept is not None
    assert explained.rows.kept == {"bitmap": 0, "btree": 0}.get(using, explained.rows.kept) <= 200
    assert in_utc.count() == 0


def test_one_stripe_of_several(path: Path, tmp_path: Path, connection: LocalConnection) -> None:
    """Indexes of both kinds are left out if any stripe lacks the zone, whichever was built first."""
    parts = take_apart((path / "0.orc").read_bytes())
    folder = tmp_path / "several"
    folder.mkdir()
    (folder / "x.orc").write_bytes(without_zone(joined([parts, parts, parts]), [2]))
    table = connection.table(str(folder))
    for order in (("id", "t"), ("t", "id")):
        for using in ("bitmap", "btree"):
            for column in order:
                table.create_index(column, column, using)
            scan = table.scan().with_zones(partial(TimeZones, ZONE, ZONE))
            where = parse_predicate("t = TIMESTAMP '2000-07-12 16:00:00'")
            summer = scan.narrowed(where, ["id"], None)
            assert summer.to_arrow()["id"].to_pylist() == [SUMMER]
            assert reasons(summer)[Reason.NO_WRITER_ZONE] == ["t on x.orc"]
            for column in order:
                table.drop_index(column)
