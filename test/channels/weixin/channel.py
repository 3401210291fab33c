"""Runs the Weixin channel of Python nanobot 0.1.5 against the fake.

Arguments: address of the service, folder for its state, "login" or "run".
Prints what the channel did as one line of JSON. Only the modules that the
channel needs are loaded.
"""
import asyncio
import importlib.util
import json
import sys
import types
from pathlib import Path

root = Path(importlib.util.find_spec("nanobot").submodule_search_locations[0])
for name in ("nanobot", "nanobot.channels", "nanobot.cron", "nanobot.utils"):
    package = types.ModuleType(name)
    package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
    sys.modules[name] = package
sys.modules["tiktoken"] = types.ModuleType("tiktoken")

from loguru import logger  # noqa: E402

logger.remove()

from nanobot.bus.events import OutboundMessage  # noqa: E402
from nanobot.bus.queue import MessageBus  # noqa: E402
from nanobot.channels import weixin  # noqa: E402

base, folder, mode = sys.argv[1:]
weixin.get_media_dir = lambda name: Path(folder)


async def main():
    bus = MessageBus()
    channel = weixin.WeixinChannel({"enabled": True, "allowFrom": ["*"], "baseUrl": base, "cdnBaseUrl": base + "/c2c", "stateDir": folder}, bus)
    channel._print_qr_code = lambda url: None
    if mode == "login":
        return {"login": await channel.login()}
    task = asyncio.create_task(channel.start())
    got = []
    for _ in range(4):
        message = await asyncio.wait_for(bus.consume_inbound(), 30)
        got.append({"from": message.sender_id, "text": message.content.replace(folder, ""), "files": [Path(p).read_text() for p in message.media]})
    out = Path(folder, "out.txt")
    out.write_text("a file")
    await channel.send(OutboundMessage(channel="weixin", chat_id=message.chat_id, content="hello", media=[str(out)]))
    await channel.stop()
    task.cancel()
    return {"got": got}


print(json.dumps(asyncio.run(main())))
