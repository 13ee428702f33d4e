//! docs/benchmarks.svg: a bar for each goal, whose length is the used share of what the goal allows. If the bar ends before
//! the line, the goal is reached.
//!
//! Colours follow the reader's light or dark theme. The picture loads nothing and runs no script.

use crate::Section;
use crate::row::Row;

const WIDTH: u32 = 960;
const LABELS: u32 = 400;
/// Where the bars begin, and the length of a bar that just reaches its goal.
const START: u32 = LABELS + 16;
const GOAL: u32 = 260;
/// The longest bar, however far the goal is missed.
const LONGEST: f64 = 1.3;
const LINE: u32 = 24;
const TOP: u32 = 84;

const STYLE: &str = "
  svg { font: 13px system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif; }
  .page { fill: #ffffff; } .title { font-size: 18px; font-weight: 600; fill: #1f2328; }
  .note { fill: #59636e; } .label { fill: #1f2328; text-anchor: end; } .heading { fill: #59636e; font-weight: 600; }
  .value { fill: #1f2328; } .goal { fill: #59636e; } .room { fill: #eff2f5; } .line { stroke: #1f2328; stroke-width: 1.5; }
  .pass { fill: #2da44e; } .miss { fill: #cf222e; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } .title, .label, .value { fill: #e6edf3; } .note, .heading, .goal { fill: #9198a1; }
    .room { fill: #21262d; } .line { stroke: #e6edf3; } .pass { fill: #3fb950; } .miss { fill: #f85149; }
  }
";

pub fn svg(sections: &[Section]) -> String {
    let mut y = TOP;
    let mut bars = String::new();
    for section in sections {
        let rows: Vec<(&Row, f64)> = section.rows.iter().filter_map(|row| Some((row, row.used()?))).collect();
        if rows.is_empty() {
            continue;
        }
        bars += &format!(r#"<text class="heading" x="24" y="{}">{}</text>"#, y + 17, escaped(section.part.title()));
        bars.push('\n');
        y += LINE;
        for (row, used) in rows {
            bars += &bar(row, used, y);
            y += LINE;
        }
        y += 8;
    }
    let (height, line) = (y + 24, START + GOAL);
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img">
<title>How close each figure is to its goal</title>
<style>{STYLE}</style>
<rect class="page" width="{WIDTH}" height="{height}" rx="8"/>
<text class="title" x="24" y="36">How close each figure is to its goal</text>
<text class="note" x="24" y="58">If a bar ends before the line, the goal is reached. Shorter is better.</text>
<text class="note" x="{line}" y="{}" text-anchor="middle">goal</text>
{bars}<line class="line" x1="{line}" y1="{}" x2="{line}" y2="{}"/>
</svg>
"##,
        TOP - 4,
        TOP + 4,
        y - 4
    )
}

fn bar(row: &Row, used: f64, y: u32) -> String {
    let length = (used.min(LONGEST) * f64::from(GOAL)).max(2.0);
    let class = if row.passes() == Some(false) { "miss" } else { "pass" };
    let room = f64::from(GOAL) * LONGEST;
    let (label, value, goal) = (escaped(&row.what), escaped(&row.value.to_string()), escaped(&row.goal_text()));
    let text = f64::from(START) + room + 12.0;
    let mut out = format!(r#"<text class="label" x="{LABELS}" y="{}">{label}</text>"#, y + 16);
    out += &format!(r#"<rect class="room" x="{START}" y="{}" width="{room:.0}" height="14" rx="3"/>"#, y + 5);
    out += &format!(r#"<rect class="{class}" x="{START}" y="{}" width="{length:.1}" height="14" rx="3"/>"#, y + 5);
    out += &format!(r#"<text x="{text:.0}" y="{}"><tspan class="value">{value}</tspan>"#, y + 16);
    out += &format!(r#"<tspan class="goal" dx="6">{goal}</tspan></text>"#);
    out + "\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace("&gt;=", "≥").replace("&lt;=", "≤")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Part;
    use crate::row::{Goal, Unit, Value};

    #[test]
    fn the_length_of_a_bar_is_the_used_share_of_its_goal_up_to_a_limit() {
        let row = |what: &str, value, goal| Row::new(what, "", Value(value, Unit::Times), goal);
        let rows = vec![
            row("half <of it>", 1.0, Goal::AtMost(2.0)),
            row("far too much", 90.0, Goal::Below(3.0)),
            row("no goal", 1.0, Goal::None),
        ];
        let picture = svg(&[Section { part: Part::Scale, rows }]);
        assert!(picture.contains(r#"class="pass" x="416" y="113" width="130.0""#), "{picture}");
        assert!(picture.contains(r#"class="miss" x="416" y="137" width="338.0""#), "{picture}");
        assert!(picture.contains("half &lt;of it&gt;") && picture.contains("≤ 2x") && !picture.contains("no goal"));
    }
}
