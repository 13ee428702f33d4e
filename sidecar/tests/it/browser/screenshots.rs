//! Takes the pictures of the documentation.
//!
//! The pictures are written to the folder in `SCREENSHOTS`, which `make screenshots` sets to `docs/screenshots`. Otherwise
//! they are thrown away, and the test shows that they can be taken.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use agent_kill_switch::wire::{ModelUsage, SyncAnswer};
use kill_switch::model::{UsageDay, day_of};
use serde_json::{Value, json};

use super::pages::{PAGES, THEMES};
use super::{Browser, Script};
use crate::support::receiver::Receiver;
use crate::support::{Sidecar, kill_with, stop};

fn sample(at_ms: u64, prompts: u32, responses: u32, tools: u32) -> Value {
    let score = f64::from(prompts) + 2.0 * f64::from(responses) + 1.5 * f64::from(tools);
    json!({"at_ms": at_ms, "score": score, "similar_prompts": prompts, "similar_responses": responses, "repeated_tool_calls": tools})
}

async fn scores(sidecar: &Sidecar, id: &str, scores: Vec<Value>) {
    let seen = json!({"agents": [{"agent_id": id, "requests": scores.len(), "last_seen_ms": sidecar.clock.load(Ordering::SeqCst), "scores": scores}]});
    sidecar.api.report("/v1/observations", seen).await.ok();
    sidecar.service.write_observations().await.unwrap();
}

const HOUR_MS: u64 = 3_600_000;

/// Loops of the last days: how many hours ago, the agent, and what was done.
const PAST_LOOPS: [(u64, &str, &str); 14] = [
    (142, "translations", "observe"),
    (120, "support-triage", "deactivate"),
    (97, "code-review-bot", "block"),
    (96, "code-review-bot", "block"),
    (72, "translations", "observe"),
    (70, "translations", "observe"),
    (49, "support-triage", "deactivate"),
    (23, "translations", "observe"),
    (20, "code-review-bot", "block"),
    (14, "translations", "observe"),
    (13, "translations", "observe"),
    (9, "support-triage", "deactivate"),
    (8, "code-review-bot", "block"),
    (3, "translations", "observe"),
];

/// Lets the loops of the last days happen. Agents that were deactivated were activated soon.
async fn past_loops(sidecar: &Sidecar, now: u64) {
    let mut generation = 1;
    for (hours, id, action) in PAST_LOOPS {
        sidecar.clock.store(now - hours * HOUR_MS, Ordering::SeqCst);
        let of = if id == "support-triage" { generation } else { 1 };
        let report = kill_with(&format!("past-{hours}"), id, of, json!({"action": action}));
        sidecar.api.report("/v1/kills", report).await.ok();
        if action == "deactivate" {
            sidecar.pass(240);
            let note = json!({"reason": "the tool was fixed", "by": "Ada"});
            sidecar.api.post(&format!("/v1/agents/{id}/activate"), note).await.ok();
            generation += 1;
        }
    }
}

/// A typical morning: a few agents, one of which is about to loop.
pub(super) async fn furnish(sidecar: &Sidecar, receiver: &Receiver) {
    let now = sidecar.clock.load(Ordering::SeqCst);
    let agents = [
        ("billing-reconciler", "Billing reconciler", true),
        ("chat-frontend", "Chat", true),
        ("code-review-bot", "Code review", true),
        ("crawler-eu-west", "", false),
        ("research-assistant", "Research assistant", true),
        ("support-triage", "Support triage", true),
        ("translations", "", true),
    ];
    sidecar.clock.store(now - 150 * HOUR_MS, Ordering::SeqCst);
    for (id, name, enabled) in agents {
        let action = if id == "translations" { "observe" } else { "deactivate" };
        let scope = if id == "chat-frontend" { "session" } else { "agent" };
        let body = json!({"name": name, "kill_switch_enabled": enabled, "action": action, "scope": scope});
        sidecar.api.put(&format!("/v1/agents/{id}"), body).await.ok();
    }
    past_loops(sidecar, now).await;
    sidecar.clock.store(now, Ordering::SeqCst);
    for (id, _, enabled) in agents {
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
    use_tokens(sidecar).await;
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
    sidecar.api.report("/v1/kills", stop("chat", "chat-frontend", 1)).await.ok();
    connect(sidecar).await;
}

/// Two Envoys ask for policies, and say that they have applied them.
async fn connect(sidecar: &Sidecar) {
    for envoy in ["edge-1", "edge-2"] {
        let SyncAnswer { epoch, rev, .. } = sidecar.api.sync(&format!("envoy={envoy}")).await.synced();
        sidecar.api.sync(&format!("envoy={envoy}&epoch={epoch}&since={rev}&wait=0")).await;
    }
}

/// Lets the days before today have tokens and refused calls.
async fn use_tokens(sidecar: &Sidecar) {
    let today = day_of(sidecar.clock.load(Ordering::SeqCst));
    let mut tx = sidecar.store.begin().await.unwrap();
    for (ago, calls) in
        [(9, 210), (8, 260), (7, 40), (6, 35), (5, 280), (4, 245), (3, 310), (2, 190), (1, 120), (0, 46)]
    {
        let used = |model: &str, calls: u64| ModelUsage {
            model: model.to_owned(),
            calls,
            input_tokens: calls * 3_214,
            output_tokens: calls * 402,
        };
        let models = vec![used("claude-sonnet-4-5", calls), used("gpt-4.1-mini", calls / 3)];
        let refused = if ago == 3 { 17 } else { 0 };
        let day = UsageDay { day: today - ago, refused, models };
        tx.add_usage("research-assistant", &day).await.unwrap();
    }
    tx.commit().await.unwrap();
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
        "reason": "search_papers was called 4 times with the same arguments and the same result", "tools": ["search_papers"], "matches": matches,
        "loop_calls": 5, "loop_usage": {"input_tokens": 12_856, "output_tokens": 1_608}});
    sidecar.api.report("/v1/kills", kill_with("kill-1", "research-assistant", 1, more)).await.ok();
    sidecar.deliver().await;
}

/// How many pictures are taken of each page.
const PICTURES: usize = 4;

/// Takes pictures of the whole page, up to a height, in both themes and on a desktop and a phone.
async fn shoot(browser: &Browser, dir: &Path, name: &str, highest: u32) {
    for theme in THEMES {
        browser.driver.set_theme(theme).await;
        for (width, suffix, highest) in [(1280, "", highest), (390, "-phone", 1000)] {
            browser.driver.set_size(width, highest).await;
            let bottom = browser.js("return document.querySelector('main').getBoundingClientRect().bottom").await;
            browser.driver.set_size(width, (bottom.as_f64().unwrap() as u32).clamp(300, highest)).await;
            let picture = browser.page.screenshot().await.unwrap();
            let file = format!("{name}{suffix}-{theme}.png");
            assert!(picture.len() < 150_000, "{file} has {} bytes", picture.len());
            std::fs::write(dir.join(file), picture).unwrap();
        }
    }
}

#[tokio::test]
async fn pictures_of_every_page_can_be_taken_in_light_and_dark_and_as_on_a_phone() {
    let thrown_away = tempfile::tempdir().unwrap();
    let dir = std::env::var_os("SCREENSHOTS").map_or_else(|| thrown_away.path().to_owned(), PathBuf::from);
    std::fs::create_dir_all(&dir).unwrap();
    let (sidecar, receiver) = (Sidecar::start().await, Receiver::start().await);
    furnish(&sidecar, &receiver).await;
    let Some(browser) = Browser::open(&sidecar.api.base, Script::On).await else { return };
    browser.goto("/login").await;
    shoot(&browser, &dir, "login", 720).await;
    browser.driver.set_size(1280, 900).await;
    browser.sign_in().await;
    browser.goto("/agents/research-assistant").await;
    browser.until("#live-text", "Live").await;
    shoot(&browser, &dir, "agent-before", 880).await;
    kill_it(&sidecar).await;
    sidecar.pass(90);
    connect(&sidecar).await;
    for (name, path, highest) in PAGES {
        browser.goto(path).await;
        browser.until("#live-text", "Live").await;
        shoot(&browser, &dir, name, highest).await;
    }
    sidecar.api.guarded("weather-bot").await;
    let reason = "the same input 6 times and the same answer 5 times in the last 6 calls";
    let story = sidecar.looped("weather-bot", json!({"reason": reason})).await;
    browser.goto(&format!("/kills/{story}")).await;
    browser.find("#story").await;
    shoot(&browser, &dir, "story", 880).await;
    let pictures = std::fs::read_dir(&dir).unwrap().count();
    assert!(pictures >= (PAGES.len() + 3) * PICTURES, "{pictures} pictures");
}
