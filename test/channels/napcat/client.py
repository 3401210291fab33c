"""Runs NoneBot's adapter for OneBot 11 against the fake.

Arguments: address of the WebSocket, address of the test, token.
Prints what the adapter understood as one line of JSON.
"""
import asyncio
import json
import os
import sys
import urllib.request

import nonebot
from nonebot.adapters.onebot.v11 import ActionFailed, Adapter, Bot, Message, MessageSegment
from nonebot.message import event_preprocessor

ws_url, test, token = sys.argv[1:]
got = {}
events = asyncio.Queue()

nonebot.logger.remove()  # it writes where the result goes
nonebot.init(driver="~websockets", onebot_ws_urls={ws_url}, onebot_access_token=token, log_level="CRITICAL")
driver = nonebot.get_driver()
driver.register_adapter(Adapter)


@event_preprocessor
async def received(event):
    if event.get_type() in ("message", "notice"):
        await events.put(event)


async def told(path):
    await asyncio.get_running_loop().run_in_executor(None, lambda: urllib.request.urlopen(test + path).read())
    return await asyncio.wait_for(events.get(), 30)


async def refused(call):
    try:
        await call
    except ActionFailed as e:
        return e.info["retcode"]
    return 0


async def work(bot: Bot):
    got["me"] = [bot.self_id, (await bot.get_login_info())["nickname"]]
    e = await told("/say")
    got["private"] = [e.get_event_name(), e.get_user_id(), e.get_plaintext()]
    sent = await bot.send(e, "hello **Ann**")
    got["message"] = str((await bot.get_msg(message_id=sent["message_id"]))["message"][0]["data"]["text"])
    e = await told("/mention")
    got["group"] = [e.get_event_name(), e.to_me, e.get_plaintext(), e.sender.card]
    await bot.send(e, MessageSegment.reply(e.message_id) + MessageSegment.image(b"picture") + "seen")
    got["forward"] = [str(m["sender"]["nickname"]) for m in (await bot.get_forward_msg(id=(await told("/forward")).message[0].data["id"]))["messages"]]
    e = await told("/join")
    got["join"] = [e.get_event_name(), e.user_id]
    got["member"] = (await bot.get_group_member_info(group_id=30001, user_id=e.user_id, no_cache=True))["nickname"]
    await bot.call_api("upload_group_file", group_id=30001, file="base64://Y29udGVudA==", name="out.txt")
    got["noChat"] = await refused(bot.send_private_msg(user_id=404, message="x"))
    got["noMessage"] = await refused(bot.send_msg(message_type="private", user_id=20001, message=Message()))
    got["noAction"] = await refused(bot.call_api("no_such_action"))
    got["gone"] = await refused(bot.get_msg(message_id=1))
    print(json.dumps(got), flush=True)


@driver.on_bot_connect
async def connected(bot: Bot):
    async def run():
        code = 0
        try:
            await asyncio.wait_for(work(bot), 60)
        except BaseException as e:  # noqa: BLE001 - the test reads it
            print(repr(e), file=sys.stderr, flush=True)
            code = 1
        os._exit(code)

    connected.task = asyncio.get_running_loop().create_task(run())


nonebot.run()
