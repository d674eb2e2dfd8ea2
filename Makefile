# `make demo` and `make test` need Python 3.11, git and make, and set everything else up in .venv themselves.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint smoke clean

demo: .venv/installed  ## run the main job on the embedded provider: no account, no network
	@$(BIN)/ask -p demo "which files are here?"

test: .venv/installed-dev
	$(BIN)/pytest

lint: .venv/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

smoke: .venv/installed  ## a few real calls to every provider whose key is set; costs a little money
	@PATH="$(CURDIR)/$(BIN):$$PATH" tests/smoke

clean:
	rm -rf .venv build *.egg-info

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/installed-dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@ .venv/installed
