//! Names, reasons and reports that contain markup and script. They are shown as text, and nothing in them runs.

use serde_json::json;

use super::{Browser, Script};
use crate::support::{Sidecar, kill_with};

const HOSTILE: [&str; 6] = [
    "<script>window.pwned = 1</script>",
    "\"><img src=x onerror=\"window.pwned = 1\">",
    "'; window.pwned = 1; //",
    "</title><svg onload=window.pwned=1>",
    "javascript:window.pwned=1",
    "\u{202e}gnp.exe\u{2066}",
];

#[tokio::test]
async fn nothing_that_agents_or_people_write_is_executed() {
    let Some((sidecar, browser)) = Browser::signed_in().await else { return };
    let ids: Vec<String> = (0..HOSTILE.len()).map(|index| format!("@a/b:c..{index}")).collect();
    for (id, text) in ids.iter().zip(HOSTILE) {
        let path = format!("/v1/agents/{}", id.replace('/', "%2F"));
        sidecar.api.put(&path, json!({"name": text, "kill_switch_enabled": true})).await.ok();
        let more = json!({"reason": text, "tools": [text], "envoy": text,
            "matches": [{"calls_ago": 1, "age_ms": 1, "same_tool_call": true, "prompt_hash": text}]});
        sidecar.api.report("/v1/kills", kill_with(id, id, 1, more)).await.ok();
        sidecar.api.post(&format!("{path}/activate"), json!({"reason": text, "by": text})).await.ok();
        sidecar.api.post(&format!("{path}/deactivate"), json!({"reason": text, "by": text})).await.ok();
        let rule = json!({"name": text, "channel": "webhook", "target": "http://127.0.0.1:9/"});
        sidecar.api.post("/v1/alerts", rule).await.ok();
        sidecar.api.sync(&format!("envoy={}", text.replace(['<', '>', '&', '#', '"', ' '], "x"))).await;
    }
    let mut pages = ["/", "/agents", "/alerts", "/events", "/envoys"].map(str::to_owned).to_vec();
    pages.push(
        "/agents?q=%3Cscript%3Ewindow.pwned%3D1%3C/script%3E&state=%22%3E%3Cimg%20src=x%20onerror=window.pwned=1%3E"
            .to_owned(),
    );
    pages.push("/?did=activated&agent_id=%22%3E%3Cscript%3Ewindow.pwned=1%3C/script%3E".to_owned());
    pages.push("/events?agent_id=%22%3E%3Cscript%3Ewindow.pwned=1%3C/script%3E".to_owned());
    pages.push("/alerts?agent_id=%22%3E%3Cscript%3Ewindow.pwned=1%3C/script%3E&did=%3Cscript%3E".to_owned());
    pages.extend(ids.iter().map(|id| format!("/agents/{}", id.replace('/', "%2F"))));
    let kills = sidecar.api.events("event_type=kill_switch").await;
    pages.extend(kills.iter().map(|kill| format!("/kills/{}", kill["id"])));
    for path in &pages {
        browser.goto(path).await;
        browser.until("#live-text", "Live").await;
        assert_eq!(browser.js("return window.pwned ?? null").await, json!(null), "{path}");
        let active = "return document.querySelectorAll('main script, main img, [onerror], [onload]').length";
        assert_eq!(browser.js(active).await, json!(0), "{path}");
        let elsewhere =
            "return performance.getEntriesByType('resource').filter((r) => !r.name.startsWith(location.origin)).length";
        assert_eq!(browser.js(elsewhere).await, json!(0), "{path} loads nothing from elsewhere");
    }
    browser.goto("/agents").await;
    let shown = browser.text("#agents").await;
    for text in &HOSTILE[..5] {
        assert!(shown.contains(text), "{text} is shown as text");
    }
    // Direction marks stay inside their own element.
    let isolated = "return [...document.querySelectorAll('.agent')].every((a) => a.querySelector('bdi'))";
    assert_eq!(browser.js(isolated).await, json!(true));
}

#[tokio::test]
async fn an_inline_script_would_not_run_even_if_it_got_in() {
    let Some((_sidecar, browser)) = Browser::signed_in().await else { return };
    browser.js("const s = document.createElement('div'); s.innerHTML = '<img src=x onerror=\"window.pwned=1\">'; document.body.append(s);
        const t = document.createElement('script'); t.textContent = 'window.pwned=1'; document.body.append(t);").await;
    browser.until("#live-text", "Live").await;
    assert_eq!(browser.js("return window.pwned ?? null").await, json!(null));
}

#[tokio::test]
async fn an_invalid_id_is_rejected_and_its_page_runs_nothing() {
    let sidecar = Sidecar::start().await;
    for text in &HOSTILE[..5] {
        let problem = sidecar.api.report("/v1/kills", kill_with("k", text, 1, json!({}))).await.problem(422);
        assert_eq!(problem["field"], "agent_id", "{text}");
        let seen = sidecar.api.report("/v1/observations", json!({"agents": [{"agent_id": text}]})).await.ok();
        assert_eq!((&seen["ignored"], &seen["created"]), (&json!(1), &json!(0)), "{text}");
    }
    let Some(browser) = Browser::open(&sidecar.api.base, Script::On).await else { return };
    browser.sign_in().await;
    for id in
        ["%3Cscript%3Ewindow.pwned=1%3C%2Fscript%3E", "%22%3E%3Cimg%20src=x%20onerror=window.pwned=1%3E", "%E2%80%AEa"]
    {
        browser.goto(&format!("/agents/{id}")).await;
        browser.until("main [role=alert]", "agent_id must be").await;
        assert_eq!(browser.js("return window.pwned ?? null").await, json!(null), "{id}");
    }
}
