# Everything runs from the virtual environment in .venv/, which `setup` makes; nothing is installed on the machine.

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c "$(NEW_ENOUGH)" 2>/dev/null && echo $$p && break; done || echo python3)
BIN := .venv/bin
# Programs started from here find Node and Go where setup put them, if the machine has none.
export PATH := $(CURDIR)/$(BIN):$(PATH)

# jsii, which the CDK starts, warns of Node.js 20 in thirteen lines.
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION ?= 20

# Compiled once, read by hundreds of processes, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

# Four workers on two cores: end-to-end tests wait more than they compute. tests/conftest.py says what stays together.
DEALT := -n 4 --dist loadgroup --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup locks up down demo test test-all crash-test chaos-test full-plan-test mix-test mutation-test law-test
.PHONY: deadline-test long-test nightly bench check

help: ## Show this
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

setup: ## Prepare .venv/ (with the joiner command) and node_modules/
	@$(PYTHON) local/setup.py

locks: setup ## Write the lock files (every package with its digests) anew, after a change of a requirement
	@$(BIN)/python local/locks.py

up: setup ## Start the local stack and deploy into it; it stays up (see .local/env)
	@$(BIN)/joiner local up

down: ## End the local stack, also what a crash left of it
	@if [ -x $(BIN)/joiner ]; then $(BIN)/joiner local down; fi

demo: setup ## Show the main job from nothing to running pods, and clean up
	@$(BIN)/python -m joiner_local.demo

test: setup ## Run all tests but most end-to-end ones: the four scenarios and the API server's rules on one local stack
	@$(BIN)/python -m joiner_local.control_plane.control_plane_binaries >/dev/null
	@$(BIN)/python -m pytest $(DEALT)

test-all: setup ## Run all tests, all end-to-end ones on three local stacks included, as CI does
	@$(BIN)/python -m joiner_local.control_plane.control_plane_binaries >/dev/null
	@JOINER_ALL=1 $(BIN)/python -m pytest $(DEALT)

crash-test: setup ## Calls of the state machines fail, states are stopped: each in two nights, in other ways each time
	@$(BIN)/python -m joiner_local.control_plane.control_plane_binaries >/dev/null
	@JOINER_CRASHES=$${JOINER_CRASHES:-night} $(BIN)/python -m pytest -s tests/e2e/crash/test_crash_table.py

chaos-test: setup ## Ten minutes of races of scale-ups and removals, twenty of everything at once, with fresh seeds
	@$(BIN)/python -m joiner_local.control_plane.control_plane_binaries >/dev/null
	@JOINER_LONG=1 JOINER_CHAOS_SECONDS=600 JOINER_SOAK_SECONDS=1200 \
	  JOINER_CHAOS_SEED=$${JOINER_CHAOS_SEED:-$$(date +%s)} JOINER_SOAK_SEED=$${JOINER_SOAK_SEED:-$$(date +%s)} \
	  $(BIN)/python -m pytest -n 0 -s tests/e2e/test_chaos.py tests/e2e/test_soak.py

full-plan-test: setup ## Forty nodes filled to 99 % by 200 pods that are replaced, outranked, and lose their nodes
	@$(BIN)/python -m joiner_local.control_plane.control_plane_binaries >/dev/null
	@JOINER_LONG=1 JOINER_FULL_NODES=40 $(BIN)/python -m pytest -s tests/e2e/test_full_plans.py

mix-test: setup ## The web, batch and constrained mixes of 1,000 pods on the local stack
	@$(BIN)/python -m joiner_local.control_plane.control_plane_binaries >/dev/null
	@JOINER_MIX_PODS=1000 $(BIN)/python -m pytest -s tests/e2e/test_mixes.py

mutation-test: setup ## 10,000 broken manifests, others each day: read as the API server reads them, refused by name
	@$(BIN)/python -m joiner_local.control_plane.control_plane_binaries >/dev/null
	@JOINER_MUTATIONS=10000 JOINER_MUTATIONS_FROM=$$(date +%Y%m%d)0000 $(BIN)/python -m pytest $(DEALT) \
	  tests/unit/cli/test_mutated_manifests.py tests/e2e/test_refused_mutations.py

law-test: setup ## All laws (hypothesis) with three fresh seeds, which are printed
	@$(BIN)/python -m tests.fresh_seeds

deadline-test: setup ## Searches that a deadline ends, in CPU time: how far past it they go (half a minute)
	@$(BIN)/python -m bench.deadlines

long-test: setup ## The tests that are too long for `make test-all`: variants of faults, starts of stacks, uninstalling
	@$(BIN)/python -m joiner_local.control_plane.control_plane_binaries >/dev/null
	@JOINER_LONG=1 $(BIN)/python -m pytest $(DEALT) -m long

nightly: setup ## All long tests, each to its end: times and failures (about five hours); ONLY="law-test" for some
	@$(BIN)/python -m tests.nightly $(ONLY)

bench: setup ## Plans, consolidation, memory, the way from a pod to its node stage by stage, what Joiner costs a month
	@$(BIN)/python -m bench.plan_prices
	@$(BIN)/python -m bench.growth
	-@$(BIN)/python -m bench.consolidation_waves # its exit code says whether a goal is missed
	@$(BIN)/python -m bench.list_memory
	@$(BIN)/python -m bench.lifecycle
	@$(BIN)/python -m bench.running_costs

check: setup ## Lint, types, architecture, doctests, synthesis, AWS's own rules
	$(BIN)/ruff check
	$(BIN)/mypy layers/joiner/python/joiner cli/joiner_cli local/joiner_local local/setup.py local/locks.py infra app.py \
	  bench functions tests
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q --doctest-modules layers/joiner/python/joiner cli/joiner_cli local/joiner_local infra bench
	$(BIN)/python -m pytest -q --doctest-modules -o python_files=none tests
	$(BIN)/python -m infra.linters
	node_modules/.bin/cdk synth --quiet -c cluster=example
	node_modules/.bin/cdk synth --quiet -c cluster=local
