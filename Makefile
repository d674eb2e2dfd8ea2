# `make demo` and `make test` need Python 3.11, git and make, and set everything else up in .venv themselves.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-real lint smoke bench bench-peers clean

demo: .venv/installed  ## run the main job on the embedded provider: no account, no network
	@$(BIN)/ask -p demo "which files are here?"

test: .venv/installed-dev
	$(BIN)/pytest

test-real: .venv/installed-dev  ## run against other people's software, installed once into .real (10 minutes); not part of CI
	$(BIN)/python -m tests.real.software
	$(BIN)/pytest -n 0 tests/real

lint: .venv/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

smoke: .venv/installed  ## a few real calls to every provider whose key is set; costs a little money
	@PATH="$(CURDIR)/$(BIN):$$PATH" tests/smoke

bench: .venv/installed  ## measure beside a bare script, and beside the peers that are installed; BENCH takes cases and options
	$(BIN)/python -m compileall -q ask providers  # as pip does where it installs a wheel
	$(BIN)/python -m benchmarks $(BENCH)

bench-peers: .venv-peers/llm/bin/llm .venv-peers/sgpt/bin/sgpt bench  ## the same, with llm and sgpt installed for it

clean:
	rm -rf .venv .venv-peers build *.egg-info

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/installed-dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@ .venv/installed

.venv-peers/llm/bin/llm: PACKAGE = llm
.venv-peers/sgpt/bin/sgpt: PACKAGE = shell-gpt click  # which it imports, and does not ask for
.venv-peers/%:
	$(PYTHON) -m venv $(@D)/..
	$(@D)/python -m pip install --quiet --disable-pip-version-check $(PACKAGE)
