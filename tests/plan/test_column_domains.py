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
from tests.support.cases import cases, sampled

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
    OrcType(Kind.STRING): [
        *("", "a", "ab", "a ", "b", "1", "é", "\U0001f600", "abc", "abcd", "ac", "éa", "aé", "a\U0001f600b"),
        *("\U0010ffff", "\U0010ffff\U0010ffff", "a\U0010ffff", "ab\uffff", "a\x00", "true"),
    ],
    OrcType(Kind.VARCHAR, max_length=3): ["", "a", "ab", "b ", "abc", "é"],
    OrcType(Kind.CHAR, max_length=3): ["a", "ab", "abc", "abcd", "b"],
    OrcType(Kind.BINARY): [b"", b"a", b"\x00", b"\xff\xff", b"ab"],
    OrcType(Kind.DATE): [
        datetime.date(1, 1, 1),
        datetime.date(1969, 12, 31),
        datetime.date(1970, 1, 1),
        *(datetime.date(2020, month, day) for month, day in ((1, 1), (2, 29), (3, 1), (3, 31), (4, 1))),
        datetime.date(9999, 12, 31),
    ],
    OrcType(Kind.TIMESTAMP): [
        datetime.datetime(1, 1, 1),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime.datetime(1970, 1, 1),
        datetime.datetime(2020, 1, 1),
        datetime.datetime(2020, 1, 1, 12),
        datetime.datetime(2020, 2, 29, 12, 34, 56, 789012),
        datetime.datetime(2020, 2, 29, 23, 59, 59, 999999),
        datetime.datetime(2020, 3, 1),
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


PARTS = ("''", "'a'", "'ab'", "'abc'", "'ac'", "'é'", "'aé'", "'a\U0001f600'", "'\U0010ffff'", "'a '", "NULL")
TIMES = (
    *(
        "DATE '2020-01-01'",
        "DATE '2020-02-01'",
        "DATE '2020-02-24'",
        "DATE '2020-02-29'",
        "DATE '0001-01-01'",
    ),
    *(
        "TIMESTAMP '2020-02-01 00:00:00'",
        "TIMESTAMP '2020-02-29 12:00:00'",
        "TIMESTAMP '2020-02-29 12:34:56.789'",
    ),
    *("'2020-03-01'", "NULL", "DATE '5881580-01-01'", "TIMESTAMP '294247-01-10 04:00:54.775807'"),
)
UNITS = (
    "YEAR",
    "QUARTER",
    "MM",
    "WEEK",
    "DAY",
    "HOUR",
    "MINUTE",
    "SECOND",
    "MILLISECOND",
    "MICROSECOND",
    "none",
)
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")


def random_call(chance: random.Random) -> str:
    """Return a condition on a function of the column."""
    values = PARTS if chance.random() < 0.5 else TIMES if chance.random() < 0.7 else LITERALS
    match chance.randrange(8) if values is PARTS else chance.randrange(8, 16) if values is TIMES else 16:
        case 0 | 1 | 2:
            value = f"left(c, {chance.randrange(-1, 5)})"
        case 3 | 4:
            value = f"substring(c, {chance.randrange(-1, 3)}, {chance.randrange(-1, 5)})"
        case 5:
            value = f"substr(c, {chance.randrange(3)})"
        case 8 | 9 | 10:
            value = f"date_trunc('{chance.choice(UNITS)}', c)"
        case 11 | 12:
            value = f"trunc(c, '{chance.choice(UNITS)}')"
        case 13:
            value = f"CAST(trunc(c, '{chance.choice(UNITS)}') AS TIMESTAMP)"
        case 14:
            value = f"trunc(CAST(c AS DATE), '{chance.choice(UNITS)}')"
        case _:
            value = "c"
    if value == "c" and chance.random() < 0.3:
        return f"isnan({chance.choice(('c', 'coalesce(c, 0)', 'CAST(c AS DOUBLE)'))})"
    if value == "c" or chance.random() < 0.3:
        value = f"coalesce({value}, {chance.choice(values)})"
        if chance.random() < 0.2:
            value = f"coalesce(NULL, {value}, {chance.choice(values)})"
    if chance.random() < 0.1:
        return value
    if chance.random() < 0.3:
        items = ", ".join(chance.choices(values, k=chance.choice((1, 2, 3))))
        return f"{value} {chance.choice(('IN', 'NOT IN'))} ({items})"
    condition = f"{value} {chance.choice(COMPARISONS)} {chance.choice(values)}"
    return (
        f"coalesce({condition}, {chance.choice(('TRUE', 'FALSE'))})" if chance.random() < 0.1 else condition
    )


def random_condition(chance: random.Random) -> str:
    if chance.random() < 0.4:
        return random_call(chance)
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


@sampled(8)
@pytest.mark.parametrize("data_type", COLUMNS, ids=str)
def test_domains_are_what_expressions_say(data_type: OrcType) -> None:
    chance = random.Random(str(data_type))
    column = pa.array([None, *COLUMNS[data_type]], data_type.to_arrow())
    keys = array_keys(data_type, column)
    key_list = keys.tolist() if isinstance(keys, np.ndarray) else keys.to_pylist()
    key_list[0] = None
    answered = 0
    number = cases(400, 2500)
    for _ in range(number):
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
    assert answered > number / 100
