# `make demo` and `make test` work on a fresh clone; everything they need goes into .venv.
#   make demo [ARGS=--no-inductor]   install, compile and run real functions, print the table, write demo-output/
#   make test [ARGS=tests/codegen]   install, run the test-suite in WORKERS processes (2), a file in one
#   make fuzz [FUZZ=--programs=50000]  random programs, on all processors: eager, the reference interpreter and C++
#                                    must agree; --seed=S --workers=N; without --programs for 10 minutes
#   make bench [ARGS=--quick]        speed beside eager and torch.compile; table, bench-output/bench.json and .svg
#   make bench-gpu [ARGS=--models]   the same on a GPU, beside a copy of as many bytes; bench-output/gpu.json
#   make docs                        the book and the reference as a site, site/; a warning is an error
#   make lint                        ruff, and mypy on the package
# PYTHON=python3.12 chooses the interpreter that .venv is made with.

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check install -c constraints.txt

.PHONY: help demo test fuzz bench bench-gpu docs lint install clean

help:
	@sed -n 's/^# \{0,1\}//p' Makefile

demo: $(INSTALLED)
	$(BIN)/minicompile demo $(ARGS)

test: $(INSTALLED)
	$(BIN)/python -m tests.inspect.browser
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

fuzz: $(INSTALLED)
	$(BIN)/python -m tests.fuzz --workers=0 $(FUZZ) $(ARGS)

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks $(ARGS)

bench-gpu: $(INSTALLED)
	$(BIN)/python -m benchmarks.gpu $(ARGS)

docs: $(INSTALLED)
	$(PIP) --no-build-isolation -e '.[docs]'
	$(BIN)/mkdocs build --strict

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/mypy

install: $(INSTALLED)

# Without build isolation: pip would fetch setuptools again, into a folder of its own, and not heed the constraints.
$(INSTALLED): pyproject.toml setup.py constraints.txt $(shell find minicompile -name '*.[ch]')
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) setuptools wheel
	$(PIP) --no-build-isolation -e '.[test]'
	touch $@

clean:
	rm -rf $(VENV) build site demo-output bench-output
