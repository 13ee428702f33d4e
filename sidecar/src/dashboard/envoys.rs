//! Which Envoys are connected, and whether each has applied the latest revision.

use axum::extract::State;
use maud::{Markup, html};

use super::Dashboard;
use super::layout::Page;
use super::show::{ago, table};
use super::visitor::Visitor;
use crate::model::Millis;
use crate::service::EnvoyView;

const COLUMNS: [&str; 4] = ["Envoy", "Connection", "Applied revision", "Last seen"];

pub(super) async fn page(State(dashboard): State<Dashboard>, visitor: Visitor) -> Markup {
    let (envoys, current) = (dashboard.service.envoys(), dashboard.service.rev());
    let up_to_date = envoys.iter().filter(|envoy| envoy.connected && envoy.applied_rev == Some(current)).count();
    let connected = envoys.iter().filter(|envoy| envoy.connected).count();
    Page { title: "Envoys", here: "/envoys", visitor: &visitor }.with(html! {
        h1 { "Envoys" }
        div #envoys data-live {
            @if envoys.is_empty() {
                section.card.empty {
                    h2 { "No Envoy has connected yet" }
                    p {
                        "An Envoy appears here when its filter asks for the policies for the first time. "
                        code { "kill-switch doctor" } " checks the connection."
                    }
                }
            } @else {
                p.lead {
                    "Revision " strong { (current) } " is applied by "
                    strong { (up_to_date) " of " (connected) } " connected Envoys."
                }
                (table("list", &COLUMNS, rows(&envoys, current, dashboard.service.now())))
            }
        }
    })
}

fn rows(envoys: &[EnvoyView], current: u64, now_ms: Millis) -> Markup {
    html! {
        @for envoy in envoys {
            tr {
                th scope="row" { bdi { (envoy.envoy) } }
                td {
                    @if envoy.connected { span.badge.active { "● Connected" } }
                    @else { span.badge.inactive { "○ Disconnected" } }
                }
                td.numbers data-label="Applied revision" { (applied(envoy.applied_rev, current)) }
                td data-label="Last seen" { (ago(envoy.last_seen_ms, now_ms)) }
            }
        }
    }
}

fn applied(rev: Option<u64>, current: u64) -> Markup {
    html! {
        @match rev {
            Some(rev) if rev == current => { (rev) span.faint { " up to date" } }
            Some(rev) => { (rev) span.over { " " (current.saturating_sub(rev)) " behind" } }
            None => { span.faint { "none yet" } }
        }
    }
}
