# `make demo` and `make test` need Python 3.11 or later, git and make, and set everything else up in .venv themselves.
# PYTHON=python3.13 takes another Python, in a virtual environment of its own.

PYTHON ?= python3
VENV := .venv$(if $(filter-out python3,$(PYTHON)),-$(notdir $(PYTHON)))
BIN := $(VENV)/bin
unexport PYTHONDONTWRITEBYTECODE  # without compiled files, each run of the tests compiles all of them again

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow fuzz test-real lint generated smoke bench bench-peers dist docs clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/installed  ## run the main job on the embedded provider: no account, no network
	@$(BIN)/ask -p demo "which files are here?"

test: $(VENV)/installed-dev  ## run the tests (5 minutes on two cores); TESTS takes files, names and options
	$(BIN)/pytest $(TESTS)

test-slow: $(VENV)/installed-dev  ## run the slow tests: kills, parallel runs, recipes, the browser; all property tests (17 minutes)
	$(BIN)/pytest -m 'slow or hypothesis' --hypothesis-profile thorough -n 4 $(TESTS)  # kills and timing, which many workers disturb

fuzz: $(VENV)/installed-dev  ## run the property tests on 1,000 new examples each (an hour); TESTS takes files and names
	$(BIN)/pytest -m hypothesis --hypothesis-profile fuzz $(TESTS)

test-real: $(VENV)/installed-dev  ## run against other people's software, installed once into .real (10 minutes); not part of CI
	$(BIN)/python -m tests.real.software
	$(BIN)/pytest -n 0 tests/real

lint: $(VENV)/installed-dev  ## check style, types and generated files
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m tests.generated --check

generated: $(VENV)/installed-dev  ## write completions, man page, options page, tables and seccomp filters from the code
	$(BIN)/python -m tests.generated

smoke: $(VENV)/installed  ## make a few real calls to every provider whose key is set; costs a little money
	@PATH="$(CURDIR)/$(BIN):$$PATH" tests/smoke

bench: $(VENV)/installed  ## measure beside a bare script, and beside installed peers; BENCH takes cases and options
	$(BIN)/python -m compileall -q ask providers  # as pip does where it installs a wheel
	$(BIN)/python -m benchmarks $(BENCH)

bench-peers: .venv-peers/llm/bin/llm .venv-peers/sgpt/bin/sgpt .venv-peers/aiohttp/bin/python bench  ## the same, with llm, sgpt and aiohttp installed for it

dist: $(VENV)/installed-dev  ## build dist/, check it, and try it installed with pip, pipx and uv
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	ASK_DIST=dist $(BIN)/pytest -m slow tests/test_distribution.py

docs: $(VENV)/installed-dev  ## build the documentation as a site in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:  ## remove what these targets have made
	rm -rf .venv* build dist *.egg-info

$(BIN)/python:
	@echo 'Creating a virtual environment in $(VENV) ...' >&2
	@$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	@echo 'Installing ask and the about 30 packages that it needs in $(VENV) (10 MB, 15 to 90 s, only once) ...' >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	@echo 'Installing ask with everything that its tests need in $(VENV) (1 to 3 minutes, only once) ...' >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@ $(VENV)/installed

.venv-peers/llm/bin/llm: PACKAGE = llm
.venv-peers/sgpt/bin/sgpt: PACKAGE = shell-gpt click  # which it imports, and does not ask for
.venv-peers/aiohttp/bin/python: PACKAGE = aiohttp
.venv-peers/%:
	$(PYTHON) -m venv $(@D)/..
	$(@D)/python -m pip install --quiet --disable-pip-version-check $(PACKAGE)
