//! `kill-switch doctor`: checks everything that must work for a loop to be stopped.
//!
//! All checks run even if some of them fail, so that one call shows everything that must be repaired.

use agent_kill_switch::printable::printable;
use clap::Args;
use serde_json::{Value, json};

use super::CliError;
use super::client::{ServerOptions, without_user};
use super::output::{Format, list, print, print_json, table};
use super::pause::sentence;
use crate::api::MARKER;
use crate::clock::system_clock;
use crate::http_client::cause;
use crate::store::Location;

#[derive(Args, Debug)]
pub(super) struct DoctorOptions {
    /// Database to check, a SQLite file or postgres://...; leave it out if the server runs on another machine
    #[arg(long, env = "KILL_SWITCH_DB", value_name = "FILE|URL", hide_env_values = true)]
    db: Option<Location>,
    /// Envoy's admin interface, such as http://127.0.0.1:9901
    #[arg(long, value_name = "URL")]
    envoy_admin: Option<String>,
    #[command(flatten)]
    server: ServerOptions,
}

/// One check and what it found.
struct Check {
    name: &'static str,
    status: &'static str,
    detail: String,
}

const OK: &str = "ok";
const WARN: &str = "warn";
const FAIL: &str = "FAIL";

impl Check {
    fn new(name: &'static str, found: Result<String, String>) -> Self {
        match found {
            Ok(detail) => Self { name, status: OK, detail },
            Err(detail) => Self { name, status: FAIL, detail },
        }
    }
}

impl DoctorOptions {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let http = self.server.http()?;
        let mut checks = Vec::new();
        if let Some(location) = &self.db {
            checks.push(Check::new("database", database(location).await));
        }
        checks.push(Check::new("server", server(&http, &self.server).await));
        checks.push(Check::new("ready", ready(&http, &self.server.base()).await));
        checks.push(self.envoys().await);
        checks.push(self.pause().await);
        if let Some(admin) = &self.envoy_admin {
            checks.push(Check::new("envoy admin", admin_ready(&http, admin).await));
        }
        self.report(&checks)
    }

    /// Checks whether Envoys poll the server. This needs a token with the scope viewer.
    async fn envoys(&self) -> Check {
        match async { self.server.client()?.get("/v1/envoys").await }.await {
            Ok(listed) => check_envoys(&listed),
            Err(error) => Check::new("envoys", Err(error.to_string())),
        }
    }

    /// Checks whether the fleet is paused. This needs a token with the scope viewer.
    async fn pause(&self) -> Check {
        match async { self.server.client()?.get("/v1/pause").await }.await {
            Ok(pause) => {
                let is_paused = pause.get("paused").and_then(Value::as_bool) == Some(true);
                Check { name: "pause", status: if is_paused { WARN } else { OK }, detail: sentence(&pause) }
            }
            Err(error) => Check::new("pause", Err(error.to_string())),
        }
    }

    fn report(&self, checks: &[Check]) -> Result<(), CliError> {
        match self.server.format {
            Format::Json => {
                let shown = checks.iter().map(|check| {
                    let status = check.status.to_lowercase();
                    json!({"check": check.name, "status": status, "detail": check.detail})
                });
                print_json(&shown.collect::<Value>())?;
            }
            Format::Table => {
                let rows = checks
                    .iter()
                    .map(|check| [check.name.to_owned(), check.status.to_owned(), printable(&check.detail)]);
                print(&table(["CHECK", "STATUS", "DETAIL"], rows))?;
            }
        }
        let failed = checks.iter().filter(|check| check.status == FAIL).count();
        if failed == 0 { Ok(()) } else { Err(CliError::Unhealthy { failed, checks: checks.len() }) }
    }
}

fn check_envoys(listed: &Value) -> Check {
    let current = listed.get("current_rev").and_then(Value::as_u64).unwrap_or_default();
    let mut connected = list(listed, "envoys");
    connected.retain(|envoy| envoy.get("connected").and_then(Value::as_bool) == Some(true));
    let is_up_to_date = |envoy: &&Value| envoy.get("applied_rev").and_then(Value::as_u64) == Some(current);
    let up_to_date = connected.iter().filter(is_up_to_date).count();
    let detail = format!("{} connected, {up_to_date} of them at revision {current}", connected.len());
    let is_ok = !connected.is_empty() && up_to_date == connected.len();
    Check { name: "envoys", status: if is_ok { OK } else { WARN }, detail }
}

async fn database(location: &Location) -> Result<String, String> {
    if location.file().is_some_and(|path| !path.exists()) {
        return Err(format!("{location}: there is no such file"));
    }
    let store = location.open().await.map_err(|error| format!("{location}: {error}"))?;
    let now_ms = system_clock()();
    let checked = store.check_writable(now_ms).await;
    let meta = store.meta().await;
    let unreadable = store.unreadable_rows().await;
    store.close().await;
    checked.map_err(|error| error.to_string())?;
    let meta = meta.map_err(|error| error.to_string())?;
    let unreadable = unreadable.map_err(|error| error.to_string())?;
    if unreadable > 0 {
        return Err(format!(
            "{location}: {unreadable} agents or alert rules cannot be read; the server's log names them"
        ));
    }
    Ok(format!("{location} can be written; revision {}", meta.rev))
}

async fn server(http: &reqwest::Client, options: &ServerOptions) -> Result<String, String> {
    let (url, shown) = (format!("{}/healthz", options.base()), options.shown());
    let response = http.get(&url).send().await.map_err(|error| format!("{shown}: {}", cause(&error)))?;
    let version = response.headers().get(MARKER).and_then(|version| version.to_str().ok());
    match version {
        Some(version) => Ok(format!("kill-switch {version} at {shown}")),
        None => Err(format!("{shown}: something else listens there")),
    }
}

async fn ready(http: &reqwest::Client, base: &str) -> Result<String, String> {
    let response = http.get(format!("{base}/readyz")).send().await.map_err(|error| cause(&error))?;
    let status = response.status().as_u16();
    if status == 200 {
        return Ok("its database can be written".to_owned());
    }
    let problem: Value = response.json().await.unwrap_or_default();
    let detail = problem.get("detail").and_then(Value::as_str).unwrap_or("its database cannot be written");
    Err(format!("answers {status}: {detail}"))
}

/// Asks Envoy's admin interface whether Envoy is live.
async fn admin_ready(http: &reqwest::Client, admin: &str) -> Result<String, String> {
    let url = format!("{}/ready", admin.trim_end_matches('/'));
    let (admin, shown) = (without_user(admin), without_user(&url));
    let response = http.get(&url).send().await.map_err(|error| format!("{shown}: {}", cause(&error)))?;
    let status = response.status();
    let text = response.text().await.unwrap_or_default();
    let said = text.trim();
    if status.is_success() && said == "LIVE" {
        return Ok(format!("{admin} is LIVE"));
    }
    Err(format!("{shown} answers {status}: {said}"))
}
