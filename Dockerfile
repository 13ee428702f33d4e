# All images of the project, from one build:
#   module   the filter as an OCI image for Istio, Envoy Gateway and Higress, which contains only /plugin.wasm
#   sidecar  kill-switch, linked statically, in an otherwise empty image
#   envoy    the official Envoy with the filter and the demo's configuration
#   lab      the mock LLM, the agents and the demo
#
# The file uses plain Dockerfile instructions only, so that every builder accepts it. Dependencies are built before the
# sources are copied: a change in the lab rebuilds only the lab, a change in the sidecar rebuilds the sidecar and the lab,
# and only a change of the dependencies rebuilds everything.

ARG RUST_IMAGE=rust:1.95-bookworm
ARG ENVOY_IMAGE=envoyproxy/envoy:v1.40.0
ARG DEBIAN_IMAGE=debian:bookworm-slim
# What the labels say. `make images` sets them.
ARG VERSION=unknown
ARG REVISION=unknown
ARG SOURCE=unknown

FROM ${RUST_IMAGE} AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends binaryen musl-tools \
 && rm -rf /var/lib/apt/lists/*
RUN rustup target add wasm32-wasip1 "$(uname -m)-unknown-linux-musl" \
 && mkdir -p /out/data
ENV CARGO_TARGET_DIR=/target CARGO_PROFILE_RELEASE_STRIP=true CARGO_PROFILE_RELEASE_DEBUG=false
WORKDIR /src

# Builds the dependencies, with empty crates in place of ours. The sidecar and the lab are always built separately. If they
# were built together, their dependencies would get the union of all features, which is a different build, and the wrong
# one for the lab.
COPY Cargo.toml Cargo.lock ./
COPY .cargo .cargo
COPY sidecar/Cargo.toml sidecar/
COPY lab/Cargo.toml lab/
COPY bench/Cargo.toml bench/
RUN for crate in . sidecar lab bench; do \
      mkdir -p "$crate/src" && touch "$crate/src/lib.rs"; \
      for file in $(sed -n 's/^path = "\(.*\.rs\)"/\1/p' "$crate/Cargo.toml"); do \
        mkdir -p "$(dirname "$crate/$file")" && echo 'fn main() {}' >"$crate/$file"; \
      done; \
    done
RUN cargo rustc --locked --lib --crate-type cdylib --profile wasm --target wasm32-wasip1
RUN cargo build --locked --release --target "$(uname -m)-unknown-linux-musl" -p kill-switch --bins
RUN cargo build --locked --release --target "$(uname -m)-unknown-linux-musl" -p lab --bins

# Touching the sources makes them newer than what was built from the empty crates.
COPY tools/shrink tools/
COPY src src
RUN find src -name '*.rs' -exec touch {} + \
 && cargo rustc --locked --lib --crate-type cdylib --profile wasm --target wasm32-wasip1 \
 && tools/shrink /target/wasm32-wasip1/wasm/agent_kill_switch.wasm /out/plugin.wasm

COPY sidecar sidecar
RUN find sidecar/src -name '*.rs' -exec touch {} + \
 && cargo build --locked --release --target "$(uname -m)-unknown-linux-musl" -p kill-switch --bins \
 && cp /target/*-unknown-linux-musl/release/kill-switch /out/

COPY lab lab
RUN find lab/src -name '*.rs' -exec touch {} + \
 && cargo build --locked --release --target "$(uname -m)-unknown-linux-musl" -p lab --bins \
 && cd /target/*-unknown-linux-musl/release && cp demo lab-agent mock-llm /out/


# Istio, Envoy Gateway and Higress read /plugin.wasm from the only layer, so this stage must have exactly one COPY.
FROM scratch AS module
ARG VERSION
ARG REVISION
ARG SOURCE
LABEL org.opencontainers.image.title="agent-kill-switch" \
      org.opencontainers.image.description="An Envoy filter that stops AI agents stuck in loops, as a WebAssembly module" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.source="$SOURCE"
COPY --from=build /out/plugin.wasm /plugin.wasm


FROM scratch AS sidecar
ARG VERSION
ARG REVISION
ARG SOURCE
LABEL org.opencontainers.image.title="kill-switch" \
      org.opencontainers.image.description="The sidecar of Agent Kill Switch: policies, events, alerts and the dashboard" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.source="$SOURCE"
# The certificates of webhooks, mail servers and databases are signed by public authorities.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/kill-switch /kill-switch
COPY LICENSE /LICENSE
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
WORKDIR /data
VOLUME /data
EXPOSE 8686
ENTRYPOINT ["/kill-switch"]
CMD ["serve", "--listen", "0.0.0.0:8686", "--db", "/data/kill-switch.db"]


FROM ${ENVOY_IMAGE} AS envoy
COPY --from=build /out/plugin.wasm /etc/envoy/agent_kill_switch.wasm
COPY deploy/compose/envoy.yaml /etc/envoy/envoy.yaml
USER 101:101
ENTRYPOINT ["envoy"]
CMD ["-c", "/etc/envoy/envoy.yaml", "--disable-hot-restart", "--log-level", "warning", "--component-log-level", "wasm:info"]


FROM ${DEBIAN_IMAGE} AS lab
COPY --from=build /out/demo /out/lab-agent /out/mock-llm /usr/local/bin/
USER 65532:65532
CMD ["mock-llm", "--listen", "0.0.0.0:8080"]
