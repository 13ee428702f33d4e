//! The command line's side of the API.
//!
//! The token comes from the environment or a file and never from an argument: arguments are visible to every user of
//! the machine.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Certificate, Method, Response};
use serde_json::Value;

use super::CliError;
use crate::api::MARKER;

const TIMEOUT: Duration = Duration::from_secs(30);
/// What may stand in a path segment as it is.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Which server, as whom.
#[derive(Args, Clone, Debug)]
pub(super) struct Connection {
    /// Where the sidecar is
    #[arg(
        long,
        env = "KILL_SWITCH_SERVER",
        default_value = "http://127.0.0.1:8686",
        value_name = "URL",
        global = true
    )]
    pub(super) server: String,
    /// File that holds the token; without it, the token is taken from KILL_SWITCH_TOKEN
    #[arg(long, env = "KILL_SWITCH_TOKEN_FILE", value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
    /// Certificate to trust besides the system's, PEM
    #[arg(long, env = "KILL_SWITCH_CA", value_name = "FILE", global = true)]
    ca: Option<PathBuf>,
}

/// A server, and the right to ask it.
pub(super) struct Client {
    base: String,
    token: String,
    http: reqwest::Client,
}

impl Connection {
    /// Everything that requests need; no request is made yet.
    pub(super) fn client(&self) -> Result<Client, CliError> {
        Ok(Client { base: self.base(), token: self.token()?, http: self.http()? })
    }

    pub(super) fn base(&self) -> String {
        self.server.trim_end_matches('/').to_owned()
    }

    /// The bare client, for those who need no token.
    pub(super) fn http(&self) -> Result<reqwest::Client, CliError> {
        // Somebody else may have installed a provider before; any will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder().timeout(TIMEOUT).redirect(reqwest::redirect::Policy::none());
        if let Some(path) = &self.ca {
            let cannot = |reason: String| CliError::File { path: path.clone(), reason };
            let pem = std::fs::read(path).map_err(|error| cannot(error.to_string()))?;
            let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| cannot(error.to_string()))?;
            builder = builder.tls_certs_merge(certificates);
        }
        builder.build().map_err(|error| CliError::Unreachable { url: self.base(), reason: cause(&error) })
    }

    fn token(&self) -> Result<String, CliError> {
        let token = match &self.token_file {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| CliError::File { path: path.clone(), reason: error.to_string() })?,
            None => std::env::var("KILL_SWITCH_TOKEN").unwrap_or_default(),
        };
        let token = token.trim();
        if token.is_empty() { Err(CliError::NoToken) } else { Ok(token.to_owned()) }
    }
}

impl Client {
    /// Asks, and takes whatever a success says; nothing is null.
    pub(super) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, CliError> {
        self.send_if(method, path, body, None).await
    }

    /// The same under a condition: a header and its value.
    pub(super) async fn send_if(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        condition: Option<(&str, &str)>,
    ) -> Result<Value, CliError> {
        let mut request = self.http.request(method, format!("{}{path}", self.base)).bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.json(body);
        }
        if let Some((name, value)) = condition {
            request = request.header(name, value);
        }
        let unreachable =
            |error: reqwest::Error| CliError::Unreachable { url: self.base.clone(), reason: cause(&error) };
        let response = request.send().await.map_err(unreachable)?;
        if !response.headers().contains_key(MARKER) {
            let reason = format!("something answers {} there, but it is not a kill-switch", response.status());
            return Err(CliError::Unreachable { url: self.base.clone(), reason });
        }
        answer(response).await
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, CliError> {
        self.send(Method::GET, path, None).await
    }
}

async fn answer(response: Response) -> Result<Value, CliError> {
    let status = response.status();
    let text = response.text().await.unwrap_or_default();
    let body: Value = serde_json::from_str(&text).unwrap_or_default();
    if status.is_success() {
        return Ok(body);
    }
    let detail = body.get("detail").and_then(Value::as_str).unwrap_or(&text).to_owned();
    Err(match status.as_u16() {
        401 | 403 => CliError::Unauthorised { detail },
        404 => CliError::NotFound { detail },
        400..=499 => CliError::Refused { detail },
        status => CliError::Server { status, detail },
    })
}

/// The innermost reason: the outer ones only say that something went wrong.
pub(super) fn cause(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// The path of an agent, whatever its id holds.
pub(super) fn agent_path(agent_id: &str, rest: &str) -> String {
    format!("/v1/agents/{}{rest}", utf8_percent_encode(agent_id, SEGMENT))
}

/// The path of a token.
pub(super) fn token_path(token_id: &str) -> String {
    format!("/v1/tokens/{}", utf8_percent_encode(token_id, SEGMENT))
}

/// The path of an alert rule.
pub(super) fn rule_path(rule_id: &str) -> String {
    format!("/v1/alerts/{}", utf8_percent_encode(rule_id, SEGMENT))
}

/// A query string of what is given.
pub(super) fn query(params: &[(&str, Option<String>)]) -> String {
    let given = params.iter().filter_map(|(name, value)| {
        value.as_ref().map(|value| format!("{name}={}", utf8_percent_encode(value, SEGMENT)))
    });
    given.collect::<Vec<_>>().join("&")
}
