"""The code that the scripts in this folder share: the command line, and one line of JSON per call.

Each script uses one official client library as an application would, with the library's own defaults for retries, so
that a test can see what an application sees. Each line has one of these forms:

    {"ok": true, "text": "...", "tool_calls": [...], "chunks": 0, "attempts": 1}
    {"ok": false, "exception": "PermissionDeniedError", "status": 403, "message": "...", "attempts": 1}

`attempts` is the number of HTTP requests of the call, including retries. `chunks` is the number of pieces of a streamed
answer.
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
    parser.add_argument("--api", default="", help="which API to use, if the library has several")
    parser.add_argument(
        "--prompt",
        action="append",
        help="{n} is replaced by the number of the call; if given several times, the calls use the prompts in turn",
    )
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="an extra request header")
    given = parser.parse_args()
    given.prompts = given.prompt or ["Where is order #{n}?"]
    given.headers = dict(pair.split("=", 1) for pair in given.header)
    if given.agent_id:
        given.headers["x-agent-id"] = given.agent_id
    return given


def run(given, attempts, ask):
    """Makes the calls. `ask(prompt)` returns (text, tool calls, chunks), or raises an exception of the library."""
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
