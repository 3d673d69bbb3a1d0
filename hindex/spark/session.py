"""Spark sessions: a quiet local one for callers without a session, its Java runtime, and a session's time zones."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from hindex.errors import HindexError, MissingRuntimeError
from hindex.plan.time_zones import TimeZones
from hindex.spark.jobs import first_line, job_description

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GIB = 1 << 30
#: The Java exception in the message of a Py4J error.
_JAVA_ERROR = re.compile(r"^: (.+)$", re.MULTILINE)
#: Lines of Spark's log without an error, and stack frames.
_CHATTER = re.compile(
    r"\[[\d.]+s\]|WARNING: |Using Spark's default|Setting |To adjust |\d\d/\d\d/\d\d |at |\S+/spark-class: "
)


def local_session(
    master: str | None = None, conf: Mapping[str, str] | None = None, app_name: str = "hindex"
) -> SparkSession:
    """Return the running session of this process, or a new one that prints nothing.

    Nothing reaches standard error: no progress bars, log lines or start-up notes. The Java side logs to an unnamed
    temporary file; the error of a failed start quotes its end.

    Args:
        master: ``local[*]`` by default; any Spark master, or ``sc://host:port`` for Spark Connect.
        conf: Spark settings; they override the defaults of `default_conf`.

    Raises:
        MissingRuntimeError: if PySpark or Java is missing or too old; the message says what to install.
        HindexError: if Spark does not start, or the running session has another ``master`` or fixed settings that
            differ from ``conf``.
    """
    settings = dict(conf or {})
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingRuntimeError(
            f"PySpark is missing ({error}): pip install 'pyspark>=4.1' 'pandas>=2.2.2,<3'"
        ) from error
    running = running_session()
    if running is not None:
        return _configure(running, master, settings)
    if master is not None and master.startswith("sc://"):
        return _connect(master, settings, app_name)
    if _is_jvm_running():
        return SparkSession.builder.appName(app_name).config(map={**settings}).getOrCreate()
    return _start(master or "local[*]", settings, app_name)


def default_conf(master: str) -> dict[str, str]:
    """Return the settings of a session that hindex starts itself."""
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
    """Return the session of this process, which `local_session` uses; None if there is none."""
    sql = sys.modules.get("pyspark.sql")  # not imported: there is no session yet
    if sql is None:
        return None
    session: SparkSession | None = sql.SparkSession.getActiveSession()
    if session is None:
        # a thread of Java that has not used the session knows none, and one serves each thread of Python
        session = getattr(sql.SparkSession, "_instantiatedSession", None)
        if session is not None and session.sparkContext._jsc is None:
            # it was stopped
            return None
    return session


def has_own_settings(master: str | None) -> bool:
    """Return True if a session may start with settings from a server, the environment or a configuration file."""
    if (master is not None and master.startswith("sc://")) or "SPARK_ANSI_SQL_MODE" in os.environ:
        return True
    directory = _conf_dir()
    return directory is not None and (directory / _CATALOG_FILES[0]).exists()


def may_have_tables() -> bool:
    """Return True if the catalog of a default `local_session` may have tables.

    A session that hindex starts without a configured catalog has none: its catalog is in memory, and new.
    """
    return (
        running_session() is not None
        or ("pyspark" in sys.modules and _is_jvm_running())
        or any(name in os.environ for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"))
        or _has_catalog_files()
    )


def _conf_dir() -> Path | None:
    """Return the directory of Spark's configuration, by the environment."""
    home = os.environ.get("SPARK_HOME")
    directory = os.environ.get("SPARK_CONF_DIR") or (home and f"{home}/conf")
    return Path(directory) if directory else None


_WAREHOUSE = "spark.sql.warehouse.dir"
#: Settings, and files of Spark's configuration, that may name a permanent catalog.
_CATALOG_SETTINGS = (_WAREHOUSE, "spark.sql.catalogImplementation")
_CATALOG_FILES = ("spark-defaults.conf", "hive-site.xml")


def _has_catalog_files() -> bool:
    directory = _conf_dir()
    return directory is not None and any((directory / name).exists() for name in _CATALOG_FILES)


def _warehouse_conf(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the setting of a temporary warehouse directory; empty if the session has a permanent catalog.

    By default Spark creates a directory in the current one at the first lookup of a name.
    """
    if not master.startswith("local") or any(name in settings for name in _CATALOG_SETTINGS):
        return {}
    if _has_catalog_files():
        return {}
    return {_WAREHOUSE: _warehouse()}


@cache
def _warehouse() -> str:
    """Make a temporary warehouse directory; it is removed at exit if it is empty."""
    directory = tempfile.mkdtemp(prefix="hindex-warehouse-")

    def remove() -> None:
        with contextlib.suppress(OSError):
            Path(directory).rmdir()

    atexit.register(remove)
    return directory


def java_session(spark: SparkSession) -> Any:  # noqa: ANN401 a Java object
    """Return the Java object of a classic session; None over Spark Connect."""
    return getattr(spark, "_jsparkSession", None)


@contextlib.contextmanager
def as_active(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread's Java side in the block; a no-op over Spark Connect.

    A program may have several sessions, and parts of Spark use the active one instead of the one that was called.

    Raises:
        py4j.protocol.Py4JError: for Spark versions with other internals.
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
    """Raise an error if the session was stopped in this process.

    Raises:
        HindexError: with the remedy.
    """
    context = getattr(spark, "_sc", None)
    is_stopped = getattr(spark, "is_stopped", False) if context is None else context._jsc is None
    if is_stopped:
        raise HindexError(
            "the Spark session of this connection was stopped: start another, and connect again with "
            "hindex.connect(spark=spark)"
        )


def _driver_memory() -> int:
    """Return the size of the Java heap in bytes: a quarter of the machine's memory, within 1 to 4 GiB."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):  # not supported by the system
        total = 0
    return min(max(total // 4, _GIB), 4 * _GIB)


def _configure(running: SparkSession, master: str | None, settings: Mapping[str, str]) -> SparkSession:
    """Apply settings to a running session.

    Raises:
        HindexError: if it has another master, or a setting is fixed.
    """
    if master is not None and not master.startswith("sc://"):
        current = running.conf.get("spark.master", None)
        if current is not None and current != master:
            raise HindexError(
                f"a Spark session on master {current!r} is running, so master {master!r} cannot be used: "
                "stop that session first"
            )
    for key, value in settings.items():
        if _has_value(running.conf.get(key, None), key, value):
            continue
        if not running.conf.isModifiable(key):
            raise HindexError(
                f"Spark setting {key!r} is fixed when a session starts, and one is running: "
                "stop that session first, or start it with this setting"
            )
        running.conf.set(key, value)
    return running


def _has_value(current: str | None, key: str, value: str) -> bool:
    # Spark prepends its own Java options
    return current is not None and (current == value or (key.endswith("JavaOptions") and value in current))


def _is_jvm_running() -> bool:
    """Return True if this process has a JVM already, its own or that of ``spark-submit``."""
    from pyspark import SparkContext

    # getattr: a Connect-only PySpark has a SparkContext without a gateway
    return "PYSPARK_GATEWAY_PORT" in os.environ or getattr(SparkContext, "_gateway", None) is not None


def _connect(master: str, settings: Mapping[str, str], app_name: str) -> SparkSession:
    """Connect to a Spark Connect server."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        return SparkSession.builder.remote(master).appName(app_name).config(map={**settings}).getOrCreate()
    except ImportError as error:
        raise MissingRuntimeError(
            f"Spark Connect needs more packages ({first_line(error)}): pip install 'pyspark[connect]'"
        ) from error
    except PySparkException as error:
        raise HindexError(f"cannot connect to Spark at {master}: {first_line(error)}") from error


def _start(master: str, settings: Mapping[str, str], app_name: str) -> SparkSession:
    """Start a JVM and a session in it."""
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    find_java()
    _silence_pyspark()
    if master.startswith("local"):
        # Spark's default is the first python3 of the PATH, which may be another environment
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    merged = {
        **default_conf(master),
        **_warehouse_conf(master, settings),
        "spark.master": master,
        "spark.app.name": app_name,
        **settings,
    }
    if archive_option := _archive_option():
        merged[_JAVA_OPTIONS] = f"{merged.get(_JAVA_OPTIONS, '')} {archive_option}".lstrip()
    spark_conf = SparkConf(loadDefaults=False).setAll(list(merged.items()))
    # unnamed, so that no file remains; the Java side keeps it open while it runs
    log = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        with _killing_java_on_interrupt():
            gateway = launch_gateway(spark_conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
            context = SparkContext(conf=spark_conf, gateway=gateway)
            return SparkSession(context)
    except (PySparkException, Py4JError, OSError) as error:
        raise HindexError(_start_failure(master, error, _tail(log))) from error
    finally:
        log.close()


_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
#: Environment variable with the path of an archive of the classes that Spark loads.
ARCHIVE = "HINDEX_SPARK_ARCHIVE"


def _archive_option() -> str:
    """Return the Java option of the class archive that the environment names, empty if it names none.

    Java writes a missing archive when it exits, and ignores one of another Java or of other jars.

    Raises:
        HindexError: if the archive's directory does not exist.
    """
    name = os.environ.get(ARCHIVE)
    if not name:
        return ""
    path = Path(name).expanduser().absolute()
    if not path.parent.is_dir():
        raise HindexError(
            f"{ARCHIVE} is {name!r}, whose directory does not exist: make it, or unset the variable"
        )
    is_complete = False
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        # Java writes the header last
        is_complete = any(file.read(4))
    return f'"-XX:{"SharedArchiveFile" if is_complete else "ArchiveClassesAtExit"}={path}"'


@contextlib.contextmanager
def _killing_java_on_interrupt() -> Iterator[None]:
    """Kill the JVM that the block starts if Ctrl-C ends the block; the process can then start another one.

    PySpark has no handle of a JVM that does not listen yet, and a half-started one outlives its parent. The JVM gets
    a session of its own, so that its launcher dies with it; like any JVM of PySpark, it ends at the end of its
    standard input, that is, with this process.
    """
    from pyspark import SparkContext, java_gateway

    module: Any = java_gateway
    popen = module.Popen
    processes: list[subprocess.Popen[bytes]] = []

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401 as of Popen
        def launch() -> subprocess.Popen[bytes]:
            processes.append(popen(*arguments, start_new_session=True, **options))
            return processes[-1]

        # in a thread: an interrupt between the fork and the assignment would lose the process
        return launcher.submit(launch).result()

    def kill() -> None:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def interrupt(_number: int, _frame: object) -> None:
        # before PySpark's own clean-up, which would wait for a busy JVM
        kill()
        warnings.filterwarnings("ignore", message="Unable to cleanly shutdown Spark JVM")
        raise KeyboardInterrupt

    is_handled = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    with ThreadPoolExecutor(1) as launcher:
        module.Popen = start
        if is_handled:
            signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        except KeyboardInterrupt:
            launcher.shutdown()  # waits for a launch under way
            kill()
            SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
            raise
        finally:
            module.Popen = popen
            # a started context has a handler of its own, which cancels jobs
            if signal.getsignal(signal.SIGINT) is interrupt:
                signal.signal(signal.SIGINT, signal.default_int_handler)


def _silence_pyspark() -> None:
    """Disable log lines and warnings of PySpark that repeat a raised error or concern only its developers."""
    from pyspark.logger import PySparkLogger

    # analysis errors are raised and, besides, logged as JSON with the whole Java stack
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    warnings.filterwarnings(
        "ignore", message="PySpark does not yet fully support pandas", category=FutureWarning
    )
    # Py4J logs the stack of a call that fails or is interrupted at the root logger, and raises the error too
    logging.getLogger().addFilter(_is_worth_logging)


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """Return False for log records of Py4J that repeat a raised error."""
    return record.module != "java_gateway" or record.exc_info is None


def _start_failure(master: str, error: Exception, log: list[str]) -> str:
    if any("jdk.incubator.vector not found" in line for line in log):
        return f"Spark does not start: this Java lacks the module jdk.incubator.vector; {INSTALL_HINT}"
    raised = _JAVA_ERROR.search(str(error))
    if raised is not None:
        cause = raised[1]
    else:
        lines = [line for line in log if not _CHATTER.match(line)]
        cause = lines[0].removeprefix('Exception in thread "main" ') if lines else first_line(error)
    return f"Spark does not start on master {master!r}: {cause}"


def _tail(log: IO[bytes], size: int = 64 * 1024) -> list[str]:
    log.seek(max(0, log.seek(0, os.SEEK_END) - size))
    return [line for line in map(str.strip, log.read().decode(errors="replace").splitlines()) if line]


#: The minimum version of Java for Spark 4.
MINIMUM_JAVA = 17

INSTALL_HINT = (
    f"install Java {MINIMUM_JAVA} or later (Debian and Ubuntu: apt-get install default-jre-headless), "
    "or set JAVA_HOME to one"
)

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find_java() -> str:
    """Return the path of the ``java`` program that Spark uses.

    Raises:
        MissingRuntimeError: if there is none, it does not run, or it is older than `MINIMUM_JAVA`.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        raise MissingRuntimeError(f"Spark needs Java and there is none on the PATH: {INSTALL_HINT}")
    try:
        process = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        program = f"{java} (from JAVA_HOME)" if home else java
        raise MissingRuntimeError(
            f"Spark needs Java and {program} does not run ({error}): {INSTALL_HINT}"
        ) from error
    version = java_version(process.stderr)
    if version is not None and version < MINIMUM_JAVA:
        raise MissingRuntimeError(
            f"Spark needs Java {MINIMUM_JAVA} or later and {java} is {version}: {INSTALL_HINT}"
        )
    return java


def java_version(output: str) -> int | None:
    """Return the feature version in the output of ``java -version``, or None.

    >>> java_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> java_version('java version "1.8.0_402"')
    8
    """
    match = _VERSION.search(output)
    return int(match[1]) if match else None


#: Default time zones of the sessions' JVMs.
_java_zones: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()


def session_time_zones(spark: SparkSession) -> TimeZones:
    """Return the time zones of a session: its JVM's, in which ORC timestamps are read, and its own.

    The JVM's zone is read once, by a statement.

    Raises:
        HindexError: if the session was stopped.
    """
    check_running(spark)
    java = _java_zones.get(spark)
    if java is None:
        with job_description(spark, "ask for the time zone of Java"):
            java = str(spark.sql("SELECT reflect('java.time.ZoneId', 'systemDefault')").collect()[0][0])
        _java_zones[spark] = java
    return TimeZones(java, str(spark.conf.get("spark.sql.session.timeZone")))
