//! What several pages show in the same way: badges, tables, times and numbers.

use agent_kill_switch::wire::DeactivatedBy;
use maud::{Markup, html};

use crate::clock::rfc3339;
use crate::model::{Agent, Millis};

/// Shows the state of an agent as text with an icon, never as a colour alone.
pub(super) fn badge(agent: &Agent) -> Markup {
    let (class, icon, text) = match (agent.policy.active, agent.policy.deactivated_by) {
        (true, _) => ("badge active", "●", "Active"),
        (false, Some(DeactivatedBy::KillSwitch)) => ("badge killed", "■", "Deactivated by Kill Switch"),
        (false, _) => ("badge inactive", "○", "Inactive"),
    };
    html! { span class=(class) data-badge { span aria-hidden="true" { (icon) } " " (text) } }
}

/// Shows a table whose rows are `rows`. On a phone the headings are not visible: a cell that needs one there repeats it as
/// its `data-label`.
pub(super) fn table(class: &str, headings: &[&str], rows: Markup) -> Markup {
    html! {
        div.scroll {
            table class=(class) {
                thead { tr { @for heading in headings { th scope="col" { (heading) } } } }
                tbody { (rows) }
            }
        }
    }
}

/// Shows how long ago something happened, with the exact time as a tooltip.
pub(super) fn ago(at_ms: Millis, now_ms: Millis) -> Markup {
    html! { time datetime=(rfc3339(at_ms)) title=(clock(at_ms)) { (since(at_ms, now_ms)) } }
}

/// Like [`ago`], but shows `never` if it has not happened.
pub(super) fn ago_or(at_ms: Option<Millis>, now_ms: Millis, never: &str) -> Markup {
    match at_ms {
        Some(at_ms) => ago(at_ms, now_ms),
        None => html! { span.faint { (never) } },
    }
}

fn since(at_ms: Millis, now_ms: Millis) -> String {
    match now_ms.saturating_sub(at_ms) / 1_000 {
        0..10 => "just now".to_owned(),
        seconds @ 10..60 => format!("{seconds} s ago"),
        seconds @ 60..3_600 => format!("{} min ago", seconds / 60),
        seconds @ 3_600..172_800 => format!("{} h ago", seconds / 3_600),
        seconds => format!("{} days ago", seconds / 86_400),
    }
}

/// Writes a time in UTC, to the second, as it is found in logs.
pub(super) fn clock(at_ms: Millis) -> String {
    let text = rfc3339(at_ms);
    format!("{} UTC", text.get(..19).unwrap_or(&text).replace('T', " "))
}

/// Writes a duration in the largest unit that fits.
pub(super) fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1_000.0),
        _ => format!("{} min {} s", ms / 60_000, ms / 1_000 % 60),
    }
}

/// Writes a number with at most one decimal, and without ".0".
pub(super) fn number(number: f64) -> String {
    if number.fract() == 0.0 { format!("{number:.0}") } else { format!("{number:.1}") }
}

/// Says which policy file the settings of an agent come from, and by which rule. `None` if no file manages the agent.
pub(super) fn policy_file(agent: &Agent) -> Option<Markup> {
    let file = agent.managed_by.as_ref()?;
    Some(html! {
        "policy file " bdi { (file) }
        @if let Some(rule) = &agent.managed_rule { ", rule " bdi { (rule) } }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_the_largest_unit_that_fits() {
        for (seconds, text) in
            [(3, "just now"), (45, "45 s ago"), (130, "2 min ago"), (7_300, "2 h ago"), (200_000, "2 days ago")]
        {
            assert_eq!(since(1_000_000, 1_000_000 + seconds * 1_000), text);
        }
        assert_eq!(since(5_000, 0), "just now", "a time in the future");
    }

    #[test]
    fn numbers_and_durations_are_short() {
        assert_eq!((number(10.0), number(13.5)), ("10".to_owned(), "13.5".to_owned()));
        assert_eq!(
            (duration(800), duration(2_500), duration(61_000)),
            ("800 ms".to_owned(), "2.5 s".to_owned(), "1 min 1 s".to_owned())
        );
    }
}
