//! How the API of a request is recognised.

use agent_kill_switch::turn::{Format, Unreadable};

use crate::support::*;

const MESSAGES: &str = r#"{"messages": [{"role": "user", "content": "hi"}]}"#;

#[test]
fn a_known_path_decides_the_format() {
    for (path, format) in [
        ("/v1/chat/completions", Format::OpenAiChat),
        ("/v1/chat/completions/", Format::OpenAiChat),
        ("/openai/deployments/gpt/chat/completions?api-version=2024-10-21", Format::OpenAiChat),
        ("/v1/messages", Format::Anthropic),
        ("/anthropic/v1/messages?beta=true", Format::Anthropic),
        ("/model/us.anthropic.claude-v2%3A1/converse", Format::Bedrock),
        ("/model/us.anthropic.claude-v2%3A1/converse-stream", Format::Bedrock),
        ("/api/chat", Format::OllamaChat),
        ("/api/generate", Format::OllamaGenerate),
        ("/v2/chat", Format::Cohere),
        ("/v1/responses", Format::OpenAiResponses),
        ("/v1/completions", Format::OpenAiCompletions),
        ("/v1beta/models/gemini-2.5-pro:generateContent?key=k", Format::Gemini),
        ("/v1/projects/p/publishers/google/models/g:streamGenerateContent?alt=sse", Format::Gemini),
    ] {
        assert_eq!(decode(path, MESSAGES).unwrap().format, format, "{path}");
    }
}

#[test]
fn the_shape_of_the_body_decides_if_the_path_is_unknown() {
    for (body, format) in [
        (MESSAGES, Format::OpenAiChat),
        (r#"{"system": "be kind", "messages": [{"role": "user"}]}"#, Format::Anthropic),
        (r#"{"anthropic_version": "bedrock-2023-05-31", "messages": [{"role": "user"}]}"#, Format::Anthropic),
        (r#"{"contents": [{"parts": [{"text": "hi"}]}]}"#, Format::Gemini),
        (r#"{"input": [{"role": "user", "content": "hi"}]}"#, Format::OpenAiResponses),
        (r#"{"input": [{"type": "function_call_output", "call_id": "c", "output": "hi"}]}"#, Format::OpenAiResponses),
        (r#"{"jsonrpc": "2.0", "method": "tools/call", "params": {}}"#, Format::Mcp),
        (r#"{"jsonrpc": "2.0", "method": "message/send", "params": {}}"#, Format::A2a),
        (
            r#"[{"jsonrpc": "2.0", "method": "ping"}, {"jsonrpc": "2.0", "method": "tools/call", "params": {}}]"#,
            Format::Mcp,
        ),
    ] {
        for path in ["/", "", "/gateway/llm", "/v1/models/claude:rawPredict", "/model/claude/invoke"] {
            assert_eq!(decode(path, body).unwrap().format, format, "{path} {body}");
        }
    }
}

#[test]
fn a_known_path_is_a_call_if_the_body_has_an_input() {
    let rpc = r#"{"jsonrpc": "2.0", "method": "ping", "messages": [{"role": "user", "content": "hi"}]}"#;
    assert_eq!(decode("/v1/messages", rpc).unwrap().format, Format::Anthropic, "the path outranks a member");
    for body in [r#"{"role": "user", "content": "hi"}"#, r#"{"jsonrpc": "2.0", "method": "ping"}"#, "{}"] {
        assert_eq!(decode("/v1/messages", body), Err(Unreadable::NotACall), "{body}");
    }
}

#[test]
fn requests_of_other_kinds_are_not_calls() {
    for (path, body) in [
        ("/v1/projects/p/publishers/anthropic/models/count-tokens:rawPredict", MESSAGES),
        ("/utils/token_counter", MESSAGES),
        ("/v1/batches", r#"{"input_file_id": "f", "endpoint": "/v1/chat/completions", "completion_window": "24h"}"#),
        ("/v1/vector_stores/v/files", r#"{"file_id": "f"}"#),
        ("/v1/vector_stores/v/search", r#"{"query": "hi"}"#),
        ("/v1/threads", r#"{"messages": [{"role": "user", "content": "hi"}]}"#),
        ("/v1/threads/t/messages", r#"{"role": "user", "content": "hi"}"#),
        ("/v1/threads/t/runs", r#"{"assistant_id": "a"}"#),
        ("/v1/conversations", r#"{"items": [{"type": "message", "role": "user", "content": "hi"}]}"#),
        ("/v1/realtime/sessions", r#"{"model": "m", "instructions": "be kind"}"#),
        ("/v1/audio/speech", r#"{"model": "m", "input": "hi", "voice": "v"}"#),
        ("/v1/images/generations", r#"{"model": "m", "prompt": "a cat"}"#),
        ("/v1/messages/batches", r#"{"requests": [{"params": {"messages": [{"role": "user", "content": "hi"}]}}]}"#),
        ("/oauth/token", r#"{"grant_type": "client_credentials"}"#),
        ("/oauth/token", "grant_type=client_credentials"),
        ("/graphql", r#"{"query": "{ job { state } }", "variables": {"input": {"id": 1}}}"#),
        ("/v1/traces", r#"{"resourceSpans": []}"#),
        ("/heartbeat", r#"{"alive": true}"#),
        ("/v1/embeddings", r#"{"input": "hi"}"#),
        ("/v2/embed", r#"{"texts": ["hi"], "model": "m"}"#),
        ("/embed", r#"{"inputs": "hi"}"#),
        ("/v1/models/e:predict", r#"{"instances": [{"content": "hi"}]}"#),
        ("/model/titan/invoke", r#"{"inputText": "hi"}"#),
        ("/mcp", r#"[{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]"#),
    ] {
        assert_eq!(decode(path, body), Err(Unreadable::NotACall), "{path} {body}");
    }
}

#[test]
fn requests_that_ask_nothing_are_not_calls() {
    for method in ["tools/list", "initialize", "ping", "resources/read", "notifications/initialized", "tasks/get"] {
        let body = format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "{method}", "params": {{}}}}"#);
        assert_eq!(decode("/mcp", body), Err(Unreadable::NotACall), "{method}");
    }
    for path in [
        "/v1/messages/count_tokens?beta=true",
        "/v1beta/models/gemini-2.5-pro:countTokens",
        "/v1/responses/input_tokens",
        "/v1/embeddings",
        "/v1/moderations",
        "/api/embed",
    ] {
        assert_eq!(decode(path, MESSAGES), Err(Unreadable::NotACall), "{path}");
    }
}
