"""Runs the Mochat channel of Python nanobot 0.1.5 against the fake.

Arguments: address of the server, folder for its state, how many messages to
wait for, and its settings as JSON. Answers each message, and prints what the
channel did as one line of JSON. Only the modules that the channel needs are
loaded.
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
from nanobot.channels import mochat  # noqa: E402

base, folder, count, settings = sys.argv[1:]
mochat.get_runtime_subdir = lambda name: Path(folder)


async def main():
    bus = MessageBus()
    channel = mochat.MochatChannel({"enabled": True, "allowFrom": ["*"], "baseUrl": base, **json.loads(settings)}, bus)
    task = asyncio.create_task(channel.start())
    got = []
    ready = False
    for _ in range(int(count)):
        if not got:
            for _ in range(3000):
                if channel._ws_ready or channel._fallback_mode:
                    break
                await asyncio.sleep(0.01)
            ready = channel._ws_ready
            print(json.dumps({"ready": ready}), flush=True)
        message = await asyncio.wait_for(bus.consume_inbound(), 30)
        kept = {k: message.metadata[k] for k in ("target_kind", "was_mentioned", "group_id", "sender_name")}
        got.append({"from": message.sender_id, "chat": message.chat_id, "text": message.content, **kept})
        await channel.send(OutboundMessage(channel="mochat", chat_id=message.chat_id, content="re: " + message.content, reply_to=message.metadata["message_id"], metadata=message.metadata))
    await channel.stop()
    task.cancel()
    return {"ready": ready, "got": got}


print(json.dumps(asyncio.run(main())))
