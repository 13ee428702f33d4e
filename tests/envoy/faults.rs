//! Whatever the link between Envoy and the sidecar does, no kill is lost or recorded twice, and healthy agents are served.
//! `make faults` runs the same for longer, and more.

use std::time::Duration;

use lab::drill::{Outcome, Stage, faulty_link, table};
use lab::fault::Fault;

use crate::support::run;

#[test]
fn no_kill_is_lost_or_doubled_while_connections_to_the_sidecar_fail() {
    let is_broken = |fault: &Fault| matches!(fault, Fault::Refuse | Fault::Reset | Fault::Truncate | Fault::Garble);
    each_of(Fault::EACH.into_iter().filter(is_broken));
}

#[test]
fn no_kill_is_lost_or_doubled_while_the_sidecar_is_slow_or_its_answers_are_huge() {
    let is_slow = |fault: &Fault| matches!(fault, Fault::Hang | Fault::Delay(_) | Fault::Huge | Fault::Drip(_));
    each_of(Fault::EACH.into_iter().filter(is_slow));
}

#[test]
fn no_kill_is_lost_or_doubled_during_a_silent_partition() {
    each_of([Fault::Partition]);
}

#[test]
fn no_kill_is_lost_or_doubled_when_all_open_connections_die_unnoticed() {
    each_of([Fault::Dead]);
}

fn each_of(faults: impl IntoIterator<Item = Fault>) {
    run(async {
        let stage = Stage::start().await;
        let mut outcomes = Vec::new();
        for fault in faults {
            outcomes.push(faulty_link(&stage, fault, Duration::ZERO).await);
        }
        eprintln!("{}", table(&outcomes));
        let problems: Vec<String> = outcomes.iter().filter_map(Outcome::problem).collect();
        assert!(problems.is_empty(), "{problems:#?}");
        assert!(outcomes.iter().all(|outcome| outcome.stop_after.is_some()), "manual stops arrive: {outcomes:#?}");
    });
}
