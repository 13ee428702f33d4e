//! Where the binaries are, and free ports for them.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The project's root, of which this crate is a folder.
pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the project")
}

/// An Envoy: `tools/get-envoy` finds or fetches it.
pub fn envoy_binary() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND
        .get_or_init(|| script("tools/get-envoy").unwrap_or_else(|code| panic!("tools/get-envoy ended with {code}")))
        .clone()
}

/// Runs a script that prints one path. Its complaints go to our stderr, so that a first run shows its progress.
pub(super) fn script(name: &str) -> Result<PathBuf, i32> {
    let path = root().join(name);
    let output = Command::new(&path).stderr(Stdio::inherit()).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {}: {error}", path.display()));
    if !output.status.success() {
        return Err(output.status.code().unwrap_or(-1));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// A binary of this workspace: the environment variable's value, or what lies in cargo's folder beside the caller.
pub fn binary(name: &str, variable: &str) -> PathBuf {
    if let Some(given) = std::env::var_os(variable) {
        return PathBuf::from(given);
    }
    // A test runs as target/debug/deps/test-1a2b, an example or binary one or two levels further up.
    let own = std::env::current_exe().expect("a process knows its own file");
    let found = own.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} is not built beside {}: build it, or set {variable}", own.display()))
}

/// The filter's module: `WASM_MODULE`, or where `make module` puts it.
pub fn wasm_module() -> PathBuf {
    if let Some(given) = std::env::var_os("WASM_MODULE") {
        return PathBuf::from(given);
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let path = target.join("wasm32-wasip1/wasm/agent_kill_switch.wasm");
    assert!(path.is_file(), "{} is missing: run `make module`, or set WASM_MODULE", path.display());
    path
}

/// The module with its `trap` feature, which no release has: `WASM_MODULE_TRAP`, or built here. Slow only once.
pub fn trap_module() -> PathBuf {
    if let Some(given) = std::env::var_os("WASM_MODULE_TRAP") {
        return PathBuf::from(given);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // A folder of its own: it must never be taken for the module that is shipped.
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from).join("trap");
    let mut build = Command::new(cargo);
    build.current_dir(root()).args(["rustc", "--package", "agent-kill-switch", "--lib", "--crate-type", "cdylib"]);
    build
        .args(["--release", "--target", "wasm32-wasip1", "--features", "trap", "--quiet", "--target-dir"])
        .arg(&target);
    let built = build.status().unwrap_or_else(|error| panic!("cannot run cargo: {error}"));
    assert!(built.success(), "the module with the trap feature cannot be built: {build:?}");
    target.join("wasm32-wasip1/release/agent_kill_switch.wasm")
}

/// An address on the loopback interface that is free now. For processes that cannot take port 0, or that must come
/// back at the same port.
pub fn free_address() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("the loopback interface has a free port");
    listener.local_addr().expect("a bound listener has an address")
}
