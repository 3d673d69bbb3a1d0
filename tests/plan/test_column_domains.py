"""The domain of a condition has exactly the values for which the condition, evaluated as an expression, is TRUE."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from hindex.errors import PredicateError
from hindex.expr.typing import typed_condition
from hindex.keys import array_keys
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.column_domains import column_domain
from hindex.plan.filter import Residual
from hindex.plan.filter_evaluation import evaluate_truth
from hindex.sql import parse_predicate
from hindex.sql.predicate import CAST_TYPES, Not

#: What a column of each type holds, in Python.
COLUMNS: dict[OrcType, list[object]] = {
    OrcType(Kind.BOOLEAN): [True, False],
    OrcType(Kind.BYTE): [-128, -1, 0, 1, 2, 127],
    OrcType(Kind.SHORT): [-32768, -1, 0, 1, 2, 300, 32767],
    OrcType(Kind.INT): [-(1 << 31), -1, 0, 1, 2, 3, 16777217, (1 << 31) - 1],
    OrcType(Kind.LONG): [-(1 << 63), -1, 0, 1, 2, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, (1 << 63) - 1],
    OrcType(Kind.FLOAT): [float("-inf"), -1.5, -0.0, 0.0, 0.1, 1.5, 16777216.0, float("inf"), float("nan")],
    OrcType(Kind.DOUBLE): [float("-inf"), -1.5, -0.0, 0.1, 1.5, 2.0**53, 1e300, float("inf"), float("nan")],
    OrcType(Kind.DECIMAL, precision=5, scale=2): [
        Decimal(x) for x in ("-999.99", "-1.55", "0", "1.45", "1.55", "999.99")
    ],
    OrcType(Kind.DECIMAL, precision=20, scale=0): [
        Decimal(x) for x in (-(10**20) + 1, -1, 0, 2, 2**53 + 1, 10**20 - 1)
    ],
    OrcType(Kind.DECIMAL, precision=38, scale=18): [
        Decimal(x) for x in ("-1e-18", "0", "0.5", "1.5", "1e19")
    ],
    OrcType(Kind.STRING): ["", "a", "ab", "a ", "b", "1", "é", "\U0001f600"],
    OrcType(Kind.VARCHAR, max_length=3): ["", "a", "ab", "b "],
    OrcType(Kind.CHAR, max_length=3): ["a", "ab", "abc", "abcd", "b"],
    OrcType(Kind.BINARY): [b"", b"a", b"\x00", b"\xff\xff", b"ab"],
    OrcType(Kind.DATE): [
        datetime.date(1, 1, 1),
        datetime.date(1969, 12, 31),
        datetime.date(1970, 1, 1),
        datetime.date(2020, 2, 29),
        datetime.date(9999, 12, 31),
    ],
    OrcType(Kind.TIMESTAMP): [
        datetime.datetime(1, 1, 1),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime.datetime(1970, 1, 1),
        datetime.datetime(2020, 1, 1, 12),
        datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
    ],
}
LITERALS = (
    *("0", "1", "-1", "2", "127", "128", "300", "16777217", "9007199254740993", "9223372036854775807"),
    *(
        "9223372036854775808",
        "-9223372036854775809",
        "0.5",
        "1.5",
        "-1.55",
        "1.545",
        "999.995",
        "1e19",
        "0.1D",
        "1.5F",
    ),
    *(
        "1e300",
        "9007199254740992D",
        "CAST('NaN' AS DOUBLE)",
        "CAST('-Infinity' AS DOUBLE)",
        "NULL",
        "TRUE",
        "FALSE",
    ),
    *(
        "'1'",
        "' 2 '",
        "'1.5'",
        "'true'",
        "''",
        "'a'",
        "'a '",
        "'ab'",
        "'abcde'",
        "'ab  x'",
        "'ab   '",
        "'a    '",
        "X'61'",
        "X'FFFF'",
    ),
    *(
        "DATE '1970-01-01'",
        "DATE '2020-02-29'",
        "'2020-02-29'",
        "TIMESTAMP '1970-01-01 00:00:00'",
        "'1969-12-31 23:59:59.999999'",
    ),
    *("1970", "2020", "CAST(1 AS DECIMAL(20, 3))", "CAST(2 AS TINYINT)"),
)
CASTS = (
    *CAST_TYPES,
    "DECIMAL(3, 0)",
    "DECIMAL(5, 1)",
    "DECIMAL(9, 4)",
    "DECIMAL(18, 0)",
    "DECIMAL(19, 0)",
    "DECIMAL(20, 0)",
    "DECIMAL(22, 3)",
    "DECIMAL(38, 0)",
    "DECIMAL(38, 17)",
)


def random_condition(chance: random.Random) -> str:
    value = "c"
    for _ in range(chance.choice((0, 0, 0, 1, 1, 2, 3))):
        value = f"year({value})" if chance.random() < 0.15 else f"CAST({value} AS {chance.choice(CASTS)})"
    if chance.random() < 0.3:
        items = ", ".join(chance.choices(LITERALS, k=chance.choice((1, 2, 3, 4, 12))))
        return f"{value} {chance.choice(('IN', 'NOT IN'))} ({items})"
    sides = [value, chance.choice(LITERALS)]
    if chance.random() < 0.2:
        sides.reverse()
    return f"{sides[0]} {chance.choice(('=', '<>', '<', '<=', '>', '>=', '<=>'))} {sides[1]}"


@pytest.mark.parametrize("data_type", COLUMNS, ids=str)
def test_domains_are_what_expressions_say(data_type: OrcType) -> None:
    chance = random.Random(str(data_type))
    column = pa.array([None, *COLUMNS[data_type]], data_type.to_arrow())
    keys = array_keys(data_type, column)
    key_list = keys.tolist() if isinstance(keys, np.ndarray) else keys.to_pylist()
    key_list[0] = None
    answered = 0
    for _ in range(1500):
        text = random_condition(chance)
        negated = chance.random() < 0.3
        predicate = parse_predicate(text)
        if isinstance(predicate, Not):
            predicate, negated = predicate.child, not negated
        try:
            condition = typed_condition(predicate, lambda _: ("c", data_type))
            answer = column_domain(condition, negated=negated)
        except PredicateError:
            continue
        if answer is None:
            continue
        answered += 1
        truth, errors = evaluate_truth(Residual(condition, not negated), {"c": column}, len(column))
        assert errors is None, f"{text}: a domain leaves out errors: {errors}"
        members = [answer[1].contains(key) for key in key_list]
        assert members == truth.tolist(), f"{'NOT ' * negated}{text} of {data_type}: {list(column)}"
    assert answered > 40
