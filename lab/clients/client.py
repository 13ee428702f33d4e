"""What the clients here have in common: the command line, and one line of JSON per call.

Each script drives one official client library as an application would, with the library's own defaults for retries, so
that a test can see what an application sees. A line is

    {"ok": true, "text": "...", "tool_calls": [...], "chunks": 0, "attempts": 1}
    {"ok": false, "exception": "PermissionDeniedError", "status": 403, "message": "...", "attempts": 1}

`attempts` counts the HTTP requests of that call, retries included; `chunks` the pieces of a streamed answer.
"""

import argparse
import json


class Attempts:
    """Counts HTTP requests. Give `hook` to the library's HTTP client as a request hook."""

    def __init__(self):
        self.count = 0

    def hook(self, request):
        self.count += 1


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", required=True, help="http://host:port of the proxy or the mock LLM")
    parser.add_argument("--agent-id", default="", help="sent as x-agent-id")
    parser.add_argument("--calls", type=int, default=1)
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--api", default="", help="which of the library's APIs, where it has several")
    parser.add_argument(
        "--prompt", action="append", help="{n} becomes the number of the call; of several each call takes the next"
    )
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="an extra request header")
    given = parser.parse_args()
    given.prompts = given.prompt or ["Where is order #{n}?"]
    given.headers = dict(pair.split("=", 1) for pair in given.header)
    if given.agent_id:
        given.headers["x-agent-id"] = given.agent_id
    return given


def run(given, attempts, ask):
    """Makes the calls. `ask(prompt)` returns (text, tool calls, chunks) or raises what the library raises."""
    for number in range(1, given.calls + 1):
        attempts.count = 0
        try:
            prompt = given.prompts[(number - 1) % len(given.prompts)]
            text, tool_calls, chunks = ask(prompt.replace("{n}", str(number)))
            line = {"ok": True, "text": text, "tool_calls": tool_calls, "chunks": chunks}
        except Exception as error:
            status = getattr(error, "status_code", None) or getattr(error, "code", None)
            line = {"ok": False, "exception": type(error).__name__, "status": status, "message": str(error)}
        line["attempts"] = attempts.count
        print(json.dumps(line), flush=True)
