//! How long the dashboard's pages take with ten thousand agents, a hundred thousand scores and twenty thousand events: from
//! the request to the last byte, and in a real Chromium until the page is loaded.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bench::stats::median;
use lab::proc::{free_address, wait_until};
use serde_json::{Value as Json, json};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use crate::options::Options;
use crate::rig;
use crate::row::{Goal, Row, Unit, Value};
use crate::scale::agents;

const AGENTS: usize = 10_000;
const SCORES_PER_AGENT: i64 = 10;
const EVENTS: i64 = 20_000;
const WEEK_MS: i64 = 7 * 24 * 3_600_000;
/// The header in which a proxy names the person, so that nobody has to sign in.
const PERSON: &str = "x-bench-user";
/// How long a page may take.
const GOAL_MS: f64 = 1_000.0;

/// Measures the pages that list or count everything.
pub async fn measure(options: &Options) -> Vec<Row> {
    let environment = [("TRUSTED_USER_HEADER", PERSON), ("TRUSTED_USER_FROM", "127.0.0.1")];
    let mut sidecar = rig::sidecar_with(&environment);
    // The first start creates the tables.
    sidecar.resume().await;
    sidecar.stop().await;
    fill(&sidecar.folder().join("kill-switch.db")).await;
    sidecar.resume().await;
    let chromium = Chromium::start().await;
    let agent = format!("/agents/{}", agents::name(AGENTS / 2).replace('/', "%2F"));
    let pages = [("overview", "/"), ("agents", "/agents"), ("an agent", &agent), ("events", "/events")];
    let mut rows = Vec::new();
    for (name, path) in pages {
        let url = format!("{}{path}", sidecar.url());
        rows.push(fetched(options, name, &url).await);
        if let Some(chromium) = &chromium {
            rows.push(chromium.opened(options, name, &url).await);
        }
    }
    rows
}

async fn fetched(options: &Options, name: &str, url: &str) -> Row {
    let http = lab::http::client();
    let (mut times, mut bytes) = (Vec::new(), 0);
    for _ in 0..options.rounds() * 4 {
        let began = Instant::now();
        let answer = http.get(url).header(PERSON, "bench").header("accept", "text/html").send().await;
        let answer = answer.unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(answer.status(), 200, "{url}");
        bytes = answer.bytes().await.unwrap_or_else(|error| panic!("{url}: {error}")).len();
        times.push(began.elapsed().as_secs_f64() * 1_000.0);
    }
    let slowest = times.iter().copied().fold(0.0, f64::max);
    let measured = format!("{} KB, the slowest took {slowest:.0} ms", bytes / 1_024);
    Row::new(format!("{name}: fetched"), measured, Value(median(&times), Unit::Milliseconds), Goal::Below(GOAL_MS))
}

/// Writes agents in all states, their scores, and the events of a week.
async fn fill(database: &Path) {
    agents::create(database, AGENTS).await;
    let options = SqliteConnectOptions::new().filename(database);
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await;
    let pool = pool.unwrap_or_else(|error| panic!("{}: {error}", database.display()));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    for (statement, numbers) in [
        (
            "UPDATE agents SET first_seen_ms = ?1 - ?2, last_seen_ms = ?1 - rev * 10, active = rev % 20 <> 0,
                 deactivated_by = CASE rev % 20 WHEN 0 THEN 'kill_switch' END, kill_switch_enabled = rev % 3 <> 0",
            WEEK_MS,
        ),
        (
            "WITH RECURSIVE numbers(number) AS (SELECT 0 UNION ALL SELECT number + 1 FROM numbers WHERE number + 1 < ?2)
             INSERT INTO scores (agent_id, at_ms, sequence, score, similar_prompts, similar_responses,
                 repeated_tool_calls)
             SELECT agent_id, ?1 - number * 1000, ?2 - number, number, number, 0, 0 FROM agents, numbers",
            SCORES_PER_AGENT,
        ),
        (
            "WITH RECURSIVE numbers(number) AS (SELECT 0 UNION ALL SELECT number + 1 FROM numbers WHERE number + 1 < ?2)
             INSERT INTO events (at_ms, event_type, agent_id, generation, actor, reason, detail)
             SELECT ?1 - (?2 - number) * (604800000 / ?2),
                 CASE number % 4 WHEN 0 THEN 'kill_switch' WHEN 1 THEN 'blocked' WHEN 2 THEN 'would_kill'
                     ELSE 'policy_changed' END,
                 printf('team-%d/agent-%06d', number % 100, number % 10000), 1, 'kill_switch',
                 'the same prompt and the same answer 5 times in the last 6 calls',
                 json_object('score', 13.5, 'threshold', 10.0, 'scope', 'agent', 'window_size', 20)
             FROM numbers",
            EVENTS,
        ),
    ] {
        let done = sqlx::query(statement).bind(now_ms).bind(numbers).execute(&pool).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    pool.close().await;
}

/// A Chromium and the driver through which it is controlled. Both end when it is dropped.
struct Chromium {
    driver: Child,
    session: String,
}

impl Chromium {
    /// Starts both. Returns `None` if there is no driver on this machine.
    async fn start() -> Option<Self> {
        let port = free_address().port();
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={port}")).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(driver) = command.spawn() else {
            eprintln!("chromedriver is not installed (tools/get-chromium), so no page is opened in a browser");
            return None;
        };
        let mut chromium = Self { driver, session: String::new() };
        let base = format!("http://127.0.0.1:{port}");
        let status = format!("{base}/status");
        wait_until("the driver is ready", Duration::from_secs(30), || async {
            lab::http::client().get(&status).send().await.is_ok_and(|answer| answer.status().is_success())
        })
        .await;
        let flags =
            ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"];
        let wanted = json!({"alwaysMatch": {"goog:chromeOptions": {"args": flags}}});
        let begun = post(&format!("{base}/session"), json!({"capabilities": wanted})).await;
        let id = begun["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {begun}"));
        chromium.session = format!("{base}/session/{id}");
        chromium.command("Network.enable", json!({})).await;
        chromium.command("Network.setExtraHTTPHeaders", json!({"headers": {PERSON: "bench"}})).await;
        Some(chromium)
    }

    async fn command(&self, name: &str, params: Json) {
        post(&format!("{}/goog/cdp/execute", self.session), json!({"cmd": name, "params": params})).await;
    }

    async fn run(&self, script: &str) -> Json {
        post(&format!("{}/execute/sync", self.session), json!({"script": script, "args": []})).await
    }

    /// Measures how long a page takes to load, with its style sheet and script.
    async fn opened(&self, options: &Options, name: &str, url: &str) -> Row {
        const LOADED: &str = "return performance.getEntriesByType('navigation')[0].loadEventEnd";
        let mut times = Vec::new();
        for _ in 0..options.rounds() {
            post(&format!("{}/url", self.session), json!({"url": url})).await;
            wait_until("the page is loaded", Duration::from_secs(30), || async {
                self.run(LOADED).await.as_f64().is_some_and(|at| at > 0.0)
            })
            .await;
            times.push(self.run(LOADED).await.as_f64().unwrap_or(f64::MAX));
            assert_eq!(self.run("return !!document.querySelector('header.top')").await, true, "{url} is the dashboard");
        }
        let measured = "until the event load, with style sheet and script";
        Row::new(
            format!("{name}: opened in Chromium"),
            measured,
            Value(median(&times), Unit::Milliseconds),
            Goal::Below(GOAL_MS),
        )
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // The driver ends its Chromium when it is asked to end.
        let _ = Command::new("kill").args(["-TERM", &self.driver.id().to_string()]).status();
        let _ = self.driver.wait();
    }
}

/// Posts to the driver and returns the value of its answer.
async fn post(url: &str, body: Json) -> Json {
    let request = lab::http::client().post(url).header("content-type", "application/json").body(body.to_string());
    let answer = request.send().await.unwrap_or_else(|error| panic!("{url}: {error}"));
    let (status, text) = (answer.status(), answer.text().await.unwrap_or_default());
    assert!(status.is_success(), "{url}: {text}");
    serde_json::from_str::<Json>(&text).unwrap_or_default()["value"].take()
}
