//! Real processes for tests and the demo. A process ends when its handle is dropped, and the last lines of its log are
//! shown if a test fails.

mod child;
mod clients;
mod envoy;
mod find;
mod postgres;
mod sidecar;
mod wait;

pub use child::Child;
pub use clients::{Outcome, PythonClient};
pub use envoy::Envoy;
pub use find::{axe_script, binary, envoy_binary, envoy_version, free_address, trap_module, wasm_module};
pub use postgres::{PASSWORD, Postgres};
pub use sidecar::{Sidecar, SidecarOptions};
pub use wait::{wait_until, wait_until_some};
