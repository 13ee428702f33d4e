# Three commands matter: `make demo`, `make test` and `make bench`. They set up what they need.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

WASM_TARGET := wasm32-wasip1
MODULE := $(or $(CARGO_TARGET_DIR),target)/$(WASM_TARGET)/wasm/agent_kill_switch.wasm
# Debug information down to lines is enough for a backtrace and halves the build.
export CARGO_PROFILE_DEV_DEBUG ?= line-tables-only

.PHONY: help demo test check test-native test-wasm module sidecar envoy chromium postgres screenshots fuzz bench images compose-demo dist fmt clean

help: ## what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 14

demo: module sidecar envoy ## real Envoy, sidecar, mock LLM, a healthy and a looping agent (ONCE=1 ends by itself)
	cargo build -p lab --bin demo
	cargo run -q -p lab --bin demo -- $(if $(ONCE),--once) \
	  $(if $(ENVOY_PORT),--envoy-port $(ENVOY_PORT)) $(if $(SIDECAR_PORT),--sidecar-port $(SIDECAR_PORT))

test: check test-native test-wasm ## every test, the ones against a real Envoy included
	@echo "all tests passed"

check: toolchain ## formatting and lints
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

test-native: module sidecar envoy chromium postgres ## the tests of the workspace
	cargo test --workspace --no-fail-fast

test-wasm: toolchain ## the pure tests, as the module's own target
	@if command -v node >/dev/null; then \
	  cargo test --target $(WASM_TARGET) -p agent-kill-switch --lib --test specification --test normalise; \
	else \
	  echo "SKIPPED: node is not installed, so the pure tests did not run as WebAssembly" >&2; \
	fi

module: toolchain ## the filter, as a WebAssembly module
	cargo rustc --lib --crate-type cdylib --profile wasm --target $(WASM_TARGET)
	@echo "$(MODULE): $$(stat -c %s $(MODULE)) bytes"

sidecar: toolchain ## the sidecar, for tests and the demo
	cargo build -p kill-switch

chromium: ## Chromium and its driver, where they can be installed
	@tools/get-chromium

postgres: ## PostgreSQL, where it can be installed
	@tools/get-postgres

screenshots: toolchain chromium ## the pictures of the documentation, taken anew
	cargo test -p kill-switch --test it browser::screenshots::screenshots -- --ignored --exact

envoy: ## a real Envoy: ENVOY_BIN, the one on PATH, or a pinned one
	@tools/get-envoy >/dev/null

# With cargo-fuzz installed, libFuzzer with the address sanitizer; without it, a plain mutation driver on stable Rust.
FUZZ_SECONDS ?= 20
fuzz: toolchain ## a short run of every fuzz target (FUZZ_SECONDS for each)
	@if cargo fuzz --version >/dev/null 2>&1; then \
	  cargo run --release --manifest-path fuzz/Cargo.toml --bin smoke -- --write-corpus; \
	  for target in decode sse normalise window; do \
	    RUSTC_BOOTSTRAP=1 cargo fuzz run $$target --features libfuzzer -- -max_total_time=$(FUZZ_SECONDS) || exit 1; \
	  done; \
	else \
	  cargo run --release --manifest-path fuzz/Cargo.toml --bin smoke -- --seconds $(FUZZ_SECONDS); \
	fi

bench: toolchain ## every number of docs/benchmarks.md, measured anew (QUICK=1; ONLY=pipeline, envoy, streaming, scale, ...)
	tools/bench $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

# The registry and folder before an image's name, with its slash: IMAGE_PREFIX=registry.example.com/team/
IMAGE_PREFIX ?=
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
images: ## the module (for Istio and Envoy Gateway) and the sidecar as OCI images
	docker build --target module --tag $(IMAGE_PREFIX)agent-kill-switch:$(VERSION) .
	docker build --target sidecar --tag $(IMAGE_PREFIX)kill-switch:$(VERSION) .

# Compose v2 is a plugin of docker, 1.29 a command of its own.
COMPOSE = $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)
compose-demo: ## the demo in containers (ONCE=1 ends by itself)
	$(COMPOSE) up --build $(if $(ONCE),--exit-code-from demo)

dist: toolchain ## a release in dist/: module, sidecar, SBOM, checksums
	tools/dist

fmt: ## format everything
	cargo fmt --all

clean: ## remove what was built
	cargo clean

.PHONY: toolchain
toolchain:
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust 1.90 or later with rustup" >&2; exit 1; }
	@rustup target list --installed 2>/dev/null | grep -qx $(WASM_TARGET) || rustup target add $(WASM_TARGET)
	@command -v cc >/dev/null || { apt-get update -qq && apt-get install -y -qq gcc; }
