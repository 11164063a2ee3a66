# Everything runs from the virtual environment in .venv/, which `setup` makes; nothing is installed on the machine.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do $$p -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null && echo $$p && break; done || echo python3)
BIN := .venv/bin
# Programs started from here find Node and Go where setup put them, if the machine has none.
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup up down demo test check

help: ## Show this
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-14s %s\n", $$1, $$2 }'

setup: ## Prepare .venv/ (with the joiner command) and node_modules/
	@$(PYTHON) local/setup.py

up: setup ## Start the local stack and deploy into it; it stays up (see .local/env)
	@$(BIN)/joiner local up

down: ## End the local stack, also what a crash left of it
	@if [ -x $(BIN)/joiner ]; then $(BIN)/joiner local down; fi

demo: setup ## Show the main job from nothing to running pods, and clean up
	@$(BIN)/python -m joiner_local.demo

test: setup ## Run all tests, end-to-end ones on a local stack included
	@$(BIN)/python -m joiner_local.binaries >/dev/null
	@$(BIN)/python -m pytest

check: setup ## Lint, types, architecture, doctests, synthesis
	$(BIN)/ruff check
	$(BIN)/mypy layers/joiner/python/joiner cli/joiner_cli local/joiner_local local/setup.py infra app.py tests
	@for folder in functions/*/; do echo "mypy $$folder"; MYPYPATH=$$folder $(BIN)/mypy --no-error-summary $$folder*.py || exit 1; done
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q --doctest-modules layers/joiner/python/joiner cli/joiner_cli local/joiner_local infra
	node_modules/.bin/cdk synth --quiet -c cluster=example
	node_modules/.bin/cdk synth --quiet -c cluster=local
