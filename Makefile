# Two commands: `make run` starts the app, `make test` runs every test. Both make .venv first.
PYTHON ?= python3
BIN := .venv/bin
export HF_HUB_OFFLINE ?= 1
export OMP_NUM_THREADS ?= 1

.PHONY: run test check api clean

.venv/installed: requirements.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade-strategy only-if-needed -r requirements.txt
	touch $@

.venv/installed-dev: .venv/installed requirements-dev.txt
	$(BIN)/python -m pip install --quiet -r requirements-dev.txt
	touch $@

run: .venv/installed
	$(BIN)/python -m streamlit run app.py

test: .venv/installed-dev check
	$(BIN)/python -m pytest

check: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

ROOMS := alignment approximation batch coupling embedding export figures measure own pipeline projection session
ROOMS += settings text transformer transport view.html

api: .venv/installed-dev
	$(BIN)/python -m pdoc -o docs/api sinkviz $(addprefix sinkviz.,$(ROOMS))

clean:
	rm -rf .venv
