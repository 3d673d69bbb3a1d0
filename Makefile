# Everything a working copy needs. A fresh machine has to bring only Python 3.11 or later (with venv) and
# network to the package index; root on Debian also gets a C compiler and Java.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help venv java demo test slow nightly integration lowest lint types docs proto wheel bench clean

# the first interpreter that is new enough, unless PYTHON names one
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$python; break; fi; done)
SCALE ?= 1
# processes that run tests; each has a Spark session of its own (1 GiB of heap)
JOBS ?= 3
# the seed of random tests in `make nightly`
SEED := $(or $(SEED),$(shell od -An -N4 -tu4 /dev/urandom | tr -d ' '))
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/stamp
ARCHIVE := build/spark.jsa
BENCH_STAMP := $(VENV)/bench-stamp
DOCS_STAMP := $(VENV)/docs-stamp
LOWEST := build/lowest
# the lowest one, too; numpy 2.0 has no wheels for 3.13
LOWEST_PYTHON ?= python3.11
PAIMON := build/bench/paimon-env
PROTOS := $(notdir $(wildcard proto/*.proto))

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(STAMP) ## make .venv and install hindex in it, editable, with all that developing needs

$(STAMP): pyproject.toml setup.py orc/kernel.pyx
	@test -n "$(PYTHON)" || { echo "hindex needs Python 3.11 or later: install it, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@.ci/compiler $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

java:
	@.ci/java

demo: $(STAMP) java ## index TPC-H lineitem, query it with hindex and with Spark alone, compare (SCALE=1)
	$(BIN)/hindex demo --scale $(SCALE)

# whole files go to a process, in their order: fixtures of a file are made once; programs that tests start keep bytecode
PYTEST = env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder

test: $(STAMP) java $(ARCHIVE) ## run all tests but slow ones (JOBS=3 processes: Spark waits now and then)
	$(PYTEST) -m 'not slow'

slow: $(STAMP) java $(ARCHIVE) ## run the tests that `make test` leaves out: many random cases, races, sanitizers
	$(PYTEST) -m slow

nightly: $(STAMP) java $(ARCHIVE) ## run more tests, and more cases of each, on other random data (SEED=n repeats a run)
	@echo "SEED=$(SEED)"
	HINDEX_NIGHTLY=1 HINDEX_TEST_SEED=$(SEED) $(PYTEST) --hypothesis-seed=$(SEED) tests tests/integration

integration: $(STAMP) java ## run the tests that start servers, such as HDFS (Maven, npm and go fetch them), or other Javas
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest tests/integration

# files of tests that need neither Spark nor a build of an index
lowest: ## run tests with the lowest versions of dependencies that pyproject.toml allows
	$(LOWEST_PYTHON) -m venv --clear $(LOWEST)
	@.ci/compiler $(LOWEST)/bin/python
	$(LOWEST)/bin/python tests/support/lowest.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(LOWEST)/constraints.txt \
		--editable '.[fsspec,s3]' hypothesis pandas pyorc pytest pytest-xdist
	$(LOWEST)/bin/python -m pytest --numprocesses $(JOBS) --dist loadfile -m 'not slow' \
		$$(grep -rLE --include='test_*.py' '\bspark\b|pyspark|connection' $(addprefix tests/,expr index orc plan sql table)) \
		tests/cli/test_output.py tests/cli/test_progress.py

# classes of Spark, from which Java starts in half the time
$(ARCHIVE): $(STAMP) | java
	$(BIN)/python -m tests.support.class_archive

lint: $(STAMP) ## check style and likely bugs (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy and mkdocstrings follow no package-dir mapping, so they get the packages under their import names as links
.PHONY: tree
tree:
	rm -rf build/types && mkdir -p build/types/hindex
	ln -s $(CURDIR)/hindex/* build/types/hindex/
	ln -s $(CURDIR)/orc $(CURDIR)/proto $(CURDIR)/sql build/types/hindex/
	ln -s $(CURDIR)/tests build/types/tests

types: $(STAMP) tree ## check types (mypy --strict)
	cd build/types && $(CURDIR)/$(BIN)/mypy --config-file $(CURDIR)/pyproject.toml --cache-dir $(CURDIR)/.mypy_cache -p hindex -p tests

docs: $(DOCS_STAMP) tree ## build the documentation site into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

proto: $(STAMP) ## make the code in proto/ again from its .proto sources
	rm -rf build/proto && mkdir -p build/proto
	$(BIN)/python -m grpc_tools.protoc -Ihindex/proto=proto --python_out=build/proto --pyi_out=build/proto $(addprefix hindex/proto/,$(PROTOS))
	mv build/proto/hindex/proto/*_pb2.py build/proto/hindex/proto/*_pb2.pyi proto/

wheel: $(STAMP) ## build the sdist, and the wheel from it, into dist/
	rm -rf dist build/lib build/lib.* build/temp.*
	$(BIN)/python -m build --outdir dist .

bench: $(BENCH_STAMP) java ## measure hindex beside Spark, chDB, DuckDB, Lance and others (QUICK=1: some of it)
	$(BIN)/python -m tests.bench all $(if $(QUICK),--quick,; status=$$?; $(BIN)/python -m tests.bench report && exit $$status)

# Paimon's package asks for another pyarrow: without an environment of its own it is left out, and the report says so
$(BENCH_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	test -x $(PAIMON)/bin/python || $(PYTHON) -m venv $(PAIMON)
	$(PAIMON)/bin/python -m pip install --quiet --disable-pip-version-check pypaimon || rm -rf $(PAIMON)
	touch $@

clean: ## remove what was built (.venv and the compiled kernel stay)
	rm -rf build dist demo-data orc/kernel.c .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
