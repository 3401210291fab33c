"""A bot made with qq-botpy that does what ours does. It prints what it
understood; see TestLibrary."""
import asyncio
import json
import sys

import aiohttp
import botpy
from botpy.http import Route

root, app, secret = sys.argv[1], sys.argv[2], sys.argv[3]
Route.SCHEME, Route.DOMAIN = root.split("://")
out = {}
plain_request = aiohttp.ClientSession._request


async def request(self, method, url, **more):
    """The address that gives tokens is a constant of the library."""
    return await plain_request(self, method, str(url).replace("https://bots.qq.com", root), **more)


aiohttp.ClientSession._request = request
botpy.http._FormData._is_processed = False  # newer versions of aiohttp do not set it


async def refusal(call):
    try:
        await call
    except RuntimeError as e:
        return str(e)
    return "taken"


class Bot(botpy.Client):
    async def on_ready(self):
        out["me"] = self.robot.name

    async def on_c2c_message_create(self, m):
        if m.content == "after the cut":
            out["resumed"] = m.content
            await m.reply(content="done", msg_seq=1)
            finished.set()
            return
        out["direct"] = [m.content, m.author.user_openid, m.attachments[0].filename]
        sent = await m.reply(content="re: hello", msg_seq=1)
        out["sent"] = bool(sent["id"])
        out["again"] = await refusal(m.reply(content="re: hello", msg_seq=1))
        media = await self.api.post_c2c_file(openid=m.author.user_openid, file_type=1, url="https://example.com/a.png")
        await m.reply(msg_type=7, media=media, msg_seq=2)
        out["long"] = await refusal(m.reply(content="x" * 6000, msg_seq=3))
        out["markdown"] = await refusal(m.reply(msg_type=2, markdown={"content": "# x"}, msg_seq=3))
        out["empty"] = await refusal(m.reply(content=" ", msg_seq=3))
        for seq in (3, 4, 5):
            await m.reply(content="more", msg_seq=seq)
        out["sixth"] = await refusal(m.reply(content="more", msg_seq=6))
        out["first"] = await refusal(self.api.post_c2c_message(openid=m.author.user_openid, content="unasked"))
        out["unknown"] = await refusal(self.api.post_c2c_message(openid=m.author.user_openid, content="x", msg_id="none"))

    async def on_group_at_message_create(self, m):
        out["group"] = [m.content, m.group_openid, m.author.member_openid]
        await m.reply(content="in the group", msg_seq=1)

    async def on_at_message_create(self, m):
        out["guild"] = [m.content, m.channel_id, m.author.id, m.mentions[0].id]
        await m.reply(content="in the guild", file_image=b"\x89PNG\r\n\x1a\n")

    async def on_direct_message_create(self, m):
        out["dm"] = [m.content, m.guild_id, m.author.username]
        await m.reply(content="in the direct chat")

    async def on_interaction_create(self, i):
        out["tap"] = [i.chat_type, i.user_openid, i.data.resolved.button_data]
        await self.api.on_interaction_result(i.id, 0)


async def main():
    global finished
    finished = asyncio.Event()
    intents = botpy.Intents.none()
    intents.public_messages = intents.direct_message = intents.public_guild_messages = intents.interaction = True
    client = Bot(intents=intents, ext_handlers=False, bot_log=False)
    running = asyncio.create_task(client.start(appid=app, secret=secret))
    await asyncio.wait_for(finished.wait(), 50)
    running.cancel()
    wrong = Bot(intents=intents, ext_handlers=False, bot_log=False)
    out["secret"] = await refusal(wrong.start(appid=app, secret="wrong"))
    print(json.dumps(out), flush=True)


asyncio.new_event_loop().run_until_complete(main())
