//! Every page on a phone, a tablet and a desktop: nothing is cut off, and nothing scrolls sideways.

use serde_json::json;

use super::pages::{OTHER_PAGES, PAGES};
use super::screenshots::{furnish, kill_it};
use super::{Browser, Script};
use crate::support::receiver::Receiver;
use crate::support::{Sidecar, stop};

/// Names what is wider than its place: the page, a table, a control beyond the edge of the window, or a box to tick that
/// covers its own label.
const TOO_WIDE: &str = "
    const name = element => element.tagName + '#' + element.id + '.' + element.className + ' ' + element.textContent.trim();
    document.querySelectorAll('details').forEach(one => { one.open = true; });
    const inner = [...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth);
    const controls = [...document.querySelectorAll('button, input, select, a')].filter(one => {
        const { left, right, width } = one.getBoundingClientRect();
        return width > 1 && right > 0 && (left < 0 || right > innerWidth);
    });
    const boxes = [...document.querySelectorAll('[type=radio], [type=checkbox]')].filter(one => one.offsetWidth > 20);
    const page = document.documentElement.scrollWidth > innerWidth ? ['the page: ' + document.documentElement.scrollWidth] : [];
    return page.concat(inner.concat(controls, boxes).map(name));";

#[tokio::test]
async fn no_page_scrolls_sideways_on_a_phone_a_tablet_or_a_desktop() {
    let (sidecar, receiver) = (Sidecar::start().await, Receiver::start().await);
    furnish(&sidecar, &receiver).await;
    kill_it(&sidecar).await;
    let long = "a-very-long-name-of-an-agent-that-a-program-has-made-up/0123456789abcdef0123456789abcdef";
    let path = format!("/agents/{}", long.replace('/', "%2F"));
    sidecar.api.put(&format!("/v1{path}"), json!({"kill_switch_enabled": true, "scope": "session"})).await.ok();
    sidecar.api.report("/v1/kills", stop("k1", long, 1)).await.ok();
    sidecar.api.sync("envoy=edge-1").await.ok();
    sidecar.api.guarded("looping").await;
    let (story, told) =
        (sidecar.looped("looping", json!({"tools": [long]})).await, sidecar.api.events("limit=500").await);
    let without_calls = told.iter().find(|event| event["agent_id"] == "research-assistant").unwrap()["id"].clone();
    let stories = [format!("/kills/{story}"), format!("/kills/{without_calls}")];
    let Some(browser) = Browser::open(&sidecar.api.base, Script::On).await else { return };
    let mut faults = Vec::new();
    browser.goto("/login").await;
    check(&browser, "/login", &mut faults).await;
    browser.sign_in().await;
    let pages = PAGES.map(|(_, path, _)| path).into_iter().chain(OTHER_PAGES).chain([path.as_str()]);
    for page in pages.chain(stories.iter().map(String::as_str)) {
        browser.goto(page).await;
        check(&browser, page, &mut faults).await;
    }
    sidecar.api.put("/v1/pause", json!({"for_seconds": 3600, "reason": "the provider is down"})).await.ok();
    browser.goto("/").await;
    check(&browser, "the pause", &mut faults).await;
    assert_eq!(faults, [""; 0]);
}

/// Adds what is wrong with the page at each width to `faults`.
async fn check(browser: &Browser, page: &str, faults: &mut Vec<String>) {
    for (width, highest_header) in [(360, 90), (768, 60), (1280, 60)] {
        browser.driver.set_size(width, 800).await;
        assert_eq!(browser.js("return innerWidth").await, width);
        let too_wide = browser.js(TOO_WIDE).await;
        if too_wide != json!([]) {
            faults.push(format!("{page} at {width} pixels: {too_wide}"));
        }
        let header = browser.js("return document.querySelector('header.top')?.offsetHeight ?? 0").await;
        if header.as_u64().unwrap() > highest_header {
            faults.push(format!("{page} at {width} pixels: the header is {header} high"));
        }
    }
}
