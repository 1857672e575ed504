# Two commands on a fresh machine: `make demo` and `make test`. Each creates its own virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# The lower bounds of the dependencies have wheels for the oldest supported Python only.
OLDEST_PYTHON ?= python3.11
OLDEST := .venv-oldest

# Numba's cache does not notice an edit in a file that a kernel only calls: a change in any kernel starts a new cache.
KERNELS := $(shell cat src/mahala/compiled/*.py src/mahala/compiled/*/*.py | cksum | cut -d' ' -f1)
export NUMBA_CACHE_DIR := $(CURDIR)/.numba-cache/$(KERNELS)

# Two test processes on two cores: more BLAS threads would only slow each other down.
PYTEST := -m pytest -n 2 --dist worksteal
# `make test` has one process for the tests of commands and evaluations and one for the others, each as long as the
# other: the workers of pytest-xdist would both import and collect all of them. Tests that call hardly any kernel run
# before that.
EARLY := $(addprefix tests/,data test_package.py test_site.py)
COMMANDS := $(addprefix tests/,cli evaluation papers report stream test_campaign.py test_docs.py) search
WARMING := tests/test_warming.py

# Modules are compiled when they are first imported, and not all of them when they are installed.
PIP := -m pip install --quiet --no-compile --disable-pip-version-check
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test test-early test-commands test-learners test-oldest coverage lint kernels mutants bench campaign reproduce docs clean

demo: $(VENV)/.demo
	$(BIN)/mahala compare balance --output demo-output

test kernels test-early test-commands test-learners test-oldest coverage campaign: export OPENBLAS_NUM_THREADS = 1
# The tests run on both cores already; those of threads ask for them.
test kernels test-early test-commands test-learners test-oldest coverage: export OMP_NUM_THREADS = 1
test: $(VENV)/.ready
	$(MAKE) --no-print-directory --jobs 2 test-early kernels
	$(MAKE) --no-print-directory --jobs 2 --keep-going test-commands test-learners

test-commands: $(VENV)/.ready
	$(BIN)/python -m pytest -q $(COMMANDS)

test-learners: $(VENV)/.ready
	$(BIN)/python -m pytest -q tests src $(addprefix --ignore=,$(COMMANDS) $(EARLY) $(WARMING))

test-early: $(VENV)/.ready lint
	$(BIN)/python -m pytest -q $(EARLY)

# Compile what both test processes would wait for, by the test of `mahala warm-up`: on one core, beside `test-early`.
kernels: $(VENV)/.ready
	$(BIN)/python -m pytest -q $(WARMING)

# The tests on the lower bounds in pyproject.toml. Packages that they need themselves are new, and have deprecated what
# old ones call. Numba drops the cache of another version, hence one of its own.
test-oldest: export NUMBA_CACHE_DIR := $(CURDIR)/.numba-cache/$(KERNELS)-oldest
test-oldest: $(OLDEST)/.ready
	$(OLDEST)/bin/python $(PYTEST) -W ignore::DeprecationWarning -W ignore::hypothesis.errors.HypothesisWarning

# Lines of src that no test runs. It fails below the share that `fail_under` in pyproject.toml asks for.
coverage: export MAHALA_DOCS = all
coverage: $(VENV)/.ready
	$(BIN)/python $(PYTEST) --cov --cov-report=term-missing:skip-covered

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.ready
	$(BIN)/python benchmarks/batch.py
	$(BIN)/python benchmarks/online_pairs.py
	$(BIN)/python benchmarks/online_triplets.py
	$(BIN)/python benchmarks/small_calls.py

# Hostile input, damaged files, killed processes, threads, long streams, unusual environments: hours. A stopped run
# resumes. With BUDGET=3h each part has a share of this time. `python -m campaign.counts` publishes what was run.
campaign: $(VENV)/.ready
	$(BIN)/python -m campaign --jobs 2 --state campaign.jsonl $(if $(BUDGET),--budget $(BUDGET))

# The tables and figures of a paper: `make reproduce PAPER=pa2013`; without PAPER it lists them.
reproduce: $(VENV)/.ready
	$(BIN)/python -m papers $(PAPER)

# How many of 80 random changes of src/ the tests find: about an hour.
mutants: $(VENV)/.ready
	$(BIN)/python -m campaign.mutants --seed 1 --n 80 --output mutants.json

# The site, in site/: open site/index.html.
docs: export NO_MKDOCS_2_WARNING = 1
docs: $(VENV)/.ready
	$(BIN)/python -m mkdocs build --strict --quiet

$(VENV)/.demo: pyproject.toml search/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) --editable ".[cli]" --editable ./search
	touch $@

$(VENV)/.ready: $(VENV)/.demo
	$(BIN)/python $(PIP) --editable ".[dev]" --editable ./search
	touch $@

$(OLDEST)/.ready: pyproject.toml search/pyproject.toml .ci/lower_bounds.py
	$(OLDEST_PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python .ci/lower_bounds.py > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python $(PIP) --constraint $(OLDEST)/constraints.txt --editable ".[test]" --editable ./search
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST) .numba-cache build dist site .coverage .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
