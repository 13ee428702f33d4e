//! Several replicas over one PostgreSQL database: each of them learns what the others do, and nothing is done twice.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use agent_kill_switch::wire::SyncAnswer;
use kill_switch::service::Limits;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use tempfile::TempDir;

use crate::store::open_postgres;
use crate::support::postgres::{self, count, database, execute, shared};
use crate::support::process::{Process, binary};
use crate::support::receiver::Receiver;
use crate::support::silence::Way;
use crate::support::{Api, SOON, Sidecar, eventually, key, kill, stop};

fn replica(dir: &Path, url: &str) -> Process {
    Process::replica(dir, url, &["--allow-private-webhooks"])
}

/// Starts two processes over one database, each with its own directory.
fn pair(url: &str) -> ([Process; 2], [TempDir; 2]) {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    // They start at the same time, as replicas do.
    let processes = std::thread::scope(|scope| {
        let starting = dirs.each_ref().map(|dir| scope.spawn(|| replica(dir.path(), url)));
        starting.map(|start| start.join().unwrap())
    });
    (processes, dirs)
}

/// Lets a poll wait at one replica while something is done at another. Returns its answer, and how long after the
/// change it arrived.
async fn answer_after(
    at: &Api,
    name: &str,
    cursor: (&str, u64),
    doing: impl Future<Output = Value>,
) -> (SyncAnswer, Duration) {
    let poll = at.poll(name, cursor.0, cursor.1).await;
    doing.await;
    let done = Instant::now();
    let (answer, arrived) = poll.await.unwrap();
    (answer, arrived.saturating_duration_since(done))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_at_one_replica_wakes_the_polls_at_the_other() {
    let Some(url) = database().await else { return };
    let ([a, b], _dirs) = pair(&url);
    a.api.guarded("first").await;
    let first = b.api.sync("envoy=first").await.synced();
    assert_eq!((first.rev, first.agents.len()), (1, 1));
    let (mut cursor, mut delays) = (first.rev, Vec::new());
    for round in 0..10 {
        let id = format!("agent-{round}");
        let (news, delay) = answer_after(&b.api, &id, (&first.epoch, cursor), a.api.guarded(&id)).await;
        assert_eq!(news.agents.iter().map(|agent| agent.agent_id.as_str()).collect::<Vec<_>>(), [id.as_str()]);
        assert!(!news.full);
        cursor = news.rev;
        delays.push(delay);
    }
    println!("woken after {delays:?}");
    // On an idle machine it takes a few milliseconds. A replica that was not woken looks only after five seconds.
    assert!(delays.iter().min().unwrap() < &Duration::from_millis(500), "{delays:?}");
}

#[tokio::test]
async fn a_filter_can_move_from_one_replica_to_the_other() {
    let Some(url) = database().await else { return };
    let ([a, b], _dirs) = pair(&url);
    for round in 0..20 {
        a.api.guarded(&format!("agent-{round}")).await;
        let at_a = a.api.sync("").await.synced();
        // The other replica may not have noticed the commit yet.
        let cursor = format!("epoch={}&since={}", at_a.epoch, at_a.rev);
        assert_eq!(b.api.sync(&cursor).await.status, 304, "round {round}");
    }
}

#[tokio::test]
async fn a_loop_that_is_reported_to_both_replicas_is_one_kill() {
    let Some(url) = database().await else { return };
    let ([a, b], _dirs) = pair(&url);
    for round in 0..20 {
        let id = format!("agent-{round}");
        a.api.guarded(&id).await;
        let (at_a, at_b) = tokio::join!(
            a.api.report("/v1/kills", kill(&format!("a{round}"), &id, 1)),
            b.api.report("/v1/kills", kill(&format!("b{round}"), &id, 1)),
        );
        let (at_a, at_b) = (at_a.ok(), at_b.ok());
        let outcomes = BTreeSet::from([at_a["outcome"].as_str().unwrap(), at_b["outcome"].as_str().unwrap()]);
        assert_eq!(outcomes, BTreeSet::from(["applied", "duplicate"]), "round {round}");
        assert_eq!(at_a["event_id"], at_b["event_id"]);
        // The same report is sent again, to the replica that did not get it before.
        let again = b.api.report("/v1/kills", kill(&format!("a{round}"), &id, 1)).await.ok();
        assert_eq!((&again["outcome"], &again["event_id"]), (&json!("duplicate"), &at_a["event_id"]));
        for api in [&a.api, &b.api] {
            assert_eq!(api.events(&format!("agent_id={id}&event_type=kill_switch")).await.len(), 1);
            assert_eq!(api.agent(&id).await["deactivated_by"], "kill_switch");
        }
    }
}

#[tokio::test]
async fn a_conversation_that_is_reported_to_both_replicas_is_stopped_once() {
    let Some(url) = database().await else { return };
    let ([a, b], _dirs) = pair(&url);
    a.api.put("/v1/agents/bot", json!({"scope": "session", "escalate_after": 5})).await.ok();
    for session in 1..=5 {
        let (at_a, at_b) = tokio::join!(
            a.api.report("/v1/kills", stop(&format!("a{session}"), "bot", session)),
            b.api.report("/v1/kills", stop(&format!("b{session}"), "bot", session)),
        );
        let (at_a, at_b) = (at_a.ok(), at_b.ok());
        let outcomes = BTreeSet::from([at_a["outcome"].as_str().unwrap(), at_b["outcome"].as_str().unwrap()]);
        let first = if session == 5 { "applied" } else { "stopped" };
        assert_eq!(outcomes, BTreeSet::from([first, "duplicate"]), "session {session}");
    }
    for api in [&a.api, &b.api] {
        assert_eq!(api.events("agent_id=bot&event_type=kill_switch").await.len(), 6);
        assert_eq!(api.agent("bot").await["active"], false);
        assert_eq!(api.get("/v1/agents/bot/sessions").await.ok()["sessions"].as_array().unwrap().len(), 5);
    }
    let synced = b.api.sync("envoy=edge").await.synced();
    let resume = async { a.api.post(&format!("/v1/agents/bot/sessions/{}/resume", key(1)), json!({})).await.ok() };
    let (news, _) = answer_after(&b.api, "patient", (&synced.epoch, synced.rev), resume).await;
    let told = news.agents[0].stopped_sessions.last().unwrap();
    assert_eq!((&told.key, told.until_ms, told.releases), (&key(1), 0, 1), "the release reaches the other replica");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_alert_is_delivered_once_by_one_replica() {
    const KILLS: usize = 30;
    let Some(url) = database().await else { return };
    let ([a, b], _dirs) = pair(&url);
    let receiver = Receiver::start().await;
    a.api.post("/v1/alerts", json!({"channel": "webhook", "target": receiver.url})).await.ok();
    for round in 0..KILLS {
        let api = if round % 2 == 0 { &a.api } else { &b.api };
        api.report("/v1/kills", kill(&format!("k{round}"), &format!("agent-{round}"), 1)).await.ok();
    }
    eventually("all notices have arrived", || async { receiver.received().len() >= KILLS }).await;
    // Another attempt is possible until each delivery is recorded as delivered.
    for api in [&a.api, &b.api] {
        eventually("the outbox is empty", || async { api.outbox_depth().await == 0 }).await;
    }
    let received = receiver.received();
    let ids: BTreeSet<_> = received.iter().map(|one| one.header("webhook-id").to_owned()).collect();
    let agents: BTreeSet<_> = received.iter().map(|one| one.json()["data"]["agent_id"].to_string()).collect();
    assert_eq!((received.len(), ids.len(), agents.len()), (KILLS, KILLS, KILLS), "one for each kill");
}

#[tokio::test]
async fn a_token_that_one_replica_creates_or_revokes_is_known_to_the_other() {
    let Some(url) = database().await else { return };
    let ([a, b], _dirs) = pair(&url);
    let made = a.api.post("/v1/tokens", json!({"name": "ci", "scope": "viewer"})).await.ok();
    let secret = made["secret"].as_str().unwrap();
    let status = async |api: &Api| Api::take(api.request(Method::GET, "/v1/agents", secret)).await.status.as_u16();
    eventually("the other replica accepts it", || async { status(&b.api).await == 200 }).await;
    b.api.delete(&format!("/v1/tokens/{}", made["token_id"].as_str().unwrap())).await;
    assert_ne!(status(&b.api).await, 200);
    eventually("the first replica refuses it", || async { status(&a.api).await != 200 }).await;
}

#[tokio::test]
async fn replicas_that_start_together_on_an_empty_database_create_one_password() {
    let Some(url) = database().await else { return };
    let start = || {
        let mut command = binary();
        let command = command.args(["serve", "--listen", "127.0.0.1:0"]).env("KILL_SWITCH_DB", &url);
        Process::spawn(command)
    };
    let processes: Vec<Process> = std::thread::scope(|scope| {
        let starting: Vec<_> = (0..3).map(|_| scope.spawn(start)).collect();
        starting.into_iter().map(|start| start.join().unwrap()).collect()
    });
    let said = processes.iter().flat_map(|process| &process.said);
    assert_eq!(said.filter(|line| line.starts_with("dashboard password ")).count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_report_that_the_database_is_away_and_recover_when_it_returns() {
    let Some(mut cluster) = postgres::start() else { return };
    let url = cluster.database().await;
    let ([a, b], _dirs) = pair(&url);
    a.api.guarded("before").await;
    let first = b.api.sync("envoy=first").await.synced();
    let poll = b.api.poll("patient", &first.epoch, first.rev).await;

    cluster.stop();
    for api in [&a.api, &b.api] {
        eventually("not ready", || async { api.get("/readyz").await.status == 503 }).await;
        assert_eq!(api.get("/healthz").await.status, 200, "it is alive");
        api.report("/v1/kills", kill("k", "before", 1)).await.problem(503);
        let cursor = format!("epoch={}&since={}&envoy=first", first.epoch, first.rev);
        assert_eq!(api.sync(&cursor).await.status, 304, "a filter that is up to date is not affected");
    }
    assert!(!poll.is_finished(), "the poll keeps waiting");

    cluster.resume();
    for api in [&a.api, &b.api] {
        eventually("ready again", || async { api.get("/readyz").await.status == 200 }).await;
    }
    a.api.report("/v1/kills", kill("k", "before", 1)).await.ok();
    let (news, _) = poll.await.unwrap();
    assert_eq!((news.agents.len(), news.agents[0].active), (1, false), "the poll from before is told of the kill");
    let (news, delay) = answer_after(&a.api, "after", (&news.epoch, news.rev), b.api.guarded("after")).await;
    assert_eq!(news.agents[0].agent_id, "after");
    println!("woken {delay:?} after the change");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_to_a_silent_database_is_closed_and_replaced() {
    let Some(url) = database().await else { return };
    let port = shared().unwrap().port();
    let way = Way::to(([127, 0, 0, 1], port).into()).await;
    let dir = tempfile::tempdir().unwrap();
    let replica = replica(dir.path(), &url.replace(&format!(":{port}/"), &format!(":{}/", way.port)));
    replica.api.guarded("a").await;

    // A writer that waits for the lock is in the middle of a statement when the silence begins.
    let mut other = PgConnection::connect(&url).await.unwrap();
    let mut lock = other.begin().await.unwrap();
    sqlx::query("SELECT commits FROM meta FOR UPDATE").fetch_one(&mut *lock).await.unwrap();
    let api = replica.api.clone();
    let report = tokio::spawn(async move { api.report("/v1/kills", kill("k", "a", 1)).await });
    eventually("it waits for the lock", || async {
        let waiting =
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE meta%'
                       AND datname = current_database()";
        count(&url, waiting).await > 0
    })
    .await;
    way.fall_silent();
    lock.rollback().await.unwrap();
    report.await.unwrap().problem(503);
    replica.api.get("/readyz").await.problem(503);

    way.heal();
    eventually("ready again", || async { replica.api.get("/readyz").await.status == 200 }).await;
    replica.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    assert_eq!(replica.api.agent("a").await["active"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_that_a_replica_acknowledged_before_kill_9_is_not_lost() {
    const ROUNDS: u64 = 40;
    let Some(url) = database().await else { return };
    let ([mut a, b], dirs) = pair(&url);
    let mut delay = Duration::from_micros(2_000);
    let (mut lost, mut kept) = (0, 0);
    for round in 0..ROUNDS {
        let id = format!("agent-{round}");
        let report = kill(&format!("kill-{round}"), &id, 1);
        a.api.get("/healthz").await;
        let request = a.api.request(Method::POST, "/v1/kills", &a.api.enforcer).json(&report);
        let sending = tokio::spawn(async move { request.send().await.is_ok_and(|answer| answer.status() == 200) });
        tokio::time::sleep(delay).await;
        a.kill_9();
        let is_answered = sending.await.unwrap();
        let found = b.api.events(&format!("agent_id={id}")).await.len();
        assert!(found == 1 || !is_answered, "round {round}: an acknowledged report is stored");
        // The delay approaches the moment of the commit, at first in large steps, so that rounds fall on both sides of it.
        let step = if lost > 0 && kept > 0 { delay / 8 } else { delay / 2 };
        if found == 0 {
            lost += 1;
            delay += step;
        } else {
            kept += 1;
            delay -= step;
        }
        // Envoy sends the report again and reaches the other replica. A transaction that the killed one left open is
        // rolled back by then, because its connection is gone.
        for _ in 0..2 {
            b.api.report("/v1/kills", report.clone()).await.ok();
        }
        assert_eq!(b.api.events(&format!("agent_id={id}")).await.len(), 1, "round {round}");
        assert_eq!(b.api.agent(&id).await["active"], false);
        a = replica(dirs[0].path(), &url);
    }
    println!("{lost} lost and sent again, {kept} kept");
    assert!(lost > 0 && kept > 0, "the rounds fell on both sides of the commit: {lost} lost, {kept} kept");
    assert_eq!(b.api.events("event_type=kill_switch&limit=1000").await.len() as u64, ROUNDS);
}

#[tokio::test]
async fn each_replica_lists_the_envoys_of_the_other() {
    let Some(url) = database().await else { return };
    let ([a, b], _dirs) = pair(&url);
    a.api.guarded("a").await;
    let first = a.api.sync("envoy=edge-1").await.synced();
    let poll = a.api.poll("edge-1", &first.epoch, first.rev).await;
    b.api.sync("envoy=edge-2").await;
    let listed = async |api: &Api| {
        let listed = api.get("/v1/envoys").await.ok();
        let envoys = listed["envoys"].as_array().unwrap().iter();
        let summary = envoys.map(|one| (one["envoy"].clone(), one["connected"] == true, one["applied_rev"].clone()));
        summary.collect::<Vec<_>>()
    };
    let both = [(json!("edge-1"), true, json!(1)), (json!("edge-2"), true, json!(null))];
    for api in [&a.api, &b.api] {
        eventually("both Envoys are listed", || async { listed(api).await == both }).await;
    }
    poll.abort();
}

/// Starts two sidecars inside the test, each with its own store, that follow each other.
async fn following(url: &str) -> [Sidecar; 2] {
    let start = async || {
        let dir = tempfile::tempdir().unwrap();
        let sidecar = Sidecar::over(open_postgres(url).await, Limits::default(), dir).await;
        let service = std::sync::Arc::clone(&sidecar.service);
        tokio::spawn(async move { service.follow().await });
        sidecar
    };
    [start().await, start().await]
}

#[tokio::test]
async fn the_dashboard_of_one_replica_shows_what_happens_at_the_other() {
    let Some(url) = database().await else { return };
    let [a, b] = following(&url).await;
    let cookie = a.service.sign_in_with_token(crate::support::OPERATOR).await.unwrap().unwrap();
    assert!(b.service.session(&cookie).await.unwrap().is_some(), "signed in at both");
    a.service.sign_out(&cookie).await.unwrap();
    assert!(b.service.session(&cookie).await.unwrap().is_none(), "and out at both");

    let mut heartbeat = b.service.heartbeat();
    a.api.guarded("a").await;
    eventually("the agent is known", || async { b.service.rev() == 1 }).await;
    heartbeat.borrow_and_update();
    // There is no new revision, but the page has changed.
    a.api.report("/v1/observations", json!({"agents": [{"agent_id": "a"}]})).await.ok();
    a.service.write_observations().await.unwrap();
    tokio::time::timeout(SOON, heartbeat.changed()).await.expect("the page is updated").unwrap();
}

#[tokio::test]
async fn filters_start_over_after_the_database_has_lost_commits() {
    let Some(url) = database().await else { return };
    let [a, b] = following(&url).await;
    for id in ["a", "b", "c"] {
        a.api.guarded(id).await;
    }
    eventually("both are at revision 3", || async { b.service.rev() == 3 }).await;
    let epoch = b.api.sync("").await.synced().epoch;
    let poll = b.api.poll("patient", &epoch, 3).await;
    // This is the state after a failover that lost the latest commit.
    execute(&url, "DELETE FROM agents WHERE rev = 3; UPDATE meta SET rev = 2, commits = commits - 1").await;
    let (answer, _) = poll.await.unwrap();
    assert_eq!((answer.full, answer.rev, answer.agents.len()), (true, 2, 2));
    assert!(b.api.sync(&format!("epoch={epoch}&since=3")).await.synced().full);
}
