"""get_json_object has Spark's values, for random documents, and at Jackson's limits."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from hindex.errors import PredicateError
from hindex.expr.evaluate import evaluate
from hindex.expr.functions import FUNCTIONS
from hindex.expr.java_doubles import java_double
from hindex.expr.json_paths import parse_path
from hindex.expr.nodes import STRING, Column, Constant
from tests.support.cases import SEED, cases
from tests.support.messages import raises
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.local_build import LocalConnection

DOCUMENTS = 3000
PATHS = [
    *("$.a", "$.a.b", "$.a.a.a", "$.b", "$.a[0]", "$.a[1].b", "$[0]", "$[1].a", "$.é", "$.😀", "$['a b']"),
    *("$.x.y", "$['x.y']", "$.A", "$.a'", "$.b[0][1]", "$['']"),
]
#: Paths that are spelled in odd ways, and such that find nothing.
ODD_PATHS = [
    *("$. a", "$.a ", "$ .a", "$['  a']", "$['a'] ", "$ ['a']", "$\n['a'].b", "$[ 0]", "$[0 ]", "$[01]"),
    *("$[-1]", "", "$.a\nb", "$.*", "$.a.*", "$['*']", "$.*[*]", "a", "$a", "$..a", "$.a]", "$[0", " $.a"),
    *("$.a.", "$.$.a", "$[' ']", "$. ", "$[9223372036854775807]", "$[9223372036854775808]", "$.a[\u0661]"),
    *("$.\u00a0a", "$.\x0ba", "$.*a"),
]
NAMES = ["a", "a", "a", "b", "b", "é", "😀", "a b", "x.y", "A", "", r"\u0061", r"a\u0062", r"\u00e9", r"a\n"]
PARTS = [*"ab é😀\x00\x01\t\n'\x7f\u2028{],:0"]
ESCAPES = [r"\n", r"\"", r"\\", r"\/", r"\b\f\t\r", r"\u0041", r"\ud83d\ude00", r"\ud83d", r"\uDC00", r"\'"]
WRONG_ESCAPES = [r"\x", r"\u12", r"\u12G4", r"\u😀12", r"\U0041", "\\", "\\u0\u01301", "\\u\uff410\u014141"]
NUMBERS = [
    *(
        "0",
        "1",
        "-1",
        "12",
        "-0",
        "-0.0",
        "0e0",
        "1.0",
        "1.10",
        "1e5",
        "1E+5",
        "1e-5",
        "0.1",
        "0.001",
        "0.0001",
    ),
    *(
        "1e7",
        "123456789.125",
        "9999999.999",
        "12345678.9",
        "1.5e-7",
        "9.5e15",
        "1E400",
        "-1e400",
        "1234567.0",
    ),
    *("0.30000000000000004", "2147483648", "-9223372036854775809", "123456789012345678901234567890"),
]
WRONG_VALUES = [
    *("01", "-", "1.", "+1", ".5", "1e", "NaN", "Infinity", "-Infinity", "0x1", "1f", "tru", "truex", "True"),
    *("1_0", "", "'", '"', "nulll", "1e5x", "0.1.2", "\ufeff", "/**/1", "#\n1", "--1"),
]
WRONG_BYTES = [
    *(
        b"\xff",
        b"\xed\xa0\x80",
        b"\xe2\x82",
        b"\xf0\x9f\x98",
        b"\xc0\x80",
        b"\xf5\x80\x80\x80",
        b"\xe0\x80\x80",
    )
]


def blank(chance: random.Random) -> str:
    if chance.random() < 0.005:
        return chance.choice(["\u00a0", "\x0b", "\x1e", "\x00"])
    return chance.choice(["", "", "", " ", "\n\t\r "])


def string(chance: random.Random) -> str:
    parts = [*PARTS, *ESCAPES, *(WRONG_ESCAPES if chance.random() < 0.03 else ())]
    text = "".join(chance.choice(parts) for _ in range(chance.choice([0, 1, 1, 2, 5])))
    if chance.random() < 0.1:
        return "'" + "".join(chance.choice([part, '"']) for part in text if part != "'") + "'"
    return f'"{text}"'


def value(chance: random.Random, depth: int) -> str:
    kind = chance.random()
    if kind < 0.02:
        return chance.choice(WRONG_VALUES)
    if not depth or kind < 0.3:
        return chance.choice(
            [string(chance), chance.choice(NUMBERS), chance.choice(["true", "false", "null"])]
        )
    many = [value(chance, depth - 1) for _ in range(chance.choice([0, 1, 2, 4]))]
    comma = chance.choice([","] * 100 + ["", ",,", ";"])
    end = chance.choice([""] * 100 + [","])
    if kind < 0.75:
        quote = chance.choice('"""""""""\'')
        colon = chance.choice([":"] * 100 + ["=", "::", ""])
        names = [f"{quote}{chance.choice(NAMES)}{quote}" for _ in many]
        many = [
            f"{blank(chance)}{name}{blank(chance)}{colon}{blank(chance)}{item}{blank(chance)}"
            for name, item in zip(names, many, strict=True)
        ]
        return "{" + comma.join(many) + end + chance.choice("}" * 100 + "] ")
    return (
        "["
        + comma.join(blank(chance) + item + blank(chance) for item in many)
        + end
        + chance.choice("]" * 100 + "} ")
    )


def document(chance: random.Random) -> bytes:
    """Return a document; some have an end that is missing, text behind it, or bytes that are not UTF-8."""
    text = blank(chance) + value(chance, 4)
    if chance.random() < 0.6:
        text = f'{{"{chance.choice("aab")}":{text},{string(chance)}:{value(chance, 1)}}}'
    kind = chance.random()
    if kind < 0.04:
        text = text[: chance.randrange(len(text) + 1)]
    elif kind < 0.08:
        text += chance.choice([" x", "}", "]", ",1", "{", '"', "'", "\x00", "1"])
    elif kind < 0.09:
        text = "\ufeff" + text
    data = text.encode()
    if kind > 0.98:
        at = chance.randrange(len(data) + 1)
        data = data[:at] + chance.choice(WRONG_BYTES) + data[at:]
    return data


def edges() -> list[bytes]:
    """Return empty documents and single values, and strings of wrong bytes and of halves of characters."""
    halves = [
        r"\ud83dx",
        r"\ud83d",
        r"\udc00\udc01",
        r"\udc00\ud83d",
        r"\ud83d\ud83d\ude00",
        r"\ud83d😀",
        r"\ude00😀",
    ]
    values = [f'{{"a":"x{data}y"}}'.encode() for data in halves]
    values += [f'{{"a":["{data}"]}}'.encode() for data in halves]
    values += [b'{"a":"x' + data + b'y"}' for data in WRONG_BYTES]
    return [b"", b" ", b"null", b"1", b'"a"', b"{}", b"[]", b"{", b"[1", *values]


def limits() -> list[bytes]:
    """Return documents at the limits of nesting, digits, and characters of names, and such with long strings."""
    documents = ["[" * n + "]" * n for n in (999, 1000, 1001, 9000)]
    documents += [f"[{'[' * n}{']' * n},[]]" for n in (999, 1000)]
    documents += ['{"a":' * n + "'1'" + "}" * n for n in (990, 1000, 1001)]
    documents += [f'{{"a":{"[" * n}"]"{"]" * n}}}' for n in (998, 999, 1000)]
    integers = ["1" * n for n in (999, 1000, 1001, 5000)]
    for number in (*integers, f"0.{'1' * 999}", f"1.{'3' * 1500}e5", f"[{'1' * 600}.5,{'2' * 600}]"):
        documents.append(f'{{"a":{number},"b":"{"]" * 1200}{"1" * 1200}"}}')
    for name in ("x" * 50_000, "x" * 50_001, "😀" * 25_000, "😀" * 25_001, "\\n" * 50_000):
        documents.append(f'{{"a":"{"y" * 60_000 * (name < "y")}","{name}":2}}')
    documents.append('{"a":1}' + "[" * 2000)
    for n in (1330, 1331, 1332, 2665, 2666, 3999, 4000, 7998):
        documents += [f'{{"a":"{"y" * n}😀{"é" * 5000}"}}', f'{{"a":["{"y" * n}😀{"é" * 5000}"]}}']
    return [text.encode() for text in documents]


def values_of(documents: pa.Array, path: str) -> list[bytes | None]:
    node = FUNCTIONS["get_json_object"].signature(
        "get_json_object", [Column("s", STRING), Constant(path, STRING)]
    )
    values: list[bytes | None] = (
        evaluate(node, {"s": documents}, len(documents)).array.view(pa.binary()).to_pylist()
    )
    return values


def spark_values(
    spark: SparkSession, documents: Sequence[bytes], paths: Sequence[str]
) -> list[tuple[bytes | None, ...]]:
    """Evaluate each path by itself: Spark evaluates those of a projection at once."""
    from pyspark.sql import functions as f

    values = [f.get_json_object(f.expr("CAST(s AS STRING)"), path).cast("binary") for path in paths]
    frame = spark.createDataFrame(
        pa.table({"at": range(len(documents)), "s": pa.array(documents, pa.binary())})
    )
    rows = frame.select("at", f.array(*values).alias("values")).toArrow().sort_by("at")["values"].to_pylist()
    return list(zip(*rows, strict=True))


def test_values_are_those_of_spark(spark: SparkSession) -> None:
    chance = random.Random(20)
    documents = [*edges(), *limits(), *(document(chance) for _ in range(DOCUMENTS))]
    strings = pa.array(documents, pa.binary()).view(pa.string())
    num_values = 0
    for path, expected in zip(PATHS, spark_values(spark, documents, PATHS), strict=True):
        for text, of_hindex, of_spark in zip(documents, values_of(strings, path), expected, strict=True):
            assert of_hindex == of_spark, (path, text[:300])
        num_values += len(expected) - expected.count(None)
    assert num_values > DOCUMENTS / 2


def magnitudes(chance: random.Random) -> list[str]:
    """Return numbers with points or exponents of all magnitudes, with few digits and many, and powers of two."""
    numbers = [f"{sign}{10.0**exponent}" for exponent in range(-324, 309) for sign in ("", "-")][::3]
    for _ in range(cases(200, 3000)):
        digits = str(chance.randrange(1, 10 ** chance.choice([1, 2, 5, 16, 17, 18, 25, 40])))
        exponent = chance.choice([chance.randrange(-340, 320), chance.randrange(-30, 30)])
        bits = chance.getrandbits(chance.choice([1, 8, 52, 53])) or 1
        numbers += [
            f"{digits[0]}.{digits[1:] or '0'}E{exponent}",
            f"-{digits}{'0' * chance.randrange(30)}.{chance.choice(['0', '5', '10'])}",
            f"0.{'0' * chance.randrange(30)}{digits}",
            f"{digits}e{exponent:+}",
            repr(math.ldexp(bits, chance.randrange(-1074, 970))),
        ]
    return numbers


def test_doubles_of_all_magnitudes(spark: SparkSession) -> None:
    """Those that versions of Java print differently are refused: few, and none that is printed as its shortest."""
    numbers = magnitudes(random.Random(SEED))
    documents = [f'{{"a":{number}}}'.encode() for number in numbers]
    (expected,) = spark_values(spark, documents, ["$.a"])
    num_refused = 0
    for text, of_spark in zip(documents, expected, strict=True):
        try:
            assert values_of(pa.array([text.decode()]), "$.a") == [of_spark], text
        except PredicateError:
            num_refused += 1
    assert len(numbers) / 1000 < num_refused < len(numbers) / 20


@pytest.mark.parametrize(
    ("number", "printed"),
    [
        (1e16, "1.0E16"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "4.9E-324"),
        (-2.2250738585072014e-308, "-2.2250738585072014E-308"),
        (9.5e-8, "9.5E-8"),
        (1e23, None),
        (2e23, None),  # 1.9999999999999998E23 before Java 19
        (2.0**60, None),  # 1.15292150460684698E18 before Java 19
        (1e22, "1.0E22"),
        (4696586593502888960.0, "4.696586593502889E18"),
        (3.0617315596860196e25, None),  # older versions overflow
    ],
)
def test_java_doubles(number: float, printed: str | None) -> None:
    assert java_double(number) == printed


def test_index_on_doubles(connection: LocalConnection, tmp_path: Path) -> None:
    numbers = ["1e300", "6.02214076E+23", "1.0e-20", "-4.9e-324", "1E400", "17.50"]
    documents = [f'{{"a":{number}}}' for number in numbers]
    write_columns(tmp_path / "1.orc", {"s": pa.array(documents)})
    table = connection.table(str(tmp_path))
    table.create_index("i", "get_json_object(s, '$.a')")
    for number, printed in zip(
        numbers, ["1.0E300", "6.02214076E23", "1.0E-20", "-4.9E-324", '"Infinity"', "17.5"], strict=True
    ):
        scan = table.scan(f"get_json_object(s, '$.a') = '{printed}'")
        assert scan.to_arrow()["s"].to_pylist() == [f'{{"a":{number}}}']
        assert scan.explain().exact


def test_odd_paths(spark: SparkSession) -> None:
    documents = [
        b'{"a":{"b":1}}',
        b"[[5]]",
        b"{'a ':2,'a]':3,'$':{'a':4},'*':5,'a\nb':6}",
        b"{'\xc2\xa0a':7,'*a':8}",
    ]
    strings = pa.array(documents, pa.binary()).view(pa.string())
    expected = spark_values(spark, documents, ODD_PATHS)
    assert {path: values_of_any(strings, path) for path in ODD_PATHS} == {
        path: list(values) for path, values in zip(ODD_PATHS, expected, strict=True)
    }
    assert sum(any(values) for values in expected) == 12


def values_of_any(strings: pa.Array, path: str) -> list[bytes | None]:
    """Return the values at a path that may find nothing in any document."""
    return values_of(strings, path) if parse_path(path) else [None] * len(strings)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("$", r"the path '\$' of the whole document is not evaluated"),
        ("$.a[*].b", r"the path '\$\.a\[\*\]\.b' with \[\*\] is not evaluated"),
        ("$" + ".a" * 101, "of 101 steps"),
    ],
)
def test_paths_that_are_refused(path: str, message: str) -> None:
    with pytest.raises(PredicateError, match=message):
        parse_path(path)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ('{"a":2e23}', "the number 2e23 in JSON is not printed alike by all versions of Java"),
        ('{"a":[1e-323]}', "the number 1e-323 in JSON"),
        (f'{{"a":1,"b":1.{"3" * 1000}}}', "a number of 1001 digits in JSON"),
        ('{"a":"\\u\U0001c03031"}', "an escape .u of JSON"),
    ],
)
def test_values_that_are_refused(document: str, message: str) -> None:
    with pytest.raises(PredicateError, match=message):
        values_of(pa.array([document]), "$.a")


def test_documents_without_the_name_are_not_read() -> None:
    assert values_of(pa.array(['{"a":1e99}', None, "x"]), "$.b") == [None] * 3
    assert values_of(pa.array(['{"\\u0061":1}', '{"b":1}', None]), "$.a") == [b"1", None, None]


def test_a_path_is_a_constant() -> None:
    with raises(PredicateError):
        FUNCTIONS["get_json_object"].signature("get_json_object", [Column("s", STRING), Column("t", STRING)])


def test_deep_documents_in_threads() -> None:
    """The interpreter's limit of recursion is one for all threads, and is the same behind."""
    import sys

    limit = sys.getrecursionlimit()
    deep = pa.array(['{"a":' + "[" * 990 + "]" * 990 + "}"] * 20)
    results: list[list[bytes | None]] = []

    def read() -> None:
        results.append(values_of(deep, "$.a"))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[b"[" * 990 + b"]" * 990] * 20] * 4
    assert sys.getrecursionlimit() == limit
