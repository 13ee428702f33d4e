//! Tests that hold for every API.

use agent_kill_switch::turn::{Answer, ToolTurn, Unreadable};
use agent_kill_switch::wire::Counting::{Literal, Progress};
use proptest::prelude::*;

use crate::support::*;

/// Returns a tool's result as an API's fixtures contain it: Gemini's results are JSON, all others are text.
fn result_of(api: &Api, result: &str) -> String {
    if api.folder == "gemini" { format!("{{\"result\": \"{result}\"}}") } else { result.to_owned() }
}

fn with_tools() -> impl Iterator<Item = Api> {
    APIS.into_iter().filter(|api| api.has_tools)
}

#[test]
fn the_input_of_a_question_is_the_users_text() {
    for api in APIS {
        for counting in [Literal, Progress] {
            let turn = api.request("request_user.json", counting);
            assert_eq!(turn.format, api.format, "{}", api.folder);
            assert_eq!(turn.input, fingerprint(&[USER]), "{} {counting:?}", api.folder);
            assert_eq!(turn.tools, ToolTurn::None, "{} {counting:?}", api.folder);
        }
    }
}

#[test]
fn progress_counting_reads_the_result_and_the_call_that_it_belongs_to() {
    for api in with_tools() {
        let turn = api.request("request_result.json", Progress);
        assert_eq!(turn.input, fingerprint(&[&result_of(&api, ORDERS)]), "{}", api.folder);
        assert_eq!(turn.tools, results(&[FIND]), "{}", api.folder);
        assert_eq!(turn.tool_names, ["find_orders"], "{}", api.folder);
    }
}

#[test]
fn literal_counting_reads_the_question_and_the_last_calls() {
    for api in with_tools() {
        for (name, expected) in [("request_result.json", &[FIND][..]), ("request_parallel.json", &[FIND, LOOK])] {
            let turn = api.request(name, Literal);
            assert_eq!(turn.input, fingerprint(&[USER]), "{} {name}", api.folder);
            assert_eq!(turn.tools, results(expected), "{} {name}", api.folder);
        }
    }
}

#[test]
fn parallel_calls_have_one_signature_and_all_results_are_read() {
    for api in with_tools() {
        let turn = api.request("request_parallel.json", Progress);
        let expected = fingerprint(&[&result_of(&api, ORDERS), &result_of(&api, WEATHER)]);
        assert_eq!(turn.input, expected, "{}", api.folder);
        assert_eq!(turn.tools, results(&[LOOK, FIND]), "{}", api.folder);
        let mut names = turn.tool_names;
        names.sort_unstable();
        assert_eq!(names, ["find_orders", "get_weather"], "{}", api.folder);
    }
}

#[test]
fn an_answer_is_the_models_text_whole_and_streamed() {
    for api in APIS {
        for (name, answer) in api.answers("answer_text") {
            assert_eq!(answer, words(&[ANSWER]), "{name}");
        }
    }
}

#[test]
fn an_answer_with_calls_is_the_same_whole_and_streamed_and_matches_the_next_request() {
    for api in with_tools() {
        let text = api.has_text_beside_calls.then(|| fingerprint(&[BESIDE]));
        let turn = api.request("request_parallel.json", Progress);
        for (name, answer) in api.answers("answer_tools") {
            assert_eq!(answer, Answer::Tools { text, signature: signature(&[FIND, LOOK]) }, "{name}");
            assert_eq!(answer.tools(), turn.tools.signature(), "{name}");
        }
    }
}

#[test]
fn chunks_of_one_byte_and_a_cut_anywhere_change_nothing() {
    for (api, name, content_type, body) in answers() {
        let whole = answer(api.format, content_type, &body);
        assert_eq!(answer_in_chunks(api.format, content_type, body.chunks(1)), whole, "{} {name}", api.folder);
        for at in (0..=body.len()).step_by(13) {
            let (before, after) = body.split_at(at);
            let cut = answer_in_chunks(api.format, content_type, [before, after]);
            assert_eq!(cut, whole, "{} {name} at {at}", api.folder);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn chunking_changes_nothing(cuts in prop::collection::vec(0usize..8000, 0..40)) {
        for (api, name, content_type, body) in answers() {
            let mut cuts: Vec<_> = cuts.iter().map(|at| at % (body.len() + 1)).collect();
            cuts.extend([0, body.len()]);
            cuts.sort_unstable();
            let chunks = cuts.windows(2).map(|pair| &body[pair[0]..pair[1]]);
            let whole = answer(api.format, content_type, &body);
            prop_assert_eq!(answer_in_chunks(api.format, content_type, chunks), whole, "{} {}", api.folder, name);
        }
    }
}

/// Returns every answer of every API, whole and streamed, with its content type.
fn answers() -> Vec<(Api, &'static str, &'static str, Vec<u8>)> {
    let mut answers = Vec::new();
    for api in APIS {
        for name in api.answer_names() {
            for (ending, content_type) in [api.stream, (".json", "application/json")] {
                answers.push((api, *name, content_type, api.fixture(&format!("{name}{ending}"))));
            }
        }
    }
    answers
}

#[test]
fn other_ids_and_timestamps_in_the_envelope_change_nothing() {
    for (api, name, content_type, body) in answers() {
        let text = String::from_utf8(body).unwrap();
        let mut changed = text.clone();
        for (old, new) in [
            ("17510", "17893"),
            ("2026-02-03T0", "2027-11-30T1"),
            ("call_", "call_Zz9"),
            ("toolu_", "toolu_Zz9"),
            ("tooluse_", "tooluse_Zz9"),
            ("chatcmpl-", "chatcmpl-Zz9"),
            ("cmpl-", "cmpl-q"),
            ("msg_", "msg_Zz9"),
            ("resp_", "resp_Zz9"),
            ("fc_", "fc_Zz9"),
            ("\"responseId\":\"", "\"responseId\":\"Zz9"),
            ("\"responseId\": \"", "\"responseId\": \"Zz9"),
            ("\"id\": \"", "\"id\": \"Zz9"),
            ("\"id\":\"", "\"id\":\"Zz9"),
            ("okens\": ", "okens\": 1"),
            ("okens\":8", "okens\":58"),
            ("latencyMs\": ", "latencyMs\": 9"),
            ("total_duration\": ", "total_duration\": 8"),
        ] {
            changed = changed.replace(old, new);
        }
        assert_ne!(changed, text, "{} {name}", api.folder);
        let expected = answer(api.format, content_type, &text);
        assert_eq!(answer(api.format, content_type, &changed), expected, "{} {name} {content_type}", api.folder);
    }
}

#[test]
fn a_request_that_is_cut_at_any_byte_is_malformed() {
    for api in APIS {
        for name in api.requests() {
            let body = api.fixture(name);
            let body = body.trim_ascii();
            for at in 0..body.len() {
                let expected = if at == 0 { Unreadable::Empty } else { Unreadable::Malformed };
                for counting in [Literal, Progress] {
                    let turn = decode_as(counting, api.path, &body[..at]);
                    assert_eq!(turn, Err(expected), "{} {name} cut at {at}", api.folder);
                }
            }
        }
    }
}

#[test]
fn an_answer_that_is_cut_inside_a_document_is_unknown() {
    for (api, name, content_type, body) in answers() {
        let body = body.trim_ascii();
        let is_whole = content_type == "application/json";
        if !is_whole && !body.starts_with(b"{\"") {
            continue;
        }
        for at in (0..body.len()).step_by(if is_whole { 1 } else { 3 }) {
            let between_lines = at == 0 || body[at] == b'\n' || body[at - 1] == b'\n';
            if is_whole || !between_lines {
                let cut = answer(api.format, content_type, &body[..at]);
                assert_eq!(cut, Answer::Unknown, "{} {name} cut at {at}", api.folder);
            }
        }
    }
}

#[test]
fn a_response_with_an_error_status_is_a_failure_whatever_its_body_is() {
    use agent_kill_switch::decode::answer::{AnswerReader, ResponseHead};
    for api in APIS {
        for status in [199, 301, 400, 429, 500, 503] {
            let head = ResponseHead { status, content_type: b"application/json" };
            let mut reader = AnswerReader::new(api.format, head, std::rc::Rc::from([]), CAP);
            reader.push(&api.fixture("answer_text.json"));
            let expected = if status == 400 { Answer::Rejected(400) } else { Answer::Failed };
            assert_eq!(reader.finish(), expected, "{} {status}", api.folder);
        }
    }
}

#[test]
fn an_error_within_a_stream_is_a_failure() {
    let cases = [
        ("openai_chat", r#"{"error":{"message":"overloaded","type":"server_error","code":null}}"#),
        ("openai_chat", r#"{"choices":[{"index":0,"delta":{"content":""},"error":{"code":502}}]}"#),
        ("openai_chat", r#"{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}"#),
        ("openai_chat", r#"{"object":"error","message":"internal error","type":"InternalServerError","code":500}"#),
        ("openai_completions", r#"{"error":{"message":"overloaded"}}"#),
        ("openai_responses", r#"{"type":"error","code":"server_error","message":"overloaded","sequence_number":3}"#),
        ("openai_responses", r#"{"type":"response.failed","response":{"status":"failed"}}"#),
        ("anthropic", r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#),
        ("gemini", r#"{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}"#),
        ("bedrock", r#"{"message":"The model is overloaded"}"#),
        ("ollama_chat", r#"{"error":"model runner has stopped"}"#),
        ("cohere", r#"{"type":"message-end","delta":{"finish_reason":"ERROR","error":"overloaded"}}"#),
    ];
    for (folder, event) in cases {
        let api = APIS.into_iter().find(|api| api.folder == folder).unwrap();
        let (ending, content_type) = api.stream;
        let mut body = api.fixture(&format!("answer_text{ending}"));
        let prefix = if ending == ".sse" { "data: " } else { "" };
        body.extend(format!("{prefix}{event}\n\n").bytes());
        assert_eq!(answer(api.format, content_type, body), Answer::Failed, "{folder}");
    }
}
