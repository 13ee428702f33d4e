//! The banner of a pause is on every page, with who, why and until when, and a button that ends it.

use serde_json::json;

use super::{Browser, Script};
use crate::support::{Sidecar, VIEWER, kill};

const PAGES: [&str; 7] = ["/", "/agents", "/agents/a", "/alerts", "/events", "/envoys", "/kills"];

#[tokio::test]
async fn a_person_pauses_sees_it_on_every_page_and_resumes() {
    let Some((sidecar, browser)) = Browser::signed_in().await else { return };
    sidecar.api.guarded("a").await;
    sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    let story = format!("/kills/{}", sidecar.api.events("event_type=kill_switch").await[0]["id"]);
    browser.goto("/").await;
    assert!(!browser.has(".pause-banner").await);
    browser.click("details.pause summary").await;
    browser.fill("#pause_reason", "a release").await;
    browser.press("Pause").await;
    for page in PAGES.into_iter().chain([story.as_str()]) {
        browser.goto(page).await;
        let said = browser.text(".pause-banner").await;
        for part in ["The kill switch is paused", "until 2024-01-15 11:30:00 UTC", "operator", "a release"] {
            assert!(said.contains(part), "{page}: {said}");
        }
    }
    browser.goto("/").await;
    assert!(!browser.has("details.pause").await, "it is paused already");
    browser.goto("/events").await;
    browser.until("#events", "all agents").await;
    browser.press("Resume").await;
    assert_eq!(browser.path().await, "/events", "the page that the person was on");
    assert!(!browser.has(".pause-banner").await);
    assert_eq!(sidecar.api.get("/v1/pause").await.ok()["paused"], false);
}

#[tokio::test]
async fn the_banner_comes_and_goes_with_no_reload() {
    let Some((sidecar, browser)) = Browser::signed_in().await else { return };
    browser.until("#live-text", "Live").await;
    sidecar.api.put("/v1/pause", json!({"reason": "by somebody else"})).await.ok();
    browser.until("#pause", "by somebody else").await;
    sidecar.api.delete("/v1/pause").await.ok();
    browser.find("#pause:empty").await;
}

#[tokio::test]
async fn a_viewer_sees_the_pause_and_cannot_end_it() {
    let sidecar = Sidecar::start().await;
    let Some(browser) = Browser::open(&sidecar.api.base, Script::Off).await else { return };
    browser.sign_in_with(VIEWER).await;
    assert!(!browser.has("details.pause").await);
    sidecar.api.put("/v1/pause", json!({})).await.ok();
    browser.goto("/alerts").await;
    assert!(browser.text(".pause-banner").await.contains("The kill switch is paused"));
    assert!(!browser.has(".pause-banner button").await);
}
