"""Names that other libraries have for what is called something else here: the error that an object has none of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hindex.errors import UnknownNameError
from hindex.validation import suggestion


def _each(*pairs: tuple[str, str]) -> dict[str, str]:
    """Map each name that other libraries use to hindex's own name."""
    return {name: remedy for names, remedy in pairs for name in names.split()}


#: What is written in the place of names that a scan does not have, in small letters and without ``_``.
SCAN_NAMES: Mapping[str, str] = _each(
    ("filter where", 'its condition is given to the table: table.scan(where="a > 1")'),
    ("select project columns", 'its columns are named to the table: table.scan(columns=["a", "b"])'),
    ("limit take", "table.scan(limit=10) has a limit, and .head(10) gives the first rows"),
    ("show first tail", ".head(10) gives the first rows"),
    ("fetchone", ".head(1) gives the first row"),
    (
        "collect fetchall rows topylist tolist todicts totable df iterrows",
        ".to_arrow(), .to_batches() and .to_pandas() give the rows",
    ),
    ("topolars", "polars.DataFrame(scan) takes it as it is"),
    ("toduckdb", 'duckdb.sql("FROM scan") takes it as it is'),
    ("countrows numrows length shape", ".count() counts its rows"),
    ("sort sortby sortvalues", ".order_by(column) orders its rows"),
    ("unique dropduplicates", ".distinct(column) gives the values of a column"),
    (
        "groupby agg",
        '.value_counts(column) counts the rows of each value, and hx.sql("SELECT ... GROUP BY ...") does more',
    ),
    (
        "sum avg mean median std",
        'duckdb.sql("SELECT avg(a) FROM scan") takes it as it is, and pyarrow.compute takes .to_arrow()["a"]',
    ),
    ("dtypes printschema", ".schema has its columns and their types"),
)
#: The same of a query's result, which has some of the names that a scan lacks.
RESULT_NAMES: Mapping[str, str] = {
    name: remedy for name, remedy in SCAN_NAMES.items() if name not in ("columns", "show")
} | _each(
    ("filter where", "write the condition behind WHERE of the query"),
    ("select project", "name the columns in the query"),
    ("limit take", "write LIMIT into the query, or take .head(10) of its result"),
    ("first tail", ".head(10) gives the first rows"),
    ("topolars", "polars.DataFrame(result) takes it as it is"),
    ("toduckdb", 'duckdb.sql("FROM result") takes it as it is'),
    (
        "collect fetchall rows topylist tolist todicts totable df iterrows tolocaliterator",
        ".to_arrow(), .to_batches() and .to_pandas() give the rows, and .to_spark() a DataFrame",
    ),
    (
        "groupby agg join union unionall withcolumn write cache persist createtempview createorreplacetempview",
        "write it in the query, or take the DataFrame that .to_spark() gives",
    ),
    (
        "sum avg mean median std",
        'duckdb.sql("SELECT avg(a) FROM result") takes it as it is, and pyarrow.compute takes .to_arrow()["a"]',
    ),
)
#: The same of a table; besides, what a scan has or is told of is that of its scan.
TABLE_NAMES: Mapping[str, str] = _each(
    (
        "filter where select project limit take",
        'its rows are those of a scan: table.scan(where="a > 1", columns=["a", "b"], limit=10)',
    ),
    (
        "show first tail collect rows totable df",
        "table.scan() has its rows, and .head(10) of it the first ones",
    ),
    ("drop delete", ".drop_index(name) drops an index, and hindex changes no data"),
    ("createtable append overwrite upsert write insert", "hindex reads tables and changes no data"),
    ("listindexes showindexes getindexes", ".indexes() lists its indexes"),
    ("getindex", ".index(name) is one of its indexes"),
    ("addindex buildindex", ".create_index(name, column) builds one"),
    ("dropindexes", ".drop_index(name) drops one"),
    ("path location", ".uri is its place"),
)
#: The same of a connection; besides, what a table has is that of ``hx.table(name)``.
CONNECTION_NAMES: Mapping[str, str] = _each(
    ("execute query run", ".sql(text) runs a statement"),
    (
        "load loadtable read readorc open orc gettable",
        ".table(name) is a table by its path, URI or catalog name",
    ),
    ("close stop", "it holds nothing that has to be closed"),
)


def raise_missing_attribute(
    of: object,
    name: str,
    what: str,
    instead: Mapping[str, str],
    parts: Iterable[tuple[str, type]] = (),
) -> object:
    """Raise the error for an unknown attribute, with a suggestion.

    :param what: the object for people, such as ``a scan``.
    :param instead: what is written here for names of other libraries.
    :param parts: what has the name if the object has not: how it is had from there, and its class.
    :raises UnknownNameError: which is an AttributeError, with what there is instead.
    """
    if hasattr(type(of), name):
        # it is there, and what it computes ended in such an error of its own, which is the one to see
        return object.__getattribute__(of, name)
    if name.startswith("_"):
        # Python or a library looks whether the object knows a protocol
        raise AttributeError(f"{type(of).__name__!r} object has no attribute {name!r}")
    remedy = instead.get(name.replace("_", "").lower())
    if remedy is None:
        remedy = next((f"{how}.{name} is there" for how, kind in parts if hasattr(kind, name)), None)
    if remedy is None:
        public = [known for known in dir(type(of)) if not known.startswith("_")]
        remedy = f"{suggestion(name, public)}there are {', '.join(public)}"
    raise UnknownNameError(f"{what} has no {name!r}: {remedy}")
