//! axe-core finds nothing wrong with any page, in the light and in the dark theme.

use serde_json::{Value, json};

use super::pages::{OTHER_PAGES, PAGES, THEMES};
use super::screenshots::{furnish, kill_it};
use super::{Browser, Script};
use crate::support::Sidecar;
use crate::support::receiver::Receiver;

/// Opens what is folded, and runs all rules of axe-core.
const RUN: &str = "
    const done = arguments[arguments.length - 1];
    document.querySelectorAll('details').forEach(one => { one.open = true; });
    axe.run(document).then(found => done({
        passes: found.passes.length,
        violations: found.violations.flatMap(rule => rule.nodes.map(node =>
            `${rule.id}: ${node.target.join(' ')}: ${node.failureSummary}`)),
    }), error => done({ passes: 0, violations: [String(error)] }));";

/// Pictures, which need a text: those that are not only decoration.
const PICTURES_WITHOUT_TEXT: &str = "
    return [...document.querySelectorAll('svg, img')].filter(one =>
        !one.getAttribute('alt') && one.getAttribute('alt') !== '' && !one.getAttribute('aria-label')).length";

/// Adds what is wrong with the page in each theme to `faults`.
async fn check(browser: &Browser, axe: &str, page: &str, faults: &mut Vec<String>) {
    for theme in THEMES {
        browser.driver.set_theme(theme).await;
        let is_dark = browser.js("return matchMedia('(prefers-color-scheme: dark)').matches").await;
        assert_eq!(is_dark, theme == "dark");
        // The driver runs scripts beside the content security policy.
        browser.js(axe).await;
        let found = browser.page.execute_async(RUN, Vec::new()).await.unwrap();
        let (passes, violations) = (found["passes"].as_u64().unwrap(), found["violations"].as_array().unwrap());
        faults.extend(violations.iter().map(|one| format!("{page}, {theme}: {}", one.as_str().unwrap())));
        assert!(passes > 10 || !violations.is_empty(), "{page}: only {passes} rules were checked");
        assert_eq!(browser.js(PICTURES_WITHOUT_TEXT).await, 0, "{page}");
    }
}

#[tokio::test]
async fn no_page_violates_a_rule_of_axe_core_in_light_or_dark() {
    let Some(axe) = lab::proc::axe_script() else { return };
    let axe = std::fs::read_to_string(axe).unwrap();
    let (sidecar, receiver) = (Sidecar::start().await, Receiver::start().await);
    let Some(browser) = Browser::open(&sidecar.api.base, Script::On).await else { return };
    let mut faults = Vec::new();
    browser.goto("/login").await;
    check(&browser, &axe, "/login", &mut faults).await;
    browser.fill("#secret", "wrong").await;
    browser.press("Sign in").await;
    check(&browser, &axe, "a refused login", &mut faults).await;
    browser.sign_in().await;
    for page in ["/", "/agents", "/alerts", "/events", "/envoys"] {
        browser.goto(page).await;
        check(&browser, &axe, &format!("{page} without data"), &mut faults).await;
    }
    sidecar.api.put("/v1/agents/new", json!({})).await.ok();
    browser.goto("/agents/new").await;
    browser.press_switch().await;
    browser.find("[role=alertdialog]").await;
    check(&browser, &axe, "the question for an alert", &mut faults).await;
    browser.goto("/agents/new").await;
    browser.fill("#threshold", "1000").await;
    browser.press("Save settings").await;
    browser.find("[aria-invalid]").await;
    check(&browser, &axe, "refused settings", &mut faults).await;
    furnish(&sidecar, &receiver).await;
    kill_it(&sidecar).await;
    for page in PAGES.map(|(_, path, _)| path).into_iter().chain(OTHER_PAGES) {
        browser.goto(page).await;
        check(&browser, &axe, page, &mut faults).await;
    }
    sidecar.api.guarded("looping").await;
    let story = sidecar.looped("looping", json!({"tools": ["search"]})).await;
    browser.goto(&format!("/kills/{story}")).await;
    browser.find("#story").await;
    check(&browser, &axe, "the story of a kill", &mut faults).await;
    browser.goto("/v1/agents").await;
    check(&browser, &axe, "an error of the API", &mut faults).await;
    sidecar.api.put("/v1/pause", json!({"for_seconds": 3600, "reason": "the provider is down"})).await.ok();
    browser.goto("/").await;
    check(&browser, &axe, "the pause", &mut faults).await;
    assert_eq!(faults, [""; 0], "{}", faults.join("\n"));
}

#[tokio::test]
async fn axe_core_finds_what_is_wrong_with_a_page() {
    let Some(axe) = lab::proc::axe_script() else { return };
    let axe = std::fs::read_to_string(axe).unwrap();
    let Some((_sidecar, browser)) = Browser::signed_in().await else { return };
    browser
        .js("document.querySelector('main').innerHTML = '<input> <p style=\"color: #eee; background: #fff\">x</p>'")
        .await;
    browser.js(&axe).await;
    let found: Value = browser.page.execute_async(RUN, Vec::new()).await.unwrap();
    assert!(found["violations"].to_string().contains("label: #main > input"), "{found}");
}
