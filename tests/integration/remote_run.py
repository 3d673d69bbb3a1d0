"""Build and scan in a session whose tasks run in other processes; as a program, print a report as JSON.

``cluster`` starts ``local-cluster[2,1,1024]``, whose executors are separate processes. Spark sends them
hindex as an archive and unpacks it. The program kills an executor during a build, a scan and a query.
``connect`` starts a Spark Connect server, and compares queries of an accelerated session, too.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import hindex
import hindex.build.job
import hindex.spark.scan
from hindex.progress import NullProgress
from hindex.queries import selectivity
from hindex.store.store import Store
from tests.queries.remote_run import compare_queries
from tests.support.elsewhere import QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CountingProgress(NullProgress):
    """A progress that counts files."""

    def __init__(self) -> None:
        self.advanced = 0

    def advance(self, count: int = 1) -> None:
        self.advanced += count


def run_and_kill(
    run: Callable[..., Iterator[pa.RecordBatch]], flag: str, task: Any, **options: Any
) -> Iterator[pa.RecordBatch]:
    """Run a task; the first of all tasks kills its executor after its first batch, once."""
    for batch in run(task, **options):
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            # the parent of this worker is Spark's worker daemon, whose parent is the executor
            import signal

            daemon = os.getppid()
            executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
            assert "CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_text()
            os.kill(executor, signal.SIGKILL)
        yield batch


def run_and_record(
    run: Callable[..., Iterator[pa.RecordBatch]], path: str, task: Any
) -> Iterator[pa.RecordBatch]:
    """Run a task, and append the description of its job, or the tags of its operation, to a file."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    names = ("spark.job.description", "spark.job.tags")
    with Path(path).open("a") as file:
        # Spark Connect describes jobs by their plans, in several lines
        file.write(" ".join(" ".join(str(context.getLocalProperty(name)) for name in names).split()) + "\n")
    yield from run(task)


def run_twice(
    run: Callable[..., Iterator[pa.RecordBatch]], flags: str, task: Any
) -> Iterator[pa.RecordBatch]:
    """Run a task that fails once after all its writes; the second attempt runs it twice.

    This leaves the files of a failed attempt and of an unreported attempt, as speculative execution does.
    """
    try:
        os.close(os.open(f"{flags}.{task[0].path}.{task[0].first}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        list(run(task))
        yield from run(task)
    else:
        list(run(task))
        raise OSError("once")


def build_with_repeated_tasks(
    spark: SparkSession, table: hindex.Table, job: Any, flags: str
) -> dict[str, Any]:
    """Build indexes with repeated tasks over parts of data files, and describe their files in the store."""
    spark.conf.set("spark.hindex.build.taskBytes", "1500")
    real = job.run_build_tasks
    job.run_build_tasks = partial(run_twice, real, flags)
    try:
        table.create_indexes([hindex.IndexSpec("r", "a", "bloom"), hindex.IndexSpec("m", "id")])
    finally:
        job.run_build_tasks = real
        spark.conf.unset("spark.hindex.build.taskBytes")
    store = Store.for_table(table.uri)
    manifest = store.load()
    assert manifest is not None
    ids = [manifest.index(name).id for name in "rm"]
    files = [file.path for e in manifest.files for file in e.index_files if file.index_id in ids]
    garbage = [item.path for item in store.garbage()]
    table.vacuum(retain_hours=0)
    return {
        "tasks": len(list(Path(flags).parent.glob(f"{Path(flags).name}.*"))),
        "named": [len(files), len(set(files))],
        "garbage": [len([path for path in garbage if "-part-" in path]), len(list(store.garbage()))],
        "problems": [text for check in table.check_indexes(verify=True) for text in check.problems],
        "scan": [table.scan("id IN (7, 2500)").explain().exact, table.scan("id IN (7, 2500)").count()],
    }


def locate_hindex(_: Any) -> Iterator[pa.RecordBatch]:
    """Yield the path of hindex in this worker, and the modules of the parser that it has loaded."""
    import hindex.spark.tasks

    loaded = ",".join(name for name in ("sqlglot", "hindex.sql.parsing") if name in sys.modules)
    yield pa.RecordBatch.from_pydict({"path": [hindex.spark.tasks.__file__], "loaded": [loaded]})


def cluster_session(archive: str) -> SparkSession:
    """Start a session on a local cluster whose executors run hindex from an archive."""
    from hindex.spark.session import local_session

    settings = {
        "spark.archives": f"{archive}#unpacked",
        "spark.executorEnv.PYTHONPATH": "unpacked",
        "spark.executor.memory": "1g",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": QUICK_JAVA,
        "spark.executor.extraJavaOptions": QUICK_JAVA,
        "spark.sql.session.timeZone": "UTC",
    }
    return local_session("local-cluster[2,1,1024]", settings)


def connect_session(java: str = "UTC", warehouse: str = "spark-warehouse") -> SparkSession:
    """Start a Spark Connect server and return its session, with Java in a time zone."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.remote("local[2]").config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.sql.warehouse.dir", warehouse).config("spark.sql.shuffle.partitions", "1")
    # with it, Spark's own reader loses rows of the hour that a clock shows twice
    builder = builder.config("spark.sql.orc.filterPushdown", "false")
    return builder.config(
        "spark.driver.extraJavaOptions", f"{QUICK_JAVA} -Duser.timezone={java}"
    ).getOrCreate()


def main(kind: str, path: str, archive: str) -> None:
    report: dict[str, Any] = {}
    if kind == "cluster":
        spark = cluster_session(archive)
    else:
        warehouse = f"{path}.warehouse"
        spark = connect_session(warehouse=warehouse)
        report["queries"] = compare_queries(spark, warehouse)
    progress = CountingProgress()
    hx = hindex.connect(spark=spark, progress=progress)
    table = hx.table(path)
    scan: Any = hindex.spark.scan
    job: Any = hindex.build.job
    job.run_build_tasks = partial(run_and_record, job.run_build_tasks, f"{path}.described")
    spark.addTag("users")
    if kind == "cluster":
        job.run_build_tasks = partial(run_and_kill, job.run_build_tasks, f"{path}.build")
        scan.read_group = partial(run_and_kill, scan.read_group, f"{path}.scan")
    table.create_indexes([hindex.IndexSpec("i", "a"), hindex.IndexSpec("j", "s")])
    report["advanced"] = progress.advanced
    report["described"] = [Path(f"{path}.described").read_text().splitlines(), sorted(spark.getTags())]
    spark.removeTag("users")
    table.create_index("k", "id", using="btree")
    store = Store.for_table(table.uri)
    manifest = store.load()
    assert manifest is not None
    files = [file.path for entry in manifest.files for file in entry.index_files]
    report["indexed"] = [len(files), len(set(files))]
    rows = table.scan("a IN (3, 4)", ["id"])
    report["exact"] = rows.explain().exact
    scan.MAX_LOCAL_VALUES = 0
    report["scan"] = sorted(row["id"] for row in rows.to_spark(spark).collect())
    if kind == "cluster":
        scan.read_group = partial(run_and_kill, scan.read_group, f"{path}.query")
    selectivity.MAX_SHARE, selectivity.MIN_VALUES = 1.0, 0
    text = f"SELECT sum(t.id) AS n FROM '{path}' t JOIN range(0, 6000) r ON t.id = r.id WHERE t.a = 3"
    result: Any = hx.sql(text)
    explained: Any = hx.sql("EXPLAIN " + text)
    report["query"] = [result.to_spark().collect()[0]["n"], explained.tables[0].is_accelerated]
    report["killed"] = [Path(f"{path}.{step}").exists() for step in ("build", "scan", "query")]
    hindex.enable(spark)
    report["source"] = spark.read.format("hindex").option("where", "a = 3 AND s = 's3'").load(path).count()
    if kind == "cluster":
        report["repeated"] = build_with_repeated_tasks(spark, table, job, f"{path}.once")
    locations = spark.range(0, 2, 1, 2).mapInArrow(locate_hindex, "path string, loaded string").collect()
    report["executors"] = sorted({tuple(row) for row in locations})
    spark.stop()
    print("FOUND", json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
