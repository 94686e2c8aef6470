# What people and CI call. `make` alone lists the targets.

# The first Python that is new enough; any other by `make setup PYTHON=…`.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && exit; \
	done; echo python3)
UV ?= uv
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
# How many test files are run side by side; each has a Kafka and a Spark of its own.
JOBS ?= 3

.DEFAULT_GOAL := help
.PHONY: help setup check test proofs demo bench soak chaos docs lock clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make .venv with the pinned packages and fetch the jars; at once when that is done
	@$(PYTHON) tools/setup.py

check: setup ## Lint, types, imports and unit tests; no JVM, under a minute
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) tests/unit --numprocesses $(JOBS)

test: check ## The checks, then the tests with Spark and with a real Kafka; all but `make proofs`
	$(PYTEST) tests --ignore=tests/unit -m "not long" --numprocesses $(JOBS) --dist loadfile \
		--no-loadscope-reorder --durations 20

proofs: setup ## The tests that take minutes each: processes and brokers killed again and again
	$(PYTEST) tests --ignore=tests/unit -m long

demo: setup ## A real Kafka, a stream of orders and a pipeline, for a minute
	@$(BIN)/headrace demo

bench: setup ## Headrace beside a hand-written PySpark script
	@$(BIN)/python benchmarks/run.py

soak: setup ## A first start against 20,000,000 waiting records with a driver of 1 GB
	@$(BIN)/python benchmarks/soak.py

chaos: setup ## 1,000,000 records exactly once through 50 kills and more; an hour or two, see docs/chaos.md
	@$(BIN)/python -m chaos.run $(CHAOS)

docs: setup ## Write docs/reference anew from the code; a test fails when it is stale
	@$(BIN)/python tools/reference.py

LOCK := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --upgrade

lock: setup ## Pin the newest allowed packages and all jars anew (for maintainers; needs uv)
	$(LOCK) requirements/build.in -o requirements/build.lock
	$(LOCK) pyproject.toml --extra dev -o requirements/all.lock
	$(BIN)/python tools/lock_jars.py

clean: ## Remove .venv and all caches of the tools; a folder's .headrace stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
