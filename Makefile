# `make help` lists what there is. CARGO_TARGET_DIR is honoured.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TARGET := $(or $(CARGO_TARGET_DIR),target)
RELEASE := $(TARGET)/release
COLDSTREAM := $(RELEASE)/coldstream
DRIVER := $(RELEASE)/coldstream-rocksdb-driver
DRIVER_SOURCES := $(wildcard crates/lab/rocksdb-driver/*.cc crates/lab/rocksdb-driver/*.h)

PREFIX ?= /usr/local
CXX ?= c++
CXXFLAGS ?= -O2 -g
LAB_ARGS ?=

.PHONY: help setup build driver test lint demo lab bench install clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 18

setup: ## Install missing packages (apt) and the Rust toolchain
	@scripts/setup

build: setup ## Build the command, the preload library and the RocksDB driver
	cargo build --release --workspace
	@$(MAKE) --no-print-directory driver

driver: $(DRIVER)

$(DRIVER): $(DRIVER_SOURCES)
	@mkdir -p $(RELEASE)
	$(CXX) -std=c++17 $(CXXFLAGS) -Wall -Wextra -pthread $(filter %.cc,$^) -ldl -o $@

lint: ## Check formatting, and clippy without a warning
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

# The tests load the release library and start the release driver: build first.
test: build lint ## Run everything: lint, unit, property and integration tests
	cargo test --workspace --release

demo: build ## RocksDB under load and compaction, without and with Coldstream (under 5 minutes)
	$(COLDSTREAM) lab rocksdb --quick --runs 2 --compaction-mib-per-second 60 --work-dir demo-report/work \
	    --html demo-report/report.html --json-file demo-report/report.json

lab: build ## The full laboratory on RocksDB; options in LAB_ARGS (takes long)
	$(COLDSTREAM) lab rocksdb --cases small,third,most,large,in-memory --runs 5 \
	    --html lab-results/report.html --json-file lab-results/report.json $(LAB_ARGS)

bench: setup ## Measure the scan reader and the library's overhead
	cargo bench -p coldstream-io -p coldstream-preload

install: build ## Install under PREFIX (default /usr/local)
	install -D -m 755 $(COLDSTREAM) $(DESTDIR)$(PREFIX)/bin/coldstream
	install -D -m 755 $(DRIVER) $(DESTDIR)$(PREFIX)/lib/coldstream/coldstream-rocksdb-driver
	install -D -m 755 $(RELEASE)/libcoldstream.so $(DESTDIR)$(PREFIX)/lib/coldstream/libcoldstream.so

clean: ## Remove what was built and the reports
	cargo clean
	rm -rf demo-report lab-results
