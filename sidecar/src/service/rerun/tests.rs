//! Tests of reruns: the loop of the specification, and what starts windows afresh.

use agent_kill_switch::entries::{Item, Kind};
use agent_kill_switch::fingerprint::Fingerprint;
use agent_kill_switch::fingerprint::hash::mix;
use agent_kill_switch::fingerprint::simhash::SimHash;
use agent_kill_switch::turn::ToolTurn;
use agent_kill_switch::wire::{Counting, ToolRule};

use super::*;
use crate::model::Agent;

pub(crate) fn text(seed: u64) -> Fingerprint {
    Fingerprint { simhash: SimHash(mix(seed)), digest: seed as u32, informative: true, failing: false }
}

pub(crate) fn policy() -> AgentPolicy {
    Agent::new("bot", 1).policy
}

/// A call of Envoy `edge`, a second after the one before it, with its answer. The clocks differ by a thousand seconds.
pub(crate) fn stored(number: u32, input: u64, answer: u64) -> StoredCall {
    let at_ms = u64::from(number) * 1_000;
    let call = Call { at_ms, in_flight: 1, input: text(input), ..Call::default() };
    StoredCall {
        generation: 1,
        counting: Counting::Progress,
        envoy: "edge".to_owned(),
        sender: "worker".to_owned(),
        at_ms: at_ms + 1_000_000,
        item: Item { kind: Kind::Common, number, half_points: 0, call },
        end: Some((Answer::Text(text(answer)), at_ms + 300)),
    }
}

pub(crate) fn looping(calls: u32) -> Vec<StoredCall> {
    (1..=calls).map(|number| stored(number, 1, 2)).collect()
}

/// Judges all calls, acting on loops. Returns the scores, and where loops were found.
fn run(calls: Vec<StoredCall>, policy: &AgentPolicy, names: &ToolNames) -> (Vec<f64>, Vec<usize>) {
    let ordered = Ordered::new(calls);
    let mut rerun = Rerun::new(&ordered, policy, names);
    let (mut scores, mut loops) = (Vec::new(), Vec::new());
    for index in 0..ordered.calls.len() {
        let judged = rerun.judge(index);
        scores.push(judged.score().value());
        if let Some(seen_by) = judged.seen_by {
            rerun.act(index, seen_by);
            loops.push(index + 1);
        }
    }
    (scores, loops)
}

#[test]
fn the_loop_of_the_specification_grows_as_in_the_filter_and_starts_afresh_after_a_loop() {
    let names = ToolNames::new();
    let (scores, loops) = run(looping(7), &policy(), &names);
    assert_eq!((scores.as_slice(), loops), ([0.0, 1.0, 4.0, 7.0, 10.0, 13.0, 0.0].as_slice(), vec![6]));
    let raised = AgentPolicy { kill_switch_threshold: 13.5, ..policy() };
    assert_eq!(run(looping(7), &raised, &names).1, [7]);
    let activated = looping(8).into_iter().map(|call| match call.item.number {
        number @ 5.. => StoredCall { generation: u64::from(number > 4) + 1, ..call },
        _ => call,
    });
    assert_eq!(run(activated.collect(), &policy(), &names).1, [0; 0], "an activation in between");
}

#[test]
fn calls_are_put_into_the_order_of_their_envoys_clock() {
    // Two workers of one Envoy report with different delays, and later the Envoy is started again with a new clock.
    let delayed = |number: u32, delay: u64| {
        let call = stored(number, 1, 2);
        StoredCall { at_ms: call.at_ms + delay, ..call }
    };
    let mut again = stored(1, 9, 9);
    again.at_ms = 1_100_000;
    let ordered = Ordered::new(vec![delayed(2, 0), delayed(1, 1_500), delayed(3, 20), again]);
    let seen: Vec<_> = ordered.calls.iter().map(|call| (call.item.number, call.at_ms)).collect();
    assert_eq!(seen, [(1, 1_001_000), (2, 1_002_000), (3, 1_003_000), (1, 1_100_000)]);
    assert!(!ordered.is_spread);
}

#[test]
fn a_loop_over_two_envoys_is_found_in_the_calls_of_both() {
    let spread = looping(6).into_iter().map(|call| match call.item.number % 2 {
        0 => StoredCall { envoy: "other".to_owned(), ..call },
        _ => call,
    });
    let ordered = Ordered::new(spread.collect());
    let names = ToolNames::new();
    let policy = policy();
    let mut rerun = Rerun::new(&ordered, &policy, &names);
    let judged: Vec<_> = (0..6).map(|index| rerun.judge(index)).collect();
    assert_eq!(judged[5].seen_by, Some(SeenBy::Fleet));
    assert_eq!((judged[5].score().value(), judged[5].own.value()), (13.0, 4.0));
    assert_eq!(rerun.calls_in_window(5, SeenBy::Fleet), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn repeated_calls_are_named_and_an_ignored_tool_is_not_counted() {
    let tool = ToolSignature::new(77);
    let about = |number| {
        let mut call = stored(number, 1, 2);
        call.item.call.tools = ToolTurn::Results(tool);
        call.end = Some((Answer::Tools { text: None, signature: tool }, u64::from(number) * 1_000 + 300));
        call
    };
    let ordered = Ordered::new((1..=6).map(about).collect());
    let names = ToolNames::from([(ToolSignature::code(Some(tool)), vec!["wait".to_owned()])]);
    let policy = policy();
    let mut rerun = Rerun::new(&ordered, &policy, &names);
    for index in 0..3 {
        rerun.judge(index);
    }
    let repeats: Vec<_> =
        rerun.repeats(2, SeenBy::Envoy).into_iter().map(|(call, one)| (call, one.same_tool_call)).collect();
    assert_eq!(repeats, [(1, true), (0, true)]);
    let mut ignoring = policy.clone();
    assert_eq!(run((1..=6).map(about).collect(), &policy, &names).1, [6]);
    ignoring.tools.set("wait", Some(ToolRule::Ignore));
    assert_eq!(run((1..=6).map(about).collect(), &ignoring, &names).1, [0; 0]);
    let ignored = |number| {
        let mut call = about(number);
        call.item.call.treatment = Treatment::Ignored;
        call
    };
    let of_unknown_tool = run((1..=6).map(ignored).collect(), &ignoring, &ToolNames::new());
    assert_eq!(of_unknown_tool.1, [0; 0], "a tool that no kill has named is counted as it was in its Envoy");
}
