"""Random conditions on expressions, as SQL text that has a value in every row.

Nothing overflows, divides by zero or fails to be cast: Spark would raise an error for the whole query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.support.values import INTEGER_BITS, Column, decimal_size

_OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
_LIKES = ("%a%", "a%b", "_", "%_", "a%", "%\\\\%%", "a_%", "", "%%", "%é", "_b_%", "a!%%", "%X%Y%", "%\\n%")
_RLIKES = ("a", "^a", "b$", "^[ab]+$", "X|Y", "\\\\d", "[^a-z]", "^.$", "(?:a|b){2}", "é", "", "\\\\s")

Rng = np.random.Generator


def random_condition(rng: Rng, columns: Sequence[Column]) -> str:
    """One condition on one or two of the columns."""
    column = columns[int(rng.integers(0, len(columns)))]
    alike = [other for other in columns if _family(other.type) == _family(column.type)]
    other = alike[int(rng.integers(0, len(alike)))]
    makers: list[Callable[[], str]] = [
        lambda: f"{column.name} {_pick(rng, _OPERATORS)} {other.name}",
        lambda: _generic(rng, column, other),
        lambda: _typed(rng, column, other),
        lambda: _typed(rng, column, other),
        lambda: _typed(rng, column, other),
    ]
    return makers[int(rng.integers(0, len(makers)))]()


def _pick(rng: Rng, items: Sequence[str]) -> str:
    return items[int(rng.integers(0, len(items)))]


def _family(data_type: str) -> str:
    return (
        "number"
        if data_type in INTEGER_BITS or data_type in ("float", "double") or data_type.startswith("decimal")
        else data_type
    )


def _constant(rng: Rng, data_type: str) -> str:
    if _family(data_type) == "number":
        return _pick(rng, ("0", "1", "-3", "7", "1.5", "0.5D", "20"))
    return {
        "boolean": _pick(rng, ("TRUE", "FALSE")),
        "string": _pick(rng, ("'a'", "''", "'ab'", "'X'", "'é'")),
        "binary": _pick(rng, ("X'61'", "X''", "X'FF'")),
        "date": _pick(rng, ("DATE '2000-01-01'", "DATE '1970-01-01'", "DATE '1500-06-01'")),
        "timestamp": _pick(rng, ("TIMESTAMP '2000-01-01 12:00:00'", "TIMESTAMP '1969-12-31 23:59:59.5'")),
    }[data_type]


def _generic(rng: Rng, column: Column, other: Column) -> str:
    """Return a random expression whose operands may have any type."""
    a, b, constant = column.name, other.name, _constant(rng, column.type)
    op = _pick(rng, _OPERATORS)
    return _pick(
        rng,
        (
            f"coalesce({a}, {b}) {op} {constant}",
            f"coalesce({a}, {constant}) {op} {b}",
            f"nullif({a}, {constant}) IS NULL",
            f"nvl2({a}, {b}, {constant}) {op} {constant}",
            f"greatest({a}, {b}) {op} {constant}",
            f"least({a}, {constant}) {op} {b}",
            f"if({a} {op} {constant}, {b}, {constant}) {_pick(rng, _OPERATORS)} {constant}",
            f"CASE WHEN {a} IS NULL THEN {b} WHEN {a} {op} {b} THEN {constant} END {_pick(rng, _OPERATORS)} {constant}",
            f"({a} {op} {b}) IS NULL",
            f"({a} {op} {constant}) <=> ({b} {op} {constant})",
            f"coalesce({a} {op} {b}, {_pick(rng, ('TRUE', 'FALSE', 'NULL'))})",
            f"{a} IN ({b}, {constant})",
            f"{a} NOT IN ({b}, {constant}, NULL)",
            f"{a} BETWEEN {constant} AND {b}",
            f"({a} {op} {constant} AND {b} IS NULL) IS NOT TRUE",
        ),
    )


def _typed(rng: Rng, column: Column, other: Column) -> str:
    a, b = column.name, other.name
    op = _pick(rng, _OPERATORS)
    makers: dict[str, Callable[[], str]] = {
        "number": lambda: _number(rng, column, other),
        "string": lambda: _string(rng, a, b, op),
        "date": lambda: _pick(
            rng,
            (
                f"year({a}) {op} {_pick(rng, ('1970', '2000', '1582', '-5', '99999'))}",
                f"year({a}) IN (1970, 1997, 2024)",
                f"{_pick(rng, ('month', 'day', 'dayofweek', 'quarter', 'weekofyear', 'dayofyear'))}({a}) {op} 3",
                f"date_add({a}, {_pick(rng, ('1', '-30', '365'))}) {op} {b}",
                f"datediff({a}, {b}) {op} {_pick(rng, ('0', '30', '-1000'))}",
                f"CAST({a} AS TIMESTAMP) {op} TIMESTAMP '1999-12-31 00:00:00'",
                f"last_day({a}) {op} {b}",
                f"{a} + 1 {op} {b}",
            ),
        ),
        "timestamp": lambda: _pick(
            rng,
            (
                f"year({a}) {op} {_pick(rng, ('1970', '2000', '1582'))}",
                f"CAST({a} AS DATE) {op} DATE '1998-07-01'",
                f"to_date({a}) {op} to_date({b})",
                f"{_pick(rng, ('hour', 'minute', 'second'))}({a}) {op} 12",
            ),
        ),
        "boolean": lambda: _pick(
            rng,
            (f"{a} = (NOT {b})", f"CAST({a} AS INT) {op} 1", f"if({a}, {b}, NOT {b})", f"{a} {op} {b}"),
        ),
        "binary": lambda: _pick(
            rng, (f"length({a}) {op} 2", f"concat({a}, {b}) {op} X'61'", f"{a} || X'00' {op} {b}")
        ),
    }
    return makers[_family(column.type)]()


def _number(rng: Rng, column: Column, other: Column) -> str:
    a, b = column.name, other.name
    op = _pick(rng, _OPERATORS)
    small = _pick(rng, ("2", "-3", "7", "1.5", "0.25D"))
    choices = [
        f"CAST({a} AS DOUBLE) + {small} {op} CAST({b} AS DOUBLE)",
        f"CAST({a} AS DOUBLE) * {small} {op} {b}",
        f"{a} / {small} {op} {b}",
        f"{a} % {small} {op} {_pick(rng, ('0', '1', '-1.5'))}",
        f"TRY_CAST({a} AS TINYINT) {op} 5",
        f"TRY_CAST({a} AS INT) + 0.5 {op} {b}",
        f"CAST({a} AS DOUBLE) {op} {small}",
        f"CAST({a} AS BOOLEAN)",
        f"isnan(CAST({a} AS DOUBLE))",
    ]
    if column.type in INTEGER_BITS:
        choices += [
            f"CAST({a} AS BIGINT) {op} {_pick(rng, ('5', '-7', '3000000000', '1.5D'))}",
            f"{a} DIV 7 {op} {_pick(rng, ('0', '3', '-1'))}",
            f"CAST({a} AS DECIMAL(20, 0)) + 1 {op} {b}",
            f"CAST({a} AS STRING) LIKE '1%'",
            f"length(CAST({a} AS STRING)) {op} 2",
            f"{a} % 2 = 0",
        ]
    elif column.type.startswith("decimal"):
        precision, _ = decimal_size(column.type)
        choices += [
            f"{a} + 1 {op} {b}",
            f"{a} - 0.005 {op} {small}",
            f"floor({a}) {op} {b}",
            f"round({a}, 1) {op} {a}",
        ]
        if precision < 20:
            choices += [f"{a} * {a} {op} {b}", f"-{a} {op} {small}", f"CAST({a} AS STRING) LIKE '%0'"]
    else:
        choices += [
            f"{a} + {b} {op} {small}",
            f"-{a} {op} {small}",
            f"abs({a}) {op} {small}",
            f"{a} * {a} {op} {b}",
        ]
    return _pick(rng, choices)


def _string(rng: Rng, a: str, b: str, op: str) -> str:
    negation = _pick(rng, ("", "NOT "))
    pattern = _pick(rng, _LIKES)
    like = f"{a} {negation}LIKE '{pattern}'" + (" ESCAPE '!'" if "!" in pattern else "")
    return _pick(
        rng,
        (
            like,
            like,
            f"{a} {negation}RLIKE '{_pick(rng, _RLIKES)}'",
            f"{_pick(rng, ('lower', 'upper'))}({a}) {op} {_pick(rng, ('lower', 'upper'))}({b})",
            f"length({a}) {op} {_pick(rng, ('0', '1', '3', '7'))}",
            f"substring({a}, {_pick(rng, ('1', '-2', '0', '2'))}, {_pick(rng, ('1', '2', '100'))}) {op} 'a'",
            f"{_pick(rng, ('trim', 'ltrim', 'rtrim'))}({a}) {op} {b}",
            f"concat({a}, '-', {b}) {op} 'a'",
            f"{negation}startswith({a}, 'a')",
            f"{negation}contains({a}, {b})",
            f"endswith({a}, 'b')",
            f"replace({a}, 'a', 'b') {op} {b}",
            f"left({a}, 1) = right({b}, 1)",
            f"TRY_CAST({a} AS INT) {op} 1",
            f"{a} || 'x' {op} {b}",
        ),
    )
