# The main commands are `make demo`, `make test` and `make bench`. They install what they need.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

WASM_TARGET := wasm32-wasip1
MODULE := $(or $(CARGO_TARGET_DIR),target)/$(WASM_TARGET)/wasm/agent_kill_switch.wasm

.PHONY: help demo test check module sidecar envoy chromium screenshots fuzz faults deny bench detection images \
  push-images compose-demo dist publish fmt clean test-envoys manifest-fields

help: ## this list of targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 18

demo: module sidecar envoy ## real Envoy, sidecar, mock LLM, a healthy and a looping agent (ONCE=1 ends by itself)
	cargo build -p lab --bin demo
	cargo run -q -p lab --bin demo -- $(if $(ONCE),--once) \
	  $(if $(ENVOY_PORT),--envoy-port $(ENVOY_PORT)) $(if $(SIDECAR_PORT),--sidecar-port $(SIDECAR_PORT))

test: toolchain ## every check and every test, and a summary of what passed, failed and was skipped
	@tools/test

test-envoys: module sidecar ## the tests with every supported Envoy, and the table in docs/compatibility.md (ONLY=1.36.4)
	tools/test-envoys $(ONLY)

check: toolchain ## formatting and lints
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

module: toolchain ## the filter, as a WebAssembly module
	cargo rustc --lib --crate-type cdylib --profile wasm --target $(WASM_TARGET)
	@tools/shrink $(MODULE) $(MODULE)
	@echo "$(MODULE): $$(stat -c %s $(MODULE)) bytes"

sidecar: toolchain ## the sidecar, for the demo
	cargo build -p kill-switch

chromium: ## Chromium and its driver, if they can be installed
	@tools/get-chromium

screenshots: toolchain chromium ## the screenshots in the documentation
	SCREENSHOTS=$(CURDIR)/docs/screenshots cargo test -p kill-switch --test it browser::screenshots

envoy: ## a real Envoy: ENVOY_BIN, the one on PATH, or a pinned one
	@tools/get-envoy >/dev/null

# Uses libFuzzer with the address sanitizer if cargo-fuzz is installed, and otherwise random mutations on stable Rust.
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

FAULTS_SECONDS ?= 300
FAULTS_AGENTS ?= 500
faults: module sidecar envoy ## faults and load with real processes (ONLY=link, crash, ...; WRITE=1 updates the docs)
	cargo build -p lab --bin faults
	cargo run -q -p lab --bin faults -- --seconds $(FAULTS_SECONDS) --agents $(FAULTS_AGENTS) \
	  $(if $(ONLY),--only $(ONLY)) $(if $(WRITE),--write docs/reliability.md)

deny: toolchain ## licences, duplicate versions, sources and advisories of the dependencies (installs cargo-deny once)
	@tools/deny

bench: toolchain ## measure every number in docs/benchmarks.md (QUICK=1; ONLY=pipeline, envoy, streaming, scale, ...)
	tools/bench $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

# A folder of recordings in a format that `kill-switch replay` reads; its subfolders are read too.
TRACES ?= ../shared/traces
detection: toolchain ## compare loop detectors on recordings, for docs/detection-benchmark.md (TRACES=FOLDER)
	cargo run --quiet --release -p bench --no-default-features --features detection --bin detection -- --traces $(TRACES)

# The registry and folder of the images, with a slash at the end: IMAGE_PREFIX=registry.example.com/team/
IMAGE_PREFIX ?=
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
REVISION = $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
# Where the source code is, for the labels of the images.
SOURCE ?= $(shell git config --get remote.origin.url 2>/dev/null || echo unknown)
IMAGES = $(IMAGE_PREFIX)agent-kill-switch:$(VERSION) $(IMAGE_PREFIX)kill-switch:$(VERSION)
BUILD_IMAGE = docker build --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) --build-arg SOURCE=$(SOURCE)
images: ## the module (for Istio, Envoy Gateway and Higress) and the sidecar as OCI images
	$(BUILD_IMAGE) --target module --tag $(word 1,$(IMAGES)) .
	$(BUILD_IMAGE) --target sidecar --tag $(word 2,$(IMAGES)) .

# Uses the login of docker. In continuous integration, set REGISTRY, REGISTRY_USER and REGISTRY_PASSWORD instead.
push-images: images ## pushes both images to the registry of IMAGE_PREFIX, and signs them with cosign if it is installed
	tools/push-images $(IMAGES)

# Compose v2 is a plugin of docker. Compose 1.29 is a separate command.
COMPOSE = $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)
compose-demo: ## the demo in containers (ONCE=1 ends by itself; MONITORING=1 adds Prometheus and Grafana)
	$(COMPOSE) $(if $(MONITORING),--profile monitoring) up --build $(if $(ONCE),--exit-code-from demo)

dist: toolchain ## a release in dist/: module, sidecar, SBOM, checksums
	tools/dist

publish: dist ## puts dist/ on GitHub as the release of the tag vVERSION (needs the command gh and its login)
	gh release create v$(VERSION) --verify-tag --title v$(VERSION) --notes "See CHANGELOG.md." dist/*

manifest-fields: ## tests/fixtures/manifest-fields.json from the published schemas in CRDS
	"$$(tools/get-clients manifests)" tools/manifests/fields.py $(or $(CRDS),../shared/crds) >tests/fixtures/manifest-fields.json.new
	mv tests/fixtures/manifest-fields.json.new tests/fixtures/manifest-fields.json

fmt: ## format everything
	cargo fmt --all

clean: ## remove what was built
	cargo clean

.PHONY: toolchain
toolchain:
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust 1.90 or later with rustup" >&2; exit 1; }
	@rustup target list --installed 2>/dev/null | grep -qx $(WASM_TARGET) || rustup target add $(WASM_TARGET)
	@command -v cc >/dev/null || { apt-get update -qq && apt-get install -y -qq gcc; }
