"""Random DataFrames of an accelerated session, compared with Spark alone: rows and schema.

Operations of DataFrames, SQL texts and views are mixed, in several time zones; tables change between the analysis of a
DataFrame and its action.
"""

from __future__ import annotations

import datetime
import logging
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 the usual name, which the texts use

import hindex
from tests.queries.random_tables import TABLES, random_tables
from tests.queries.test_random_queries import QueryGenerator
from tests.support.cases import cases
from tests.support.queries import rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: ``HINDEX_CASES=3000`` tries three thousand DataFrames.
CASES = cases(8, 80)

ZONES = ["UTC", "America/Los_Angeles", "Asia/Kolkata", "Europe/Berlin"]

#: In the log, a lookup join that is used.
_LOOKUP = re.compile(r" by [\d,]+ keys? of [\w.`]+[,; ]")


@pytest.fixture(scope="module")
def database(spark: SparkSession) -> Iterator[None]:
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    with random_tables(spark, "frames"):
        yield
    spark.conf.set("spark.sql.session.timeZone", zone)


class FrameGenerator:
    """Makes random DataFrames, as texts of Python, with the kinds of their columns by name."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._queries = QueryGenerator(rng)
        self._number = 0

    def frame(self) -> str:
        """Make the text of a DataFrame."""
        self._queries.args = None
        text, kinds = self._source(2)
        joins = 0
        for _ in range(int(self._rng.integers(1, 6))):
            draw = self._rng.random()
            if draw < 0.4:
                text += f".{self._pick(['where', 'filter'])}({self._condition(kinds)})"
            elif draw < 0.65 and joins < 2:
                text, kinds = self._join(text, kinds)
                joins += 1
            else:
                text, kinds = self._step(text, kinds)
        return text

    def _is(self, share: float) -> bool:
        return bool(self._rng.random() < share)

    def _pick(self, items: Any) -> Any:
        items = list(items)
        return items[int(self._rng.integers(len(items)))]

    def _name(self) -> str:
        self._number += 1
        return f"f{self._number}"

    def _source(self, depth: int) -> tuple[str, Mapping[str, str]]:
        name = self._pick(TABLES)
        kinds: Mapping[str, str] = TABLES[name]
        draw = self._rng.random()
        if draw < 0.15 and depth > 0:
            query, kinds = self._queries._select({}, 1)
            return f'spark.sql("{query}")', kinds
        if draw < 0.3 and depth > 0:
            text, kinds = self._source(depth - 1)
            if self._is(0.7):
                text += f".where({self._condition(kinds)})"
            return f"view({text})", kinds
        if draw < 0.5 and name != "some":
            return f"spark.read.orc(path('{name}')).select({list(kinds)})", kinds
        return f"spark.table('{name}').select({list(kinds)})", kinds

    def _constant(self, kind: str) -> str:
        if kind == "n":
            return str(self._pick([*range(12), 100, -1, "2.0", "'3'"]))
        if kind == "s":
            return repr(self._pick(["s1", "s2", "s5", "S1", "", "s1 ", "zzz", "s1x"]))
        if kind == "d":
            day = datetime.date(2024, 1, int(self._rng.integers(1, 10)))
            return repr(day) if self._is(0.5) else repr(str(day))
        if kind in "tu":
            time = datetime.datetime(2024, 3, 10, 1) + datetime.timedelta(
                minutes=30 * int(self._rng.integers(12))
            )
            return repr(time) if self._is(0.5) else repr(str(time))
        amount = Decimal(int(self._rng.integers(0, 10)) * 125).scaleb(-2)
        return repr(amount) if self._is(0.5) else str(float(amount))

    def _condition(self, kinds: Mapping[str, str]) -> str:
        draw = self._rng.random()
        if draw < 0.2:
            return f"({self._condition(kinds)} {self._pick('&|')} {self._condition(kinds)})"
        if draw < 0.25:
            return f"(~{self._condition(kinds)})"
        name, kind = self._pick(kinds.items())
        column, one, two = f"F.col('{name}')", self._constant(kind), self._constant(kind)
        if draw < 0.6:
            return f"({column} {self._pick(['==', '==', '==', '<', '>=', '!='])} {one})"
        if draw < 0.7:
            return f"{column}.isin({one}, {two})"
        if draw < 0.8:
            return f"{column}.between({one}, {two})"
        if draw < 0.9:
            return f"{column}.{self._pick(['isNull()', 'isNotNull()', f'eqNullSafe({one})'])}"
        others = [f"(F.coalesce({column}, F.lit({one})) == {two})", f"({column}.cast('string') == {one})"]
        if kind == "s":
            others += [f"{column}.startswith('s1')", f"{column}.like('s_')", f"(F.upper({column}) == 'S1')"]
        if kind == "n":
            others += [f"is_even({column})", f"({column} + 1 == {one})", f"F.expr('{name} % 3 = 1')"]
        return str(self._pick(others))

    def _join(self, text: str, kinds: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
        other, its = self._source(1)
        if self._is(0.6):
            other += f".where({self._condition(its)})"
        names = {name: self._name() for name in its}
        pairs = [(a, b) for a, kind in kinds.items() for b, same in its.items() if kind == same]
        if not pairs:
            return text, kinds
        a, b = self._pick(pairs)
        how = self._pick(["inner", "inner", "left", "right", "outer", "left_semi", "left_semi", "left_anti"])
        if self._is(0.2):
            names[b] = a
            condition = f"'{a}'"
        else:
            condition = f"F.col('{a}') == F.col('{names[b]}')"
        other = f"{other}.toDF({', '.join(map(repr, names.values()))})"
        if self._is(0.2):
            other = f"F.broadcast({other})"
        text = f"{text}.join({other}, {condition}, '{how}')"
        if how in ("left_semi", "left_anti"):
            return text, kinds
        return text, {**kinds, **{names[name]: kind for name, kind in its.items()}}

    def _step(self, text: str, kinds: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
        names = list(kinds)
        step = self._rng.integers(11)
        if step == 0:
            chosen = list(dict.fromkeys(self._pick(names) for _ in range(3)))
            return f"{text}.select({chosen})", {name: kinds[name] for name in chosen}
        if step == 1:
            numbers = [name for name in names if kinds[name] == "n"] or names
            name, column = self._name(), self._pick(numbers)
            value = self._pick(["F.col('{}') * 2", "F.when(F.col('{}') == 3, 1).otherwise(F.lit(None))"])
            if kinds[column] == "n":
                return f"{text}.withColumn('{name}', {value.format(column)})", {**kinds, name: "n"}
        if step == 2:
            frame = self._pick(["union", "unionAll", "intersect", "exceptAll"])
            return f"(lambda f: f.{frame}(f.where({self._condition(kinds)})))({text})", kinds
        if step == 3:
            key, value = self._pick(names), self._pick(names)
            function = self._pick(["count", "min", "max", "count_distinct"])
            kind = kinds[value] if function in ("min", "max") else "n"
            name = self._name()
            return (
                f"{text}.groupBy('{key}').agg(F.{function}('{value}').alias('{name}'))",
                {key: kinds[key], name: kind},
            )
        if step == 4:
            name, key, value = self._name(), self._pick(names), self._pick(names)
            function = self._pick(["count", "min", "max"])
            kind = "n" if function == "count" else kinds[value]
            window = f"F.{function}('{value}').over(Window.partitionBy('{key}'))"
            return f"{text}.withColumn('{name}', {window})", {**kinds, name: kind}
        if step == 5:
            return f"{text}.distinct()", kinds
        if step == 6:
            return f"{text}.orderBy({names}).limit({self._rng.integers(0, 60)})", kinds
        if step == 7:
            return f"{text}.{self._pick(['dropna()', 'fillna(3)', 'dropDuplicates()'])}", kinds
        if step == 8:
            return f"{text}.{self._pick(['repartition(3)', 'coalesce(1)'])}", kinds
        if step == 9:
            return f"view({text})", kinds
        return f"{text}.alias('a').where({self._condition(kinds)})", kinds


@pytest.mark.slow
def test_random_frames(
    spark: SparkSession, database: None, rng: np.random.Generator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hindex.queries")
    generator = FrameGenerator(rng)
    counts = dict.fromkeys(("failed", "accelerated", "lookup joins", "changes"), 0)

    def view(frame: DataFrame) -> DataFrame:
        frame.createOrReplaceTempView("random_view")
        return spark.table("random_view")

    locations = {
        name: str(spark.table(name).inputFiles()[0]).rsplit("/", 1 + (name == "items"))[0]
        for name in TABLES
        if name != "some"
    }
    scope = {
        "spark": spark,
        "F": F,
        "Window": Window,
        "view": view,
        "path": locations.__getitem__,
        "is_even": F.udf(lambda value: value is not None and value % 2 == 0, "boolean"),
        "datetime": datetime,
        "Decimal": Decimal,
    }
    for case in range(CASES):
        text = generator.frame()
        zone = generator._pick(ZONES)
        spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            alone, accelerated = eval(text, scope), eval(text, scope)
            schema = alone.schema
            if case % 40 == 39:
                table = generator._pick(["orders", "plain", "visits"])
                spark.sql(f"INSERT INTO {table} SELECT * FROM {table} LIMIT 2")
                counts["changes"] += 1
            expected = rows(alone)
        except Exception as error:  # noqa: BLE001 whatever Spark does not take
            counts["failed"] += 1
            print(f"case {case}: {text}\n  {str(error).splitlines()[0]}")
            continue
        caplog.clear()
        with hindex.accelerate(spark, always=True):
            assert accelerated.schema == schema
            assert rows(accelerated) == expected, (case, zone, text)
        lines = caplog.messages
        assert not any("hindex failed" in line for line in lines), (case, zone, text, lines)
        counts["accelerated"] += any(line.startswith("accelerated: ") for line in lines)
        counts["lookup joins"] += any(map(_LOOKUP.search, lines))
    print(f"{CASES} DataFrames: {counts}")
    assert counts["failed"] <= max(4, CASES // 8)
    assert counts["accelerated"] >= CASES // 4
