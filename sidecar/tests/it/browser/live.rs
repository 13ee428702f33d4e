//! Pages show changes as they happen, and say so when they have lost their connection.

use serde_json::json;

use super::{Browser, Script};
use crate::support::process::Process;
use crate::support::{Sidecar, kill};

#[tokio::test]
async fn a_kill_appears_with_no_reload_on_the_list_and_on_the_agent() {
    let Some((sidecar, browser)) = Browser::signed_in().await else { return };
    for (path, id, badge) in [("/agents", "a", "#row-a [data-badge]"), ("/agents/b", "b", "#state [data-badge]")] {
        sidecar.api.guarded("a").await;
        sidecar.api.guarded("b").await;
        browser.goto(path).await;
        browser.until("#live-text", "Live").await;
        browser.js("window.sameDocument = true").await;
        assert!(browser.text(badge).await.ends_with("Active"));
        sidecar.api.report("/v1/kills", kill(&format!("kill-{id}"), id, 1)).await.ok();
        browser.until(badge, "Deactivated by Kill Switch").await;
        assert_eq!(browser.js("return window.sameDocument").await, json!(true), "nothing was reloaded");
    }
    assert!(browser.text(".banner").await.contains("the same prompt"));
    browser.find("svg.timeline line.kill").await;
    browser.until("#events", "kill_switch").await;
}

#[tokio::test]
async fn the_answer_to_a_form_is_live_too() {
    let Some((sidecar, browser)) = Browser::signed_in().await else { return };
    sidecar.api.put("/v1/agents/a", json!({})).await.ok();
    browser.goto("/agents/a").await;
    browser.press_switch().await;
    browser.find("[role=alertdialog]").await;
    browser.until("#live-text", "Live").await;
    sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    browser.until("#state [data-badge]", "Deactivated by Kill Switch").await;
    assert!(browser.has("[role=alertdialog]").await, "the question is still there");
}

#[tokio::test]
async fn what_somebody_types_survives_an_update() {
    let Some((sidecar, browser)) = Browser::signed_in().await else { return };
    sidecar.api.guarded("a").await;
    sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    browser.goto("/agents/a").await;
    browser.until("#live-text", "Live").await;
    browser.fill("#reason", "half a sen").await;
    sidecar.api.put("/v1/agents/b", json!({})).await.ok();
    sidecar.api.patch("/v1/agents/a", json!({"name": "Renamed"})).await.ok();
    browser.until("#events", "name").await;
    assert_eq!(browser.value("#reason").await, "half a sen");
}

#[tokio::test]
async fn a_page_that_lost_its_connection_says_so() {
    let (dir, mut process) = Process::start_in_new_dir(&[]);
    let Some(browser) = Browser::open(&process.api.base, Script::On).await else { return };
    let password = std::fs::read_to_string(dir.path().join("tokens/dashboard.password")).unwrap();
    browser.sign_in_with(password.trim()).await;
    browser.until("#live-text", "Live").await;
    assert!(!browser.is_displayed("#lost").await);
    process.kill_9();
    browser.until("#live-text", "Disconnected").await;
    assert!(browser.text("#lost").await.contains("may be out of date"));
}

#[tokio::test]
async fn the_password_signs_in_and_a_wrong_one_does_not() {
    let sidecar = Sidecar::start().await;
    sidecar.service.set_password("correct horse battery").await.unwrap();
    let Some(browser) = Browser::open(&sidecar.api.base, Script::On).await else { return };
    sidecar.api.put("/v1/agents/a", json!({})).await.ok();
    browser.goto("/agents/a").await;
    assert_eq!(browser.path().await, "/login");
    browser.fill("#secret", "wrong horse").await;
    browser.press("Sign in").await;
    assert!(browser.text("[role=alert]").await.contains("neither the password nor a valid token"));
    browser.fill("#secret", "correct horse battery").await;
    browser.press("Sign in").await;
    assert_eq!(browser.text("h1").await, "a", "the page that was asked for");
    assert_eq!(browser.js("return document.cookie").await, json!(""), "no script can read the session");
    browser.press("Deactivate").await;
    browser.until(".flash", "Deactivated.").await;
    assert_eq!(sidecar.api.events("agent_id=a").await[0]["actor"], "dashboard");
}
