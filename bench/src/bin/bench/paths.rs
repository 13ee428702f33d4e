//! The paths of the files that `make bench` has built, in cargo's folders next to this program.

use std::path::{Path, PathBuf};

/// Returns the project's folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in a folder of the project")
}

/// Returns a native program that is measured.
pub fn measured(name: &str) -> PathBuf {
    built(&format!("measured/{name}"))
}

/// Returns the module that is measured in V8.
pub fn measured_module() -> PathBuf {
    built("wasm32-wasip1/measured-wasm/bench.wasm")
}

/// Returns the filter that does nothing.
pub fn noop_module() -> PathBuf {
    built("wasm32-wasip1/wasm/examples/noop.wasm")
}

fn built(file: &str) -> PathBuf {
    let own = std::env::current_exe().expect("the path of the running program is known");
    let path = own.ancestors().nth(2).expect("the program is in the folder of a profile").join(file);
    assert!(path.is_file(), "{} is missing: `make bench` builds it", path.display());
    path
}
