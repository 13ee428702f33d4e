"""The official MCP client, version 1 or 2: a session over Streamable HTTP in which one tool is called again and again.

Version 2 runs in its legacy mode, which opens a session with a handshake as version 1 does.
"""

import contextlib

import mcp
from anyio.from_thread import start_blocking_portal
from mcp.client.streamable_http import streamable_http_client

import client

IS_VERSION_2 = hasattr(mcp, "Client")
if IS_VERSION_2:
    import httpx2 as httpx
else:
    import httpx

given = client.arguments()
attempts = client.Attempts()


async def hook(request):
    attempts.hook(request)


@contextlib.asynccontextmanager
async def connect():
    http = httpx.AsyncClient(headers=given.headers, event_hooks={"request": [hook]})
    transport = streamable_http_client(given.base + "/mcp", http_client=http)
    async with http:
        if IS_VERSION_2:
            async with mcp.Client(transport, mode="legacy") as session:
                yield session
        else:
            async with transport as (read, write, _), mcp.ClientSession(read, write) as session:
                await session.initialize()
                yield session


with start_blocking_portal() as portal, portal.wrap_async_context_manager(connect()) as session:

    def ask(prompt):
        result = portal.call(session.call_tool, "search", {"query": "order"})
        return "".join(part.text for part in result.content), [], 0

    client.run(given, attempts, ask)
