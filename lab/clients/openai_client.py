"""The official OpenAI client: Chat Completions, Responses (--api responses) or Completions (--api completions)."""

import json

import httpx2 as httpx
import openai

import client

given = client.arguments()
attempts = client.Attempts()
api = openai.OpenAI(
    base_url=given.base + "/v1",
    api_key="sk-lab",
    default_headers=given.headers,
    http_client=httpx.Client(event_hooks={"request": [attempts.hook]}),
)
TOOL = {
    "type": "object",
    "properties": {"order": {"type": "string"}},
}


def chat(prompt):
    request = {
        "model": "gpt-4o-mini",
        "messages": [{"role": "user", "content": prompt}],
        "tools": [{"type": "function", "function": {"name": "look_up", "parameters": TOOL}}],
    }
    if not given.stream:
        message = api.chat.completions.create(**request).choices[0].message
        return message.content, [named(call.function) for call in message.tool_calls or []], 0
    chunks = 0
    with api.chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
        for event in stream:
            chunks += event.type == "chunk"
        final = stream.get_final_completion()
    assert final.usage is not None, "a stream that was asked for its usage must report it"
    message = final.choices[0].message
    return message.content, [named(call.function) for call in message.tool_calls or []], chunks


def responses(prompt):
    request = {
        "model": "gpt-4o-mini",
        "input": prompt,
        "tools": [{"type": "function", "name": "look_up", "parameters": TOOL, "strict": False}],
    }
    chunks = 0
    if not given.stream:
        final = api.responses.create(**request)
    else:
        with api.responses.stream(**request) as stream:
            for event in stream:
                chunks += event.type == "response.output_text.delta"
            final = stream.get_final_response()
    calls = [named(item) for item in final.output if item.type == "function_call"]
    return final.output_text, calls, chunks


def completions(prompt):
    request = {"model": "gpt-3.5-turbo-instruct", "prompt": prompt}
    if not given.stream:
        return api.completions.create(**request).choices[0].text, [], 0
    texts = [chunk.choices[0].text for chunk in api.completions.create(**request, stream=True)]
    return "".join(texts), [], len(texts)


def named(function):
    return {"name": function.name, "arguments": json.loads(function.arguments)}


client.run(given, attempts, {"": chat, "responses": responses, "completions": completions}[given.api])
