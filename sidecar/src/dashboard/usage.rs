//! What agents used and what they were refused, by day: a sentence, a chart and a table. Money is shown only at the
//! operator's own prices, and only for models that have one.

use maud::{Markup, html};

use super::show::table;
use crate::model::{UsageDay, date_of, grouped};
use crate::service::{Cost, Prices};

/// How many days the cards show.
pub(super) const DAYS: u32 = 14;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 120.0;
const BOTTOM: f64 = 20.0;

/// The latest [`DAYS`] days of an agent, or of all agents.
pub(super) struct Usage<'a> {
    /// The first of these days.
    pub since_day: u64,
    /// Those of the days that have traffic, oldest first.
    pub days: &'a [UsageDay],
    /// The operator's prices, if there are any.
    pub prices: Option<&'a Prices>,
}

/// Shows the days of one agent.
pub(super) fn card(usage: &Usage<'_>) -> Markup {
    shown("Tokens and refused calls", usage)
}

/// Shows the days of all agents together.
pub(super) fn overview_card(usage: &Usage<'_>) -> Markup {
    shown("Tokens and refused calls of all agents", usage)
}

fn shown(title: &str, usage: &Usage<'_>) -> Markup {
    html! {
        section.card aria-labelledby="usage-title" {
            h2 #usage-title { (title) }
            @if usage.days.is_empty() {
                p.faint {
                    "No answer has stated its tokens in the last " (DAYS) " days, and no call was refused. Answers are read "
                    "while the kill switch is on."
                }
            } @else {
                p { (sum(usage)) }
                (chart(usage))
                details #usage-by-day {
                    summary #usage-by-day-summary { "By day and model" }
                    (by_day(usage))
                }
                p.faint {
                    "Tokens are those that providers state in answers that were read."
                    @if usage.prices.is_some() {
                        " The cost is computed from them at the prices in your file, which has one price for all input, "
                        "cached or not."
                    }
                }
            }
        }
    }
}

/// Says in a sentence what was used in all days together.
fn sum(usage: &Usage<'_>) -> Markup {
    let mut total = UsageDay::default();
    for day in usage.days {
        total.refused += day.refused;
        total.models.extend_from_slice(&day.models);
    }
    let all = total.total();
    html! {
        "In the last " (DAYS) " days: " (grouped(all.input_tokens)) " input and " (grouped(all.output_tokens))
        " output tokens in " (count(all.calls, "answer")) ", and " (count(total.refused, "refused call")) "."
        @if let Some(prices) = usage.prices {
            @let Cost { amount, unpriced_tokens } = prices.cost(&total.models);
            " Cost: " strong { (money(amount, prices)) } "."
            @if unpriced_tokens > 0 {
                " " (grouped(unpriced_tokens)) " tokens of models without a price are not part of it."
            }
        }
    }
}

/// Draws the tokens of each day as a bar, with the refused calls as a number above it.
fn chart(usage: &Usage<'_>) -> Markup {
    let highest = usage.days.iter().map(all_tokens).max().unwrap_or(0).max(1) as f64;
    let step = WIDTH / f64::from(DAYS);
    let base = HEIGHT - BOTTOM;
    let height = |tokens: u64| (tokens as f64 / highest * (base - 22.0) * 10.0).round() / 10.0;
    let label = format!(
        "Tokens by day since {}: highest {}. Refused calls: {}",
        date_of(usage.since_day),
        grouped(usage.days.iter().map(all_tokens).max().unwrap_or(0)),
        grouped(usage.days.iter().map(|day| day.refused).sum()),
    );
    html! {
        svg.timeline viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(label) {
            line.axis x1="0" x2=(WIDTH) y1=(base) y2=(base) {}
            @for day in usage.days {
                @let x = step * day.day.saturating_sub(usage.since_day) as f64;
                @let total = day.total();
                @let (input, output) = (height(total.input_tokens), height(total.output_tokens));
                g.bar {
                    title {
                        (date_of(day.day)) ": " (grouped(total.input_tokens)) " input and " (grouped(total.output_tokens))
                        " output tokens, " (count(day.refused, "refused call"))
                    }
                    rect.prompts x=(x + step * 0.2) y=(base - input) width=(step * 0.6) height=(input) {}
                    rect.responses x=(x + step * 0.2) y=(base - input - output) width=(step * 0.6) height=(output) {}
                    @if day.refused > 0 {
                        text.kill x=(x + step * 0.5) y=(base - input - output - 5.0) text-anchor="middle" {
                            "✕ " (grouped(day.refused))
                        }
                    }
                }
            }
            text.time x="0" y=(HEIGHT - 4.0) { (date_of(usage.since_day)) }
            text.time x=(WIDTH) y=(HEIGHT - 4.0) text-anchor="end" {
                (date_of(usage.since_day + u64::from(DAYS) - 1))
            }
        }
        ul.legend aria-label="What the chart shows" {
            li { span.swatch.prompts {} "input tokens" }
            li { span.swatch.responses {} "output tokens" }
            li { "✕ refused calls" }
        }
    }
}

fn all_tokens(day: &UsageDay) -> u64 {
    let total = day.total();
    total.input_tokens + total.output_tokens
}

/// Lists the days, the latest first, with a row for each model.
fn by_day(usage: &Usage<'_>) -> Markup {
    let headings: &[&str] = match usage.prices {
        Some(_) => &["Day", "Model", "Answers", "Input", "Output", "Refused", "Cost"],
        None => &["Day", "Model", "Answers", "Input", "Output", "Refused"],
    };
    let rows = html! {
        @for day in usage.days.iter().rev() {
            @if day.models.is_empty() {
                tr {
                    th scope="row" { (date_of(day.day)) }
                    td {} td.numbers {} td.numbers {} td.numbers {}
                    td.numbers data-label="Refused" { (grouped(day.refused)) }
                    @if usage.prices.is_some() { td.numbers {} }
                }
            }
            @for (index, model) in day.models.iter().enumerate() {
                tr {
                    th scope="row" { (date_of(day.day)) }
                    td data-label="Model" {
                        @if model.model.is_empty() { span.faint { "others, or not named" } }
                        @else { bdi { (model.model) } }
                    }
                    td.numbers data-label="Answers" { (grouped(model.calls)) }
                    td.numbers data-label="Input" { (grouped(model.input_tokens)) }
                    td.numbers data-label="Output" { (grouped(model.output_tokens)) }
                    // They belong to the day, and not to a model.
                    td.numbers data-label=[(index == 0).then_some("Refused")] {
                        @if index == 0 { (grouped(day.refused)) }
                    }
                    @if let Some(prices) = usage.prices {
                        td.numbers data-label="Cost" {
                            @match prices.cost_of(model) {
                                Some(amount) => (money(amount, prices)),
                                None => span.faint { "no price" },
                            }
                        }
                    }
                }
            }
        }
    };
    table("list", headings, rows)
}

fn count(number: u64, one: &str) -> String {
    format!("{} {one}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Writes an amount of money. Small amounts have four decimals, so that they do not look like nothing.
fn money(amount: f64, prices: &Prices) -> String {
    let decimals = if amount < 1.0 { 4 } else { 2 };
    format!("{amount:.decimals$} {}", prices.currency)
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_kill_switch::wire::ModelUsage;

    fn day(model: &str) -> UsageDay {
        let usage = ModelUsage { model: model.to_owned(), calls: 3, input_tokens: 1_200_000, output_tokens: 3_400 };
        UsageDay { day: 20_010, refused: 7, models: vec![usage] }
    }

    #[test]
    fn money_is_shown_only_at_the_operators_prices_and_what_has_no_price_is_named() {
        let prices = Prices::parse("{currency: EUR, models: {gpt*: {input: 2, output: 8}}}").unwrap();
        let page = |days: &[UsageDay], prices| card(&Usage { since_day: 20_000, days, prices }).into_string();
        let without = page(&[day("gpt-4.1")], None);
        assert!(without.contains("1,200,000 input and 3,400 output tokens in 3 answers, and 7 refused calls."));
        assert!(!without.contains("ost") && !without.contains("EUR") && !without.contains("price"), "{without}");
        let with = page(&[day("gpt-4.1"), day("llama")], Some(&prices));
        assert!(with.contains("<strong>2.43 EUR</strong>"), "{with}");
        assert!(with.contains("1,203,400 tokens of models without a price are not part of it."), "{with}");
        assert!(with.contains("no price"), "{with}");
        assert!(page(&[], Some(&prices)).contains("No answer has stated its tokens"));
    }

    #[test]
    fn amounts_are_rounded_and_small_ones_do_not_look_like_nothing() {
        let prices = Prices::parse("{currency: USD, models: {}}").unwrap();
        assert_eq!((money(0.0123, &prices), money(12.345, &prices)), ("0.0123 USD".into(), "12.35 USD".into()));
    }
}
