# Two commands on a fresh machine: `make demo` and `make test`. Each makes its own virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Numba's cache does not see an edit in a file that a kernel only calls: a change in any kernel starts a new one.
export NUMBA_CACHE_DIR := $(CURDIR)/.numba-cache/$(shell cat src/mahala/compiled/*.py | cksum | cut -d' ' -f1)

.PHONY: demo test lint bench docs clean

demo: $(VENV)/.ready
	$(BIN)/mahala compare balance --output demo-output

# Two test processes on two cores: more BLAS threads would only get in each other's way.
test: export OPENBLAS_NUM_THREADS = 1
test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.ready
	$(BIN)/python benchmarks/online_pairs.py
	$(BIN)/python benchmarks/online_triplets.py

# The site, in site/: open site/index.html, or for its search `python -m http.server --directory site`.
docs: export NO_MKDOCS_2_WARNING = 1
docs: $(VENV)/.ready
	$(BIN)/mkdocs build --strict --quiet

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) .numba-cache build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
