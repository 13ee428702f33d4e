//! Finds binaries, and free ports for their processes.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::skip;

/// The exit code of scripts in `tools` that cannot install what a test needs.
pub(super) const CANNOT_INSTALL: i32 = 3;

/// Returns the root folder of the project.
pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in a folder of the project")
}

/// Returns the path of an Envoy, which `tools/get-envoy` finds or downloads.
pub fn envoy_binary() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            script("tools/get-envoy", &[]).unwrap_or_else(|code| panic!("tools/get-envoy ended with {code}"))
        })
        .clone()
}

/// Returns the major and the minor version of [`envoy_binary`].
pub fn envoy_version() -> (u32, u32) {
    let output = Command::new(envoy_binary()).arg("--version").output().expect("Envoy runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // The text is `version: COMMIT/1.40.0/Clean/RELEASE/BoringSSL` after the path of the binary.
    let found = text.rsplit("version: ").next().and_then(|version| version.split('/').nth(1));
    let mut numbers = found.unwrap_or_default().split('.').map(|number| number.parse().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor),
        _ => panic!("{text} does not name the version"),
    }
}

/// Returns the path of axe-core's script, which `tools/get-axe` installs on first use. Returns `None`, and notes that the test
/// is skipped, if it cannot be installed.
pub fn axe_script() -> Option<PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| match script("tools/get-axe", &[]) {
        Ok(path) => Some(path),
        Err(CANNOT_INSTALL) => None,
        Err(code) => panic!("tools/get-axe ended with {code}"),
    });
    if found.is_none() {
        skip::missing("axe-core cannot be installed (tools/get-axe says why), so pages were not checked with it");
    }
    found.clone()
}

/// Runs a script that prints a path. What it writes to stderr is shown, since its first run may take a while. The error is
/// the exit code of the script.
pub(super) fn script(name: &str, arguments: &[&str]) -> Result<PathBuf, i32> {
    let path = root().join(name);
    let output = Command::new(&path).args(arguments).stderr(Stdio::inherit()).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {}: {error}", path.display()));
    if !output.status.success() {
        return Err(output.status.code().unwrap_or(-1));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// Returns the path of a binary of this workspace: the value of the environment variable, or the file that cargo has built
/// next to the running program.
pub fn binary(name: &str, variable: &str) -> PathBuf {
    if let Some(given) = std::env::var_os(variable) {
        return PathBuf::from(given);
    }
    // Programs are in target/debug, and tests are one level below, in target/debug/deps.
    let own = std::env::current_exe().expect("the path of the running program is known");
    let found = own.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} is not built next to {}: build it, or set {variable}", own.display()))
}

/// Returns the path of the filter's module: the value of `WASM_MODULE`, or the file that `make module` builds.
pub fn wasm_module() -> PathBuf {
    if let Some(given) = std::env::var_os("WASM_MODULE") {
        return PathBuf::from(given);
    }
    let path = target().join("wasm32-wasip1/wasm/agent_kill_switch.wasm");
    assert!(path.is_file(), "{} is missing: run `make module`, or set WASM_MODULE", path.display());
    path
}

/// Returns the path of the module with the feature `trap`, which is never released: the value of `WASM_MODULE_TRAP`, or a
/// module that is built here.
///
/// It is built without optimisation, so that it shares its dependencies with the tests that run as WebAssembly, and does
/// not overwrite the module that is released.
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

/// Returns cargo's target folder.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns a free address on the loopback interface, for processes that are restarted at the same port or cannot report
/// which port they have taken.
///
/// For outgoing connections and for listeners on port 0, Linux takes ports from a range that begins at 32768. The ports
/// here are below that range, so the port stays free until its process listens, even if that is much later. Each test
/// process begins its search at a different port, so that two processes do not find the same one.
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
