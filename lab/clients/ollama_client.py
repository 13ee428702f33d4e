"""The official Ollama client: chat, or generate (--api generate)."""

import ollama

import client

given = client.arguments()
attempts = client.Attempts()
api = ollama.Client(host=given.base, headers=given.headers, event_hooks={"request": [attempts.hook]})


def chat(prompt):
    request = {"model": "llama3.2", "messages": [{"role": "user", "content": prompt}]}
    answers = list(api.chat(**request, stream=True)) if given.stream else [api.chat(**request)]
    assert answers[-1].done and answers[-1].eval_count is not None
    messages = [answer.message for answer in answers]
    calls = [call.function for message in messages for call in message.tool_calls or []]
    calls = [{"name": call.name, "arguments": dict(call.arguments)} for call in calls]
    return "".join(message.content or "" for message in messages), calls, len(answers) if given.stream else 0


def generate(prompt):
    request = {"model": "llama3.2", "prompt": prompt}
    answers = list(api.generate(**request, stream=True)) if given.stream else [api.generate(**request)]
    return "".join(answer.response for answer in answers), [], len(answers) if given.stream else 0


client.run(given, attempts, {"": chat, "generate": generate}[given.api])
