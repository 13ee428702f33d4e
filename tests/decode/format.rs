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
        (r#"{"system": "be kind", "messages": []}"#, Format::Anthropic),
        (r#"{"anthropic_version": "vertex-2023-10-16", "messages": []}"#, Format::Anthropic),
        (r#"{"contents": [{"parts": [{"text": "hi"}]}]}"#, Format::Gemini),
        (r#"{"input": "hi"}"#, Format::OpenAiResponses),
        (r#"{"prompt": "hi"}"#, Format::OpenAiCompletions),
        (r#"{"jsonrpc": "2.0", "method": "tools/call", "params": {}}"#, Format::Mcp),
        (r#"{"jsonrpc": "2.0", "method": "message/send", "params": {}}"#, Format::A2a),
        (r#"{"question": "hi"}"#, Format::Other),
        (r#"["hi"]"#, Format::Other),
    ] {
        for path in ["/", "", "/gateway/llm", "/v1/models/claude:rawPredict"] {
            assert_eq!(decode(path, body).unwrap().format, format, "{path} {body}");
        }
    }
}

#[test]
fn the_shape_decides_if_the_body_does_not_fit_the_path() {
    assert_eq!(decode("/v1/messages", r#"{"role": "user", "content": "hi"}"#).unwrap().format, Format::Other);
    assert_eq!(decode("/v1/messages", r#"{"jsonrpc": "2.0", "method": "ping"}"#), Err(Unreadable::NotACall));
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
