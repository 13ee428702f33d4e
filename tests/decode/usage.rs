//! The tokens that answers state, and the models that they name.

use agent_kill_switch::decode::answer::Stated;
use agent_kill_switch::turn::{Answer, Format};
use agent_kill_switch::wire::Usage;

use crate::support::*;

fn says(model: &str, input_tokens: u32, output_tokens: u32) -> Stated {
    Stated { model: model.to_owned(), usage: Usage { input_tokens, output_tokens } }
}

fn of_json(format: Format, body: &str) -> Stated {
    stated(format, "application/json", [body.as_bytes()])
}

fn of_events(format: Format, events: &[&str]) -> Stated {
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    stated(format, "text/event-stream", [body.as_bytes()])
}

#[test]
fn the_answers_of_every_api_state_their_tokens_whole_and_streamed_in_chunks_of_any_size() {
    let cases = [
        ("openai_chat", says("gpt-4.1-2025-04-14", 82, 31), says("gpt-4.1", 82, 31)),
        // Without `stream_options`, a stream says nothing of tokens.
        ("openai_completions", says("gpt-3.5-turbo-instruct", 82, 31), says("gpt-3.5-turbo-instruct", 0, 0)),
        ("openai_responses", says("gpt-5-2025-08-07", 36, 87), says("gpt-5-2025-08-07", 36, 87)),
        ("anthropic", says("claude-sonnet-4-5-20250929", 412, 87), says("claude-sonnet-4-5-20250929", 412, 89)),
        ("gemini", says("gemini-2.5-flash", 61, 31), says("gemini-2.5-flash", 61, 31)),
        ("bedrock", says("", 30, 62), says("", 47, 20)),
        ("ollama_chat", says("llama3.2", 26, 282), says("llama3.2", 26, 282)),
        ("ollama_generate", says("llama3.2", 26, 282), says("llama3.2", 26, 282)),
        ("cohere", says("", 5, 418), says("", 71, 0)),
    ];
    assert_eq!(cases.len(), APIS.len(), "every API has a row");
    for (folder, whole, streamed) in cases {
        let api = APIS.into_iter().find(|api| api.folder == folder).unwrap();
        let (ending, content_type) = api.stream;
        for (ending, content_type, expected) in [(".json", "application/json", whole), (ending, content_type, streamed)]
        {
            let body = api.fixture(&format!("answer_text{ending}"));
            for size in [1, 7, body.len()] {
                let found = stated(api.format, content_type, body.chunks(size));
                assert_eq!(found, expected, "{folder}{ending} in chunks of {size}");
            }
        }
    }
}

#[test]
fn cached_and_reasoning_tokens_are_counted_once() {
    let chat = r#"{"model": "gpt-5", "choices": [], "usage": {"prompt_tokens": 2006, "completion_tokens": 300,
        "total_tokens": 2306, "prompt_tokens_details": {"cached_tokens": 1920, "prompt_tokens": 9},
        "completion_tokens_details": {"reasoning_tokens": 256}, "cache_read_input_tokens": 1920}}"#;
    let responses = r#"{"model": "gpt-5", "output": [], "usage": {"input_tokens": 75, "input_tokens_details":
        {"cached_tokens": 32}, "output_tokens": 1186, "output_tokens_details": {"reasoning_tokens": 1024}}}"#;
    let anthropic = r#"{"type": "message", "model": "claude", "content": [], "usage": {"input_tokens": 50,
        "cache_creation_input_tokens": 200, "cache_read_input_tokens": 100000, "cache_creation":
        {"ephemeral_5m_input_tokens": 200}, "output_tokens": 503, "server_tool_use": {"web_search_requests": 1}}}"#;
    let gemini = r#"{"modelVersion": "gemini", "candidates": [], "usageMetadata": {"promptTokenCount": 1000,
        "cachedContentTokenCount": 900, "toolUsePromptTokenCount": 40, "candidatesTokenCount": 20,
        "thoughtsTokenCount": 500, "totalTokenCount": 1560, "promptTokensDetails": [{"tokenCount": 1000}]}}"#;
    let bedrock = r#"{"output": {"message": {"content": []}}, "usage": {"inputTokens": 5, "outputTokens": 9,
        "cacheReadInputTokens": 1100, "cacheWriteInputTokens": 20, "totalTokens": 14}}"#;
    for (format, body, expected) in [
        (Format::OpenAiChat, chat, says("gpt-5", 2006, 300)),
        (Format::OpenAiResponses, responses, says("gpt-5", 75, 1186)),
        (Format::Anthropic, anthropic, says("claude", 100_250, 503)),
        (Format::Gemini, gemini, says("gemini", 1040, 520)),
        (Format::Bedrock, bedrock, says("", 1125, 9)),
    ] {
        assert_eq!(of_json(format, body), expected, "{format:?}");
    }
}

#[test]
fn the_counts_of_a_stream_replace_each_other_and_do_not_add_up() {
    let anthropic = [
        r#"{"type":"message_start","message":{"model":"claude","usage":{"input_tokens":3,"cache_read_input_tokens":90,"output_tokens":1}}}"#,
        r#"{"type":"message_delta","delta":{},"usage":{"output_tokens":10}}"#,
        r#"{"type":"message_delta","delta":{},"usage":{"input_tokens":3,"output_tokens":25}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let gemini = [
        r#"{"candidates":[],"usageMetadata":{"promptTokenCount":9},"modelVersion":"gemini"}"#,
        r#"{"candidates":[],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":4}}"#,
        r#"{"candidates":[],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":12,"thoughtsTokenCount":30}}"#,
    ];
    let chat = [
        r#"{"model":"gpt","choices":[{"index":0,"delta":{"content":"a"}}],"usage":null}"#,
        r#"{"model":"gpt","choices":[{"index":0,"delta":{"content":"b"}}],"usage":{"prompt_tokens":7,"completion_tokens":1}}"#,
        r#"{"model":"gpt","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#,
        "[DONE]",
    ];
    let responses = [
        r#"{"type":"response.created","response":{"model":"gpt","usage":null}}"#,
        r#"{"type":"response.output_text.delta","delta":"a"}"#,
        r#"{"type":"response.incomplete","response":{"model":"gpt","usage":{"input_tokens":5,"output_tokens":6}}}"#,
    ];
    for (format, events, expected) in [
        (Format::Anthropic, &anthropic[..], says("claude", 93, 25)),
        (Format::Gemini, &gemini, says("gemini", 9, 42)),
        (Format::OpenAiChat, &chat, says("gpt", 7, 2)),
        (Format::OpenAiResponses, &responses, says("gpt", 5, 6)),
    ] {
        assert_eq!(of_events(format, events), expected, "{format:?}");
    }
    // A client that stops after the first event has still been told of the input.
    assert_eq!(of_events(Format::Anthropic, &anthropic[..1]), says("claude", 93, 1));
}

#[test]
fn tokens_that_cannot_be_read_are_not_counted_and_do_not_hurt_the_answer() {
    let answer = |usage: &str| {
        format!(r#"{{"model": "m", "choices": [{{"message": {{"content": "hello there"}}}}], "usage": {usage}}}"#)
    };
    for usage in [
        "null",
        "7",
        "[]",
        "{}",
        r#"{"prompt_tokens": -4, "completion_tokens": "9"}"#,
        r#"{"prompt_tokens": 99999999999999999999, "completion_tokens": null}"#,
        r#"{"prompt_tokens"}"#,
    ] {
        let body = answer(usage);
        assert_eq!(of_json(Format::OpenAiChat, &body), says("m", 0, 0), "{usage}");
        assert_eq!(json_answer(Format::OpenAiChat, &body), words(&["hello there"]), "{usage}");
    }
    let fraction = answer(r#"{"prompt_tokens": 12.0, "completion_tokens": 4294967295}"#);
    assert_eq!(of_json(Format::OpenAiChat, &fraction), says("m", 12, u32::MAX));
    assert_eq!(of_json(Format::Mcp, r#"{"result": {"usage": {"input_tokens": 5}, "model": "m"}}"#), says("", 0, 0));
}

#[test]
fn the_name_of_a_model_is_short_and_printable() {
    let named = |name: &str| of_json(Format::OpenAiChat, &format!(r#"{{"model": {name}, "choices": []}}"#)).model;
    assert_eq!(named(r#""models\/gpt-4o \u00e4\n""#), "models/gpt-4o ???");
    assert_eq!(named(&format!("{:?}", "x".repeat(1000))), "x".repeat(64));
    assert_eq!((named("null"), named("5")), (String::new(), String::new()));
}

#[test]
fn a_bedrock_stream_ends_with_the_event_that_states_the_tokens() {
    use agent_kill_switch::decode::answer::{AnswerReader, AnswerState, ResponseHead};
    for metadata in
        [r#"{"metadata": {"usage": {"inputTokens": 1, "outputTokens": 2}}}"#, r#"{"usage": {"inputTokens": 1}}"#]
    {
        let head = ResponseHead { status: 200, content_type: b"application/x-ndjson" };
        let mut reader = AnswerReader::new(Format::Bedrock, head, std::rc::Rc::from([]), CAP);
        reader.push(b"{\"contentBlockDelta\": {\"contentBlockIndex\": 0, \"delta\": {\"text\": \"hello there\"}}}\n");
        assert_eq!(reader.state(), AnswerState::Partial);
        reader.push(b"{\"messageStop\": {\"stopReason\": \"end_turn\"}}\n");
        assert_eq!(reader.state(), AnswerState::Finished, "a client that closes the stream here has the whole answer");
        reader.push(format!("{metadata}\n").as_bytes());
        assert_eq!(reader.state(), AnswerState::Ended);
        assert!(matches!(reader.finish(), Answer::Text(_)));
    }
}
