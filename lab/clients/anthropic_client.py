"""The official Anthropic client: Messages."""

import anthropic
import httpx2 as httpx

import client

given = client.arguments()
attempts = client.Attempts()
api = anthropic.Anthropic(
    base_url=given.base,
    api_key="sk-ant-lab",
    default_headers=given.headers,
    http_client=httpx.Client(event_hooks={"request": [attempts.hook]}),
)
TOOL = {
    "name": "look_up",
    "description": "Look up an order",
    "input_schema": {"type": "object", "properties": {"order": {"type": "string"}}},
}


def ask(prompt):
    request = {
        "model": "claude-mock",
        "max_tokens": 256,
        "messages": [{"role": "user", "content": prompt}],
        "tools": [TOOL],
    }
    chunks = 0
    if not given.stream:
        message = api.messages.create(**request)
    else:
        with api.messages.stream(**request) as stream:
            for event in stream:
                chunks += event.type == "content_block_delta"
            message = stream.get_final_message()
    assert message.stop_reason in ("end_turn", "tool_use"), message.stop_reason
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [{"name": block.name, "arguments": block.input} for block in message.content if block.type == "tool_use"]
    return text, calls, chunks


client.run(given, attempts, ask)
