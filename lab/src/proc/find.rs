//! Finds binaries, and free ports for them.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

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
    let path = target().join("wasm32-wasip1/wasm/agent_kill_switch.wasm");
    assert!(path.is_file(), "{} is missing: run `make module`, or set WASM_MODULE", path.display());
    path
}

/// The module with its `trap` feature, which no release has: `WASM_MODULE_TRAP`, or built here.
///
/// It is built without optimisation, so that it shares its dependencies with the tests that run as WebAssembly, and lies
/// in another folder than the module that is shipped.
pub fn trap_module() -> PathBuf {
    if let Some(given) = std::env::var_os("WASM_MODULE_TRAP") {
        return PathBuf::from(given);
    }
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.current_dir(root()).args(["rustc", "--package", "agent-kill-switch", "--lib", "--crate-type", "cdylib"]);
    build.args(["--target", "wasm32-wasip1", "--features", "trap", "--quiet"]);
    let built = build.status().unwrap_or_else(|error| panic!("cannot run cargo: {error}"));
    assert!(built.success(), "the module with the trap feature cannot be built: {build:?}");
    target().join("wasm32-wasip1/debug/agent_kill_switch.wasm")
}

/// Cargo's folder.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// An address on the loopback interface at which nobody listens. For processes that must come back at the same port, or
/// that cannot say which port they were given.
///
/// Linux takes the ports of outgoing connections and of listeners on port 0 from a range that begins at 32768. Ports
/// below it are given to nobody by chance, so this one is still free when its process begins to listen, even much later.
/// Each test process begins its search elsewhere, so that two that run at once do not find the same port.
pub fn free_address() -> SocketAddr {
    const PORTS: Range<u32> = 20_000..32_000;
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(67);
    let mut addresses = PORTS.map(|_| {
        let step = begin.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed)) % (PORTS.end - PORTS.start);
        SocketAddr::from((Ipv4Addr::LOCALHOST, (PORTS.start + step) as u16))
    });
    let free = addresses.find(|address| TcpListener::bind(address).is_ok());
    free.expect("the loopback interface has a free port")
}
