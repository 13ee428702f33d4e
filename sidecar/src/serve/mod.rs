//! `kill-switch serve`: runs the service on a socket until SIGTERM or SIGINT.
//!
//! It needs no configuration: by default it uses a SQLite file in the working folder, listens on loopback, and generates
//! tokens at its first start. With PostgreSQL, several servers can share one database. What the operator must see, such
//! as new tokens, is printed to standard output; the log goes to standard error.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_kill_switch::policy::check_pause;
use axum::http::HeaderName;
use clap::Args;
use ipnet::IpNet;
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::api::{self, App};
use crate::clock::system_clock;
use crate::dashboard::{Dashboard, TrustedUsers};
use crate::service::{Limits, PUBLISH_INTERVAL, SHARE, Service, WRITE_INTERVAL};
use crate::store::Location;
use crate::telemetry::Telemetry;

mod alerts;
mod connections;
mod dashboard;
mod error;
mod http;
mod lock;
mod log;
mod proxies;
mod tls;
mod tokens;

pub use error::ServeError;
pub(crate) use lock::hold as hold_lock;

/// How often the tokens are read again, in case another process has created or revoked one.
const TOKEN_RELOAD: Duration = Duration::from_secs(2);
/// How often expired entries are deleted.
const HOUSEKEEPING: Duration = Duration::from_secs(60);
/// How often to look whether the time of a pause is up.
const PAUSE_CHECK: Duration = Duration::from_secs(1);
/// How long open requests may take to finish after SIGTERM.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// The options of `kill-switch serve`.
#[derive(Args, Clone, Debug)]
#[command(after_help = tokens::HELP)]
pub struct ServeOptions {
    /// Address to listen on; port 0 chooses a free port, which is printed
    #[arg(long, env = "KILL_SWITCH_LISTEN", default_value = "127.0.0.1:8686", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// SQLite file, which is created if needed, or postgres://user:password@host/name for several replicas. If the URL
    /// has a password, prefer the environment variable: every user of the machine can see the arguments of a process
    #[arg(
        long,
        env = "KILL_SWITCH_DB",
        default_value = "kill-switch.db",
        value_name = "FILE|URL",
        hide_env_values = true
    )]
    db: Location,
    /// Write new tokens to DIR/enforcer.token, viewer.token and operator.token instead of printing them; a token that is
    /// missing there, or not valid, is generated again
    #[arg(long, env = "KILL_SWITCH_TOKEN_DIR", value_name = "DIR")]
    token_dir: Option<PathBuf>,
    /// Certificate chain (PEM), to serve HTTPS
    #[arg(long, env = "KILL_SWITCH_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, env = "KILL_SWITCH_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// How many connections may be open; by default as many as the limit of open files allows, and at most 10000
    #[arg(long, env = "KILL_SWITCH_MAX_CONNECTIONS", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: Option<u32>,
    /// How long a connection may wait for the headers of its next request
    #[arg(long, env = "KILL_SWITCH_IDLE_TIMEOUT", default_value = "75s", value_name = "DURATION",
          value_parser = humantime::parse_duration)]
    idle_timeout: Duration,
    /// Addresses or networks of proxies whose X-Forwarded-For header tells the address of a client, separated by commas
    #[arg(long, env = "KILL_SWITCH_TRUSTED_PROXIES", value_name = "NETWORKS", value_delimiter = ',',
          value_parser = proxies::parse_network)]
    trusted_proxies: Vec<IpNet>,
    /// Header in which an authenticating proxy names the person who has signed in there, such as x-forwarded-email. That
    /// person needs no password for the dashboard, may make changes, and is named by events
    #[arg(long, env = "KILL_SWITCH_TRUSTED_USER_HEADER", value_name = "HEADER", requires = "trusted_user_from")]
    trusted_user_header: Option<HeaderName>,
    /// Addresses or networks that this header may come from, separated by commas; from elsewhere, requests with the header
    /// are refused
    #[arg(long, env = "KILL_SWITCH_TRUSTED_USER_FROM", value_name = "NETWORKS", value_delimiter = ',',
          value_parser = proxies::parse_network, requires = "trusted_user_header")]
    trusted_user_from: Vec<IpNet>,
    /// How many agents can be created by traffic
    #[arg(long, env = "KILL_SWITCH_MAX_DISCOVERED_AGENTS", default_value_t = 10_000, value_name = "N")]
    max_discovered_agents: u64,
    /// How many scores are kept for each agent
    #[arg(long, env = "KILL_SWITCH_SCORES_PER_AGENT", default_value_t = 1_000, value_name = "N")]
    scores_per_agent: u32,
    /// How many calls are kept for each agent whose kill switch is on, as fingerprints and times, for the story of a kill and
    /// for trying settings; 0 means none
    #[arg(long, env = "KILL_SWITCH_CALLS_PER_AGENT", default_value_t = 1_000, value_name = "N",
          value_parser = clap::value_parser!(u32).range(..=10_000))]
    calls_per_agent: u32,
    /// How long scores and calls are kept
    #[arg(long, env = "KILL_SWITCH_SCORE_RETENTION", default_value = "7d", value_name = "DURATION",
          value_parser = humantime::parse_duration)]
    score_retention: Duration,
    /// How long events are kept; for ever if not set
    #[arg(long, env = "KILL_SWITCH_EVENT_RETENTION", value_name = "DURATION",
          value_parser = humantime::parse_duration)]
    event_retention: Option<Duration>,
    /// How many agents and conversations may be stopped within a minute before the kill switch pauses itself and gives
    /// them back; 0 means that it never does
    #[arg(long, env = "KILL_SWITCH_STORM_KILLS", default_value_t = 20, value_name = "N")]
    storm_kills: u32,
    /// How long it pauses itself, at most 7d
    #[arg(long, env = "KILL_SWITCH_STORM_PAUSE", default_value = "1h", value_name = "DURATION",
          value_parser = storm_pause)]
    storm_pause: Duration,
    #[command(flatten)]
    alerts: alerts::AlertFlags,
    /// Format of the log
    #[arg(long, env = "KILL_SWITCH_LOG_FORMAT", value_enum, default_value_t = log::Format::Text)]
    log_format: log::Format,
    /// What is logged: a level, or levels by target, such as info,kill_switch=debug
    #[arg(long, env = "KILL_SWITCH_LOG", default_value = "info", value_name = "LEVELS")]
    log: String,
}

impl ServeOptions {
    fn trusted_users(&self) -> Option<TrustedUsers> {
        let header = self.trusted_user_header.clone()?;
        Some(TrustedUsers { header, from: self.trusted_user_from.clone() })
    }

    fn limits(&self) -> Limits {
        Limits {
            max_discovered_agents: self.max_discovered_agents,
            scores_per_agent: self.scores_per_agent,
            calls_per_agent: self.calls_per_agent,
            score_retention: self.score_retention,
            event_retention: self.event_retention,
            alert_give_up_after: self.alerts.alert_give_up_after,
            storm_kills: self.storm_kills,
            storm_pause: self.storm_pause,
        }
    }
}

/// Parses how long a storm of kills pauses the fleet, which is bounded as every pause is.
fn storm_pause(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let seconds = check_pause(duration.as_secs_f64()).map_err(|_| "must be from 1s to 7d, in whole seconds")?;
    Ok(Duration::from_secs(seconds.into()))
}

/// Runs the server until SIGTERM or SIGINT.
pub async fn serve(options: ServeOptions) -> Result<(), ServeError> {
    log::start(options.log_format, &options.log)?;
    api::install_recorder();
    let cannot_listen = |source| ServeError::Listen { address: options.listen, source };
    // Bound first, so that a start that fails because the port is in use does not create tokens that nobody sees.
    let listener = TcpListener::bind(options.listen).await.map_err(cannot_listen)?;
    let address = listener.local_addr().map_err(cannot_listen)?;
    let tls = tls::acceptor(options.tls_cert.as_deref(), options.tls_key.as_deref())?;

    let _lock = options.db.file().map(lock::hold).transpose()?;
    let cannot_open = |source| ServeError::Database { location: options.db.clone(), source };
    let store = options.db.open().await.map_err(cannot_open)?;
    let service = Arc::new(Service::new(Arc::clone(&store), system_clock(), options.limits()).await?);
    let telemetry = Telemetry::from_environment().map_err(ServeError::Telemetry)?;
    if let Some(telemetry) = &telemetry {
        telemetry.follow(&service);
    }
    let alerts = options.alerts.alerts(&service)?;
    let mut notices = tokens::prepare(&service, options.token_dir.as_deref()).await?;
    notices.extend(dashboard::prepare(&service, options.token_dir.as_deref()).await?);

    let scheme = if tls.is_some() { "https" } else { "http" };
    announce(&options, &format!("{scheme}://{address}"), &notices);
    if tls.is_none() && !address.ip().is_loopback() {
        tracing::warn!(%address, "serving plain HTTP on an address other than loopback: tokens can be read on the network");
    }
    let background = tokio::spawn(do_housekeeping(Arc::clone(&service)));
    let fleet = tokio::spawn(watch_fleet(Arc::clone(&service)));
    let retention = tokio::spawn(delete_expired(Arc::clone(&service)));
    let followed = Arc::clone(&service);
    let follower = tokio::spawn(async move { followed.follow().await });
    let courier = tokio::spawn(Arc::clone(&alerts).run());
    // Browsers also use HTTPS if a proxy in front of the sidecar does TLS.
    let is_https = tls.is_some() || options.alerts.public_url.as_deref().is_some_and(|url| url.starts_with("https://"));
    let pages = Dashboard::new(Arc::clone(&service), Arc::clone(&alerts), is_https).trusting(options.trusted_users());
    let app = crate::dashboard::beside(api::router(App::new(Arc::clone(&service), alerts)), pages);
    let app = match &telemetry {
        Some(telemetry) => telemetry.trace(app),
        None => app,
    };
    let max_connections = connections::limit(options.max_connections);
    let (idle_timeout, trusted_proxies) = (options.idle_timeout, options.trusted_proxies);
    tracing::info!(max_connections, ?idle_timeout, ?trusted_proxies, "accepting connections");
    let server = http::Server {
        app: if tls.is_some() { tls::with_strict_transport_security(app) } else { app },
        tls,
        connections: connections::Connections::new(max_connections),
        trusted_proxies: trusted_proxies.into(),
        idle_timeout,
    };
    listen(listener, server, &service).await;
    if let Err(error) = service.write_observations().await {
        tracing::error!(%error, "the last observations were not written");
    }
    for task in [background, fleet, retention, follower, courier] {
        task.abort();
    }
    store.close().await;
    if let Some(telemetry) = telemetry {
        telemetry.stop().await;
    }
    tracing::info!("stopped");
    Ok(())
}

fn announce(options: &ServeOptions, url: &str, notices: &[String]) {
    let mut out = std::io::stdout().lock();
    // Errors are ignored: the server also works if standard output is closed.
    let _ = writeln!(out, "kill-switch {}", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(out, "database {}", options.db);
    for notice in notices {
        let _ = writeln!(out, "{notice}");
    }
    let _ = writeln!(out, "listening on {url}");
    let _ = out.flush();
    tracing::info!(url, database = %options.db, "serving");
}

async fn listen(listener: TcpListener, server: http::Server, service: &Service) {
    let open = server.run(listener, terminated()).await;
    tracing::info!("stopping");
    service.stop();
    if timeout(SHUTDOWN_TIMEOUT, open.shutdown()).await.is_err() {
        tracing::warn!("stopping although some requests are still open");
    }
}

/// Waits until the process is asked to end.
async fn terminated() {
    let interrupt = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    #[cfg(unix)]
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
}

/// Runs the regular tasks of the service, for ever.
async fn do_housekeeping(service: Arc<Service>) {
    let mut reload = interval(TOKEN_RELOAD);
    let mut share = interval(SHARE);
    let mut write = interval(WRITE_INTERVAL);
    let mut pause = interval(PAUSE_CHECK);
    for ticks in [&mut reload, &mut share, &mut write, &mut pause] {
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    loop {
        let outcome = tokio::select! {
            _ = reload.tick() => service.reload_tokens().await,
            _ = share.tick() => service.share_envoys().await,
            _ = write.tick() => service.write_observations().await,
            _ = pause.tick() => service.end_expired_pause().await,
        };
        if let Err(error) = outcome {
            tracing::error!(%error, "housekeeping failed");
        }
    }
}

/// Passes on what Envoys report about calls, and looks for loops in it, for ever.
async fn watch_fleet(service: Arc<Service>) {
    let publish = async {
        let mut ticks = interval(PUBLISH_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            log_failure("reports of calls could not be passed on", service.publish_entries().await).await;
        }
    };
    let merge = async {
        loop {
            log_failure("loops over several Envoys are not recognised", service.merge_entries().await).await;
        }
    };
    tokio::join!(publish, merge);
}

/// Logs a failure, and waits a second so that the log does not fill up.
async fn log_failure(what: &str, outcome: crate::service::Result<()>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "{what}");
        sleep(Duration::from_secs(1)).await;
    }
}

/// Deletes expired entries regularly, for ever. That may take long, so nothing else waits for it.
async fn delete_expired(service: Arc<Service>) {
    let mut ticks = interval(HOUSEKEEPING);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Some(recorder) = api::install_recorder() {
            recorder.run_upkeep();
        }
        if let Err(error) = service.expire().await {
            tracing::error!(%error, "expired entries could not be deleted");
        }
    }
}
