//! Everything that is deployed: manifests, images, the demo in containers, alert rules, the dashboard and the workflows.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test fails by panicking

mod demo;
mod fields;
mod images;
mod meshes;
mod monitoring;
mod schemas;
mod sidecar;
mod support;
mod versions;
mod workflows;
