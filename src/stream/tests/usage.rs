//! The tokens that answers state.

use super::*;
use crate::wire::{ModelUsage, Usage};

const COSTLY: &str = r#"{"model": "gpt-4.1", "choices": [{"message": {"content": "I cannot find that parcel in the system."}}],
    "usage": {"prompt_tokens": 100, "completion_tokens": 20}}"#;

impl Bench {
    /// What the next report says about the tokens of agent `a`.
    fn usage(&self) -> Vec<ModelUsage> {
        let agents = self.worker.observations.borrow_mut().take();
        agents.into_iter().filter(|agent| agent.agent_id == "a").flat_map(|agent| agent.usage).collect()
    }
}

#[test]
fn a_kill_says_how_many_calls_and_tokens_the_loop_took() {
    let bench = Bench::new("");
    while bench.call(QUESTION, COSTLY) {}
    let [report] = bench.reports().try_into().unwrap();
    assert_eq!(report.loop_calls, 6, "the call that was refused is one of them");
    assert_eq!(report.loop_usage, Some(Usage { input_tokens: 500, output_tokens: 100 }));
    let used = ModelUsage { model: "gpt-4.1".to_owned(), calls: 5, input_tokens: 500, output_tokens: 100 };
    assert_eq!(bench.usage(), [used]);
    assert_eq!(bench.usage(), [], "each answer is reported once");
}

#[test]
fn tokens_change_no_score_and_a_loop_without_them_has_none() {
    let (with, without) = (Bench::new(""), Bench::new(""));
    for _ in 0..5 {
        assert!(with.call(QUESTION, COSTLY) && without.call(QUESTION, ANSWER));
        assert_eq!(with.score(), without.score());
    }
    without.call(QUESTION, ANSWER);
    let [report] = without.reports().try_into().unwrap();
    assert_eq!((report.loop_calls, report.loop_usage), (6, None));
    assert_eq!(without.usage(), []);
    assert!(!serde_json::to_string(&report).unwrap().contains("loop_usage"));
}

#[test]
fn tokens_are_counted_even_if_the_answer_is_cut_off_and_not_if_it_is_not_read() {
    let bench = Bench::new("");
    let mut stream = bench.held(&[(":path", "/v1/messages")]);
    bench.body(&mut stream, r#"{"max_tokens": 9, "messages": [{"role": "user", "content": "Where is it?"}]}"#);
    let headers = [(":status", "200"), ("content-type", "text/event-stream")];
    *bench.host.response.borrow_mut() =
        headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
    bench.host.properties.borrow_mut().insert("response.code_details".into(), b"via_upstream".to_vec());
    stream.response_headers(&bench.host, false);
    let event = "data: {\"type\": \"message_start\", \"message\": {\"usage\": {\"input_tokens\": 9}}}\n\n";
    bench.pass(&mut stream, event, false);
    stream.closed(&bench.host);
    assert_eq!(bench.usage(), [ModelUsage { calls: 1, input_tokens: 9, ..ModelUsage::default() }]);
    bench.policy(|policy| policy.kill_switch_enabled = false);
    assert!(bench.call(QUESTION, COSTLY));
    assert_eq!(bench.usage(), [], "the bodies of an agent whose kill switch is off are not read");
}
