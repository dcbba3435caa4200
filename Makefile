# make quickstart   pre-train on real images in a few minutes, print kNN and linear accuracy, draw a picture
# make test         lint, types and the default tests
# Each target is one or two plain commands; the README lists them for people without make.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_FLAGS ?= --quiet --disable-pip-version-check
# What to install, e.g. `.[cpu,test]`: the CPU wheel only where no Paddle is found, so that a GPU wheel is never replaced.
WITH = $(shell $(BIN)/python -c "import importlib.util as u, sys; \
  e = ([] if u.find_spec('paddle') else ['cpu']) + sys.argv[1:]; print('.[' + ','.join(e) + ']' if e else '.')" $(1))

.PHONY: quickstart test lint types clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python requirements.txt setup.py pyproject.toml
	$(BIN)/python -m pip install $(PIP_FLAGS) -e "$(call WITH)"
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/python -m pip install $(PIP_FLAGS) -e "$(call WITH,test)"
	@touch $@

quickstart: $(VENV)/.installed
	$(BIN)/python tools/quickstart.py

test: $(VENV)/.installed-test lint types
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pylint passl tools benchmarks tests

types: $(VENV)/.installed-test
	$(BIN)/mypy

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache
