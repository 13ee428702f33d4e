//! `kill-switch doctor`: what stands between a loop and its end, checked from here.
//!
//! Every check runs, whatever the ones before it found, so that one call shows everything that must be mended.

use clap::Args;
use serde_json::{Value, json};

use super::CliError;
use super::client::{Connection, cause};
use super::output::{Format, Output, print, print_json, table};
use crate::api::MARKER;
use crate::clock::system_clock;
use crate::store::Location;

#[derive(Args, Debug)]
pub(super) struct DoctorOptions {
    /// Database to check, a SQLite file or postgres://...; left out where the server runs elsewhere
    #[arg(long, env = "KILL_SWITCH_DB", value_name = "FILE|URL", hide_env_values = true)]
    db: Option<Location>,
    /// Envoy's admin interface, such as http://127.0.0.1:9901
    #[arg(long, value_name = "URL")]
    envoy_admin: Option<String>,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// One thing that was looked at.
struct Check {
    name: &'static str,
    outcome: Outcome,
    detail: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Ok,
    Warn,
    Fail,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
        }
    }
}

impl Check {
    fn of(name: &'static str, found: Result<String, String>) -> Self {
        match found {
            Ok(detail) => Self { name, outcome: Outcome::Ok, detail },
            Err(detail) => Self { name, outcome: Outcome::Fail, detail },
        }
    }
}

impl DoctorOptions {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let http = self.connection.http()?;
        let mut checks = Vec::new();
        if let Some(location) = &self.db {
            checks.push(Check::of("database", database(location).await));
        }
        let base = self.connection.base();
        checks.push(Check::of("server", server(&http, &base).await));
        checks.push(Check::of("ready", ready(&http, &base).await));
        checks.push(self.envoys().await);
        if let Some(admin) = &self.envoy_admin {
            checks.push(Check::of("envoy admin", admin_ready(&http, admin).await));
        }
        self.report(&checks)
    }

    /// Whether any Envoy hears what the server says; needs a token that may look.
    async fn envoys(&self) -> Check {
        let name = "envoys";
        let listed = match self.connection.client() {
            Ok(client) => client.get("/v1/envoys").await,
            Err(error) => Err(error),
        };
        match listed {
            Ok(listed) => connected(&listed),
            Err(error) => Check { name, outcome: Outcome::Fail, detail: error.to_string() },
        }
    }

    fn report(&self, checks: &[Check]) -> Result<(), CliError> {
        match self.output.format {
            Format::Json => {
                let shown = checks.iter().map(|check| {
                    let status = check.outcome.word().to_lowercase();
                    json!({"check": check.name, "status": status, "detail": check.detail})
                });
                print_json(&shown.collect::<Value>())?;
            }
            Format::Table => {
                let rows: Vec<_> = checks
                    .iter()
                    .map(|check| [check.name.to_owned(), check.outcome.word().to_owned(), check.detail.clone()])
                    .collect();
                print(&table(["CHECK", "STATUS", "DETAIL"], &rows))?;
            }
        }
        let failed = checks.iter().filter(|check| check.outcome == Outcome::Fail).count();
        if failed == 0 { Ok(()) } else { Err(CliError::Unhealthy { failed, checks: checks.len() }) }
    }
}

fn connected(listed: &Value) -> Check {
    let name = "envoys";
    let current = listed.get("current_rev").and_then(Value::as_u64).unwrap_or_default();
    let envoys = listed.get("envoys").and_then(Value::as_array).cloned().unwrap_or_default();
    let is = |envoy: &&Value| envoy.get("connected").and_then(Value::as_bool).unwrap_or_default();
    let here: Vec<_> = envoys.iter().filter(is).collect();
    let has_all = |envoy: &&&Value| envoy.get("applied_rev").and_then(Value::as_u64) == Some(current);
    let up_to_date = here.iter().filter(has_all).count();
    let detail = format!("{} connected, {up_to_date} of them at revision {current}", here.len());
    let outcome = if here.is_empty() || up_to_date < here.len() { Outcome::Warn } else { Outcome::Ok };
    Check { name, outcome, detail }
}

async fn database(location: &Location) -> Result<String, String> {
    if location.file().is_some_and(|path| !path.exists()) {
        return Err(format!("{location}: there is no such file"));
    }
    let store = location.open().await.map_err(|error| format!("{location}: {error}"))?;
    let now_ms = system_clock()();
    let checked = store.check_writable(now_ms).await;
    let meta = store.meta().await;
    store.close().await;
    checked.map_err(|error| error.to_string())?;
    let meta = meta.map_err(|error| error.to_string())?;
    Ok(format!("{location} can be written; revision {}", meta.rev))
}

async fn server(http: &reqwest::Client, base: &str) -> Result<String, String> {
    let url = format!("{base}/healthz");
    let response = http.get(&url).send().await.map_err(|error| format!("{base}: {}", cause(&error)))?;
    let version = response.headers().get(MARKER).and_then(|version| version.to_str().ok());
    match version {
        Some(version) => Ok(format!("kill-switch {version} at {base}")),
        None => Err(format!("{base}: something else listens there")),
    }
}

async fn ready(http: &reqwest::Client, base: &str) -> Result<String, String> {
    let response = http.get(format!("{base}/readyz")).send().await.map_err(|error| cause(&error))?;
    match response.status().as_u16() {
        200 => Ok("its database can be written".to_owned()),
        status => Err(format!("answers {status}: its database cannot be written")),
    }
}

async fn admin_ready(http: &reqwest::Client, admin: &str) -> Result<String, String> {
    let url = format!("{}/ready", admin.trim_end_matches('/'));
    let response = http.get(&url).send().await.map_err(|error| format!("{url}: {}", cause(&error)))?;
    let status = response.status();
    let text = response.text().await.unwrap_or_default();
    let said = text.trim();
    if status.is_success() && said == "LIVE" {
        return Ok(format!("{admin} is LIVE"));
    }
    Err(format!("{url} answers {status}: {said}"))
}
