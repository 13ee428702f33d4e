//! The tools whose calls are counted differently: the settings form, and the button under a kill. Both without scripts.

use serde_json::json;

use super::{Browser, Script};
use crate::support::{Sidecar, kill};

#[tokio::test]
async fn rules_of_tools_are_added_changed_refused_and_removed_in_the_form() {
    let sidecar = Sidecar::guarding("a").await;
    let Some(browser) = Browser::open(&sidecar.api.base, Script::Off).await else { return };
    browser.sign_in().await;
    browser.goto("/agents/a").await;
    browser.fill("#tool_0", "wait_for_job").await;
    browser.fill("#tool_1", "get_status").await;
    browser.click("#tool_rule_1 option[value=count_from]").await;
    browser.fill("#tool_times_1", "20").await;
    browser.click("#answer_loop_cut").await;
    browser.press("Save settings").await;
    browser.until(".flash", "Settings saved.").await;
    let saved = sidecar.api.agent("a").await;
    assert_eq!(saved["tools"], json!({"get_status": 20, "wait_for_job": "ignore"}));
    assert_eq!(saved["answer_loop"], "cut");

    // The rows are in the order of the names, and there are empty ones for more.
    assert_eq!(browser.value("#tool_0").await, "get_status");
    assert_eq!(browser.value("#tool_times_0").await, "20");
    assert_eq!(
        (browser.value("#tool_1").await, browser.value("#tool_3").await),
        ("wait_for_job".into(), String::new())
    );
    browser.fill("#tool_times_0", "21").await;
    browser.press("Save settings").await;
    browser.until("#kill-switch .bad", "tools.get_status (21) must be at most kill_switch_window_size (20)").await;
    assert_eq!(browser.value("#tool_times_0").await, "21", "what was typed is still there");
    browser.fill("#tool_0", "").await;
    browser.press("Save settings").await;
    browser.until(".flash", "Settings saved.").await;
    assert_eq!(sidecar.api.agent("a").await["tools"], json!({"wait_for_job": "ignore"}));
}

#[tokio::test]
async fn a_kill_that_is_about_a_tool_offers_to_ignore_it() {
    let sidecar = Sidecar::guarding("a").await;
    let Some(browser) = Browser::open(&sidecar.api.base, Script::Off).await else { return };
    browser.sign_in().await;
    sidecar.api.report("/v1/kills", kill("k1", "a", 1)).await.ok();
    browser.goto("/agents/a").await;
    let banner = browser.text(".banner").await;
    assert!(banner.contains("Does this agent wait by calling read_file?"), "{banner}");
    assert!(banner.contains("forwarded and never counted"), "the hint says what the button does: {banner}");
    assert!(!browser.has("#matching .ignore").await, "one hint is enough");
    browser.press("Activate").await;
    browser.until("#matching .ignore", "Does this agent wait by calling read_file?").await;
    browser.press("Ignore this tool").await;
    browser.until(".flash", "The tool is ignored.").await;
    assert_eq!(sidecar.api.agent("a").await["tools"], json!({"read_file": "ignore"}));
    assert_eq!(browser.value("#tool_0").await, "read_file");
    browser.until("#matching", "Calls of read_file are never counted any more").await;
    let changes = &sidecar.api.events("event_type=policy_changed").await[0]["changes"];
    assert_eq!(*changes, json!({"tools": {"from": {}, "to": {"read_file": "ignore"}}}));
}
