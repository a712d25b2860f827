# Set up, run, test. Every target works from a fresh clone; GNU make 3.81 is enough.
#   make demo    train three small translators on a CPU and write runs/demo/report.html
#   make test    install everything in the lock and run the tests
#   make lint    ruff, mypy, import rules
#   make docs    build the documentation into site/
#   make bench   measure against the peers, in a .venv-bench of their own
#   make clean   remove .venv, .venv-bench and what was built; runs/ stays

PYTHON ?= python3
BIN := .venv/bin
BENCH := .venv-bench
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
BENCH_PIP := $(BENCH)/bin/python -m pip --disable-pip-version-check --quiet
CORE := .venv/installed-core
FULL := .venv/installed-full

.PHONY: demo test lint docs bench clean

demo: $(CORE)
	$(BIN)/headway demo --device cpu

test: $(FULL)
	PYTHONWARNDEFAULTENCODING=1 $(BIN)/python -m pytest

lint: $(FULL)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: $(FULL)
	$(BIN)/mkdocs build --strict

# Nothing else may run meanwhile: two threads on a busy machine measure the other program.
bench: $(BENCH)/installed
	$(BENCH)/bin/python benchmarks/run.py --json benchmarks/results/bench.json

clean:
	rm -rf .venv .venv-bench build dist site src/headway.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python $(BENCH)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	  || { echo 'Headway needs Python 3.11, 3.12 or 3.13 and "$(PYTHON)" is not one of them.' \
	       'Name one: make PYTHON=python3.12 demo' >&2; exit 2; }
	@echo 'Making $(@:/bin/python=) ...'
	@$(PYTHON) -m venv $(@:/bin/python=) \
	  || { rm -rf $(@:/bin/python=); echo 'Could not make $(@:/bin/python=); on Debian' \
	       'and Ubuntu install the package python3-venv first.' >&2; exit 2; }

# The stamps say what is installed; a changed lock or pyproject.toml installs again.
$(CORE): requirements.lock pyproject.toml | $(BIN)/python
	@echo 'Installing what Headway needs into .venv (torch is large: this can take minutes) ...'
	@$(PIP) install --constraint requirements.lock --editable .
	@touch $@

$(FULL): requirements.lock pyproject.toml | $(BIN)/python
	@echo 'Installing everything in requirements.lock into .venv (torch is large) ...'
	@$(PIP) install --requirement requirements.lock
	@$(PIP) install --no-deps --editable .
	@touch $(CORE) $@

PEERS := benchmarks/requirements.txt benchmarks/requirements-alone.txt
COMPILED := benchmarks/requirements-compiled.txt
$(BENCH)/installed: $(PEERS) $(COMPILED) requirements.lock pyproject.toml | $(BENCH)/bin/python
	@echo 'Installing Headway and the peers into $(BENCH) (torch is large) ...'
	@$(BENCH_PIP) install --requirement benchmarks/requirements.txt --editable .
	@$(BENCH_PIP) install --no-deps --requirement benchmarks/requirements-alone.txt
	@echo 'Compiling llama.cpp into $(BENCH) (some minutes) ...'
	@$(BENCH_PIP) install --requirement $(COMPILED) \
	  || echo 'llama.cpp could not be compiled (above): it is left out, the rest is measured. With' \
	       'a C++ compiler there: $(BENCH)/bin/python -m pip install -r $(COMPILED)' >&2
	@touch $@
