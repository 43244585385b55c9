# make run     set up what is missing, then serve the hub on http://127.0.0.1:$(PORT)
# make test    set up what is missing, then run every test (ARGS="-k name" for some)
# The work is in the `nbgpu` command (hub/nbgpu/machine); this file only makes the virtual environment for it.

PORT ?= 8000
DATA ?= .nbgpu
CONFIG ?= nbgpu.toml
ARGS ?=
ROUNDS ?= 50
ONLY ?=
JSON ?=
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help run setup test chaos bench check format lock texts down purge

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' Makefile | expand -t 16

run: $(STAMP)  ## serve the hub (PORT=8000 DATA=.nbgpu CONFIG=nbgpu.toml); Ctrl-C stops it, notebooks go on
	@exec $(BIN)/nbgpu run --port $(PORT) --data "$(DATA)" --config "$(CONFIG)"

setup: $(STAMP)  ## bring what the machine lacks, without running anything
	@$(BIN)/nbgpu setup

test: $(STAMP)  ## run every test, with the real Docker engine and a real browser (ARGS="-k name")
	@$(BIN)/nbgpu setup --for-tests
	@.ci/focus-validator $(VENV)/focus
	@$(BIN)/python -m pytest $(ARGS)

chaos: $(STAMP)  ## kill -9 the hub fifty times at each step of a start and a stop (hours; ROUNDS=5 for fewer)
	@$(BIN)/nbgpu setup --for-tests
	@NBGPU_CHAOS_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest tests/chaos

bench: $(STAMP)  ## measure against yardsticks in one run (ONLY=spawn.cold JSON=file)
	@$(BIN)/nbgpu setup --for-tests
	@PYTHONPATH=tests $(BIN)/python -m bench --only "$(ONLY)" $(if $(JSON),--json "$(JSON)")

check: $(STAMP)  ## lint, format, types, import contracts, packaging
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m pytest -q tests/packaging

format: $(STAMP)  ## rewrite the code in the house format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

lock: $(STAMP)  ## write constraints.txt anew from the ranges in pyproject.toml
	@.ci/lock $(VENV)

texts: $(STAMP)  ## bring the message catalogues up to date with the code
	@.ci/texts $(VENV)

down: $(STAMP)  ## end the hub of DATA and its notebooks; homes stay
	@$(BIN)/nbgpu down --data "$(DATA)" --config "$(CONFIG)"

purge: $(STAMP)  ## down, then delete the homes and DATA too (asks first; YES=1 does not ask)
	@$(BIN)/nbgpu purge --data "$(DATA)" $(if $(YES),--yes)

# The stamp is written last: an interrupted install is taken up again by the next `make`.
$(STAMP): pyproject.toml constraints.txt .ci/make-venv
	@.ci/make-venv $(VENV)
	@touch $@
