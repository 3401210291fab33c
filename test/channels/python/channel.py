"""Runs a channel of Python nanobot against one of our fakes.

Argument: a JSON object with

    channel      the name of its module and of its section
    wheel        the package to take it from, "" for the installed one
    config       its section of the configuration
    folder       the home folder of the run
    messages     how many messages it is to receive, -1 to log in instead
    redirect     addresses that are constants in it or in a library, and the fake's
    certificate  a file with the fake's certificate, "" for none

The channel receives the messages, then it answers the last one with a text, a
file and a picture. Prints what it received as one line of JSON. Nothing of it is
replaced; only the modules that a channel needs are loaded.
"""
import asyncio
import contextlib
import importlib.util
import inspect
import json
import logging
import os
import sys
import types
from pathlib import Path

plan = json.loads(sys.argv[1])
folder = Path(plan["folder"])
os.environ["HOME"] = os.environ["USERPROFILE"] = str(folder)
if plan["certificate"]:
    os.environ["SSL_CERT_FILE"] = plan["certificate"]


def load():
    """Gives packages whose own modules would load the whole agent none of them."""
    if plan["wheel"]:
        sys.path.insert(0, plan["wheel"])
        root = plan["wheel"] + "/nanobot"
    else:
        root = importlib.util.find_spec("nanobot").submodule_search_locations[0]
    for name in ("nanobot", "nanobot.channels", "nanobot.command", "nanobot.cron", "nanobot.utils"):
        package = types.ModuleType(name)
        package.__path__ = ["/".join([root, *name.split(".")[1:]])]
        sys.modules[name] = package
    sys.modules["nanobot"].__version__ = "0"
    sys.modules["tiktoken"] = types.ModuleType("tiktoken")  # counts tokens for the agent
    return importlib.import_module("nanobot.channels." + plan["channel"] + (".runtime" if plan["wheel"] else ""))


def redirect():
    """Leads requests for addresses that cannot be configured to the fake."""
    import aiohttp
    import httpx
    import requests
    import websockets

    def there(url):
        for old, new in (plan["redirect"] or {}).items():
            if str(url).startswith(old):
                return new + str(url)[len(old):]
        return url

    def lead(kind, name):
        plain = getattr(kind, name)
        setattr(kind, name, lambda self, method, url, *more, **named: plain(self, method, there(url), *more, **named))

    lead(aiohttp.ClientSession, "_request")
    lead(httpx.AsyncClient, "request")
    lead(requests.Session, "request")
    connect = websockets.connect
    websockets.connect = lambda uri, **named: connect(there(uri), **named)


async def run(kind, bus, outbound):
    channel = kind(plan["config"], bus)
    if plan["messages"] < 0:
        with contextlib.redirect_stdout(sys.stderr):  # it shows a code
            return {"login": await channel.login()}
    task = asyncio.create_task(channel.start())
    task.add_done_callback(lambda t: t.cancelled() or t.exception() and complaints.append(repr(t.exception())))
    while not channel.is_running:
        await asyncio.sleep(0.01)
    if server := getattr(channel, "_server", None):  # a webhook: where it listens
        folder.joinpath("address").write_text("http://%s:%d" % server.server_address)
    got = []
    for _ in range(plan["messages"]):
        message = await asyncio.wait_for(bus.consume_inbound(), 120)
        text = message.content.replace(str(folder), "")
        got.append({"from": message.sender_id, "chat": message.chat_id, "text": text, "files": [Path(p).read_text() for p in message.media]})
    if ready := getattr(getattr(channel, "_client", None), "wait_until_ready", None):
        await ready()  # discord.py receives before it sends, and the channel drops what it cannot send
    media = []
    for name, data in {"out.txt": b"a file", "out.png": b"\x89PNG\r\n\x1a\n"}.items():
        folder.joinpath(name).write_bytes(data)
        media.append(str(folder / name))
    await channel.send(outbound(channel=plan["channel"], chat_id=message.chat_id, content="hello **Ann**", media=media, metadata=message.metadata))
    await channel.stop()
    task.cancel()
    return {"got": got, "complaints": complaints}


async def main(kind, bus, outbound):
    try:
        print(json.dumps(await run(kind, bus, outbound)), flush=True)
    except BaseException as e:  # noqa: BLE001 - the test reads it
        print(repr(e), complaints, file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)  # some libraries cannot be stopped


module = load()
from loguru import logger  # noqa: E402

logger.remove()
complaints = []
logger.add(lambda m: complaints.append(m.record["message"]), level="WARNING")
logging.disable(logging.CRITICAL)
redirect()

from nanobot.bus.events import OutboundMessage  # noqa: E402
from nanobot.bus.queue import MessageBus  # noqa: E402
from nanobot.channels.base import BaseChannel  # noqa: E402
from nanobot.security.network import configure_ssrf_whitelist  # noqa: E402

configure_ssrf_whitelist(["127.0.0.0/8"])  # the setting tools.ssrfWhitelist
(found,) = [c for c in vars(module).values() if inspect.isclass(c) and issubclass(c, BaseChannel) and c is not BaseChannel]
asyncio.run(main(found, MessageBus(), OutboundMessage))
