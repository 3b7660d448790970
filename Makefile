# Every target installs what it needs, and installs only into .venv and the Maven cache.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help preflight setup demo demo-kafka check docs test bench prove fuzz soak golden lock clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Spark's workers use this interpreter: the `python3` on the PATH may lack pyarrow.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYTHON

ARGS ?=

help: ## list the targets
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

setup: preflight $(VENV)/.jars ## install the locked packages into .venv and the locked jars into the Maven cache

demo: setup ## run the demo: kill and restart a pipeline from files to Delta and PostgreSQL
	@$(BIN)/holdfast demo $(ARGS)

demo-kafka: setup ## run the demo with a real Kafka broker instead of files
	@$(BIN)/holdfast demo --kafka $(ARGS)

check: setup ## check format, lint, types, layers and the generated reference pages
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python tools/generate_docs.py --check

docs: setup ## generate the reference pages from the code
	@$(BIN)/python tools/generate_docs.py

test: setup ## run all tests in two processes, file by file (ARGS=-n0: in one process)
	@$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

bench: setup ## run the benchmarks against plain Spark
	@$(BIN)/python -m bench $(ARGS)

prove: setup ## kill drivers with every sink at every point, also on S3, HDFS and emulated clouds (needs Go and npm)
	@$(BIN)/python -m pytest -m prove $(ARGS)

SECONDS ?= 120
fuzz: setup ## fuzz every decoder with damaged and guided bytes, for SECONDS each
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check atheris==3.0.0 \
		|| echo "atheris is not available for this Python: fuzzing with damaged bytes only"
	@$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(ARGS)

SEEDS ?= 1 2 3 4 5
soak: setup ## run the demo with more kills and several SEEDS, from files and from Kafka
	@for seed in $(SEEDS); do \
		$(BIN)/holdfast demo --seed $$seed --kills 6 --json $(ARGS) || exit 1; \
		$(BIN)/holdfast demo --seed $$seed --kills 6 --json --kafka $(ARGS) || exit 1; \
	done

golden: setup ## write tests/checkpoints again with Spark 2.1 to 4.3 (takes an hour, 6 GB in .golden, a JDK and a Java 8)
	@$(BIN)/python -m tools.golden $(ARGS)

lock: setup ## update the locked packages and jars
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--custom-compile-command "make lock" --output-file requirements.txt requirements.in
	@$(BIN)/python tools/lock_jars.py

clean: ## remove everything that was built here, except the Maven cache
	@rm -rf $(VENV) .golden build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
