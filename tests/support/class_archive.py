"""An archive of the classes of Spark, from which Java starts in half the time; run as a program, it makes one.

Java checks that the archive is of its own version and of the same jars, and starts without it otherwise.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.support.elsewhere import QUICK_JAVA, ROOT

ARCHIVE = ROOT / "build" / "spark.jsa"


def java_environment() -> dict[str, str]:
    """Return variables with which Java starts quickly, in this process and in those that it starts."""
    # compiling generated code would take longer than interpreting plans of few rows and many expressions
    options = f"{QUICK_JAVA} -Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
    # each aggregation, sort and join allocates a page, by default of a sixteenth of the heap: garbage all the time
    options += " -Dspark.buffer.pageSize=1m"
    if ARCHIVE.exists():
        # without a log, as an archive that does not fit is no matter
        options += f" -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable"
    return {"SPARK_SUBMIT_OPTS": options, "SPARK_LAUNCHER_OPTS": QUICK_JAVA}


def main() -> None:
    """Start Spark, run a few statements, and have Java write the archive as it ends."""
    from hindex.spark.session import local_session

    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    made = ARCHIVE.with_suffix(".new")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{QUICK_JAVA} -XX:ArchiveClassesAtExit={made} -Xlog:disable"
    spark = local_session("local[1]", {"spark.driver.memory": "1g"})
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "table"
        spark.range(9).selectExpr("id", "id % 2 AS k").write.partitionBy("k").orc(str(path))
        table = spark.read.orc(str(path))
        table.where("id > 1").groupBy("k").count().join(table, "k").orderBy("id").toArrow()
        table.mapInArrow(lambda batches: batches, table.schema).collect()
    process = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    spark.stop()
    process.stdin.close()
    process.wait(timeout=300)
    made.replace(ARCHIVE)


if __name__ == "__main__":
    main()
