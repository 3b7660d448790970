# Every target sets up what it needs; nothing outside .venv and the Maven cache is touched.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help preflight setup demo demo-kafka check docs test bench prove fuzz soak golden lock clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Spark's workers start the interpreter named here; a `python3` of the PATH has no pyarrow.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYTHON

ARGS ?=

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

preflight:
	@sh tools/preflight.sh

$(VENV)/.created: | preflight
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.installed: requirements.txt $(VENV)/.created
	@echo "installing the locked packages (pyspark alone is 450 MB)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	@touch $@

$(VENV)/.project: pyproject.toml $(VENV)/.installed
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.jars: src/holdfast/run/session/jars.lock $(VENV)/.project
	@echo "downloading the locked jars"
	@$(BIN)/python -m holdfast.run.session.jars
	@touch $@

setup: preflight $(VENV)/.jars ## everything into .venv, and the locked jars into the Maven cache

demo: setup ## the demo: files to Delta and PostgreSQL, killed and restarted
	@$(BIN)/holdfast demo $(ARGS)

demo-kafka: setup ## the demo from a real Kafka broker
	@$(BIN)/holdfast demo --kafka $(ARGS)

check: setup ## format, lint, types, layers, reference pages
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python tools/generate_docs.py --check

docs: setup ## write the reference pages from the code
	@$(BIN)/python tools/generate_docs.py

test: setup ## all tests, a file at a time in each of two processes (one: ARGS=-n0)
	@$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

bench: setup ## measure against plain Spark
	@$(BIN)/python -m bench $(ARGS)

prove: setup ## kill a driver of every sink at every point; also on S3, HDFS, emulated clouds (needs Go, npm)
	@$(BIN)/python -m pytest -m prove $(ARGS)

SECONDS ?= 120
fuzz: setup ## every decoder with damaged and guided bytes, until each has had SECONDS
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check atheris==3.0.0 \
		|| echo "atheris has no build for this Python: damaged bytes only"
	@$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(ARGS)

SEEDS ?= 1 2 3 4 5
soak: setup ## the demo with more kills and other seeds, from files and from Kafka
	@for seed in $(SEEDS); do \
		$(BIN)/holdfast demo --seed $$seed --kills 6 --json $(ARGS) || exit 1; \
		$(BIN)/holdfast demo --seed $$seed --kills 6 --json --kafka $(ARGS) || exit 1; \
	done

golden: setup ## have Spark 2.1 to 4.3 write tests/checkpoints anew (an hour, 6 GB in .golden, a JDK and a Java 8)
	@$(BIN)/python -m tools.golden $(ARGS)

lock: setup ## resolve requirements.in and the jars anew
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--custom-compile-command "make lock" --output-file requirements.txt requirements.in
	@$(BIN)/python tools/lock_jars.py

clean: ## remove what was built here; the Maven cache stays
	@rm -rf $(VENV) .golden build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
