//! The loops of the last day and week as stacked bars, and the same figures as a table for those who cannot see the bars.
//!
//! The three kinds of loops differ in their pattern, and not only in their colour. Patterns are attributes of the SVG, since
//! the content security policy forbids styles in pages.

use maud::{Markup, html};

use super::show::{clock, table};
use crate::model::Millis;
use crate::service::Loops;

const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 140.0;
/// Room for the scale on the left and the times below. The last time also needs some on the right.
const LEFT: f64 = 28.0;
const BOTTOM: f64 = 20.0;
const TOP: f64 = 10.0;

/// What the bars of a chart stand for.
#[derive(Clone, Copy)]
pub(super) enum Span {
    /// The hours of the last day.
    Day,
    /// The days of the last week.
    Week,
}

impl Span {
    fn id(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Day => "Last 24 hours",
            Self::Week => "Last 7 days",
        }
    }

    /// Names the hour or the day that begins at a time, in UTC.
    fn name(self, from_ms: Millis) -> String {
        let text = clock(from_ms);
        let part = match self {
            Self::Day => text.get(11..16),
            Self::Week => text.get(5..10),
        };
        part.unwrap_or(&text).to_owned()
    }

    fn heading(self) -> &'static str {
        match self {
            Self::Day => "Hour (UTC)",
            Self::Week => "Day (UTC)",
        }
    }
}

/// A kind of loop.
struct Kind {
    class: &'static str,
    label: &'static str,
    /// The name of the pattern that fills its bars. Those of kills have none.
    pattern: Option<&'static str>,
    count: fn(&Loops) -> u64,
}

/// The kinds of loops, from the bottom of a bar to its top.
const KINDS: [Kind; 3] = [
    Kind { class: "kills", label: "killed", pattern: None, count: |loops| loops.kills },
    Kind { class: "blocks", label: "blocked for a while", pattern: Some("dots"), count: |loops| loops.blocks },
    Kind {
        class: "would-kills",
        label: "would have been killed",
        pattern: Some("stripes"),
        count: |loops| loops.would_kills,
    },
];

/// Draws the loops of a day or a week, with a table of the same figures below.
pub(super) fn chart(span: Span, loops: &[Loops]) -> Markup {
    let id = span.id();
    html! {
        section.chart aria-labelledby={ (id) "-title" } {
            h3 id={ (id) "-title" } { (span.title()) span.faint { " · " (sums(loops)) } }
            (bars(span, loops))
            details id={ (id) "-table" } {
                summary { "As a table" span.sr { ": " (span.title()) } }
                (table("list tight", &[span.heading(), "Killed", "Blocked", "Would have been killed"], rows(span, loops)))
            }
        }
    }
}

/// Explains the patterns of the bars.
pub(super) fn legend() -> Markup {
    html! {
        ul.legend aria-label="What the bars show" {
            @for kind in KINDS { li { span class={ "swatch " (kind.class) } {} (kind.label) } }
        }
    }
}

/// Adds the loops up in words, such as "3 killed, 1 would have been killed".
fn sums(loops: &[Loops]) -> String {
    let sum = |count: fn(&Loops) -> u64| loops.iter().map(count).sum::<u64>();
    let parts: Vec<_> = KINDS
        .iter()
        .filter(|kind| sum(kind.count) > 0)
        .map(|kind| format!("{} {}", sum(kind.count), kind.label))
        .collect();
    if parts.is_empty() { "no loops".to_owned() } else { parts.join(", ") }
}

/// Says what a bar shows, such as "10:00: 2 killed".
fn bar_text(span: Span, loops: &Loops) -> String {
    format!("{}: {}", span.name(loops.from_ms), sums(std::slice::from_ref(loops)))
}

fn bars(span: Span, loops: &[Loops]) -> Markup {
    let id = span.id();
    let highest = loops.iter().map(Loops::total).max().unwrap_or_default();
    let top = highest.max(4) as f64;
    let y = |count: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - count / top);
    let step = (WIDTH - LEFT - 14.0) / loops.len().max(1) as f64;
    let most = loops.iter().find(|one| one.total() == highest && highest > 0);
    let label = match most {
        Some(most) => format!("{}: {}. The most at {}", span.title(), sums(loops), bar_text(span, most)),
        None => format!("{}: no loops", span.title()),
    };
    // About eight times have room below the bars.
    let labelled = loops.len().div_ceil(8);
    html! {
        svg.bars viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(label) {
            defs {
                pattern id={ (id) "-dots" } width="5" height="5" patternUnits="userSpaceOnUse" {
                    rect.ground.blocks width="5" height="5" {}
                    circle.mark.blocks cx="2.5" cy="2.5" r="1.5" {}
                }
                pattern id={ (id) "-stripes" } width="6" height="6" patternUnits="userSpaceOnUse"
                    patternTransform="rotate(45)" {
                    rect.ground.would-kills width="6" height="6" {}
                    rect.mark.would-kills width="2.5" height="6" {}
                }
            }
            line.axis x1=(LEFT) x2=(WIDTH) y1=(y(0.0)) y2=(y(0.0)) {}
            line.grid x1=(LEFT) x2=(WIDTH) y1=(y(top)) y2=(y(top)) {}
            text.scale x=(LEFT - 6.0) y=(y(0.0) + 4.0) { "0" }
            text.scale x=(LEFT - 6.0) y=(y(top) + 4.0) { (top) }
            @for (index, one) in loops.iter().enumerate() {
                @let x = LEFT + step * index as f64;
                (bar(span, one, x + step * 0.12, step * 0.76, &y))
                @if (loops.len() - 1 - index).is_multiple_of(labelled) {
                    text.time x=(round(x + step / 2.0)) y=(HEIGHT - 6.0) { (span.name(one.from_ms)) }
                }
            }
        }
    }
}

fn bar(span: Span, loops: &Loops, x: f64, width: f64, y: &impl Fn(f64) -> f64) -> Markup {
    let mut below = 0;
    html! {
        g {
            title { (bar_text(span, loops)) }
            @for kind in KINDS {
                @let (from, to) = (below as f64, (below + (kind.count)(loops)) as f64);
                @if to > from {
                    @let fill = kind.pattern.map(|pattern| format!("url(#{}-{pattern})", span.id()));
                    rect class={ "part " (kind.class) } x=(round(x)) y=(round(y(to))) width=(round(width))
                        height=(round(y(from) - y(to))) fill=[fill] {}
                }
                ({ below += (kind.count)(loops); "" })
            }
        }
    }
}

fn rows(span: Span, loops: &[Loops]) -> Markup {
    html! {
        @for one in loops {
            tr {
                th scope="row" { (span.name(one.from_ms)) }
                td.numbers data-label="Killed" { (one.kills) }
                td.numbers data-label="Blocked" { (one.blocks) }
                td.numbers data-label="Would have been killed" { (one.would_kills) }
            }
        }
    }
}

fn round(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_says_in_words_what_its_bars_show() {
        let hour = |from_ms, kills, would_kills| Loops { from_ms, kills, blocks: 0, would_kills };
        let day = [hour(1_705_312_800_000, 2, 1), hour(1_705_316_400_000, 0, 0)];
        let drawn = chart(Span::Day, &day).into_string();
        for part in [
            "Last 24 hours: 2 killed, 1 would have been killed. The most at 10:00: 2 killed, 1 would have been killed",
            "<title>11:00: no loops</title>",
            "<th scope=\"row\">10:00</th><td class=\"numbers\" data-label=\"Killed\">2</td>",
            "fill=\"url(#day-stripes)\"",
        ] {
            assert!(drawn.contains(part), "{part} in {drawn}");
        }
        assert!(!drawn.contains("style="), "{drawn}");
        assert!(chart(Span::Week, &[]).into_string().contains("no loops"));
    }
}
