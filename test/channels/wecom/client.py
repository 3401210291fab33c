"""Runs the Python library for WeCom's AI bots, which Python nanobot uses, against the fake.

Arguments: address of the connection, address of the test, bot id, secret.
Prints what the library understood as one line of JSON.
"""
import asyncio
import json
import sys
import tempfile
import urllib.request
from pathlib import Path

from wecom_aibot_sdk import WSClient

ws_url, test, bot_id, secret = sys.argv[1:]
got = {}


class Quiet:
    """A logger that says nothing."""

    def __getattr__(self, _name):
        return lambda *_args, **_kwargs: None


async def main():
    loop = asyncio.get_running_loop()
    client = WSClient({"bot_id": bot_id, "secret": secret, "ws_url": ws_url, "logger": Quiet()})
    frames = asyncio.Queue()
    ready = asyncio.Event()

    async def authenticated(_frame):
        ready.set()

    async def received(frame):
        await frames.put(frame)

    client.on("authenticated", authenticated)
    for name in ("message.text", "message.image", "event.enter_chat"):
        client.on(name, received)

    async def told(path):
        await loop.run_in_executor(None, lambda: urllib.request.urlopen(test + path).read())
        return await asyncio.wait_for(frames.get(), 30)

    await client.connect_async()
    await asyncio.wait_for(ready.wait(), 30)
    frame = await told("/say")
    got["text"] = [frame.body["from"]["userid"], frame.body["chattype"], frame.body["text"]["content"]]
    await client.reply_stream(frame, "p1", "half", finish=False)
    await client.reply_stream(frame, "p1", "whole", finish=True)
    try:
        await client.reply_stream(frame, "p1", "more", finish=True)
    except RuntimeError as e:
        got["finished"] = "846608" in str(e)

    frame = await told("/enter")
    await client.reply_welcome(frame, {"msgtype": "text", "text": {"content": "Hello!"}})
    await client.send_message("ann", {"msgtype": "markdown", "markdown": {"content": "pushed"}})

    path = Path(tempfile.mkdtemp()) / "out.txt"
    path.write_text("content")
    await client.send_media_message("ann", str(path))

    frame = await told("/picture")
    data, name = await client.download_file(frame.body["image"]["url"], frame.body["image"]["aeskey"])
    got["picture"] = [name, data.decode()]
    await client.disconnect()
    print(json.dumps(got))


asyncio.run(asyncio.wait_for(main(), 100))
