use super::*;
use crate::model::Millis;
use agent_kill_switch::agent::record::session_key;
use agent_kill_switch::detect::tools::Treatment;
use agent_kill_switch::detect::window::Call;
use agent_kill_switch::detect::windows::Windows;
use agent_kill_switch::entries::Item;
use agent_kill_switch::fingerprint::Fingerprint;
use agent_kill_switch::fingerprint::simhash::SimHash;
use agent_kill_switch::turn::{Answer, Conversation, ToolSignature, ToolTurn};
use agent_kill_switch::wire::{Action, Scope, Usage};
use serde_json::{Value, json};

const START_MS: Millis = 1_700_000_000_000;
/// The call at which one window that has all calls recognises a loop.
const ALONE: usize = 6;
const ENVOYS: [&str; 4] = ["a", "b", "c", "d"];

/// Envoys whose clocks differ by hours, and the merger to which they report.
struct Mesh {
    merger: Merger,
    now_ms: Millis,
    number: u32,
}

/// What a call brings and gets, and for how long it is under way.
#[derive(Clone, Copy)]
struct Exchange {
    kind: Kind,
    conversation: u64,
    input: u64,
    answer: u64,
    took_ms: Millis,
    /// How the policy counts the tools that the call is about.
    treatment: Treatment,
}

const SAME: Exchange =
    Exchange { kind: Kind::Common, conversation: 0, input: 1, answer: 2, took_ms: 10, treatment: Treatment::Usual };

fn text(seed: u64) -> Fingerprint {
    let simhash = SimHash(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    Fingerprint { simhash, digest: seed as u32, informative: true, failing: false }
}

impl Mesh {
    fn new(settings: Value) -> Self {
        let mut mesh = Self { merger: Merger::default(), now_ms: START_MS, number: 0 };
        mesh.set_policy(settings);
        mesh
    }

    fn set_policy(&mut self, settings: Value) {
        let mut policy = json!({"agent_id": "bot", "active": true, "kill_switch_enabled": true, "generation": 1});
        policy.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        self.merger.set_policy(&serde_json::from_value(policy).unwrap());
    }

    /// Returns the report of an Envoy about exchanges that began so many milliseconds ago.
    fn report(&mut self, envoy: usize, exchanges: &[(Millis, Exchange)]) -> Reported<'static> {
        let clock_ms = START_MS + envoy as Millis * 7_200_000;
        let mut items = Vec::new();
        for (age_ms, exchange) in exchanges {
            self.number += 1;
            let began_ms = clock_ms - age_ms;
            let call = Call {
                at_ms: began_ms,
                conversation: exchange.conversation,
                input: text(exchange.input),
                tools: match exchange.treatment {
                    Treatment::Usual => ToolTurn::None,
                    _ => ToolTurn::Results(ToolSignature::from_code(exchange.input).unwrap()),
                },
                treatment: exchange.treatment,
                ..Call::default()
            };
            items.push(Item { kind: exchange.kind, number: self.number, half_points: 3, call });
            if exchange.took_ms <= *age_ms {
                let answer = Answer::Text(text(exchange.answer));
                let usage = Usage { input_tokens: 100, output_tokens: 10 };
                let call = Call { at_ms: began_ms + exchange.took_ms, answer, usage, ..Call::default() };
                items.push(Item { kind: Kind::Answer, number: self.number, half_points: 0, call });
            }
        }
        let (envoy, sender) = (ENVOYS[envoy].into(), format!("{}-1", ENVOYS[envoy]).into());
        Reported { envoy, sender, agent_id: "bot", generation: 1, items, sent_ms: clock_ms, arrived_ms: self.now_ms }
    }

    /// Merges reports that arrive together.
    fn merge(&mut self, reports: &[Reported<'_>]) -> Vec<Trip> {
        let mut trips: Vec<_> = reports.iter().flat_map(|reported| self.merger.add_answers(reported)).collect();
        trips.extend(reports.iter().filter_map(|reported| self.merger.add_calls(reported)));
        trips
    }

    /// Makes one exchange after the other, a second apart, over these Envoys in turn. Returns at which of them the loop is
    /// recognised, counted from 1.
    fn run(&mut self, envoys: &[usize], exchanges: impl IntoIterator<Item = Exchange>) -> Option<(usize, Trip)> {
        for (index, exchange) in exchanges.into_iter().enumerate() {
            let reported = self.report(envoys[index % envoys.len()], &[(100, exchange)]);
            if let Some(trip) = self.merge(&[reported]).pop() {
                return Some((index + 1, trip));
            }
            self.now_ms += 1_000;
        }
        None
    }

    fn score(&self) -> Option<f64> {
        self.merger.agent("bot").and_then(|agent| agent.score).map(|score| score.value())
    }
}

#[test]
fn a_loop_over_four_envoys_is_recognised_at_the_call_at_which_one_window_recognises_it() {
    for counting in ["progress", "literal"] {
        let mut mesh = Mesh::new(json!({"counting": counting}));
        let (calls, trip) = mesh.run(&[0, 1, 2, 3], [SAME; 20]).unwrap();
        let record = mesh.merger.agent("bot").unwrap().record;
        let mut alone = Windows::new(record.scorer());
        let tripped = (1..20).find(|number| {
            let call = Call { at_ms: number * 1_000, input: text(1), ..Call::default() };
            let (score, place) = alone.score(&Conversation::default(), call);
            alone.attach_answer(place, Answer::Text(text(2)), number * 1_000 + 10);
            score.exceeds(record.threshold)
        });
        assert_eq!(Some(calls as u64), tripped, "{counting}");
        let seen: Vec<_> = trip.calls.iter().map(|(envoy, calls)| (&**envoy, *calls)).collect();
        assert_eq!(seen, [("a", 2), ("b", 2), ("c", 1), ("d", 1)], "{counting}");
        assert_eq!(
            (trip.report.score, trip.report.action, trip.report.scope),
            (13.0, Action::Deactivate, Scope::Agent)
        );
        assert!(trip.report.reason.ends_with(", spread over 4 Envoys"), "{}", trip.report.reason);
        let stated = Some(Usage { input_tokens: 500, output_tokens: 50 });
        assert_eq!((trip.report.loop_calls, trip.report.loop_usage), (6, stated), "{counting}");
        assert_eq!(
            mesh.run(&[0, 1, 2, 3], [SAME; 20]).map(|found| found.0),
            None,
            "it is stopped until the policy says so"
        );
    }
}

#[test]
fn a_loop_on_one_envoy_is_left_to_that_envoy() {
    let mut mesh = Mesh::new(json!({}));
    assert!(mesh.run(&[2], [SAME; 20]).is_none());
    assert!(mesh.score() > Some(10.0));
    assert_eq!(mesh.merger.agent("bot").unwrap().parts.len(), 1);
}

#[test]
fn tools_are_counted_as_the_policy_says() {
    let polls = |treatment| Exchange { treatment, ..SAME };
    let tripped = |treatment| Mesh::new(json!({})).run(&[0, 1, 2, 3], [polls(treatment); 40]).map(|found| found.0);
    let usual = Mesh::new(json!({})).run(&[0, 1, 2, 3], [polls(Treatment::CountedFrom(2)); 40]).unwrap().0;
    assert!(usual < 12, "{usual}");
    assert_eq!(tripped(Treatment::CountedFrom(12)), Some(12));
    assert_eq!(tripped(Treatment::Ignored), None);

    // An agent that waits is not silent: the run goes on, and what it does between its polls still adds up.
    let mut mesh = Mesh::new(json!({"idle_reset_seconds": 2}));
    let waits = [polls(Treatment::Ignored); 2];
    let calls = std::iter::repeat_n(SAME, 20).flat_map(|call| std::iter::once(call).chain(waits));
    let (at, trip) = mesh.run(&[0, 1, 2, 3], calls).unwrap();
    assert_eq!(at, 3 * (ALONE - 1) + 1, "two polls after each of the calls before it");
    assert_eq!(trip.calls.iter().map(|(_, calls)| calls).sum::<usize>(), ALONE, "polls are not part of the loop");
}

#[test]
fn an_agent_that_makes_progress_is_not_stopped() {
    let mut mesh = Mesh::new(json!({}));
    let new = (0..60).map(|number| Exchange { input: 100 + number, answer: 500 + number, ..SAME });
    assert!(mesh.run(&[0, 1, 2, 3], new).is_none());
    assert_eq!(mesh.score(), Some(0.0));
}

#[test]
fn identical_calls_that_were_under_way_at_the_same_time_count_as_one() {
    // Four workers of one agent ask the same at the same moment, six times. Every report has the answers already.
    let mut mesh = Mesh::new(json!({"idle_reset_seconds": 0}));
    let parallel = Exchange { took_ms: 80, ..SAME };
    let reports: Vec<_> = (0..4).map(|envoy| mesh.report(envoy, &[(100 - envoy as Millis, parallel); 6])).collect();
    assert_eq!(mesh.merge(&reports).len(), 0);
    assert_eq!(mesh.score(), Some(0.0));
    // One after the other, they are a loop, whichever report arrives first.
    let sequence = |envoy: usize| [4, 3, 2, 1, 0].map(|turn| (1_000 + turn * 100 + envoy as Millis * 20, SAME));
    let mut mesh = Mesh::new(json!({}));
    let reports: Vec<_> = [3, 1, 0, 2].map(|envoy| mesh.report(envoy, &sequence(envoy))).into();
    assert_eq!(mesh.merge(&reports).len(), 1);
}

#[test]
fn an_answer_completes_the_call_of_its_own_sender() {
    let mut mesh = Mesh::new(json!({}));
    let open = Exchange { took_ms: 5_000, ..SAME };
    let first = mesh.report(0, &[(100, open)]);
    let mut answer = mesh.report(0, &[(10_000, open)]);
    answer.items.remove(0);
    answer.items[0].number = 1;
    let restarted = Reported { sender: "a-2".into(), items: answer.items.clone(), ..mesh.report(0, &[]) };
    mesh.merge(&[first]);
    let unanswered = |mesh: &Mesh| mesh.merger.agent("bot").unwrap().open.len();
    mesh.merge(&[restarted]);
    assert_eq!(unanswered(&mesh), 1, "the numbers of another start are other calls");
    mesh.merge(&[answer]);
    assert_eq!(unanswered(&mesh), 0);
}

#[test]
fn an_activation_clears_and_calls_of_another_generation_are_ignored() {
    let mut mesh = Mesh::new(json!({}));
    assert!(mesh.run(&[0, 1], [SAME; 5]).is_none());
    mesh.set_policy(json!({"generation": 2}));
    assert_eq!(mesh.score(), None);
    assert!(mesh.run(&[0, 1], [SAME; 20]).is_none(), "of generation 1");
    assert_eq!(mesh.merger.size(), (1, 0));
    mesh.set_policy(json!({"kill_switch_enabled": false}));
    assert!(mesh.run(&[0, 1], [SAME; 20]).is_none());
}

#[test]
fn conversations_are_apart_and_begin_with_the_call_that_opened_them() {
    let mut mesh = Mesh::new(json!({"scope": "session"}));
    let in_conversation = |conversation| Exchange { kind: Kind::Conversation, conversation, ..SAME };
    let many = (0..40).map(|number| in_conversation(1 + number % 8));
    assert!(mesh.run(&[0, 1, 2, 3], many).is_none());
    // The opening is in the common window of whichever Envoy got it.
    let opened = std::iter::once(Exchange { conversation: 99, ..SAME });
    let (calls, trip) = mesh.run(&[0, 1], opened.chain([in_conversation(99); 20])).unwrap();
    assert_eq!(calls, 6);
    assert_eq!(trip.report.scope, Scope::Session);
    assert_eq!(trip.report.session.as_ref().unwrap().key, session_key(99));
    assert_eq!(trip.calls.iter().map(|(_, calls)| calls).sum::<usize>(), 6, "the opening included");
    assert!(mesh.run(&[0, 1], [in_conversation(99); 4]).is_none(), "it starts afresh");
}

#[test]
fn a_run_is_over_after_a_silence_by_the_time_of_arrival() {
    let mut mesh = Mesh::new(json!({"idle_reset_seconds": 60}));
    for _ in 0..10 {
        assert!(mesh.run(&[0, 1, 2], [SAME; 3]).is_none());
        mesh.now_ms += 61_000;
    }
}

#[test]
fn would_kills_and_blocks_start_afresh_so_that_one_loop_is_reported_once() {
    for (action, calls) in [("observe", 6), ("block", 6)] {
        let mut mesh = Mesh::new(json!({"action": action}));
        for _ in 0..2 {
            let (tripped, trip) = mesh.run(&[0, 1, 2, 3], [SAME; 20]).unwrap();
            assert_eq!((tripped, trip.report.action.as_str()), (calls, action));
        }
    }
}

#[test]
fn what_was_not_used_for_longest_is_forgotten_first() {
    let mut mesh = Mesh::new(json!({}));
    let conversation = |conversation| Exchange { kind: Kind::Conversation, conversation, ..SAME };
    for number in 0..3 * MAX_WINDOWS as u64 {
        let reported =
            mesh.report((number % 4) as usize, &[(100, conversation(1_000 + number)), (100, conversation(7))]);
        mesh.merge(&[reported]);
        mesh.set_policy(json!({}));
        assert!(mesh.merger.size().1 <= MAX_WINDOWS);
    }
    let windows = &mesh.merger.agent("bot").unwrap().windows;
    assert!(windows.contains_key(&Some(7)) && !windows.contains_key(&Some(1_000)));
    assert!(windows.len() > MAX_WINDOWS * 8 / 10);
}

#[test]
fn a_call_that_arrives_before_the_answer_to_the_one_before_it_waits_for_that_answer() {
    // Every answer takes five seconds, and the next call is made at once. Its report always arrives first.
    let slow = Exchange { took_ms: 5_000, ..SAME };
    let mut mesh = Mesh::new(json!({}));
    let mut tripped = None;
    for number in 1..=10 {
        let call = mesh.report(number % 4, &[(20, slow)]);
        let calls_number = mesh.number;
        let found = mesh.merge(&[call]);
        mesh.now_ms += 100;
        // The call before it ended just before it began.
        let mut answer = mesh.report((number + 3) % 4, &[(5_125, slow)]);
        answer.items.remove(0);
        answer.items[0].number = calls_number - 1;
        mesh.number = calls_number;
        let found = if found.is_empty() { mesh.merge(&[answer]) } else { found };
        if !found.is_empty() {
            tripped = Some(number);
            break;
        }
        mesh.now_ms += 4_900;
    }
    assert_eq!(tripped, Some(ALONE));
}

#[test]
fn a_call_does_not_wait_for_long_for_an_answer_that_was_lost() {
    let lost = Exchange { took_ms: 60_000, ..SAME };
    let mut mesh = Mesh::new(json!({}));
    let first = mesh.report(0, &[(20, lost)]);
    mesh.merge(&[first]);
    let (calls, _) = mesh.run(&[1, 2, 3], [SAME; 20]).unwrap();
    assert!((ALONE..=ALONE + 3).contains(&calls), "{calls}");
}
