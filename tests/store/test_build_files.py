"""The names of notices of builds, and whether their builders are there still."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from hindex.store.build_files import Builder, notice_name, parse_notice_name


def test_a_notice_names_its_process() -> None:
    this = Builder.this()
    assert parse_notice_name(notice_name(this)) == this
    assert not this.is_gone


@pytest.mark.parametrize("name", ["", "x", "host_1_2", "host_-1_2_" + "0" * 32, "ho/st_1_2_" + "0" * 32])
def test_other_names(name: str) -> None:
    assert parse_notice_name(name) is None


@pytest.mark.parametrize("pid", [1 << 31, 1 << 63, 10**60])
def test_a_number_that_no_process_can_have(pid: int) -> None:
    assert replace(Builder.this(), pid=pid).is_gone


def test_a_later_process_of_the_same_number() -> None:
    assert Builder(Builder.this().host, os.getpid(), 1).is_gone
    assert not Builder("elsewhere", os.getpid(), 1).is_gone
