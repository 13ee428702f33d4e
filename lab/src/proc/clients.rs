//! The official Python clients, which the scripts in `lab/clients` use.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::Value;
use tokio::process::Command;

use super::find::{CANNOT_INSTALL, root, script};
use crate::skip;

/// The result of one call of an official client, as an application sees it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Outcome {
    /// Whether the call returned an answer.
    pub ok: bool,
    /// The answer's text.
    #[serde(default)]
    pub text: Option<String>,
    /// The answer's tool calls, as `{name, arguments}`.
    #[serde(default)]
    pub tool_calls: Vec<Value>,
    /// How many pieces a streamed answer had.
    #[serde(default)]
    pub chunks: u32,
    /// The class of the exception, or empty if there was none.
    #[serde(default)]
    pub exception: String,
    /// The HTTP status in the exception.
    #[serde(default)]
    pub status: Option<u16>,
    /// The exception's message.
    #[serde(default)]
    pub message: String,
    /// How many HTTP requests the call made, including retries.
    pub attempts: u32,
}

/// A Python interpreter with the official clients.
#[derive(Clone, Debug)]
pub struct PythonClient {
    python: PathBuf,
}

impl PythonClient {
    /// Finds the Python environment with the LLM clients, and creates it on first use. Returns `None`, and notes that the
    /// test is skipped, if pip cannot install them.
    pub fn get() -> Option<PythonClient> {
        static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
        PythonClient::find("llm", &FOUND)
    }

    /// Like `get`, for the two major versions of the MCP client.
    pub fn mcp() -> Option<[PythonClient; 2]> {
        static FOUND: [OnceLock<Option<PathBuf>>; 2] = [OnceLock::new(), OnceLock::new()];
        let [first, second] = &FOUND;
        Some([PythonClient::find("mcp-1", first)?, PythonClient::find("mcp-2", second)?])
    }

    fn find(clients: &str, found: &OnceLock<Option<PathBuf>>) -> Option<PythonClient> {
        let found = found.get_or_init(|| match script("tools/get-clients", &[clients]) {
            Ok(python) => Some(python),
            Err(CANNOT_INSTALL) => None,
            Err(code) => panic!("tools/get-clients {clients} ended with {code}"),
        });
        if found.is_none() {
            skip::missing("the official Python clients cannot be installed (tools/get-clients says why)");
        }
        found.clone().map(|python| PythonClient { python })
    }

    pub fn interpreter(&self) -> &Path {
        &self.python
    }

    /// Runs `lab/clients/{library}_client.py` with these arguments against `base`, and returns the outcome of each call.
    pub async fn run(&self, library: &str, base: &str, arguments: &[&str]) -> Vec<Outcome> {
        let path = root().join(format!("lab/clients/{library}_client.py"));
        let mut command = Command::new(&self.python);
        command.arg("-B").arg(&path).args(["--base", base]).args(arguments);
        command.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        // Everything is on the loopback interface, so the clients must ignore the environment's proxies.
        for variable in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(variable);
        }
        let output = command.output().await.unwrap_or_else(|error| panic!("cannot run {}: {error}", path.display()));
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{library}_client.py {arguments:?} failed: {complaint}");
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        lines.lines().map(parse).collect()
    }
}
