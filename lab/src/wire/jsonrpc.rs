//! JSON-RPC: MCP servers and A2A agents. They are not LLMs, but agents call them in the same loops.

use serde_json::{Value, json};

use super::Ask;
use crate::answer::Answer;
use crate::fresh;
use crate::sse;

/// Answers MCP: `tools/call` gets the answer's text as the tool's result, the handshake what a client needs to go on.
pub fn mcp(ask: &Ask, answer: &Answer) -> Value {
    let result = match ask.rpc_method() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "mock-llm", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{
            "name": "search", "description": "Search the archive",
            "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}}},
        }]}),
        "ping" => json!({}),
        _ => json!({"content": [{"type": "text", "text": answer.text}], "isError": false}),
    };
    result_of(ask, result)
}

/// Answers MCP with a single event, as servers do if the client accepts events.
pub fn mcp_events(ask: &Ask, answer: &Answer) -> Vec<String> {
    vec![format!("id: {}\n{}", fresh::uuid(), sse::event("message", &mcp(ask, answer)))]
}

/// Answers A2A `message/send` with the other agent's message.
pub fn a2a(ask: &Ask, answer: &Answer) -> Value {
    result_of(
        ask,
        json!({
            "kind": "message", "role": "agent", "messageId": fresh::uuid(), "contextId": fresh::uuid(),
            "parts": [{"kind": "text", "text": answer.text}],
        }),
    )
}

/// Answers A2A `message/stream` with a task, the pieces of its artifact, and its end.
pub fn a2a_events(ask: &Ask, answer: &Answer) -> Vec<String> {
    let (task, context, artifact) = (fresh::uuid(), fresh::uuid(), fresh::uuid());
    let status = |state: &str| json!({"state": state, "timestamp": fresh::rfc3339()});
    let pieces = answer.text_pieces();
    let last = pieces.len().saturating_sub(1);
    let parts = pieces.into_iter().enumerate().map(|(index, text)| {
        json!({
            "kind": "artifact-update", "taskId": task, "contextId": context,
            "append": index > 0, "lastChunk": index == last,
            "artifact": {"artifactId": artifact, "parts": [{"kind": "text", "text": text}]},
        })
    });
    let begun = json!({"kind": "task", "id": task, "contextId": context, "status": status("working")});
    let ended = json!({
        "kind": "status-update", "taskId": task, "contextId": context, "status": status("completed"), "final": true,
    });
    [begun].into_iter().chain(parts).chain([ended]).map(|result| sse::data(&result_of(ask, result))).collect()
}

pub fn error(ask: &Ask, answer: &Answer) -> Value {
    json!({"jsonrpc": "2.0", "id": ask.rpc_id(), "error": {"code": -32_603, "message": answer.text}})
}

fn result_of(ask: &Ask, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": ask.rpc_id(), "result": result})
}
