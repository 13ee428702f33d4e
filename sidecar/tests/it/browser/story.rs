//! The story of a kill in the browser: what it shows, and each of its buttons.

use agent_kill_switch::turn::{Answer, ToolSignature, ToolTurn};
use serde_json::json;

use super::{Browser, Script};
use crate::support::calls::{answer, call};
use crate::support::{Sidecar, VIEWER, kill, stop};

#[tokio::test]
async fn a_story_shows_the_calls_and_leads_back_to_the_agent() {
    let sidecar = Sidecar::guarding("bot").await;
    let event = sidecar.looped("bot", json!({})).await;
    let Some(browser) = Browser::open(&sidecar.api.base, Script::Off).await else { return };
    browser.sign_in().await;
    browser.goto("/agents/bot").await;
    browser.press("The story of this kill").await;
    assert_eq!(browser.path().await, format!("/kills/{event}"));
    let happened = browser.text(".banner").await;
    assert!(happened.contains("The kill switch deactivated agent bot"), "{happened}");
    let scores = "return [...document.querySelectorAll('.story tbody td:last-child')].map(cell => cell.textContent)";
    assert_eq!(browser.js(scores).await, json!(["0", "1", "4", "7", "10", "13 above the threshold"]));
    let last = browser.text(".story tbody tr:last-child .why").await;
    assert!(last.contains("calls 1, 2, 3, 4: the same input, the same answer before it"), "{last}");
    assert!(last.contains("call 5: the same input"), "{last}");
    let sees = browser.text("#message").await;
    assert!(sees.contains("Agent bot is inactive: the kill switch deactivated it"), "{sees}");
    assert!(browser.text("[aria-labelledby=told]").await.contains("Nobody: no alert rule applied"));
    assert!(browser.text("[aria-labelledby=refused]").await.contains("No refused call was reported since."));
    browser.goto("/events").await;
    browser.press("Story of this event").await;
    assert_eq!(browser.path().await, format!("/kills/{event}"));
    browser.press("bot").await;
    assert_eq!(browser.path().await, "/agents/bot");
    for address in ["/kills/999", "/kills/x", "/kills/1"] {
        browser.goto(address).await;
        browser.until("main", "there is no kill with the event id").await;
    }
    browser.goto("/kills").await;
    assert_eq!(browser.path().await, "/events");
    browser.goto(&format!("/kills/{event}/activate")).await;
    assert_eq!(browser.path().await, format!("/kills/{event}"), "somebody reloads the address of a form");
}

#[tokio::test]
async fn each_button_says_what_it_would_have_changed_and_does_it() {
    let sidecar = Sidecar::start().await;
    let Some(browser) = Browser::open(&sidecar.api.base, Script::On).await else { return };
    browser.sign_in().await;
    for (button, would, did, changed) in [
        (
            "Activate",
            "call 6 of the last 6 stored calls would have been stopped",
            "Activated. Its window was cleared.",
            json!({"active": true, "action": "deactivate", "generation": 2}),
        ),
        (
            "Activate and observe",
            "none of the last 6 stored calls would have been refused. 1 loop would have been recorded",
            "its loops are only recorded from now on",
            json!({"active": true, "action": "observe", "generation": 2}),
        ),
        (
            "Ignore this tool",
            "With this setting, none of the last 6 stored calls would have been stopped",
            "The tool is ignored. The agent is still inactive",
            json!({"active": false, "tools": {"wait_for_job": "ignore"}}),
        ),
        (
            "Raise the threshold to 13",
            "With this setting, none of the last 6 stored calls would have been stopped",
            "The threshold was raised. The agent is still inactive",
            json!({"active": false, "kill_switch_threshold": 13.0}),
        ),
    ] {
        let agent = format!("bot-{}", button.replace(' ', "-"));
        sidecar.api.guarded(&agent).await;
        let signature = ToolSignature::new(99);
        for number in 1..=6 {
            let mut item = call(number, ToolTurn::Results(signature));
            item.half_points = (number as u16 - 1) * 5;
            let mut items = vec![item];
            items.extend((number < 6).then(|| answer(number, Answer::Tools { text: None, signature })));
            sidecar.reported(&agent, &items).await;
        }
        let event = sidecar.killed(&agent, json!({"tools": ["wait_for_job"], "score": 12.5})).await;
        browser.goto(&format!("/kills/{event}")).await;
        let rule = format!(
            "return [...document.querySelectorAll('li.rule')].find(rule => rule.querySelector('button').textContent == '{button}').textContent"
        );
        let rule = browser.js(&rule).await;
        assert!(rule.as_str().unwrap().contains(would), "{button}: {rule}");
        browser.press(button).await;
        browser.until(".flash", did).await;
        crate::support::assert_members(&sidecar.api.agent(&agent).await, changed);
        let gone = format!(
            "return [...document.querySelectorAll('li.rule button')].every(one => one.textContent != '{button}')"
        );
        assert_eq!(browser.js(&gone).await, true, "{button} is done");
    }
}

#[tokio::test]
async fn a_viewer_sees_the_story_without_buttons() {
    let sidecar = Sidecar::guarding("bot").await;
    let event = sidecar.looped("bot", json!({})).await;
    let Some(browser) = Browser::open(&sidecar.api.base, Script::Off).await else { return };
    browser.sign_in_with(VIEWER).await;
    browser.goto(&format!("/kills/{event}")).await;
    browser.find(".story").await;
    assert!(!browser.has("main button").await);
}

#[tokio::test]
async fn a_story_without_stored_calls_says_so_and_a_conversation_can_go_on() {
    let sidecar = Sidecar::guarding("bot").await;
    let Some(browser) = Browser::open(&sidecar.api.base, Script::Off).await else { return };
    browser.sign_in().await;
    let stopped = sidecar.api.report("/v1/kills", stop("s1", "bot", 1)).await.ok()["event_id"].clone();
    browser.goto(&format!("/kills/{stopped}")).await;
    browser.until("#note", "The calls of this agent are not stored").await;
    browser.until("[aria-labelledby=calls]", "Calls that the report of the kill names").await;
    browser.press("Let it go on").await;
    browser.until(".flash", "The conversation goes on.").await;
    assert_eq!(sidecar.api.get("/v1/agents/bot/sessions").await.ok()["sessions"], json!([]));
    let killed = sidecar.api.report("/v1/kills", kill("k1", "bot", 1)).await.ok()["event_id"].clone();
    browser.goto(&format!("/kills/{killed}")).await;
    browser.until("[aria-labelledby=remedies]", "No calls are stored, so there is nothing to try it on.").await;
}

#[tokio::test]
async fn settings_are_tried_exactly_on_stored_calls() {
    let sidecar = Sidecar::guarding("bot").await;
    sidecar.looped("bot", json!({})).await;
    let Some(browser) = Browser::open(&sidecar.api.base, Script::On).await else { return };
    browser.sign_in().await;
    browser.goto("/agents/bot").await;
    browser.fill("#threshold", "3.5").await;
    browser.until("#preview", "Would have stopped the agent at call 3 of 6").await;
    browser.until("#preview .stops", "call 6").await;
    browser.until("#preview", "Exact: the stored calls were run through the detector again.").await;
    browser.fill("#threshold", "13").await;
    browser.until("#preview", "Would not have stopped anything.").await;
    browser.fill("#window_size", "5").await;
    browser.fill("#threshold", "9").await;
    browser.until("#preview", "at call 5 of 6").await;
    browser.click("#action_observe").await;
    browser.until("#preview", "Would have recorded a loop at call 5 of 6").await;
    browser.click("#counting_literal").await;
    browser.until("#preview", "An estimate, although the stored calls were run through the detector again").await;
}
