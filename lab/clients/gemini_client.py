"""The official Google Gen AI client: Gemini's generateContent and streamGenerateContent."""

from google import genai
from google.genai import types

import client

given = client.arguments()
attempts = client.Attempts()
api = genai.Client(
    api_key="lab",
    http_options=types.HttpOptions(
        base_url=given.base,
        headers=given.headers,
        client_args={"event_hooks": {"request": [attempts.hook]}},
    ),
)
MODEL = "gemini-2.5-flash"
LOOK_UP = types.FunctionDeclaration(
    name="look_up",
    parameters=types.Schema(type="OBJECT", properties={"order": types.Schema(type="STRING")}),
)
CONFIG = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[LOOK_UP])])


def ask(prompt):
    if given.stream:
        answers = list(api.models.generate_content_stream(model=MODEL, contents=prompt, config=CONFIG))
    else:
        answers = [api.models.generate_content(model=MODEL, contents=prompt, config=CONFIG)]
    parts = [part for answer in answers for part in answer.candidates[0].content.parts]
    text = "".join(part.text or "" for part in parts)
    calls = [part.function_call for part in parts if part.function_call]
    calls = [{"name": call.name, "arguments": call.args} for call in calls]
    return text, calls, len(answers) if given.stream else 0


client.run(given, attempts, ask)
