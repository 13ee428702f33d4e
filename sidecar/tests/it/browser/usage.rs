//! The card of tokens and refused calls, without prices and with them.

use serde_json::json;

use super::{Browser, Script};
use crate::support::{Sidecar, kill_with};
use crate::usage::{report, start_with_prices, used, written};

#[tokio::test]
async fn without_prices_tokens_and_refused_calls_are_shown_and_no_money() {
    let sidecar = Sidecar::guarding("a").await;
    let Some(browser) = Browser::open(&sidecar.api.base, Script::Off).await else { return };
    browser.sign_in().await;
    browser.goto("/agents/a").await;
    browser.until("#usage", "No answer has stated its tokens in the last 14 days").await;

    let agents = [("a", 7, json!([used("gpt-4.1", 1_234), used("", 1)]))];
    sidecar.api.report("/v1/observations", report(&agents)).await.ok();
    sidecar.service.write_observations().await.unwrap();
    let loop_usage = json!({"input_tokens": 5_000, "output_tokens": 90});
    let kill = kill_with("k1", "a", 1, json!({"loop_calls": 6, "loop_usage": loop_usage}));
    sidecar.api.report("/v1/kills", kill).await.ok();
    browser.goto("/agents/a").await;
    let card = browser.text("#usage").await;
    assert!(
        card.contains("1,235,000 input and 123,500 output tokens in 1,235 answers, and 7 refused calls."),
        "{card}"
    );
    assert!(!card.to_lowercase().contains("cost") && !card.contains("price"), "{card}");
    let chart = browser.attribute("#usage svg", "aria-label").await;
    assert_eq!(chart, "Tokens by day since 2024-01-02: highest 1,358,500. Refused calls: 7");
    browser.click("#usage summary").await;
    let table = browser.text("#usage table").await;
    assert!(table.contains("2024-01-15") && table.contains("others, or not named"), "{table}");
    let took = "6 calls, whose answers stated 5,000 input and 90 output tokens";
    browser.until(".banner", took).await;
    browser.until("#events", &format!("the loop took {took}")).await;
}

#[tokio::test]
async fn with_prices_the_cost_is_shown_and_what_has_no_price_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let process = start_with_prices(dir.path());
    written(&process.api, &[("a", 0, json!([used("gpt-4.1", 1_000), used("llama", 2)]))]).await;
    let Some(browser) = Browser::open(&process.api.base, Script::On).await else { return };
    browser.sign_in_with(&process.api.operator).await;
    browser.goto("/agents/a").await;
    let card = browser.text("#usage").await;
    assert!(card.contains("Cost: 2.80 USD. 2,200 tokens of models without a price are not part of it."), "{card}");
    browser.click("#usage summary").await;
    let table = browser.text("#usage table").await;
    assert!(table.contains("2.80 USD") && table.contains("no price"), "{table}");
    process.api.report("/v1/observations", report(&[("a", 9, json!([]))])).await.ok();
    browser.until("#usage", "9 refused calls").await;
    assert!(browser.is_displayed("#usage table").await, "what was opened stays open when the page updates itself");
}
