# `make help` lists what there is and how long it takes. CARGO_TARGET_DIR is honoured.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TARGET := $(or $(CARGO_TARGET_DIR),target)
RELEASE := $(TARGET)/release
COLDSTREAM := $(RELEASE)/coldstream
DRIVER := $(RELEASE)/coldstream-rocksdb-driver
LIBRARY := $(RELEASE)/libcoldstream.so
STATIC_DRIVER := $(RELEASE)/coldstream-rocksdb-driver-static
LEVELDB_DRIVER := $(RELEASE)/coldstream-leveldb-driver
PEBBLE_DRIVER := $(RELEASE)/coldstream-pebble-driver
LINKED := $(RELEASE)/libcoldstream_io
DRIVER_SOURCES := $(wildcard crates/lab/driver/*.cc crates/lab/driver/*.h crates/lab/driver/*/*.h)
# Both are built of the same files, with an engine's folder in front: crates/lab/driver/driver.cc.
DRIVER_FLAGS := -std=c++17 -Wall -Wextra -pthread
FOR_ROCKSDB := -I crates/lab/driver/rocksdb
FOR_LEVELDB := -I crates/lab/driver/leveldb
PEBBLE_DRIVER_SOURCES := $(wildcard crates/lab/pebble-driver/*.go crates/lab/pebble-driver/go.*)

PREFIX ?= /usr/local
CXX ?= c++
CXXFLAGS ?= -O2 -g
LAB_ARGS ?=
SUITES_ARGS ?=
FUZZ_SECONDS ?= 5
ARCH ?= $(shell uname -m)

.PHONY: help setup build libraries cassandra drivers driver static-driver leveldb-driver pebble-driver check lint test test-nodes doc deny msrv loom nightly miri sanitize fuzz suites models rocksdb-suites test-plugin demo lab bench install uninstall package image \
    test-packages test-packaged-library test-start-script test-pod test-aarch64 test-kernel clean

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/' | expand -t 23

build: ## Build the command, the library and the load drivers; needs rustup and a C++ compiler (3 min)
	@scripts/setup build
	cargo build --release --workspace
	@$(MAKE) --no-print-directory drivers

# Those that others load or link. The command, which is most of a release build, is not among them.
libraries:
	cargo build --release --package coldstream-preload --package coldstream-capi

DRIVERS := driver static-driver leveldb-driver pebble-driver
drivers:
	@$(MAKE) --no-print-directory --jobs=$$(nproc) $(DRIVERS)

driver: $(DRIVER)

$(DRIVER): $(DRIVER_SOURCES)
	@mkdir -p $(RELEASE)
	$(CXX) $(DRIVER_FLAGS) $(CXXFLAGS) $(FOR_ROCKSDB) $(filter %.cc,$^) -ldl -o $@

leveldb-driver: $(LEVELDB_DRIVER)

$(LEVELDB_DRIVER): $(DRIVER_SOURCES)
	@mkdir -p $(RELEASE)
	$(CXX) $(DRIVER_FLAGS) $(CXXFLAGS) $(FOR_LEVELDB) $(filter %.cc,$^) -ldl -o $@

# Debian's librocksdb-dev has the static library, and what it needs.
static-driver: ## Build the RocksDB driver as a static program, which cannot be preloaded (skipped without librocksdb.a)
	@if $(CXX) -static -lrocksdb -o /dev/null -x c++ - <<< 'int main() {}' 2>/dev/null; then \
	    $(MAKE) --no-print-directory $(STATIC_DRIVER); \
	else \
	    echo "skipped: no static RocksDB: the static driver cannot be built"; \
	fi

$(STATIC_DRIVER): $(DRIVER_SOURCES)
	@mkdir -p $(RELEASE)
	$(CXX) $(DRIVER_FLAGS) $(CXXFLAGS) $(FOR_ROCKSDB) -static -DDRIVER_LINKED $(filter %.cc,$^) \
	    -lrocksdb -lsnappy -llz4 -lzstd -lbz2 -lz -o $@

# Static: no C compiler, and no preload library reaches it.
pebble-driver: ## Build the driver of Pebble; needs Go (skipped without it)
	@if said=$$(scripts/has-go); then \
	    $(MAKE) --no-print-directory $(PEBBLE_DRIVER); \
	else \
	    echo "skipped: $$said"; \
	fi

$(PEBBLE_DRIVER): $(PEBBLE_DRIVER_SOURCES)
	@mkdir -p $(RELEASE)
	cd crates/lab/pebble-driver && \
	    CGO_ENABLED=0 GOTOOLCHAIN=local go build -trimpath -o $(abspath $(PEBBLE_DRIVER)) .

check: lint ## Format, circles of modules, prose, links, promises, clippy, unit tests: before each commit (1 min when warm)
	PROPTEST_RNG_SEED=1 PROPTEST_CASES=32 cargo test --quiet --no-fail-fast --profile checked --workspace --lib --bins

lint: ## All of `check` but the unit tests
	cargo fmt --all --check
	scripts/check-circles
	scripts/check-prose
	scripts/check-links
	scripts/check-promises
	cargo clippy --quiet --profile checked --workspace --all-targets -- -D warnings

# Tests load the library that is released. They are compiled for speed of compiling: profile `checked` in Cargo.toml.
# Clippy and the documents use the same profile: what both compile (macros, build scripts) is compiled once.
CHECKED := $(TARGET)/checked
# Without `MAKEFLAGS` cargo does not look for make's jobs.
TESTS = $(if $(COLDSTREAM_LONG),,PROPTEST_RNG_SEED=1) COLDSTREAM_LIBRARY=$(abspath $(LIBRARY)) MAKEFLAGS= \
    cargo test --profile checked
test: setup ## Run everything: lint, all tests, models, fuzzing, documents (40 min)
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target libraries $(DRIVERS) cassandra
	@$(MAKE) --no-print-directory lint doc
	@$(MAKE) --no-print-directory --jobs=2 suites models

# In their order: each fills the processors, or waits for what only it may use.
suites:
	@mkdir -p $(CHECKED) && cp --update $(RELEASE)/coldstream-*-driver* $(CHECKED)/
	$(TESTS) --workspace -- --skip differential::
	@# It waits for devices most of the time.
	RUST_TEST_THREADS=$$((3 * $$(nproc))) $(TESTS) --workspace --test differential
	scripts/test-rocksdb-suites
	@$(MAKE) --no-print-directory test-plugin
	@$(MAKE) --no-print-directory test-nodes

# Beside the suites, which wait for devices and nodes half of the time. They compile: nobody waits for them.
models:
	@nice -n 19 $(MAKE) --no-print-directory --jobs=1 --output-sync=target sanitize deny loom miri fuzz msrv

# The libraries' last step, optimization across crates, has one thread.
cassandra:
	@scripts/fetch-cassandra

# `--workspace`: for one package alone Cargo would choose other features, and compile most dependencies again.
test-nodes: ## The suites on real Cassandra nodes (6 min; needs `make libraries`)
	$(TESTS) --workspace --test coldstream --test nodes

setup: ## Install the packages that tests and the demo need (apt) and the Rust toolchain
	@scripts/setup test

doc: ## Build the documents of all crates without a warning; doctests and examples too
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --profile checked --workspace --no-deps
	cargo build --quiet --profile checked --workspace --examples

# The smallest Rust that builds the project: `rust-version` in Cargo.toml.
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
msrv: ## Build with the smallest Rust that is supported (skipped where it cannot be had)
	@if ! rustup toolchain install $(MSRV) --profile minimal >/dev/null 2>&1; then \
	    echo "skipped: Rust $(MSRV) cannot be had here"; \
	else \
	    cargo +$(MSRV) check --quiet --workspace --target-dir $(TARGET)/msrv && \
	    echo "msrv: the project builds with Rust $(MSRV)"; \
	fi

deny: ## Check licences, sources and known vulnerabilities of all dependencies
	@scripts/check-dependencies $(TARGET)

loom: ## Check the lock-free maps and the futex lock in every interleaving
	RUSTFLAGS="--cfg loom" cargo test --profile checked --target-dir $(TARGET)/loom \
	    -p coldstream-io -p coldstream-engine --lib loom_

# For Miri and fuzzing, which may run side by side: one installs it.
nightly:
	@cargo +nightly miri --version >/dev/null 2>&1 || \
	    rustup toolchain install nightly --profile minimal --component miri --component rust-src || true

# Undefined behaviour in what needs no kernel. Most crates forbid unsafe code: there is none to find in them.
# Any nightly with Miri will do.
MIRI := cargo +nightly miri
miri: nightly ## Run the unsafe code that needs no kernel under Miri (skipped where no nightly can be had)
	@if ! $(MIRI) --version >/dev/null 2>&1; then \
	    echo "skipped: no nightly toolchain with Miri can be had here"; \
	else \
	    PROPTEST_CASES=4 MIRIFLAGS=-Zmiri-disable-isolation CARGO_TARGET_DIR=$(TARGET)/miri \
	        $(MIRI) test -p coldstream-io --lib -- alignment append sequence; \
	fi

SANITIZED := $(TARGET)/sanitized
sanitize: ## Run the C++ drivers under the address and undefined-behaviour sanitizers
	@mkdir -p $(SANITIZED)
	for engine in rocksdb leveldb; do \
	    $(CXX) $(DRIVER_FLAGS) -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all \
	        -I crates/lab/driver/$$engine $(filter %.cc,$(DRIVER_SOURCES)) -ldl -o $(SANITIZED)/$$engine-driver; \
	    scripts/sanitized-run $(SANITIZED)/$$engine-driver $$engine; \
	done

fuzz: nightly ## Feed random bytes to each reader of an on-disk format for FUZZ_SECONDS (default 5)
	@scripts/fuzz $(FUZZ_SECONDS) $(TARGET)

test-plugin: ## Build the RocksDB plugin and test it on Debian's RocksDB (1 min; skipped without librocksdb-dev)
	@if [ ! -e /usr/include/rocksdb/db.h ]; then \
	    echo "skipped: the RocksDB plugin needs librocksdb-dev"; \
	else \
	    cargo build --quiet --release -p coldstream-capi && \
	    $(MAKE) --no-print-directory --silent -C rocksdb-plugin test BUILD=$(abspath $(TARGET))/rocksdb-plugin \
	        COLDSTREAM_IO_LIBRARY=$(abspath $(RELEASE))/libcoldstream_io.a CXXFLAGS=-O1; \
	fi

# Source and build of RocksDB lie outside this repository: SUITES_ARGS="--source DIR --work DIR".
rocksdb-suites: $(if $(SUITES_ARGS),build) ## RocksDB's own suites and crash test under Coldstream; options in SUITES_ARGS (hours)
	scripts/rocksdb-suites --coldstream $(COLDSTREAM) $(or $(SUITES_ARGS),--help)

demo: build ## RocksDB under load and compaction, without and with Coldstream (5 min; as root)
	@scripts/setup demo
	$(COLDSTREAM) lab rocksdb --quick --runs 4 --compaction-mib-per-second 60 --work-dir demo-report/work \
	    --html demo-report/report.html --json-file demo-report/report.json \
	    --svg demo-report/percentiles.svg
	@echo 'All rows and notes: $(COLDSTREAM) lab report demo-report/report.json --all'

lab: build ## The full laboratory on RocksDB; options in LAB_ARGS (hours)
	@scripts/setup demo
	$(COLDSTREAM) lab rocksdb --cases small,third,most,large,in-memory --runs 5 \
	    --html lab-results/report.html --json-file lab-results/report.json $(LAB_ARGS)

bench: build ## Measure the scan reader, what a call costs under the library, and writers (10 min)
	cargo bench -p coldstream-io -p coldstream-preload -p coldstream-capi

BASH_COMPLETIONS := $(DESTDIR)$(PREFIX)/share/bash-completion/completions/coldstream
ZSH_COMPLETIONS := $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_coldstream
FISH_COMPLETIONS := $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/coldstream.fish
MAN := $(DESTDIR)$(PREFIX)/share/man/man1
UNITS := $(DESTDIR)$(PREFIX)/lib/systemd/system
# The command that prints man pages and completions: this machine must be able to run it.
SPEAKER ?= $(COLDSTREAM)
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# The directories that `install` has made: `uninstall` removes those of them that are empty then. No package has the list.
MADE := $(if $(DESTDIR),/dev/null,$(PREFIX)/lib/coldstream/made-directories)
DIRECTORIES := $(addprefix $(DESTDIR)$(PREFIX)/,bin include lib/coldstream lib/pkgconfig) $(MAN) $(UNITS) \
    $(patsubst %/,%,$(dir $(BASH_COMPLETIONS) $(ZSH_COMPLETIONS) $(FISH_COMPLETIONS)))
# Everybody can read these files, whatever the umask of root.
FOR_ALL := umask 022;
install: ## Install what `make build` has built under PREFIX (default /usr/local); needs nothing else
	@[[ '$(PREFIX)' == /* ]] || \
	    { echo "install: PREFIX=$(PREFIX) is relative, and a unit of systemd needs an absolute path: use PREFIX=$(abspath $(PREFIX))" >&2; exit 1; }
	@for built in $(COLDSTREAM) $(LIBRARY) $(DRIVER); do \
	    test -e $$built || { \
	        echo "install: $$built is not built: run make build first. If it was built with CARGO_TARGET_DIR=DIR," \
	            "add that: make install CARGO_TARGET_DIR=DIR" >&2; exit 1; }; \
	done
	@made=; for directory in $(DIRECTORIES); do \
	    while [[ ! -d $$directory ]]; do made+=$$directory$$'\n'; directory=$$(dirname $$directory); done; \
	done; \
	install -d $(DIRECTORIES); \
	printf '%s' "$$made" >> $(MADE)
	install -D -m 755 $(COLDSTREAM) $(DESTDIR)$(PREFIX)/bin/coldstream
	install -D -m 755 $(LIBRARY) $(DESTDIR)$(PREFIX)/lib/coldstream/libcoldstream.so
	$(if $(wildcard $(LINKED).a),install -D -m 644 $(LINKED).a $(DESTDIR)$(PREFIX)/lib/libcoldstream_io.a)
	$(if $(wildcard $(LINKED).so),install -D -m 755 $(LINKED).so $(DESTDIR)$(PREFIX)/lib/libcoldstream_io.so.1)
	$(if $(wildcard $(LINKED).so),ln -sf libcoldstream_io.so.1 $(DESTDIR)$(PREFIX)/lib/libcoldstream_io.so)
	$(if $(wildcard $(LINKED).a),install -D -m 644 crates/capi/include/coldstream.h $(DESTDIR)$(PREFIX)/include/coldstream.h)
	$(if $(wildcard $(LINKED).so),$(FOR_ALL) sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' crates/capi/coldstream_io.pc.in \
	    > $(DESTDIR)$(PREFIX)/lib/pkgconfig/coldstream_io.pc)
	$(if $(DRIVER),install -D -m 755 $(DRIVER) $(DESTDIR)$(PREFIX)/lib/coldstream/coldstream-rocksdb-driver)
	$(if $(wildcard $(LEVELDB_DRIVER)),install -D -m 755 $(LEVELDB_DRIVER) $(DESTDIR)$(PREFIX)/lib/coldstream/coldstream-leveldb-driver)
	$(if $(wildcard $(PEBBLE_DRIVER)),install -D -m 755 $(PEBBLE_DRIVER) $(DESTDIR)$(PREFIX)/lib/coldstream/coldstream-pebble-driver)
	$(FOR_ALL) $(SPEAKER) man $(MAN)
	$(FOR_ALL) $(SPEAKER) completions bash > $(BASH_COMPLETIONS)
	$(FOR_ALL) $(SPEAKER) completions zsh > $(ZSH_COMPLETIONS)
	$(FOR_ALL) $(SPEAKER) completions fish > $(FISH_COMPLETIONS)
	$(FOR_ALL) sed 's|/usr/local/|$(PREFIX)/|' contrib/systemd/coldstream-metrics.service > $(UNITS)/coldstream-metrics.service

uninstall: ## Remove what `make install` has installed
	@$(if $(DESTDIR),,sh contrib/packaging/before-remove uninstall)
	rm -f $(DESTDIR)$(PREFIX)/bin/coldstream $(MAN)/coldstream.1 $(MAN)/coldstream-*.1
	rm -f $(BASH_COMPLETIONS) $(ZSH_COMPLETIONS) $(FISH_COMPLETIONS) $(UNITS)/coldstream-metrics.service
	rm -f $(DESTDIR)$(PREFIX)/lib/libcoldstream_io.{a,so,so.1} $(DESTDIR)$(PREFIX)/include/coldstream.h
	rm -f $(DESTDIR)$(PREFIX)/lib/pkgconfig/coldstream_io.pc
	@# In this order one comes before the directory above it.
	@made=$$(sort -ru $(MADE) 2>/dev/null) || true; \
	rm -rf $(DESTDIR)$(PREFIX)/lib/coldstream; \
	for directory in $$made; do rmdir --ignore-fail-on-non-empty $$directory 2>/dev/null || true; done

package: ## Build the .deb and the .rpm for ARCH (default: this machine's); ARCH=aarch64 needs clang (15 min)
	@scripts/setup package $(ARCH)
	scripts/package $(TARGET) $(ARCH)

image: package ## An OCI image from scratch with the library and the command, for ARCH
	scripts/image $(TARGET) $(ARCH)

test-packages: package ## Install, use and remove the packages in fresh Debian roots (5 min; as root)
	@scripts/setup test-packages
	scripts/test-packages $(TARGET)

# The library is linked for an older glibc, and stripped. Its suites are the same.
STAGED := $(TARGET)/$(ARCH)-unknown-linux-musl/release/package/usr/lib/coldstream
test-packaged-library: package ## The suites of the preload library against the library of the packages (10 min)
	COLDSTREAM_LIBRARY=$(abspath $(STAGED))/libcoldstream.so PROPTEST_RNG_SEED=1 \
	    cargo test --profile checked -p coldstream-preload

test-start-script: build ## A node by the bin/cassandra of CASSANDRA_HOME, with jemalloc and the library (4 min)
	scripts/test-start-script $(TARGET)/release/coldstream $(CASSANDRA_HOME)

test-pod: image ## contrib/kubernetes without a cluster: the image and a real Cassandra in containers (2 min; as root)
	@scripts/setup test
	COLDSTREAM_IMAGE=$(abspath $(TARGET))/packages/$(ARCH)/coldstream-image.tar \
	    cargo test --profile checked -p coldstream-nodes --test coldstream pod -- --nocapture

test-aarch64: ## Suites of aarch64 on x86-64, under qemu (20 min; as root)
	@scripts/setup test-aarch64
	scripts/test-aarch64 $(TARGET)

# `apt-cache search linux-image` names others. KERNEL_SUITES are those that end in emulation within their own time limits.
KERNEL ?= linux-image-6.1.0-50-amd64
KERNEL_SUITES ?= odd_writers deleted
test-kernel: libraries ## Suites of the preload library on another KERNEL and two NUMA nodes, in a virtual machine (10 min; as root)
	@scripts/setup test-kernel
	scripts/test-kernel $(TARGET) $(KERNEL) $(KERNEL_SUITES)
	CASES=nodes:: scripts/test-kernel $(TARGET) $(KERNEL) handover

clean: ## Remove what was built and the reports
	cargo clean
	rm -rf demo-report lab-results
