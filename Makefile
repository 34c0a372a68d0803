# On a fresh machine with Python 3.10 to 3.13, git and make:
#   make demo    train a TreeLSTM on the embedded treebank
#   make test    lint, type check, tests
# Both first make a virtual environment in .venv; PYTHON chooses the interpreter.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

export KERAS_BACKEND := tensorflow
export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: demo test test-slow format bench setup clean

demo: $(READY)
	@$(BIN)/python models/demo.py

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -m "not slow"

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Each module of benchmarks/ that is a program.
bench: $(READY)
	for file in $$(grep -l __main__ benchmarks/*.py); do \
		$(BIN)/python -m benchmarks.$$(basename $$file .py) || exit 1; \
	done

setup: $(READY)

# Once, and again when pyproject.toml changes. --clear: a half-made environment is never reused.
$(READY): pyproject.toml
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[models,dev]"
	touch $@

clean:
	rm -rf .venv build dist runs *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
