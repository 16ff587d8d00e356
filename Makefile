# One virtual environment in .venv, exact versions from constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests start many processes, and pytest rewrites every test: compiled files are kept, whatever the shell has set.
export PYTHONDONTWRITEBYTECODE =

.PHONY: setup demo figures test quick portable check lint types mutants bench clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

demo: setup        ## grow a zoo on the embedded digits and compare it with its reference learners
	$(BIN)/zoo demo

figures: setup     ## all that is made of results/: the picture of the README, the reproduction, every figure in build/
	$(BIN)/zoo paper --runs results --write REPRODUCTION.md --beyond docs/beyond.md
	$(BIN)/zoo report results --html build/results.html
	$(BIN)/python docs/front_picture.py results docs
	$(BIN)/python docs/growing_picture.py results docs

test: setup        ## everything under tests/, the doctests of the modules and of the README
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist worksteal

quick: setup       ## the tests without what is slow by nature, about a minute
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist worksteal -m "not slow"

portable: setup    ## parts of the tests as machines of other kinds run them: instructions, paths, signals, encodings, load
	$(BIN)/python tests/portable.py

lint: setup
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

check: lint types test  ## all that a change must pass

mutants: setup     ## break the library in one place at a time: which break does no test notice? (ten minutes)
	$(BIN)/python tests/mutate.py

bench: setup       ## speed against a bare loop and against peers, one table each (some minutes on a quiet machine)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
