//! What several Envoys see of one agent.

use maud::{Markup, html};

use super::show::{ago, number, table};
use crate::model::Millis;
use crate::service::FleetView;

/// Shows how many Envoys serve an agent, the score of all calls together, and that of each Envoy. Shows nothing if no Envoy
/// has reported a call lately.
pub(super) fn card(fleet: &FleetView, now_ms: Millis) -> Markup {
    html! {
        @if let Some(score) = fleet.score {
            section.card aria-labelledby="fleet-title" {
                h2 #fleet-title { "Envoys" }
                p { (serving(fleet)) ". All of its calls together have the score " strong { (number(score)) } "." }
                (table("list", &["Envoy", "Its own score", "Last call"], html! {
                    @for part in &fleet.envoys {
                        tr {
                            th scope="row" { bdi { (part.envoy) } }
                            td.numbers data-label="Its own score" { (number(part.score)) }
                            td data-label="Last call" { (ago(part.last_call_ms, now_ms)) }
                        }
                    }
                }))
            }
        }
    }
}

/// Says how many Envoys serve an agent.
fn serving(fleet: &FleetView) -> String {
    match fleet.envoys.len() {
        1 => "1 Envoy serves this agent".to_owned(),
        envoys => format!("{envoys} Envoys serve this agent"),
    }
}
