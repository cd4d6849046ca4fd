# Every target runs in .venv, made from requirements.lock. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The user's own JAVA_HOME is what set-up asks; all else runs with the Java that set-up found good.
USER_JAVA_HOME := $(JAVA_HOME)
export JAVA_HOME = $(or $(shell cat .venv/java-home 2>/dev/null),$(USER_JAVA_HOME))
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export PYSPARK_PYTHON := $(CURDIR)/.venv/bin/python
export PYSPARK_DRIVER_PYTHON := $(CURDIR)/.venv/bin/python
export SPARK_CONF_DIR := $(CURDIR)/conf
export SPARK_LOCAL_IP ?= 127.0.0.1
SEEDS ?= 0 20
export AIRFLOW_HOME ?= $(CURDIR)/.airflow
export GX_ANALYTICS_ENABLED := False
# Another Spark or other modules on this machine must not get in between.
unexport SPARK_HOME
unexport PYTHONPATH

.PHONY: help setup setup-tests demo test check accept bench fuzz airflow lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup: ## make .venv from the lock, find or install Java, fetch Spark's jars; quick when all is there
	@JAVA_HOME="$(USER_JAVA_HOME)" scripts/setup.sh

setup-tests: # … and redis-server, which tests alone need
	@JAVA_HOME="$(USER_JAVA_HOME)" scripts/setup.sh tests

demo: setup ## the main job on real flights: stream, results, gate, report
	@headrace demo

test: setup-tests ## every test, by two processes
	@pytest --numprocesses 2 --dist loadgroup

check: setup ## lint, format, types, import contracts
	ruff check
	ruff format --check
	mypy
	lint-imports

accept: setup ## write the golden files anew; read their diff before you commit them
	@pytest tests/golden --accept

bench: setup ## Headrace beside hand-written Spark, Spark batch and DuckDB
	@python -m benchmarks.run

fuzz: setup ## random pipelines against the baseline; SEEDS="first count [joins]"
	@python -m tests.fuzz.run $(SEEDS)

airflow: setup ## Airflow on loopback with the DAGs ready; Ctrl-C stops it
	@python scripts/airflow.py

lock: setup ## resolve requirements.in and conf/jars.in anew
	uv pip compile --upgrade --python-version 3.11 --excludes requirements.excludes --generate-hashes requirements.in -o requirements.lock
	uv pip sync --require-hashes requirements.lock
	python scripts/fetch_jars.py --lock

clean: ## remove what runs, tests and checks leave behind; keeps .venv and .jars
	rm -rf .airflow .headrace .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf build spark-warehouse metastore_db derby.log .coverage .coverage.*
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
