//! A clock that is set to another time: nothing lasts longer than it can, and nothing is held up for as long as the clock
//! was set back.

use std::sync::atomic::Ordering;

use serde_json::json;

use crate::support::receiver::Receiver;
use crate::support::{Sidecar, kill, stop, stop_with};

const HOUR_S: u64 = 3_600;

/// Sets the clock back by an hour.
fn set_back(sidecar: &Sidecar) {
    sidecar.clock.fetch_sub(HOUR_S * 1_000, Ordering::SeqCst);
}

#[tokio::test]
async fn a_stopped_conversation_goes_on_when_the_clock_is_set_back_and_can_be_stopped_again() {
    let sidecar = Sidecar::guarding("a").await;
    let api = &sidecar.api;
    let stopped = async || api.get("/v1/agents/a/sessions").await.ok()["sessions"].as_array().unwrap().len();
    let told = async || api.sync("").await.synced().agents[0].stopped_sessions.len();
    api.report("/v1/kills", stop_with("k1", "a", 1, json!({"action": "block"}))).await.ok();
    assert_eq!((stopped().await, told().await), (1, 1));
    set_back(&sidecar);
    assert_eq!((stopped().await, told().await), (0, 0), "a block of a minute does not last an hour");
    let again = api.report("/v1/kills", stop_with("k2", "a", 1, json!({"action": "block"}))).await.ok();
    assert_eq!((again["outcome"].as_str(), stopped().await, told().await), (Some("blocked"), 1, 1));
}

#[tokio::test]
async fn filters_are_told_that_a_conversation_goes_on_also_after_the_clock_is_set_back() {
    let sidecar = Sidecar::guarding("a").await;
    let api = &sidecar.api;
    let report = stop("k1", "a", 1);
    api.report("/v1/kills", report.clone()).await.ok();
    let path = format!("/v1/agents/a/sessions/{}/resume", report["session"]["key"].as_str().unwrap());
    api.post(&path, json!({})).await.ok();
    set_back(&sidecar);
    let synced = api.sync("").await.synced();
    let told: Vec<_> = synced.agents[0].stopped_sessions.iter().map(|told| (told.until_ms, told.releases)).collect();
    assert_eq!(told, [(0, 1)], "an Envoy that has not heard of it yet may still refuse the conversation");
}

#[tokio::test]
async fn a_small_correction_of_the_clock_lets_no_conversation_go_on() {
    let sidecar = Sidecar::guarding("a").await;
    sidecar.api.report("/v1/kills", stop("k1", "a", 1)).await.ok();
    sidecar.clock.fetch_sub(5_000, Ordering::SeqCst);
    let stopped = sidecar.api.get("/v1/agents/a/sessions").await.ok();
    assert_eq!(stopped["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(sidecar.api.sync("").await.synced().agents[0].stopped_sessions.len(), 1);
}

#[tokio::test]
async fn conversations_stopped_before_the_clock_was_set_back_do_not_deactivate_the_agent_afterwards() {
    let sidecar = Sidecar::guarding("a").await;
    let api = &sidecar.api;
    api.patch("/v1/agents/a", json!({"escalate_after": 2})).await.ok();
    api.report("/v1/kills", stop("k1", "a", 1)).await.ok();
    set_back(&sidecar);
    api.report("/v1/kills", stop("k2", "a", 2)).await.ok();
    assert_eq!(api.agent("a").await["active"], true, "nobody knows how long ago the first one was");
    api.report("/v1/kills", stop("k3", "a", 3)).await.ok();
    assert_eq!(api.agent("a").await["active"], false);
}

#[tokio::test]
async fn a_notice_is_neither_retried_nor_held_back_an_hour_late_when_the_clock_is_set_back() {
    let (sidecar, receiver) = (Sidecar::guarding("a").await, Receiver::start().await);
    let rule = json!({"channel": "webhook", "target": receiver.url, "cooldown_seconds": 60, "recovery": false});
    sidecar.api.post("/v1/alerts", rule).await.ok();
    receiver.answer(500);
    sidecar.api.report("/v1/kills", kill("k1", "a", 1)).await.ok();
    assert_eq!((sidecar.deliver().await, sidecar.deliver().await), (1, 0), "it failed and is retried later");
    set_back(&sidecar);
    assert_eq!(sidecar.deliver().await, 1, "now");
    sidecar.api.post("/v1/agents/a/activate", json!({})).await.ok();
    sidecar.deliver().await;
    set_back(&sidecar);
    sidecar.api.report("/v1/kills", kill("k2", "a", 2)).await.ok();
    sidecar.deliver().await;
    assert_eq!(receiver.take().len(), 3, "the second kill is not within the cooldown of the first");
    sidecar.api.post("/v1/agents/a/activate", json!({})).await.ok();
    sidecar.deliver().await;
    sidecar.api.report("/v1/kills", kill("k3", "a", 3)).await.ok();
    sidecar.deliver().await;
    assert_eq!(receiver.take().len(), 0, "but the third is within the cooldown of the second");
}

#[tokio::test]
async fn a_session_of_the_dashboard_does_not_last_longer_when_the_clock_is_set_back() {
    let sidecar = Sidecar::start().await;
    let sign_in = async || sidecar.service.sign_in_with_token(crate::support::OPERATOR).await.unwrap().unwrap();
    let cookie = sign_in().await;
    let is_valid = async |cookie: &str| sidecar.service.session(cookie).await.unwrap().is_some();
    sidecar.clock.fetch_sub(5_000, Ordering::SeqCst);
    assert!(is_valid(&cookie).await, "a small correction ends no session");
    set_back(&sidecar);
    assert!(!is_valid(&cookie).await);
    assert!(is_valid(&sign_in().await).await, "one signs in again");
}

#[tokio::test]
async fn an_envoy_that_is_gone_is_not_listed_as_connected_when_the_clock_is_set_back() {
    let sidecar = Sidecar::guarding("a").await;
    sidecar.api.sync("&envoy=edge").await;
    let connected = || sidecar.service.envoys().iter().filter(|envoy| envoy.connected).count();
    assert_eq!(connected(), 1);
    set_back(&sidecar);
    assert_eq!(connected(), 0);
    sidecar.api.sync("&envoy=edge").await;
    assert_eq!(connected(), 1);
}

#[tokio::test]
async fn nothing_is_stuck_when_the_clock_is_set_forward() {
    let (sidecar, receiver) = (Sidecar::guarding("a").await, Receiver::start().await);
    let rule = json!({"channel": "webhook", "target": receiver.url, "cooldown_seconds": 60});
    sidecar.api.post("/v1/alerts", rule).await.ok();
    let cookie = sidecar.service.sign_in_with_token(crate::support::OPERATOR).await.unwrap().unwrap();
    receiver.answer(500);
    sidecar.api.report("/v1/kills", kill("k1", "a", 1)).await.ok();
    sidecar.deliver().await;
    sidecar.pass(HOUR_S);
    assert_eq!(sidecar.deliver().await, 1, "the notice is due");
    assert!(sidecar.service.session(&cookie).await.unwrap().is_some());
    assert_eq!(sidecar.api.report("/v1/kills", kill("k2", "a", 1)).await.ok()["outcome"], "duplicate");
}
