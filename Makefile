# On a fresh machine with Python 3.10 to 3.13, git and make:
#   make demo    train a TreeLSTM on the built-in treebank
#   make test    lint, type check, tests, documentation
#   make site    the documentation alone, in build/site
# Each first makes a virtual environment in .venv; PYTHON chooses its interpreter. If there is one
# already, such as your own, it is kept, and what is missing is installed there.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# uv takes half the time of pip, but reads no settings of pip, such as another package index.
INSTALL_BY_UV = $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --editable ".[models,dev]"

export KERAS_BACKEND := tensorflow
export TF_CPP_MIN_LOG_LEVEL ?= 3
# Tests start processes that import kerasrec: what one has compiled, the next reads.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test types test-slow test-versions format bench site site-code site-html release-check setup clean

demo: $(READY)
	@$(BIN)/python models/demo.py

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest -m "not slow"
	$(MAKE) --no-print-directory --jobs 2 types site-code site-html

types: $(READY)
	$(BIN)/mypy

# With TensorFlow's and XLA's optimizations, which most other tests leave out for speed.
test-slow: $(READY)
	KERASREC_OPTIMIZED=1 $(BIN)/python -m pytest -m slow

# The default tests with the oldest and the newest TensorFlow and Keras; needs python3.10 and
# python3.13, and makes environments of its own in build/versions.
test-versions:
	$(PYTHON) -m tests.versions

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Each module of benchmarks/ that is a program.
bench: $(READY)
	for file in $$(grep -l __main__ benchmarks/*.py); do \
		$(BIN)/python -m benchmarks.$$(basename $$file .py) || exit 1; \
	done

# Runs the code of every page; a warning is an error. Needs no network.
site: $(READY)
	$(MAKE) --no-print-directory --jobs 2 site-code site-html

site-code: $(READY)
	$(BIN)/python docs/run_pages.py

site-html: $(READY)
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet \
		--doctree-dir build/doctrees docs build/site

# Builds dist/, checks it, installs it in an empty environment and runs the README there.
release-check: $(READY)
	$(BIN)/python -m pip install --quiet --editable ".[release]"
	$(BIN)/python -m tests.release_check

setup: $(READY)

# Once, and again when pyproject.toml changes. An environment that another tool made, or that was left
# half-made, may lack pip.
$(READY): pyproject.toml
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null 2>&1 || \
		$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet uv
	$(INSTALL_BY_UV) || $(BIN)/python -m pip install --quiet --editable ".[models,dev]"
	touch $@

clean:
	rm -rf .venv build dist runs *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
