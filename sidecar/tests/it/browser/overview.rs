//! The overview: what a person sees first, and the one button that ends a kill.

use serde_json::json;

use super::{Browser, Script};
use crate::support::receiver::Receiver;
use crate::support::{Sidecar, kill, kill_with, stop};

/// The number on the tile that leads to the agents in a state.
async fn tile(browser: &Browser, state: &str) -> String {
    browser.text(&format!("a.tile[href='/agents?state={state}'] strong")).await
}

#[tokio::test]
async fn an_empty_overview_says_what_to_do_next() {
    let Some((sidecar, browser)) = Browser::signed_in().await else { return };
    assert_eq!((browser.path().await.as_str(), browser.text("h1").await.as_str()), ("/", "Overview"));
    let said = browser.text("main").await;
    for part in [
        "No agents yet",
        "curl http",
        "No agent was killed so far.",
        "None connected",
        "kill-switch doctor",
        "No loop was found in the last 7 days.",
        "Nobody is told",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    browser.press("Make a rule").await;
    assert_eq!(browser.path().await, "/alerts");
    sidecar.api.put("/v1/agents/a", json!({})).await.ok();
    browser.goto("/").await;
    browser.press("choose an agent").await;
    assert_eq!(browser.path().await, "/agents");
    assert!(browser.has("#row-a").await, "an agent whose kill switch is off");
}

#[tokio::test]
async fn each_kill_has_one_button_and_the_page_says_what_it_did() {
    let sidecar = Sidecar::start().await;
    let receiver = Receiver::start().await;
    // Without scripts, as everything else.
    let Some(browser) = Browser::open(&sidecar.api.base, Script::Off).await else { return };
    for (id, body) in [
        ("killed", json!({"kill_switch_enabled": true, "name": "The one that loops"})),
        ("chatty", json!({"kill_switch_enabled": true, "scope": "session"})),
        ("watched", json!({"kill_switch_enabled": true, "action": "observe"})),
        ("idle", json!({})),
    ] {
        sidecar.api.put(&format!("/v1/agents/{id}"), body).await.ok();
    }
    sidecar.api.report("/v1/kills", kill("k1", "killed", 1)).await.ok();
    sidecar.api.report("/v1/kills", kill_with("k2", "watched", 1, json!({"action": "observe"}))).await.ok();
    sidecar.pass(7_200);
    sidecar.api.report("/v1/kills", stop("k3", "chatty", 1)).await.ok();
    sidecar.api.post("/v1/alerts", json!({"channel": "webhook", "target": receiver.url})).await.ok();
    sidecar.api.sync("envoy=edge-1").await.ok();
    browser.sign_in().await;
    for (state, count) in [("guarded", "1"), ("observing", "1"), ("off", "1"), ("killed", "1"), ("inactive", "0")] {
        assert_eq!(tile(&browser, state).await, count, "{state}");
    }
    let said = browser.text("main").await;
    for part in ["1 conversation is stopped", "1 connected", "1 rule", "None failed in the last 7 days."] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let kills = browser.text("#kills").await;
    for part in ["The one that loops", "the same prompt and the same answer 5 times", "2 h ago", "conversation chat-1"]
    {
        assert!(kills.contains(part), "{part} in {kills}");
    }
    let label = browser.attribute("#loops svg", "aria-label").await;
    assert_eq!(
        label,
        "Last 24 hours: 2 killed, 1 would have been killed. The most at 10:00: 1 killed, 1 would have been killed"
    );
    browser.press("Activate").await;
    assert_eq!(browser.path().await, "/");
    browser.until(".flash", "killed was activated. Its window was cleared.").await;
    assert_eq!(sidecar.api.agent("killed").await["active"], true);
    assert_eq!((tile(&browser, "killed").await, tile(&browser, "guarded").await), ("0".to_owned(), "2".to_owned()));
    browser.press("Resume").await;
    browser.until(".flash", "chatty goes on with the conversation").await;
    assert_eq!(sidecar.api.events("event_type=session_resumed").await.len(), 1);
    assert!(!browser.has("#kills button").await, "everything works again");
    assert_eq!(browser.text("#kills").await.matches("Over").count(), 2);
    browser.press("All alerts").await;
    assert_eq!(browser.path().await, "/alerts");
}

#[tokio::test]
async fn a_kill_appears_with_no_reload_and_an_open_table_stays_open() {
    let Some((sidecar, browser)) = Browser::signed_in().await else { return };
    for id in ["a", "b"] {
        sidecar.api.guarded(id).await;
    }
    sidecar.api.report("/v1/kills", kill("k1", "a", 1)).await.ok();
    browser.goto("/").await;
    browser.until("#live-text", "Live").await;
    browser.js("window.sameDocument = true").await;
    browser.click("#week-table summary").await;
    browser.until("#week-table tbody tr:last-child", "01-15").await;
    sidecar.api.report("/v1/kills", kill("k2", "b", 1)).await.ok();
    browser.until("#week-table tbody tr:last-child td", "2").await;
    assert!(browser.has("#week-table[open]").await && !browser.has("#day-table[open]").await);
    assert_eq!(tile(&browser, "killed").await, "2");
    assert_eq!(browser.js("return window.sameDocument").await, json!(true), "nothing was reloaded");
}
