"""Random states of transactional directories, judged by Hive's own ``AcidUtils``, which PySpark ships.

Hive 2.3, of which these classes are, has the rules of Hive 3 for deltas, originals and write ids, and lacks three
things. They are brought to it:

- No visibility suffixes: the oracle's directories have none. Where a compaction that was repeated left two directories
  of the same write ids, it has the newer one only, as `docs/acid.md` states (Hive 3 reads both).
- Every base is a compaction's: for the write id of an overwrite, ``isValidBase`` is ``isTxnValid``, as in Hive 3, and
  invalid overwrites, which Hive 3 ignores, are left out. Of an overwrite and a compaction of the same write id that are
  both valid, it has the compaction.
- No markers: those of a compaction give a base its kind above.

Two answers differ on purpose (`docs/acid.md`): a directory within one that counts is an error here, and so is a base
that the write ids do not include, do not name as aborted, and before which nothing is left.
"""

from __future__ import annotations

import random
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hindex.errors import TableError
from hindex.orc.acid.directory import VERSION_FILE
from hindex.orc.acid.write_ids import ValidWriteIds
from hindex.table.directory_tree import list_tree
from hindex.table.transactional import AcidOptions, transactional_files
from tests.acid.writing import write_marker
from tests.support.cases import cases
from tests.support.messages import raises

CASES = cases(20, 100)
MOST = 9223372036854775807

#: Hive 3's rule for the bases of overwrites, added to the class of Hive 2.
_RULE = """package hindex.tests;
public class WriteIds extends org.apache.hadoop.hive.common.ValidReadTxnList {
  private final java.util.Set overwrites;
  public WriteIds(String text, java.util.Set overwrites) { super(text); this.overwrites = overwrites; }
  public boolean isValidBase(long id) {
    return overwrites.contains(Long.toString(id)) ? isTxnValid(id) : super.isValidBase(id);
  }
}"""

_SUFFIX = re.compile(r"_v[0-9]+$")


@dataclass
class State:
    """A directory: its base and delta directories, what is beside and in them, and the write ids of a reader.

    Attributes:
        compacted: names of bases that a compaction wrote.
        originals: paths of files beside the deltas; those of length 0 are not there for Hive.
        inside: directories in a base or delta, by its name.
    """

    names: list[str] = field(default_factory=list)
    compacted: set[str] = field(default_factory=set)
    markers: dict[str, str] = field(default_factory=dict)
    originals: dict[str, int] = field(default_factory=dict)
    hidden: list[str] = field(default_factory=list)
    inside: dict[str, str] = field(default_factory=dict)
    watermark: int = 0
    opened: list[int] = field(default_factory=list)
    aborted: list[int] = field(default_factory=list)

    @property
    def min_open(self) -> int:
        return min(self.opened, default=MOST)

    @property
    def valid(self) -> str:
        opened, aborted = (",".join(map(str, ids)) for ids in (self.opened, self.aborted))
        return f"db.t:{self.watermark}:{self.min_open}:{opened}:{aborted}"


@dataclass(frozen=True)
class Answer:
    """What counts: the base, the deltas in their order, and the original files; or that history is missing."""

    base: str | None = None
    deltas: tuple[str, ...] = ()
    originals: tuple[str, ...] = ()
    lacks_history: bool = False


def random_state(rng: random.Random) -> State:
    """Make a state that Hive's writers, compactions and cleaner may leave, and some that they do not."""
    state = State()
    last = rng.choice([3, 6, 12, 12, 30])
    state.watermark = last if rng.random() < 0.7 else rng.randint(1, last)
    for write_id in range(1, state.watermark + 1):
        chance = rng.random()
        if chance < 0.1:
            state.aborted.append(write_id)
        elif chance < 0.16:
            state.opened.append(write_id)
    for write_id in range(1, last + 1):
        if rng.random() < 0.5:
            _add_transaction(rng, state, write_id)
    for _ in range(rng.choice([0, 1, 1, 2, 5])):
        _add_compaction(rng, state, last)
    for _ in range(rng.choice([0, 0, 1, 2])):
        write_id = rng.randint(1, last)
        name = f"base_{_number(rng, write_id)}"
        if not any(_parts(other)[:2] == ("base", write_id) and not _version(other) for other in state.names):
            state.names.append(name)
            if rng.random() < 0.3:
                state.markers[name] = rng.choice(["truncated", "dropped"])
    for _ in range(rng.choice([0, 0, 1, 4])):
        where = rng.choice(["", "", "", "HIVE_UNION_SUBDIR_1/", "stray/below/"])
        name = rng.choice(
            ["000000_0", "000001_0", "000000_0_copy_1", "000000_0_copy_10", "part-0.orc", "delta_x"]
        )
        state.originals[where + name] = 0 if rng.random() < 0.2 and not where else 3
    hidden = ["_tmp", ".hive-staging", "_delta_9_9", ".base_50", "_SUCCESS", "_orc_acid_version"]
    state.hidden = rng.sample(hidden, rng.choice([0, 0, 1, 3]))
    state.names = list(dict.fromkeys(state.names))
    rng.shuffle(state.names)
    if state.names and rng.random() < 0.2:
        name = rng.choice(state.names)
        state.inside[name] = rng.choice([name, "x", "HIVE_UNION_SUBDIR_2"])
    return state


def _add_transaction(rng: random.Random, state: State, write_id: int) -> None:
    ids = f"{_number(rng, write_id)}_{_number(rng, write_id)}"
    for statement in rng.sample(range(12), rng.choice([1, 1, 2, 3])):
        # one statement has no number in files of old writers, and after a compaction
        suffix = "" if rng.random() < 0.15 else f"_{statement:04d}"
        for kind in rng.choice([["delta"], ["delta"], ["delete_delta"], ["delta", "delete_delta"]]):
            _add(state, f"{kind}_{ids}{suffix}")


def _add_compaction(rng: random.Random, state: State, last: int) -> None:
    """A major or minor one, by its name of Hive 4 or of Hive 3, and perhaps again after a failure."""
    low, high = sorted((rng.randint(1, last), rng.randint(1, last)))
    suffixes = [f"_v{rng.randrange(100):07d}" for _ in range(rng.choice([1, 1, 1, 2]))]
    if rng.random() < 0.4:
        name = f"base_{_number(rng, high)}"
        if rng.random() < 0.3 and not any(_parts(other)[:2] == ("base", high) for other in state.names):
            state.names.append(name)
            state.compacted.add(name)
            state.markers[name] = "compacted"
            return
        state.names += [name + suffix for suffix in suffixes]
        state.compacted.update(name + suffix for suffix in suffixes)
        return
    ids = f"{_number(rng, low)}_{_number(rng, high)}"
    for kind in rng.choice([["delta"], ["delete_delta"], ["delta", "delete_delta"]]):
        for suffix in suffixes if rng.random() < 0.7 else [""]:
            _add(state, f"{kind}_{ids}{suffix}")


def _number(rng: random.Random, number: int) -> str:
    return f"{number:07d}" if rng.random() < 0.9 else str(number)


def _add(state: State, name: str) -> None:
    """Add a delta; those of the same write ids and no suffix have one name, as one transaction wrote them."""
    same = [other for other in state.names if _parts(other) == _parts(name) and not _version(other)]
    if not same or _version(name):
        state.names.append(name)


def _parts(name: str) -> tuple[str | int, ...]:
    """The kind and numbers of a name, without its suffix."""
    kind, *numbers = re.split(r"_(?=[0-9])", _SUFFIX.sub("", name))
    return kind, *map(int, numbers)


def _version(name: str) -> int:
    """The number of the suffix, from 1; 0 without one."""
    match = _SUFFIX.search(name)
    return 0 if match is None else 1 + int(match[0][2:])


def write(root: Path, state: State) -> None:
    for name in state.names:
        (root / name).mkdir(parents=True)
        (root / name / "bucket_00000").write_bytes(b"ORC")
    for name, data_format in state.markers.items():
        write_marker(root / name, data_format)
    for name, below in state.inside.items():
        (root / name / below).mkdir()
        (root / name / below / "bucket_00000").write_bytes(b"ORC")
    for path, length in state.originals.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"ORC"[:length])
    for name in state.hidden:
        if name in ("_SUCCESS", VERSION_FILE):
            (root / name).write_bytes(b"2")
        else:
            (root / name / "delta_99_99").mkdir(parents=True)


class Hive:
    """Asks ``AcidUtils`` in the JVM of a session."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        # looking a class up by its name takes longer than a call
        self._path = jvm.org.apache.hadoop.fs.Path
        self._acid_utils = jvm.org.apache.hadoop.hive.ql.io.AcidUtils
        self._set = jvm.java.util.HashSet
        self._object = jvm.java.lang.Object
        session: Any = spark
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(session._jsparkSession.getClass().getClassLoader())
        compiler.cook(_RULE)
        rule = compiler.getClassLoader().loadClass("hindex.tests.WriteIds")
        self._new_rule = rule.getConstructors()[0].newInstance
        self._array = spark.sparkContext._gateway.new_array  # type: ignore[union-attr]
        self._configuration = session._jsparkSession.sessionState().newHadoopConf()

    def answer(self, root: Path, state: State) -> Answer:
        """Answer by a directory with the names that Hive 2.3 knows; see the module's docstring."""
        names = self._names(state)
        renamed = State(list(names.values()), originals=state.originals, hidden=state.hidden)
        root.mkdir()
        write(root, renamed)
        write_ids = self._write_ids(state, self._overwrites(state, names))
        path = self._path(str(root))
        try:
            # the last argument: files without a byte are ignored
            hive = self._acid_utils.getAcidState(path, self._configuration, write_ids, False, True)
        except Exception as error:
            if "Not enough history" in str(error):
                return Answer(lacks_history=True)
            raise
        original = {short: name for name, short in names.items()}
        base = hive.getBaseDirectory()
        prefix = f"file:{root}/"
        originals = [str(item.getFileStatus().getPath().toString()) for item in hive.getOriginalFiles()]
        return Answer(
            None if base is None else original[base.getName()],
            tuple(original[item.getPath().getName()] for item in hive.getCurrentDirectories()),
            tuple(sorted(item.removeprefix(prefix) for item in originals)),
        )

    def _names(self, state: State) -> dict[str, str]:
        """The names that Hive 2.3 gets for those that Hive 3 would consider."""
        newest: dict[object, str] = {}
        for name in state.names:
            key = (_parts(name), _parts(name)[0] == "base" and name not in state.compacted)
            if key not in newest or _version(newest[key]) < _version(name):
                newest[key] = name
        considered = list(newest.values())
        write_ids = self._write_ids(state, set())
        for name in list(considered):
            kind, write_id, *_ = _parts(name)
            if kind != "base" or name in state.compacted:
                continue
            twins = [other for other in considered if other != name and _parts(other) == _parts(name)]
            if not write_ids.isTxnValid(write_id) or any(write_ids.isValidBase(write_id) for _ in twins):
                considered.remove(name)
            else:
                considered = [other for other in considered if other not in twins]
        return {name: _SUFFIX.sub("", name) for name in considered}

    def _overwrites(self, state: State, names: dict[str, str]) -> set[int]:
        return {int(_parts(n)[1]) for n in names if _parts(n)[0] == "base" and n not in state.compacted}

    def _write_ids(self, state: State, overwrites: set[int]) -> Any:
        ids = self._set()
        for write_id in overwrites:
            ids.add(str(write_id))
        exceptions = ":".join(map(str, sorted([*state.opened, *state.aborted])))
        arguments = self._array(self._object, 2)
        arguments[0] = f"{state.watermark}:{state.min_open}:{exceptions}"
        arguments[1] = ids
        return self._new_rule(arguments)


def hindex_state(root: Path, state: State) -> Answer:
    """The answer of hindex."""
    _, tree = list_tree("t", str(root))
    options = AcidOptions(ValidWriteIds.parse(state.valid))
    try:
        files, states = transactional_files("t", tree, lambda path: str(root / path), options)
    except TableError as error:
        if "not enough history" in str(error):
            return Answer(lacks_history=True)
        raise
    assert len(states) == 1
    result = states[0].state
    counting = {item.name for item in result.directories if item.kind.value != "delete_delta"}
    assert {item.file.path.split("/")[0] for item in files if item.acid.directory} == counting
    deltas = [*result.deltas, *result.delete_deltas]
    return Answer(
        None if result.base is None else result.base.name,
        tuple(item.name for item in deltas),
        result.originals,
    )


def expected_of(state: State, hive: Answer) -> Answer:
    """Hive's answer, but where hindex is stricter: with a base not known as aborted, and nothing older."""
    if (
        hive.base is None
        and not hive.lacks_history
        and not any(state.originals[path] for path in hive.originals)
    ):
        not_aborted = [
            int(_parts(name)[1])
            for name in state.names
            if _parts(name)[0] == "base" and int(_parts(name)[1]) not in state.aborted
        ]
        if not_aborted and all(int(_parts(name)[1]) >= min(not_aborted) for name in hive.deltas):
            return Answer(lacks_history=True)
    # of the deltas first those with rows, then those of deletes, each in Hive's order
    deltas = sorted(hive.deltas, key=lambda name: name.startswith("delete"))
    return Answer(hive.base, tuple(deltas), hive.originals, hive.lacks_history)


@pytest.mark.slow
def test_states_of_directories(spark: SparkSession, tmp_path: Path) -> None:
    hive = Hive(spark)
    different = []
    counts = {"base": 0, "lacks_history": 0, "obsolete": 0, "inside": 0, "originals": 0}
    for seed in range(CASES):
        state = random_state(random.Random(seed))
        root, oracle = tmp_path / f"{seed}", tmp_path / f"{seed}-hive"
        root.mkdir()
        write(root, state)
        expected = expected_of(state, hive.answer(oracle, state))
        counting = {expected.base, *expected.deltas}
        refused = [
            name
            for name, below in state.inside.items()
            if name in counting
            and not (below.startswith("HIVE") and not any("delete" in str(n) for n in counting))
        ]
        where = f"seed {seed}: {state}"
        if not state.names:
            # nothing says that it is transactional
            assert not list_tree("t", str(root))[1].acid
        elif refused:
            with raises(TableError):
                hindex_state(root, state)
        else:
            actual = hindex_state(root, state)
            if actual != expected:
                different.append(f"{where}\n  hindex {actual}\n  Hive   {expected}")
        counts["base"] += expected.base is not None
        counts["lacks_history"] += expected.lacks_history
        counts["obsolete"] += len(counting) < len(state.names)
        counts["inside"] += bool(refused)
        counts["originals"] += bool(expected.originals)
        shutil.rmtree(root)
        shutil.rmtree(oracle)
    assert not different, "\n".join(different)
    # all kinds of states occur
    assert all(count >= CASES // 60 for count in counts.values()), counts
