"""Compare files whose stripes name no time zone of their writer with Spark's own reader; print JSON."""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any

import pyorc

import hindex
from hindex.spark.session import local_session
from tests.fuzz.parts import FileParts, joined, put_together, take_apart
from tests.spark.zones_run import compare_days, write_days
from tests.support.elsewhere import QUICK_JAVA, QUICK_WORKERS


def without_zone(parts: FileParts) -> FileParts:
    """Drop the writer's time zone from all stripes, as Hive wrote them before 1.2."""
    for stripe in parts.stripes:
        stripe.footer.ClearField("writer_timezone")
    return parts


def write_tables(hx: hindex.Connection, place: Path) -> None:
    """Write a table for each index type, of files with and without a zone, and files that have both."""
    for using in ("bitmap", "btree", "bloom", "minmax", "none"):
        path = place / "days" / using
        write_days(path, compression=pyorc.CompressionKind.NONE)
        for name in ("0.orc", "1.orc"):
            (path / name).write_bytes(put_together(without_zone(take_apart((path / name).read_bytes()))))
        table = hx.table(str(path))
        if using != "none":
            table.create_indexes([hindex.IndexSpec("t", "t", using), hindex.IndexSpec("s", "s.t", using)])
    # a first stripe without the zone before others with it
    first, second = (take_apart((place / "days" / "none" / name).read_bytes()) for name in ("0.orc", "2.orc"))
    (place / "mixed").mkdir()
    (place / "mixed" / "x.orc").write_bytes(put_together(joined([first, second, second])))
    hx.table(str(place / "mixed")).create_index("t", "t")


def main(java: str, root: str) -> None:
    place = Path(root)
    conf = {
        **QUICK_WORKERS,
        "spark.driver.extraJavaOptions": f"{QUICK_JAVA} -Duser.timezone={java}",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "1g",
        # with it, Spark's own reader loses rows of the hour that a clock shows twice
        "spark.sql.orc.filterPushdown": "false",
    }
    spark = local_session(master="local[2]", conf=conf, app_name="unnamed-zone")
    report: dict[str, Any] = {"days": compare_days(spark, place / "days", is_brief=True)}
    hx = hindex.connect(spark=spark)
    explained = hx.table(str(place / "days" / "bitmap")).scan("t < '2024-03-31 10:00:00'").explain()
    report["notes"] = sorted({str(note) for note in explained.notes if note.reason.name == "NO_WRITER_ZONE"})
    where = "t BETWEEN TIMESTAMP '2024-03-31 00:00:00' AND TIMESTAMP '2024-03-31 12:00:00'"
    rows = hx.table(str(place / "mixed")).scan(where, ["t"]).to_arrow()["t"].to_pylist()
    wanted = [row[0] for row in spark.read.orc(str(place / "mixed")).where(where).select("t").collect()]
    utc = [value.astimezone(datetime.UTC) for value in wanted]
    report["mixed"] = [sorted(map(str, rows)) == sorted(map(str, utc)), len(wanted)]
    spark.stop()
    print("FOUND", json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
