//! docs/detection-benchmark.svg: for each detector two bars, the share of healthy runs that it stops and the share of loops
//! that it misses. Shorter is better.
//!
//! Colours follow the reader's light or dark theme. The picture loads nothing and runs no script.

use crate::score::{Scores, detectors};

const WIDTH: u32 = 960;
/// Where the labels end, where each group of bars begins, and the length of a bar of 100 %.
const LABELS: u32 = 190;
const STARTS: [u32; 2] = [LABELS + 16, LABELS + 16 + 372];
const FULL: f64 = 240.0;
const LINE: u32 = 26;
const TOP: u32 = 104;

const STYLE: &str = "
  svg { font: 13px system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif; }
  .page { fill: #ffffff; } .title { font-size: 18px; font-weight: 600; fill: #1f2328; }
  .note { fill: #59636e; } .label { fill: #1f2328; text-anchor: end; } .heading { fill: #59636e; font-weight: 600; }
  .value { fill: #1f2328; } .room { fill: #eff2f5; } .ours { fill: #2da44e; } .other { fill: #8c959f; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } .title, .label, .value { fill: #e6edf3; } .note, .heading { fill: #9198a1; }
    .room { fill: #21262d; } .ours { fill: #3fb950; } .other { fill: #6e7681; }
  }
";

pub fn svg(scores: &Scores) -> String {
    let total = scores.total();
    let mut y = TOP;
    let mut bars = String::new();
    for (index, (name, count)) in detectors().iter().zip(&total.counts).enumerate() {
        let class = if index == 0 { "ours" } else { "other" };
        bars += &format!(r#"<text class="label" x="{LABELS}" y="{}">{name}</text>"#, y + 16);
        bars += &bar(STARTS[0], y, class, count.killed, total.healthy);
        bars += &bar(STARTS[1], y, class, total.loops - count.caught(), total.loops);
        bars.push('\n');
        y += LINE;
    }
    let height = y + 20;
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img">
<title>Healthy runs stopped and loops missed, by detector</title>
<style>{STYLE}</style>
<rect class="page" width="{WIDTH}" height="{height}" rx="8"/>
<text class="title" x="24" y="36">Healthy runs stopped and loops missed, by detector</text>
<text class="note" x="24" y="58">Share of the recorded runs with that label. Shorter is better.</text>
<text class="heading" x="{}" y="{}">healthy runs stopped</text>
<text class="heading" x="{}" y="{}">loops missed</text>
{bars}</svg>
"##,
        STARTS[0],
        TOP - 10,
        STARTS[1],
        TOP - 10
    )
}

fn bar(x: u32, y: u32, class: &str, part: usize, of: usize) -> String {
    let share = if of == 0 { 0.0 } else { part as f64 / of as f64 };
    let length = if part == 0 { 0.0 } else { (share * FULL).max(2.0) };
    let text = f64::from(x) + FULL + 10.0;
    let mut out = format!(r#"<rect class="room" x="{x}" y="{}" width="{FULL:.0}" height="14" rx="3"/>"#, y + 5);
    out += &format!(r#"<rect class="{class}" x="{x}" y="{}" width="{length:.1}" height="14" rx="3"/>"#, y + 5);
    out + &format!(r#"<text class="value" x="{text:.0}" y="{}">{part} of {of}</text>"#, y + 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_bar_is_the_share_of_the_runs() {
        assert!(bar(0, 0, "ours", 5, 10).contains(r#"class="ours" x="0" y="5" width="120.0""#));
        assert!(bar(0, 0, "ours", 0, 10).contains(r#"width="0.0""#));
        assert!(bar(0, 0, "ours", 1, 10_000).contains(r#"width="2.0""#), "what is not zero can be seen");
        assert!(bar(0, 0, "ours", 0, 0).contains("0 of 0"));
    }
}
