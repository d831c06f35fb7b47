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

.PHONY: help setup build driver test lint loom miri sanitize demo lab bench install clean

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
test: build lint ## Run everything: lint, unit, property and integration tests, models, sanitizers
	$(if $(COLDSTREAM_LONG),,PROPTEST_RNG_SEED=1) cargo test --workspace --release
	@$(MAKE) --no-print-directory loom miri sanitize

loom: ## Check the lock-free tables and the futex lock in every interleaving
	RUSTFLAGS="--cfg loom" cargo test --release --target-dir $(TARGET)/loom \
	    -p coldstream-io -p coldstream-preload --lib loom_

# Undefined behaviour in what needs no kernel. Any nightly with Miri will do.
MIRI := cargo +nightly miri
miri: ## Run the pure logic under Miri (skipped where no nightly can be had)
	@if ! $(MIRI) --version >/dev/null 2>&1 && \
	    ! rustup toolchain install nightly --profile minimal --component miri --component rust-src; then \
	    echo "skipped: no nightly toolchain with Miri can be had here"; \
	else \
	    export PROPTEST_CASES=4 MIRIFLAGS=-Zmiri-disable-isolation CARGO_TARGET_DIR=$(TARGET)/miri; \
	    $(MIRI) test -p coldstream-policy -p coldstream-control --lib && \
	    $(MIRI) test -p coldstream-io --lib -- alignment append sequence; \
	fi

SANITIZED := $(TARGET)/sanitized
sanitize: ## Run the C++ driver under the address and undefined-behaviour sanitizers
	@mkdir -p $(SANITIZED)
	$(CXX) -std=c++17 -g -O1 -Wall -Wextra -pthread -fsanitize=address,undefined \
	    -fno-sanitize-recover=all $(filter %.cc,$(DRIVER_SOURCES)) -ldl -o $(SANITIZED)/driver
	scripts/sanitized-run $(SANITIZED)/driver

demo: build ## RocksDB under load and compaction, without and with Coldstream (under 5 minutes)
	$(COLDSTREAM) lab rocksdb --quick --runs 2 --compaction-mib-per-second 60 --work-dir demo-report/work \
	    --html demo-report/report.html --json-file demo-report/report.json

lab: build ## The full laboratory on RocksDB; options in LAB_ARGS (takes long)
	$(COLDSTREAM) lab rocksdb --cases small,third,most,large,in-memory --runs 5 \
	    --html lab-results/report.html --json-file lab-results/report.json $(LAB_ARGS)

bench: setup ## Measure the scan reader, the library's overhead, and writers
	cargo build --release -p coldstream-preload
	cargo bench -p coldstream-io -p coldstream-preload

install: build ## Install under PREFIX (default /usr/local)
	install -D -m 755 $(COLDSTREAM) $(DESTDIR)$(PREFIX)/bin/coldstream
	install -D -m 755 $(DRIVER) $(DESTDIR)$(PREFIX)/lib/coldstream/coldstream-rocksdb-driver
	install -D -m 755 $(RELEASE)/libcoldstream.so $(DESTDIR)$(PREFIX)/lib/coldstream/libcoldstream.so

clean: ## Remove what was built and the reports
	cargo clean
	rm -rf demo-report lab-results
