//! Takes the pictures of the documentation.
//!
//! The pictures are written to the folder in `SCREENSHOTS`, which `make screenshots` sets to `docs/screenshots`. Otherwise
//! they are thrown away, and the test shows that they can be taken.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::{Browser, Script};
use crate::support::receiver::Receiver;
use crate::support::{Sidecar, kill_with};

fn sample(at_ms: u64, prompts: u32, responses: u32, tools: u32) -> Value {
    let score = f64::from(prompts) + 2.0 * f64::from(responses) + 1.5 * f64::from(tools);
    json!({"at_ms": at_ms, "score": score, "similar_prompts": prompts, "similar_responses": responses, "repeated_tool_calls": tools})
}

async fn scores(sidecar: &Sidecar, id: &str, scores: Vec<Value>) {
    let seen = json!({"agents": [{"agent_id": id, "requests": scores.len(), "last_seen_ms": sidecar.clock.load(Ordering::SeqCst), "scores": scores}]});
    sidecar.api.report("/v1/observations", seen).await.ok();
    sidecar.service.write_observations().await.unwrap();
}

/// A typical morning: a few agents, one of which is about to loop.
pub(super) async fn furnish(sidecar: &Sidecar, receiver: &Receiver) {
    for (id, name, enabled) in [
        ("billing-reconciler", "Billing reconciler", true),
        ("code-review-bot", "Code review", true),
        ("crawler-eu-west", "", false),
        ("research-assistant", "Research assistant", true),
        ("support-triage", "Support triage", true),
        ("translations", "", true),
    ] {
        let body = json!({"name": name, "kill_switch_enabled": enabled, "action": if id == "translations" { "observe" } else { "deactivate" }});
        sidecar.api.put(&format!("/v1/agents/{id}"), body).await.ok();
        let now = sidecar.clock.load(Ordering::SeqCst);
        let wave = |index: u64| (index * 7 + id.len() as u64 * 3) % 11;
        let calls = (0..46).map(|index| {
            let at_ms = now - (46 - index) * 21_000;
            match wave(index) {
                0 => sample(at_ms, 2, 1, 0),
                3 => sample(at_ms, 1, 0, 1),
                5 => sample(at_ms, 1, 0, 0),
                8 => sample(at_ms, 3, 1, 1),
                _ => sample(at_ms, 0, 0, 0),
            }
        });
        if enabled {
            scores(sidecar, id, calls.collect()).await;
        }
        sidecar.pass(47);
    }
    for rule in [
        json!({"name": "On call", "channel": "webhook", "target": receiver.url}),
        json!({"name": "#agents", "channel": "slack", "target": receiver.url}),
    ] {
        sidecar.api.post("/v1/alerts", rule).await.ok();
    }
    sidecar
        .api
        .post("/v1/agents/crawler-eu-west/deactivate", json!({"reason": "budget used up for this month", "by": "Ada"}))
        .await
        .ok();
}

pub(super) async fn kill_it(sidecar: &Sidecar) {
    let now = sidecar.clock.load(Ordering::SeqCst);
    let growing = [(1, 0, 0), (1, 0, 1), (2, 1, 1), (2, 1, 2), (3, 2, 2)];
    let calls =
        growing.iter().enumerate().map(|(index, (p, r, t))| sample(now - 25_000 + index as u64 * 5_000, *p, *r, *t));
    scores(sidecar, "research-assistant", calls.chain([sample(now, 4, 3, 3)]).collect()).await;
    sidecar.pass(1);
    let matches: Vec<_> = (1..=4_u64).map(|ago| json!({"calls_ago": ago, "age_ms": ago * 5_030, "prompt_distance": ago % 2,
        "response_distance": (ago < 4).then_some(1), "same_tool_call": ago < 4, "prompt_hash": format!("{:016x}", 0x91f3_44d0_2c7a_e815_u64 ^ ago)})).collect();
    let more = json!({"at_ms": now, "score": 14.5, "similar_prompts": 4, "similar_responses": 3, "repeated_tool_calls": 3,
        "reason": "search_papers was called 4 times with the same arguments and the same result", "tools": ["search_papers"], "matches": matches});
    sidecar.api.report("/v1/kills", kill_with("kill-1", "research-assistant", 1, more)).await.ok();
    sidecar.deliver().await;
}

/// Takes a picture of the whole page, up to 880 pixels high. The window is larger than its content by its frame.
async fn shoot(browser: &Browser, dir: &Path, name: &str) {
    browser.until("#live-text", "Live").await;
    let height = "return Math.min(document.querySelector('main').getBoundingClientRect().bottom, 880)
        + window.outerHeight - window.innerHeight";
    let height = browser.js(height).await.as_f64().unwrap();
    browser.page.set_window_size(1280, height as u32).await.unwrap();
    let picture = browser.page.screenshot().await.unwrap();
    assert!(picture.len() < 150_000, "{name} has {} bytes", picture.len());
    std::fs::write(dir.join(name), picture).unwrap();
    browser.page.set_window_size(1280, 900).await.unwrap();
}

#[tokio::test]
async fn pictures_of_the_pages_can_be_taken_in_light_and_dark() {
    let thrown_away = tempfile::tempdir().unwrap();
    let dir = std::env::var_os("SCREENSHOTS").map_or_else(|| thrown_away.path().to_owned(), PathBuf::from);
    std::fs::create_dir_all(&dir).unwrap();
    for (theme, flag) in
        [("light", "--blink-settings=preferredColorScheme=1"), ("dark", "--blink-settings=preferredColorScheme=0")]
    {
        let (sidecar, receiver) = (Sidecar::start().await, Receiver::start().await);
        furnish(&sidecar, &receiver).await;
        let Some(browser) = Browser::with_flags(&sidecar.api.base, Script::On, &[flag]).await else { return };
        browser.sign_in().await;
        browser.goto("/agents/research-assistant").await;
        shoot(&browser, &dir, &format!("agent-before-{theme}.png")).await;
        kill_it(&sidecar).await;
        sidecar.pass(90);
        browser.goto("/agents/research-assistant").await;
        shoot(&browser, &dir, &format!("agent-after-{theme}.png")).await;
        browser.goto("/").await;
        shoot(&browser, &dir, &format!("agents-{theme}.png")).await;
        browser.goto("/alerts").await;
        shoot(&browser, &dir, &format!("alerts-{theme}.png")).await;
        drop(browser);
        let sidecar = Sidecar::guarding("weather-bot").await;
        let reason = "the same input 6 times and the same answer 5 times in the last 6 calls";
        let story = sidecar.looped("weather-bot", json!({"reason": reason})).await;
        let Some(browser) = Browser::with_flags(&sidecar.api.base, Script::On, &[flag]).await else { return };
        browser.sign_in().await;
        browser.goto(&format!("/kills/{story}")).await;
        shoot(&browser, &dir, &format!("story-{theme}.png")).await;
    }
}
