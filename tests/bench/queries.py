"""The measured queries, by name. No engine is imported here."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from decimal import Decimal

from tests.bench.predicates import And, Between, Compare, In, IsNull, Not, Or, Predicate, Prefix, sql

#: The five columns that most queries return.
FIVE = ("l_orderkey", "l_extendedprice", "l_shipdate", "l_shipmode", "l_comment")
ORDERS = ("o_orderkey", "o_custkey", "o_totalprice", "o_orderdate", "o_comment")
EVENTS = ("id", "user_id", "url", "device", "tags")


class Mode(enum.Enum):
    """The result of a query: the rows, their number, or the distinct values of the one column."""

    ROWS = "rows"
    COUNT = "count"
    DISTINCT = "distinct"


@dataclass(frozen=True, slots=True)
class Query:
    """One query of one table. ``columns`` is None for all, and empty to count."""

    name: str
    where: Predicate | None
    columns: tuple[str, ...] | None
    mode: Mode = Mode.ROWS

    def __str__(self) -> str:
        what = "" if self.mode is Mode.ROWS else f"{self.mode.value.upper()}"
        if self.mode is Mode.DISTINCT and self.columns:
            what += f" {self.columns[0]}"
        where = "" if self.where is None else sql(self.where, short=True)
        return ": ".join(part for part in (what, where) if part)


_DAY = datetime.date(1995, 3, 15)
_FIRST_DAY, _DAYS = datetime.date(1992, 1, 2), 2526

_NEEDLES = ("point-orderkey", "point-partkey", "in-3", "and-3", "every-group", "low-selectivity")


def needles(scale: float) -> list[Query]:
    """Return the six queries that :file:`docs/benchmarks.md` shows."""
    by_name = {query.name: query for query in lineitem(scale)}
    return [by_name[name] for name in _NEEDLES]


def lineitem(scale: float) -> list[Query]:
    """Return queries of every kind on TPC-H lineitem of a scale."""
    parts = int(200_000 * scale)
    # keys of orders come in eights, of 32 that are counted
    order = 1 + 32 * int(125_000 * min(scale, 1))
    partkey = Compare("l_partkey", "=", 777)
    day = Compare("l_shipdate", "=", _DAY)
    and_3 = And(
        (
            Compare("l_quantity", "=", 1),
            Compare("l_discount", "=", Decimal("0.10")),
            Compare("l_tax", "=", Decimal("0.08")),
        )
    )
    mail = And((Compare("l_shipmode", "=", "MAIL"), Compare("l_returnflag", "=", "R")))
    thousand = In("l_partkey", tuple(range(1, parts, max(1, parts // 1000)))[:1000])
    week = Between("l_shipdate", _DAY, _DAY + datetime.timedelta(6))
    return [
        Query("point-orderkey", Compare("l_orderkey", "=", order), FIVE),
        Query("point-partkey", partkey, FIVE),
        Query("in-3", In("l_suppkey", (17, 1900, 12345)), FIVE),
        Query("in-1000", thousand, FIVE),
        Query("narrow-range", Between("l_partkey", 1000, 1020), FIVE),
        Query("week-range", week, FIVE),
        Query(
            "wide-range", Between("l_shipdate", datetime.date(1995, 1, 1), datetime.date(1995, 12, 31)), FIVE
        ),
        Query("and-3", and_3, FIVE),
        Query(
            "or-across", Or((partkey, Compare("l_suppkey", "=", 17), Compare("l_orderkey", "=", order))), FIVE
        ),
        Query(
            "not",
            Not(
                Or((Compare("l_quantity", ">", 1), In("l_shipmode", ("AIR", "FOB", "RAIL", "SHIP", "TRUCK"))))
            ),
            FIVE,
        ),
        Query("like-prefix", And((Prefix("l_shipmode", "REG"), Compare("l_quantity", "=", 1))), FIVE),
        Query("every-group", day, FIVE),
        Query("low-selectivity", mail, FIVE),
        Query("count-range", Between("l_shipdate", _DAY, _DAY + datetime.timedelta(90)), (), Mode.COUNT),
        Query("count-and", mail, (), Mode.COUNT),
        Query("distinct-where", day, ("l_shipmode",), Mode.DISTINCT),
        Query("distinct-all", None, ("l_shipmode",), Mode.DISTINCT),
        Query("point-1-column", partkey, ("l_extendedprice",)),
        Query("point-all-columns", partkey, None),
        Query("every-group-1-column", day, ("l_extendedprice",)),
        Query("every-group-all-columns", day, None),
    ]


def orders(scale: float) -> list[Query]:
    """Return the queries on TPC-H orders."""
    # a third of the customers have no orders: their keys are multiples of 3
    return [
        Query("orders-point", Compare("o_custkey", "=", 370), ORDERS),
        Query("orders-clerk", Compare("o_clerk", "=", "Clerk#000000007"), ORDERS),
        Query("orders-prefix", Prefix("o_clerk", "Clerk#00000000"), ORDERS),
        Query("orders-day", Compare("o_orderdate", "=", _DAY), ORDERS),
        Query("orders-distinct", Compare("o_custkey", "<=", 1000), ("o_orderpriority",), Mode.DISTINCT),
    ]


def events(scale: float) -> list[Query]:
    """Return the queries on the wide table of events: skewed strings, nested columns, nulls."""
    return [
        Query("events-rare-user", Compare("user_id", "=", 4242), EVENTS),
        Query("events-rare-country", Compare("country", "=", "c190"), EVENTS),
        Query("events-common-kind", Compare("kind", "=", "kind-0"), ("id",)),
        Query("events-prefix", Prefix("url", "/shop/77"), EVENTS),
        Query("events-null", And((IsNull("referrer"), Compare("country", "=", "c120"))), EVENTS),
        Query("events-or", Or((Compare("user_id", "=", 4242), Compare("status", "=", 503))), EVENTS),
        Query("events-not", Not(In("status", (200, 204, 301, 302, 404))), EVENTS),
        Query("events-count", Compare("country", "<>", "c0"), (), Mode.COUNT),
        Query("events-all-columns", Compare("user_id", "=", 4242), None),
    ]


def selectivity(scale: float) -> list[Query]:
    """From one row to all rows of lineitem, scattered: by a key whose values lie anywhere, and by the one of all."""
    parts = int(200_000 * scale)
    order = 1 + 32 * int(125_000 * min(scale, 1))
    queries = [
        Query("one-row", And((Compare("l_orderkey", "=", order), Compare("l_linenumber", "=", 1))), FIVE),
        Query("1-key", Between("l_partkey", 777, 777), FIVE),
    ]
    keys = 10
    while keys < parts:
        queries.append(Query(f"{keys}-keys", Between("l_partkey", 1, keys), FIVE))
        keys *= 10
    queries += [
        Query(f"{part:g}-of-all", Between("l_partkey", 1, int(parts * part)), FIVE) for part in (0.3, 0.6)
    ]
    # indexes know that this is all of them
    queries.append(Query("all", Between("l_partkey", 1, parts), FIVE))
    return queries


_FEW_ROWS = (
    *("point-orderkey", "point-partkey", "in-3", "narrow-range", "and-3", "or-across"),
    *("point-1-column", "point-all-columns", "every-group-all-columns"),
)


def few_rows(scale: float) -> list[Query]:
    """Return queries of few scattered rows of lineitem."""
    by_name = {query.name: query for query in lineitem(scale)}
    return [by_name[name] for name in _FEW_ROWS]


SUITES = {
    "few-rows": few_rows,
    "needles": needles,
    "lineitem": lineitem,
    "orders": orders,
    "events": events,
    "selectivity": selectivity,
}


def find(suite: str, scale: float, name: str) -> Query:
    """Return a query by name."""
    return next(query for query in SUITES[suite](scale) if query.name == name)
