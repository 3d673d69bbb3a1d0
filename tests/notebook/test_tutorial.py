"""The tutorial notebook, run cell by cell: its outputs are those that it shows, its rows those of pandas."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorial.ipynb"

#: Sizes and gains, which versions of PyArrow and of the codecs change.
_CHANGING = (
    (r"bytes +[\d,]+ of [\d,]+( +[\d.]+%)?", "BYTES"),
    (r"[\d.]+ ([kM]B|%  )", "N"),
    (r" +", " "),
)


def steady(text: str) -> str:
    for pattern, name in _CHANGING:
        text = re.sub(pattern, name, text)
    return text.strip()


def stored_output(cell: Any) -> str:
    return "".join("".join(o.get("text") or o["data"]["text/plain"]) for o in cell["outputs"])


def run(shell: Any, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Run the cells, compare what they show, and return their variables."""
    cells = [c for c in json.loads(NOTEBOOK.read_text("utf-8"))["cells"] if c["cell_type"] == "code"]
    assert len(cells) > 15
    for cell in cells:
        capsys.readouterr()
        result = shell.run_cell("".join(cell["source"]), store_history=False)
        result.raise_error()
        output = capsys.readouterr().out
        if result.result is not None:
            output = shell.display_formatter.format(result.result, include=["text/plain"])[0]["text/plain"]
        if "output-varies" not in cell["metadata"].get("tags", ()):
            assert steady(output) == steady(stored_output(cell)), cell["id"]
    variables: dict[str, Any] = shell.user_ns
    return variables


@pytest.mark.slow
def test_the_tutorial(
    shell: Any,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    values = run(shell, capsys)

    # rows, as pandas finds them in the CSV file
    orders = pd.read_csv("data/orders.csv", parse_dates=["day"])
    orders["day"] = orders["day"].dt.date
    customer = orders[orders["customer"] == "c00042"][["order_id", "day", "comment"]]
    lost = orders[orders["status"] == "lost"]
    assert values["frame"].values.tolist() == customer.values.tolist()
    assert values["lost"] == len(lost) > 10
    two = orders[orders["customer"].isin(["c00017", "c04711"])]
    assert dict(values["by_country"].values.tolist()) == two.groupby("country").size().to_dict()
    in_norway = lost[lost["country"] == "NO"].groupby("day").size()
    assert dict(values["lost_by_day"].iter_rows()) == in_norway.to_dict()
    assert dict(map(tuple, values["lost_by_country"].collect())) == lost.groupby("country").size().to_dict()
    assert values["stale"].values.tolist() == [
        *customer.values.tolist(),
        [200_042, pd.Timestamp("2026-05-01").date(), "parcel is under way"],
    ]
    assert values["rows"]["plain"] == values["rows"]["indexed"]
    assert len(values["rows"]["plain"]) == len(customer) + 1

    # what is skipped: all row groups but those of the customer's orders
    assert values["before"].row_groups.kept == 20
    groups = {order_id // 50_000 * 5 + order_id % 50_000 // 10_000 for order_id in customer["order_id"]}
    assert values["after"].row_groups.kept == len(groups)
    assert values["after"].rows.kept == len(customer)
    assert values["after"].exact
    assert values["counting"].bytes.kept == 0
    refreshed = values["refreshed"]
    assert (refreshed.files_read, refreshed.rows) == (1, 10_000)
