//! What holds for every API alike.

use agent_kill_switch::turn::{Answer, ToolTurn, Unreadable};
use agent_kill_switch::wire::Counting::{Literal, Progress};
use proptest::prelude::*;

use crate::support::*;

/// How an API's fixtures word a tool's result.
fn result_of(api: &Api, result: &str) -> String {
    // Gemini's results are JSON; the others' are words.
    if api.folder == "gemini" { format!("{{\"result\": \"{result}\"}}") } else { result.to_owned() }
}

fn with_tools() -> impl Iterator<Item = Api> {
    APIS.into_iter().filter(|api| api.has_tools)
}

#[test]
fn a_question_is_exactly_the_users_words() {
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
fn progress_sees_the_result_and_the_call_that_it_answers() {
    for api in with_tools() {
        let turn = api.request("request_result.json", Progress);
        assert_eq!(turn.input, fingerprint(&[&result_of(&api, ORDERS)]), "{}", api.folder);
        assert_eq!(turn.tools, results(&[FIND]), "{}", api.folder);
        assert_eq!(turn.tool_names, "find_orders", "{}", api.folder);
    }
}

#[test]
fn literal_sees_the_unchanging_question_and_the_last_calls() {
    for api in with_tools() {
        for (name, expected) in [("request_result.json", &[FIND][..]), ("request_parallel.json", &[FIND, LOOK])] {
            let turn = api.request(name, Literal);
            assert_eq!(turn.input, fingerprint(&[USER]), "{} {name}", api.folder);
            assert_eq!(turn.tools, results(expected), "{} {name}", api.folder);
        }
    }
}

#[test]
fn parallel_calls_have_one_signature_and_all_their_results() {
    for api in with_tools() {
        let turn = api.request("request_parallel.json", Progress);
        let expected = fingerprint(&[&result_of(&api, ORDERS), &result_of(&api, WEATHER)]);
        assert_eq!(turn.input, expected, "{}", api.folder);
        assert_eq!(turn.tools, results(&[LOOK, FIND]), "{}", api.folder);
        let mut names: Vec<_> = turn.tool_names.split(", ").collect();
        names.sort_unstable();
        assert_eq!(names, ["find_orders", "get_weather"], "{}", api.folder);
    }
}

#[test]
fn an_answer_is_exactly_the_models_words_in_one_piece_and_streamed() {
    for api in APIS {
        for (name, answer) in api.answers("answer_text") {
            assert_eq!(answer, words(&[ANSWER]), "{name}");
        }
    }
}

#[test]
fn an_answer_with_calls_is_the_same_in_one_piece_and_streamed() {
    for api in with_tools() {
        let text = api.speaks_beside.then(|| fingerprint(&[BESIDE]));
        for (name, answer) in api.answers("answer_tools") {
            assert_eq!(answer, Answer::Tools { text, signature: signature(&[FIND, LOOK]) }, "{name}");
        }
    }
}

#[test]
fn an_answers_calls_are_those_that_the_next_request_brings_results_of() {
    for api in with_tools() {
        let turn = api.request("request_parallel.json", Progress);
        for (name, answer) in api.answers("answer_tools") {
            assert_eq!(answer.tools(), turn.tools.signature(), "{name}");
        }
    }
}

#[test]
fn one_byte_at_a_time_is_the_same_as_one_piece() {
    for (api, name, content_type, body) in streams() {
        let whole = answer(api.format, content_type, &body);
        assert_eq!(answer_in_chunks(api.format, content_type, body.chunks(1)), whole, "{} {name}", api.folder);
    }
}

#[test]
fn a_cut_anywhere_in_the_body_changes_nothing() {
    for (api, name, content_type, body) in streams() {
        let whole = answer(api.format, content_type, &body);
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
    fn any_chunking_is_the_same_as_one_piece(cuts in prop::collection::vec(0usize..8000, 0..40)) {
        for (api, name, content_type, body) in streams() {
            let mut cuts: Vec<_> = cuts.iter().map(|at| at % (body.len() + 1)).collect();
            cuts.extend([0, body.len()]);
            cuts.sort_unstable();
            let chunks = cuts.windows(2).map(|pair| &body[pair[0]..pair[1]]);
            let whole = answer(api.format, content_type, &body);
            prop_assert_eq!(answer_in_chunks(api.format, content_type, chunks), whole, "{} {}", api.folder, name);
        }
    }
}

fn streams() -> Vec<(Api, &'static str, &'static str, Vec<u8>)> {
    let mut streams = Vec::new();
    for api in APIS {
        for name in ["answer_text", "answer_tools"] {
            if name == "answer_text" || api.has_tools {
                let (ending, content_type) = api.stream;
                streams.push((api, name, content_type, api.fixture(&format!("{name}{ending}"))));
                streams.push((api, name, "application/json", api.fixture(&format!("{name}.json"))));
            }
        }
    }
    streams
}

#[test]
fn fresh_ids_and_timestamps_in_the_envelope_change_nothing() {
    for (api, name, content_type, body) in streams() {
        let text = String::from_utf8(body).unwrap();
        let mut fresh = text.clone();
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
            fresh = fresh.replace(old, new);
        }
        assert_ne!(fresh, text, "{} {name}", api.folder);
        let expected = answer(api.format, content_type, &text);
        assert_eq!(answer(api.format, content_type, &fresh), expected, "{} {name} {content_type}", api.folder);
    }
}

#[test]
fn a_request_cut_at_any_byte_is_malformed_and_nothing_else() {
    for api in APIS {
        for name in ["request_user.json", "request_result.json", "request_parallel.json"] {
            if name != "request_user.json" && !api.has_tools {
                continue;
            }
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
fn an_answer_in_one_piece_cut_at_any_byte_is_unknown() {
    for api in APIS {
        for name in ["answer_text.json", "answer_tools.json"] {
            if name == "answer_tools.json" && !api.has_tools {
                continue;
            }
            let body = api.fixture(name);
            let body = body.trim_ascii();
            for at in 0..body.len() {
                let cut = answer(api.format, "application/json", &body[..at]);
                assert_eq!(cut, Answer::Unknown, "{} {name} cut at {at}", api.folder);
            }
        }
    }
}

#[test]
fn a_stream_cut_inside_a_document_is_unknown() {
    for (api, name, content_type, body) in streams().into_iter().filter(|(.., body)| body.starts_with(b"{\"")) {
        for at in (0..body.len()).step_by(3) {
            if body[..at].last() == Some(&b'\n') || body[at] == b'\n' || at == 0 {
                continue;
            }
            let cut = answer(api.format, content_type, &body[..at]);
            assert_eq!(cut, Answer::Unknown, "{} {name} cut at {at}", api.folder);
        }
    }
}

#[test]
fn a_failed_call_is_failed_whatever_its_body_says() {
    use agent_kill_switch::decode::answer::{AnswerReader, Head};
    for api in APIS {
        for status in [199, 301, 400, 429, 500, 503] {
            let head = Head { status, content_type: b"application/json" };
            let mut reader = AnswerReader::new(api.format, head, std::rc::Rc::from([]), CAP);
            reader.push(&api.fixture("answer_text.json"));
            assert_eq!(reader.finish(), Answer::Failed, "{} {status}", api.folder);
        }
    }
}

#[test]
fn an_error_in_a_successful_response_is_a_failure() {
    let cases = [
        ("openai_chat", r#"{"error":{"message":"overloaded","type":"server_error","code":null}}"#),
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
