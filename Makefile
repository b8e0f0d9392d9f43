# The words everybody knows. Each sets up by itself what it needs: an empty machine with CPython 3.11
# or newer, git and make is enough. `make demo` needs nothing at all beyond that.

.DEFAULT_GOAL := help
.PHONY: help setup servers demo demo-ops test test-all coverage check format models sim sim-redlock mutants soak bench bench-quick docs clean

# This tree and no other, also where an environment is shared between trees.
export PYTHONPATH := $(CURDIR)/src

FIND   = python=$$(scripts/python) &&
SETUP  = $(FIND) "$$python" scripts/setup.py
VENV   = .venv/bin
# A server that cannot be had leaves its workloads out, by name; the others are measured.
BENCH  = $(FIND) "$$python" scripts/setup.py .venv-bench bench --alone bench-alone --apart bench-apart && \
         { .venv-bench/bin/python scripts/fetch_servers.py redis zookeeper memcached mariadb mysql etcd postgresql || true; } && \
         .venv-bench/bin/python -m benchmarks
# How long the simulator looks for faults, and how long the real faults go on.
SEEDS ?= 0:2000
SCHEDULES ?= 0:1000000
DURATION ?= 120
# How many mutants are judged at a time.
JOBS ?= 1

help:            ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

setup:           ## make .venv with everything for development
	@$(SETUP)

servers: setup   ## fetch the servers of the tests into .servers; nothing is installed
	@$(VENV)/python scripts/fetch_servers.py

demo:            ## see Locknut work, in under a minute; nothing is installed
	@$(FIND) "$$python" examples/demo.py

demo-ops: setup  ## see a day of trouble in the dashboard, on file: and on a Redis of its own
	@$(VENV)/python scripts/fetch_servers.py redis
	@$(VENV)/python scripts/demo_ops.py $(ARGS)

test:            ## run what every change must pass, on python3, in about ten minutes
	@$(FIND) "$$python" scripts/run_tests.py $(ARGS)

test-all:        ## run what `make test` leaves out: the long tests, those that need root, other CPythons
	@$(FIND) "$$python" scripts/run_tests.py --rest $(ARGS)

coverage:        ## run `make test` under coverage; fail below the floor of branches in pyproject.toml
	@$(FIND) "$$python" scripts/run_tests.py --coverage $(ARGS)

check: setup     ## run ruff, its formatter, and mypy
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check .
	@$(VENV)/mypy

format: setup    ## let ruff repair what it can
	@$(VENV)/ruff check --fix .
	@$(VENV)/ruff format .

models: setup    ## check all states of the TLA+ models of Redlock
	@$(VENV)/python scripts/fetch_servers.py zookeeper
	@$(VENV)/python scripts/check_models.py $(ARGS)

sim: setup       ## run the simulator: many clients, virtual time, SEEDS=0:2000
	@$(VENV)/python -m tests.simulation --seeds $(SEEDS)
	@$(VENV)/python -m tests.simulation --seeds $(SEEDS) --engine redis --jobs 2
	@$(VENV)/python -m tests.simulation --seeds $(SEEDS) --engine redlock --size duel --jobs 2
	@$(VENV)/python -m tests.simulation --seeds $(SEEDS) --engine sql --jobs 2
	@$(VENV)/python -m tests.simulation --seeds $(SEEDS) --engine sql-session --jobs 2
	@$(VENV)/python -m tests.simulation --seeds $(SEEDS) --engine sql-mixed --size bout --jobs 2
	@$(VENV)/python -m tests.simulation --seeds $(SEEDS) --engine memcached --size bout --jobs 2
	@$(VENV)/python -m tests.simulation --seeds $(SEEDS) --engine etcd --jobs 2

sim-redlock: setup  ## simulate a million schedules of Redlock overnight, or SCHEDULES=0:1000000
	@nice $(VENV)/python -m tests.simulation --seeds $(SCHEDULES) --engine redlock --size duel \
	  --jobs $$(nproc)

mutants: setup   ## make small wrong changes, each of which a test must notice: hours, or ARGS="core file-break"
	@nice $(VENV)/python scripts/mutants.py --jobs $(JOBS) $(ARGS)

soak: setup      ## try real kills, stops, forks, breaks, failovers and swaps for DURATION=120 seconds
	@LOCKNUT_SOAK_SECONDS=$(DURATION) $(VENV)/python -m pytest tests/faults --timeout=0 $(ARGS)

bench:           ## measure speed beside the bare limit and other libraries, as pages in docs/benchmarks
	@$(BENCH) --report docs/benchmarks $(ARGS)

bench-quick:     ## the same, shorter, in build/benchmarks
	@$(BENCH) --quick --report build/benchmarks $(ARGS)

docs: setup      ## build the site in build/site (strict: every link leads somewhere), and run its examples
	@NO_MKDOCS_2_WARNING=1 $(VENV)/python -m mkdocs build --quiet
	@$(VENV)/python -m pytest tests/contracts/test_documentation.py $(ARGS)

clean:           ## remove everything that these commands made
	@rm -rf .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* build dist .servers
	@find src tests examples scripts -name __pycache__ -type d -prune -exec rm -rf {} +
