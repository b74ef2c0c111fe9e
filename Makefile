# The two commands of the README are `make demo` and `make test`.  `make install` puts all they need
# into .venv; it does nothing if that is up to date.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The layers below `training`: their tests start no command and no sweep.
FAST := core data information learners matching metrics models penalties theory

# All tests of a file by one process; files in their order, so that short doctests come last.
ORDER := --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-fast test-slowest test-all lowest bench bench-tables lint format docs install clean

demo: $(STAMP)
	$(BIN)/shiftproof demo

test: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 $(ORDER)

test-fast: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 $(ORDER) tests/test_layers.py $(FAST:%=tests/%)

test-slowest: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 $(ORDER) -m "slow or not slow" --durations=50

test-all: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 $(ORDER) -m "slow or not slow"

lowest: $(STAMP)
	.ci/lowest

bench: $(STAMP)
	$(BIN)/python -m benchmarks --out results/performance.md

bench-tables: $(STAMP)
	$(BIN)/python -m benchmarks table-peers table-domains table-growth --out results/table-costs.md

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)
	$(BIN)/mkdocs build --strict

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: $(PYTHON) is older than 3.11; call make PYTHON=python3.12" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt -e ".[dev]"
	@# Once here, not at every start where Python may not write bytecode; tests of packages are left out.
	-$(BIN)/python -m compileall -q -j 0 -x '(tests?|_internal)/' .venv/lib >/dev/null 2>&1
	touch $(STAMP)

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache
