//! Every scenario of the specification that a person sees, with and without scripts.

use serde_json::json;

use super::{Browser, Script};
use crate::support::receiver::Receiver;
use crate::support::{START_MS, Sidecar, assert_members, key, kill, stop};

/// Lists the choices of the settings that have a label and, below it, a sentence that a person can see.
const EXPLAINED: &str = "
    return [...document.querySelectorAll('#kill-switch input[type=radio]')].filter(one => {
        const hint = document.getElementById(one.getAttribute('aria-describedby'));
        return one.labels[0].innerText.trim() && hint.checkVisibility() && /^[A-Z].*[.]$/.test(hint.innerText.trim());
    }).map(one => one.id);";

#[tokio::test]
async fn toggle_and_settings_are_visible_whether_the_kill_switch_is_on_or_off() {
    let Some((sidecar, browser)) = Browser::signed_in().await else { return };
    for (id, enabled) in [("off", false), ("on", true)] {
        sidecar.api.put(&format!("/v1/agents/{id}"), json!({"kill_switch_enabled": enabled})).await.ok();
        browser.goto(&format!("/agents/{id}")).await;
        for css in [
            "button[role=switch]",
            "#window_size",
            "#threshold",
            "#action",
            "#counting",
            "#scope",
            "#session_stop_seconds",
            "#escalate_after",
            "#idle_reset_seconds",
            "#answer_loop",
            "#tool_0",
        ] {
            assert!(browser.is_displayed(css).await, "{css} while {id}");
        }
        let choices = browser.js(EXPLAINED).await;
        assert_eq!(choices.as_array().unwrap().len(), 10, "every choice is explained where it is chosen: {choices}");
        assert_eq!(browser.js("return document.querySelector('#action input:checked').value").await, "deactivate");
        assert_eq!(browser.attribute("button[role=switch]", "aria-checked").await, enabled.to_string());
        assert!(browser.text("#threshold_hint").await.contains("below 83.5"), "the highest possible score");
    }
}

#[tokio::test]
async fn enabling_with_no_alert_configured_asks_first() {
    let Some((sidecar, browser)) = Browser::signed_in().await else { return };
    sidecar.api.put("/v1/agents/a", json!({})).await.ok();
    browser.goto("/agents/a").await;
    browser.press_switch().await;
    assert!(browser.text("[role=alertdialog]").await.contains("No alert notification is configured"));
    let agent = sidecar.api.agent("a").await;
    assert_eq!(agent["kill_switch_enabled"], false, "nothing changes before the question is answered");
    browser.press("Configure").await;
    assert_eq!(browser.path().await, "/alerts");
    assert_eq!(browser.value("#agent_id").await, "a");
    browser.goto("/agents/a").await;
    browser.press_switch().await;
    browser.press("Enable anyway").await;
    browser.until(".flash", "The kill switch is on.").await;
    assert_eq!(sidecar.api.agent("a").await["kill_switch_enabled"], true);

    // If an alert is configured, there is no question.
    let receiver = Receiver::start().await;
    sidecar.api.post("/v1/alerts", json!({"channel": "webhook", "target": receiver.url})).await.ok();
    browser.press_switch().await;
    browser.until(".flash", "The kill switch is off.").await;
    browser.press_switch().await;
    browser.until(".flash", "The kill switch is on.").await;
}

#[tokio::test]
async fn window_size_and_threshold_are_configured_and_refused_with_their_bounds() {
    let Some((sidecar, browser)) = Browser::signed_in().await else { return };
    sidecar.api.guarded("a").await;
    let scores: Vec<_> = [(1, 0), (3, 2), (5, 4)].iter().map(|(prompts, responses)| {
        json!({"at_ms": START_MS, "score": prompts + 2 * responses, "similar_prompts": prompts, "similar_responses": responses, "repeated_tool_calls": 0})
    }).collect();
    sidecar.api.report("/v1/observations", json!({"agents": [{"agent_id": "a", "scores": scores}]})).await.ok();
    sidecar.service.write_observations().await.unwrap();
    browser.goto("/agents/a").await;
    browser.fill("#window_size", "30").await;
    browser.fill("#threshold", "6.5").await;
    browser.until("#preview", "Would have stopped the agent at call 2 of 3").await;
    browser.press("Save settings").await;
    browser.until(".flash", "Settings saved.").await;
    let saved = sidecar.api.agent("a").await;
    assert_eq!((&saved["kill_switch_window_size"], &saved["kill_switch_threshold"]), (&json!(30), &json!(6.5)));
    browser.fill("#threshold", "1000").await;
    browser.press("Save settings").await;
    browser.until("#kill-switch .bad", "must be below").await;
    assert_eq!(browser.value("#threshold").await, "1000", "what was typed is still there");
    assert_eq!(sidecar.api.agent("a").await["kill_switch_threshold"], 6.5);
}

#[tokio::test]
async fn an_inactive_agent_says_who_switched_it_off() {
    let Some((sidecar, browser)) = Browser::signed_in().await else { return };
    sidecar.api.guarded("killed").await;
    sidecar.api.report("/v1/kills", kill("k", "killed", 1)).await.ok();
    sidecar.api.guarded("stopped").await;
    sidecar.api.post("/v1/agents/stopped/deactivate", json!({"reason": "too expensive", "by": "Ada"})).await.ok();
    sidecar.api.guarded("working").await;
    browser.goto("/").await;
    for (id, text) in [("killed", "Deactivated by Kill Switch"), ("stopped", "Inactive"), ("working", "Active")] {
        assert!(browser.text(&format!("#row-{id} [data-badge]")).await.ends_with(text), "{id}");
    }
    browser.goto("/agents/killed").await;
    let banner = browser.text(".banner").await;
    for part in [
        "Deactivated by Kill Switch",
        "By the kill switch",
        "the same prompt",
        "13",
        "read_file",
        "edge-1",
        "clears the window",
    ] {
        assert!(banner.contains(part), "{part} in {banner}");
    }
    assert!(browser.text("#matching").await.contains("800 ms"), "the matching calls");
    assert!(browser.has("svg.timeline line.kill").await && browser.has("svg.timeline line.threshold").await);
    browser.goto("/agents/stopped").await;
    let banner = browser.text(".banner").await;
    assert!(banner.starts_with("Inactive") && banner.contains("Ada") && banner.contains("too expensive"), "{banner}");
}

#[tokio::test]
async fn a_stopped_conversation_appears_and_goes_on_at_the_press_of_its_button() {
    let Some((sidecar, browser)) = Browser::signed_in().await else { return };
    sidecar.api.guarded("a").await;
    browser.goto("/agents/a").await;
    browser.click("#scope_session").await;
    browser.fill("#session_stop_seconds", "600").await;
    browser.fill("#escalate_after", "0").await;
    browser.fill("#idle_reset_seconds", "30").await;
    browser.press("Save settings").await;
    browser.until(".flash", "Settings saved.").await;
    let saved = json!({"scope": "session", "session_stop_seconds": 600, "escalate_after": 0, "idle_reset_seconds": 30});
    assert_members(&sidecar.api.agent("a").await, saved);

    browser.until("#live-text", "Live").await;
    sidecar.api.report("/v1/kills", stop("k1", "a", 1)).await.ok();
    let row = format!("#session-{}", key(1));
    browser.until(&row, "chat-1").await;
    let text = browser.text(&row).await;
    assert!(text.contains("the same prompt") && text.contains("2024-01-15 10:40:00 UTC"), "{text}");
    assert!(browser.text("#state [data-badge]").await.ends_with("Active"));
    browser.fill(&format!("#why-{}", key(1)), "the tool works again").await;
    browser.press("Let it go on").await;
    browser.until(".flash", "The conversation goes on.").await;
    assert!(!browser.has(&row).await);
    browser.until("#events", "session_resumed").await;
    assert_eq!(sidecar.api.events("event_type=session_resumed").await[0]["reason"], "the tool works again");
}

#[tokio::test]
async fn agents_are_found_filtered_in_the_address_and_stopped_together() {
    let Some((sidecar, browser)) = Browser::signed_in().await else { return };
    assert!(browser.text("main").await.contains("curl "), "an empty dashboard shows how to begin");
    for id in ["alpha", "beta", "team/gamma"] {
        sidecar.api.guarded(&id.replace('/', "%2F")).await;
    }
    browser.goto("/?q=gamma&state=active").await;
    assert!(browser.has("[id='row-team/gamma']").await && !browser.has("#row-alpha").await);
    browser.press("team/gamma").await;
    assert_eq!(browser.text("h1").await, "team/gamma");
    browser.goto("/").await;
    browser.click("[data-all]").await;
    browser.press("Deactivate selected").await;
    browser.until(".flash", "3 agents were deactivated.").await;
    browser.goto("/?state=inactive").await;
    assert!(browser.has("#row-alpha").await);
    browser.back().await;
    browser.press("Undo").await;
    browser.until("#row-beta [data-badge]", "Active").await;
    assert_eq!(sidecar.api.agent("alpha").await["active"], true);
}

#[tokio::test]
async fn the_whole_dashboard_works_with_script_switched_off() {
    let sidecar = Sidecar::start().await;
    let receiver = Receiver::start().await;
    let Some(browser) = Browser::open(&sidecar.api.base, Script::Off).await else { return };
    sidecar.api.put("/v1/agents/a", json!({})).await.ok();
    browser.sign_in().await;
    assert_eq!(browser.attribute("#live", "data-state").await, "off", "scripts do not run");
    assert!(browser.html("#live").await.contains("Reload for news"));
    browser.goto("/agents/a").await;
    browser.press_switch().await;
    browser.press("Enable anyway").await;
    browser.fill("#threshold", "7").await;
    browser.press("What would these have done?").await;
    browser.until("#preview", "No calls and no scores are stored").await;
    browser.press("Save settings").await;
    browser.until(".flash", "Settings saved.").await;
    browser.press("Deactivate").await;
    browser.until(".flash", "Deactivated.").await;
    browser.press("Undo").await;
    browser.until("[data-badge]", "Active").await;
    sidecar.api.report("/v1/kills", kill("k", "a", 2)).await.ok();
    browser.goto("/agents/a").await;
    browser.fill("#reason", "the tool was fixed").await;
    browser.press("Activate").await;
    browser.until(".flash", "Its window was cleared.").await;
    let expected = json!({"active": true, "kill_switch_threshold": 7.0, "generation": 3});
    assert_members(&sidecar.api.agent("a").await, expected);
    assert_eq!(sidecar.api.events("agent_id=a&event_type=activated").await[0]["reason"], "the tool was fixed");

    browser.goto("/alerts").await;
    browser.fill("#target", &receiver.url).await;
    browser.press("Add rule").await;
    assert!(browser.text("#secret").await.starts_with("whsec_"));
    browser.goto("/alerts").await;
    assert!(!browser.has("#secret").await, "shown once");
    browser.press("Send test").await;
    browser.until(".flash", "The test notice arrived.").await;
    assert!(browser.text("#deliveries").await.contains("Delivered"));
    assert_eq!(receiver.types(), ["alert.test"]);
    browser.goto("/events?event_type=activated").await;
    assert!(browser.text("#events").await.contains("the tool was fixed"));
    browser.press("Sign out").await;
    browser.find("#secret").await;
    browser.goto("/").await;
    assert_eq!(browser.path().await, "/login");
}
