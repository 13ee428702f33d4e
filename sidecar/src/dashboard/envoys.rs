//! Which Envoys are connected, and whether each has what the others have.

use axum::extract::State;
use maud::{Markup, html};

use super::Dashboard;
use super::layout::Page;
use super::show::ago;
use super::visitor::Visitor;
use crate::model::Millis;
use crate::service::EnvoyView;

pub(super) async fn page(State(dashboard): State<Dashboard>, visitor: Visitor) -> Markup {
    let (envoys, current) = (dashboard.service.envoys(), dashboard.service.rev());
    let up_to_date = envoys.iter().filter(|envoy| envoy.connected && envoy.applied_rev == Some(current)).count();
    let connected = envoys.iter().filter(|envoy| envoy.connected).count();
    Page { title: "Envoys", here: "/envoys", visitor: &visitor }.with(html! {
        h1 { "Envoys" }
        div #envoys data-live {
            @if envoys.is_empty() {
                section.card.empty {
                    h2 { "No Envoy has asked yet" }
                    p {
                        "Envoys appear here once their filter polls for policy. "
                        code { "kill-switch doctor" } " checks the way."
                    }
                }
            } @else {
                p.lead {
                    "Revision " strong { (current) } " is applied by "
                    strong { (up_to_date) " of " (connected) } " connected Envoys."
                }
                (table(&envoys, current, dashboard.service.now()))
            }
        }
    })
}

fn table(envoys: &[EnvoyView], current: u64, now_ms: Millis) -> Markup {
    html! {
        div.scroll {
            table.list {
                thead {
                    tr {
                        @for heading in ["Envoy", "Connection", "Applied revision", "Last seen"] {
                            th scope="col" { (heading) }
                        }
                    }
                }
                tbody {
                    @for envoy in envoys {
                        tr {
                            th scope="row" { bdi { (envoy.envoy) } }
                            td {
                                @if envoy.connected { span.badge.active { "● Connected" } }
                                @else { span.badge.inactive { "○ Silent" } }
                            }
                            td.numbers { (applied(envoy.applied_rev, current)) }
                            td { (ago(envoy.last_seen_ms, now_ms)) }
                        }
                    }
                }
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
