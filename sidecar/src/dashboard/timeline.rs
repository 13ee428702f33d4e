//! Scores as pictures: a timeline that shows what each score is made of, and a sparkline for tables.
//!
//! The SVG carries no styles of its own, since the content security policy forbids them. The stylesheet has the colours
//! for the light and the dark theme.

use agent_kill_switch::wire::ScoreSample;
use maud::{Markup, html};

use super::show::{clock, number};
use crate::model::Millis;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 210.0;
/// Room for the scale on the left and the times below.
const LEFT: f64 = 34.0;
const BOTTOM: f64 = 22.0;
const TOP: f64 = 18.0;

/// Draws the latest scores as bars, with the threshold as a line and a mark for each kill. A kill has a time and a
/// word for what it did.
pub(super) fn timeline(scores: &[ScoreSample], threshold: f64, kills: &[(Millis, &str)]) -> Markup {
    let highest = scores.iter().map(|sample| sample.score).fold(0.0, f64::max);
    let top = (threshold * 1.25).max(highest * 1.08);
    let y = |score: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - (score / top).clamp(0.0, 1.0));
    let step = (WIDTH - LEFT - 8.0) / (scores.len().max(40) as f64);
    let x = |index: usize| LEFT + step * index as f64;
    let label = format!(
        "Scores of the last {} calls: highest {}, threshold {}, {} kills",
        scores.len(),
        number(highest),
        number(threshold),
        kills.len()
    );
    html! {
        svg.timeline viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(label) {
            line.axis x1=(LEFT) x2=(WIDTH) y1=(y(0.0)) y2=(y(0.0)) {}
            text.scale x=(LEFT - 6.0) y=(y(0.0) + 4.0) { "0" }
            @for (index, sample) in scores.iter().enumerate() {
                (bar(sample, threshold, x(index) + step * 0.12, (step * 0.76).max(0.8), &y))
            }
            line.threshold x1=(LEFT) x2=(WIDTH) y1=(y(threshold)) y2=(y(threshold)) {}
            text.scale.over x=(LEFT - 6.0) y=(y(threshold) + 4.0) { (number(threshold)) }
            text.threshold x=(LEFT + 2.0) y=(y(threshold) - 5.0) { "threshold" }
            @for (at_ms, word) in kills {
                @let at = x(scores.iter().filter(|sample| sample.at_ms <= *at_ms).count());
                @let (shift, anchor) = if at > WIDTH / 2.0 { (-5.0, "end") } else { (5.0, "start") };
                line.kill x1=(at) x2=(at) y1=(TOP - 6.0) y2=(y(0.0)) {}
                text.kill x=(at + shift) y=(TOP + 4.0) text-anchor=(anchor) {
                    "■ " (word) title { (word) " at " (clock(*at_ms)) }
                }
            }
            @if let (Some(first), Some(last)) = (scores.first(), scores.last()) {
                text.time x=(LEFT) y=(HEIGHT - 5.0) { (clock(first.at_ms)) }
                @if scores.len() > 20 {
                    text.time x=(x(scores.len())) y=(HEIGHT - 5.0) text-anchor="end" { (clock(last.at_ms)) }
                }
            }
        }
        ul.legend aria-label="What a score is made of" {
            li { span.swatch.prompts {} "similar prompts × 1" }
            li { span.swatch.responses {} "similar responses × 2" }
            li { span.swatch.tools {} "repeated tool calls × 1.5" }
        }
    }
}

/// Draws one call as a stack of its contributions, which together are as high as its score.
fn bar(sample: &ScoreSample, threshold: f64, x: f64, width: f64, y: &impl Fn(f64) -> f64) -> Markup {
    let signals = &sample.signals;
    let parts = [
        ("prompts", f64::from(signals.similar_prompts)),
        ("responses", f64::from(signals.similar_responses) * 2.0),
        ("tools", f64::from(signals.repeated_tool_calls) * 1.5),
    ];
    let sum: f64 = parts.iter().map(|(_, part)| part).sum();
    // Progress counting can give a signal less weight. The score is then less than the sum of the parts, and each part
    // is drawn as its share of the score.
    let share = if sum > 0.0 { sample.score / sum } else { 0.0 };
    let mut below = 0.0;
    let over = if sample.score > threshold { "bar over" } else { "bar" };
    html! {
        g class=(over) {
            title {
                (clock(sample.at_ms)) ": score " (number(sample.score)) " = " (signals.similar_prompts) " prompts, "
                (signals.similar_responses) " responses, " (signals.repeated_tool_calls) " tool calls"
            }
            @if sum <= 0.0 {
                rect.nothing x=(round(x)) y=(round(y(0.0) - 1.5)) width=(round(width)) height="1.5" {}
            }
            @for (class, part) in parts.into_iter().filter(|(_, part)| *part > 0.0) {
                @let (from, to) = (below, below + part * share);
                rect class=(class) x=(round(x)) y=(round(y(to))) width=(round(width)) height=(round(y(from) - y(to))) {}
                ({ below = to; "" })
            }
        }
    }
}

fn round(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// Draws the latest scores as a line that fits into a table cell, followed by the last score as a number.
pub(super) fn sparkline(scores: &[ScoreSample], threshold: f64) -> Markup {
    const W: f64 = 96.0;
    const H: f64 = 22.0;
    let Some(last) = scores.last() else { return html! { span.faint { "no scores yet" } } };
    let top = scores.iter().map(|sample| sample.score).fold(threshold * 1.1, f64::max);
    let y = |score: f64| round(H - 2.0 - (H - 4.0) * (score / top));
    let step = (W - 4.0) / (scores.len().max(2) - 1) as f64;
    let points: Vec<_> =
        scores.iter().enumerate().map(|(i, s)| format!("{},{}", round(2.0 + step * i as f64), y(s.score))).collect();
    let over = if last.score > threshold { "score over" } else { "score" };
    html! {
        svg.spark viewBox={ "0 0 " (W) " " (H) } width=(W) height=(H) role="img"
            aria-label={ "Latest scores; the last is " (number(last.score)) " of " (number(threshold)) } {
            line.threshold x1="0" x2=(W) y1=(y(threshold)) y2=(y(threshold)) {}
            polyline points=(points.join(" ")) {}
        }
        span class=(over) { (number(last.score)) span.faint { " / " (number(threshold)) } }
    }
}
