"""A quiet local Spark session, for the jobs of a caller who has none."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from hindex.errors import HindexError, MissingRuntimeError
from hindex.spark.java import INSTALL_HINT, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GIB = 1 << 30
#: What Java raised, in the text of a Py4J error.
_JAVA_ERROR = re.compile(r"^: (.+)$", re.MULTILINE)
#: Lines of Spark's log that are there also when all is well, and stack frames.
_CHATTER = re.compile(
    r"WARNING: |Using Spark's default|Setting |To adjust |\d\d/\d\d/\d\d |at |\S+/spark-class: "
)


def local_session(
    master: str | None = None, conf: Mapping[str, str] | None = None, app_name: str = "hindex"
) -> SparkSession:
    """The running session of this process, or a new one that prints nothing.

    Nothing reaches standard error: no progress bars, log lines or start-up notes. What the Java side writes
    there goes to an unnamed temporary file, whose end becomes part of the error when the start fails.

    :param master: ``local[*]`` by default; any Spark master, or ``sc://host:port`` for Spark Connect.
    :param conf: Spark settings; they win over the ones chosen here.
    :raises MissingRuntimeError: if PySpark or Java is missing or too old; the message says what to install.
    :raises HindexError: if Spark does not start, or the running session cannot take ``master`` or ``conf``.
    """
    wanted = dict(conf or {})
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingRuntimeError(
            f"PySpark is missing ({error}): pip install 'pyspark>=4.1' 'pandas>=2.2'"
        ) from error
    running = SparkSession.getActiveSession()
    if running is not None:
        return _adapted(running, master, wanted)
    if master is not None and master.startswith("sc://"):
        return _connected(master, wanted, app_name)
    if _jvm_is_running():
        return SparkSession.builder.appName(app_name).config(map={**wanted}).getOrCreate()
    return _started(master or "local[*]", wanted, app_name)


def default_conf(master: str) -> dict[str, str]:
    """The settings of a session that hindex starts itself."""
    settings = {
        "spark.log.level": "ERROR",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": f"{_driver_memory() >> 20}m",
        }
    return settings


def running_session() -> SparkSession | None:
    """The active session of this process, which is the one that :func:`local_session` gives; None without one."""
    sql = sys.modules.get("pyspark.sql")  # which nobody has a session without
    found: SparkSession | None = None if sql is None else sql.SparkSession.getActiveSession()
    return found


def has_own_settings(master: str | None) -> bool:
    """Return True if a session may start with settings that neither its user nor hindex chose."""
    if (master is not None and master.startswith("sc://")) or "SPARK_ANSI_SQL_MODE" in os.environ:
        return True
    directory = _configuration()
    return directory is not None and (directory / _CATALOG_FILES[0]).exists()


def may_know_tables() -> bool:
    """Return True if the catalog of a default :func:`local_session` may have tables.

    One that it starts has none where nobody says which: its catalog is in memory, and new.
    """
    return (
        running_session() is not None
        or ("pyspark" in sys.modules and _jvm_is_running())
        or any(name in os.environ for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"))
        or _has_catalog_files()
    )


def _configuration() -> Path | None:
    """The directory of Spark's configuration, as the environment tells it."""
    home = os.environ.get("SPARK_HOME")
    directory = os.environ.get("SPARK_CONF_DIR") or (home and f"{home}/conf")
    return Path(directory) if directory else None


_WAREHOUSE = "spark.sql.warehouse.dir"
#: Settings, and files of Spark's configuration, of somebody who may have tables of his own in a catalog that stays.
_CATALOG_SETTINGS = (_WAREHOUSE, "spark.sql.catalogImplementation")
_CATALOG_FILES = ("spark-defaults.conf", "hive-site.xml")


def _has_catalog_files() -> bool:
    directory = _configuration()
    return directory is not None and any((directory / name).exists() for name in _CATALOG_FILES)


def _warehouse_conf(master: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the warehouse directory of a session with its own catalog; none by default.

    By default Spark makes a directory in the current one as soon as a name is looked up.
    """
    if not master.startswith("local") or any(name in wanted for name in _CATALOG_SETTINGS):
        return {}
    if _has_catalog_files():
        return {}
    return {_WAREHOUSE: _warehouse()}


@cache
def _warehouse() -> str:
    """A directory for what is written to the session's catalog; it goes at the end, unless something is in it."""
    made = tempfile.mkdtemp(prefix="hindex-warehouse-")

    def remove() -> None:
        with contextlib.suppress(OSError):
            Path(made).rmdir()

    atexit.register(remove)
    return made


def java_session(spark: SparkSession) -> Any:  # noqa: ANN401 an object of Java
    """The Java side of a session, which is within reach; None over Spark Connect."""
    return getattr(spark, "_jsparkSession", None)


@contextlib.contextmanager
def as_active(spark: SparkSession) -> Iterator[None]:
    """Let a session be the active one of the thread's Java side for a while; over Spark Connect there is none.

    A program may have several, and parts of Spark ask the active one, whichever was called.

    :raises py4j.protocol.Py4JError: of a Spark whose inner parts differ.
    """
    session = java_session(spark)
    if session is None:
        yield
        return
    sessions: Any = getattr(spark._jvm, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(session)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def check_running(spark: SparkSession) -> None:
    """:raises HindexError: if the session was stopped, in this process."""
    context = getattr(spark, "_sc", None)
    is_stopped = getattr(spark, "is_stopped", False) if context is None else context._jsc is None
    if is_stopped:
        raise HindexError(
            "the Spark session of this connection was stopped: start another, and connect again with "
            "hindex.connect(spark=spark)"
        )


def _driver_memory() -> int:
    """Bytes for the Java heap: a quarter of the machine's memory, within 1 to 4 GiB."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):  # a system that does not tell
        total = 0
    return min(max(total // 4, _GIB), 4 * _GIB)


def _adapted(running: SparkSession, master: str | None, wanted: Mapping[str, str]) -> SparkSession:
    if master is not None and not master.startswith("sc://"):
        current = running.conf.get("spark.master", None)
        if current is not None and current != master:
            raise HindexError(
                f"a Spark session on master {current!r} is running, so master {master!r} cannot be used: "
                "stop that session first"
            )
    for key, value in wanted.items():
        if _holds(running.conf.get(key, None), key, value):
            continue
        if not running.conf.isModifiable(key):
            raise HindexError(
                f"Spark setting {key!r} is fixed when a session starts, and one is running: "
                "stop that session first, or start it with this setting"
            )
        running.conf.set(key, value)
    return running


def _holds(current: str | None, key: str, value: str) -> bool:
    # Spark puts options of its own before those that were given
    return current is not None and (current == value or (key.endswith("JavaOptions") and value in current))


def _jvm_is_running() -> bool:
    """Return True if this process has a JVM already, its own or that of ``spark-submit``."""
    from pyspark import SparkContext

    # getattr: a Connect-only PySpark has a SparkContext without a gateway
    return "PYSPARK_GATEWAY_PORT" in os.environ or getattr(SparkContext, "_gateway", None) is not None


def _connected(master: str, wanted: Mapping[str, str], app_name: str) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        return SparkSession.builder.remote(master).appName(app_name).config(map={**wanted}).getOrCreate()
    except ImportError as error:
        raise MissingRuntimeError(
            f"Spark Connect needs more packages ({_first_line(error)}): pip install 'pyspark[connect]'"
        ) from error
    except PySparkException as error:
        raise HindexError(f"cannot connect to Spark at {master}: {_first_line(error)}") from error


def _started(master: str, wanted: Mapping[str, str], app_name: str) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    find_java()
    _hush_python_side()
    if master.startswith("local"):
        # Spark's own default is the first python3 of the PATH, which may be another environment
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        **default_conf(master),
        **_warehouse_conf(master, wanted),
        "spark.master": master,
        "spark.app.name": app_name,
        **wanted,
    }
    spark_conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    # unnamed, so that nothing is left behind; the Java side keeps it open for as long as it lives
    log = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        gateway = launch_gateway(spark_conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
        context = SparkContext(conf=spark_conf, gateway=gateway)
        return SparkSession(context)
    except (PySparkException, Py4JError, OSError) as error:
        raise HindexError(_start_failure(master, error, _tail(log))) from error
    finally:
        log.close()


def _hush_python_side() -> None:
    """Keep PySpark's Python half from printing what the caller sees anyway, as an error or not at all."""
    from pyspark.logger import PySparkLogger

    # analysis errors are raised and, besides, logged as JSON with the whole Java stack
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    warnings.filterwarnings(
        "ignore", message="PySpark does not yet fully support pandas", category=FutureWarning
    )


def _start_failure(master: str, error: Exception, log: list[str]) -> str:
    if any("jdk.incubator.vector not found" in line for line in log):
        return f"Spark does not start: this Java lacks the module jdk.incubator.vector; {INSTALL_HINT}"
    raised = _JAVA_ERROR.search(str(error))
    if raised is not None:
        cause = raised[1]
    else:
        told = [line for line in log if not _CHATTER.match(line)]
        cause = told[0].removeprefix('Exception in thread "main" ') if told else _first_line(error)
    return f"Spark does not start on master {master!r}: {cause}"


def _tail(log: IO[bytes], size: int = 64 * 1024) -> list[str]:
    log.seek(max(0, log.seek(0, os.SEEK_END) - size))
    return [line for line in map(str.strip, log.read().decode(errors="replace").splitlines()) if line]


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
