# Two commands: `make run` and `make test`. Both create .venv from requirements.lock when it is missing.
PYTHON ?= python3
TORCH := torch==2.13.0
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: run test long lint cluster docs numbers lock clean

run: .venv/installed
	$(BIN)/beyond-perplexity run

# A thread that waits for another in a loop would keep the tests beside it from their core.
test: export OMP_WAIT_POLICY := passive
test: export OPENBLAS_NUM_THREADS := 1
test: .venv/installed
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile tests/unit
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/workflow

# What is too long for every submission: levels by simulation, plans of thousands of jobs.
long: .venv/installed
	$(BIN)/python -m pytest -s tests/long

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/mypy
	$(BIN)/snakemake --lint

cluster: .venv/installed
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/cluster

# The documentation, into site/; a warning is an error.
docs: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# The numbers and the picture that pages give of the default run, from results/ (or RESULTS).
numbers: .venv/installed
	$(BIN)/python docs/making/run_numbers.py
	$(BIN)/python docs/making/picture.py

.venv/installed: requirements.lock pyproject.toml
	$(PYTHON) -c "import sys; ok = (3, 11) <= sys.version_info < (3, 13); sys.exit(0 if ok else 'Python 3.11 or 3.12 is needed: make PYTHON=python3.12')"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements.lock
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

# Resolves pyproject.toml anew; torch first, so that a build that fits the machine is taken. It
# stays out of the lock: each of its builds has hashes, and CUDA libraries, of its own.
lock:
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet $(TORCH) uv
	.venv-lock/bin/python -m pip install --quiet --editable '.[dev,docs,all]'
	.venv-lock/bin/python -m pip freeze --exclude-editable | grep -vE '^(torch=|uv=|nvidia-|triton|cuda-)' \
	| .venv-lock/bin/uv pip compile --quiet --no-deps --generate-hashes --no-header --no-annotate --output-file requirements.lock -
	rm -rf .venv-lock

clean:
	rm -rf results/* .snakemake
