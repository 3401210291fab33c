"""A bot made with discord.py that does what ours does. It prints what it
understood; see TestLibraries."""
import asyncio
import io
import json
import sys

import discord
import yarl
from discord.http import Route

root, token = sys.argv[1], sys.argv[2]
Route.BASE = root + "/api/v10"
discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(root.replace("http", "ws", 1) + "/gateway")
out = {}


def intents(**more):
    i = discord.Intents.none()
    i.guilds = i.guild_messages = i.dm_messages = i.message_content = True
    for k, v in more.items():
        setattr(i, k, v)
    return i


async def code(call):
    try:
        await call
    except discord.HTTPException as e:
        return e.code
    return 0


async def work(client):
    await client.wait_until_ready()
    loop = asyncio.get_running_loop()

    def coming(event, fits):
        return loop.create_task(client.wait_for(event, check=fits, timeout=120))

    guild = client.get_guild(500)
    channel = client.get_channel(600)
    out["me"] = client.user.name
    out["guild"] = guild.name
    out["role"] = str(guild.self_role.id)
    out["thread"] = str((await client.fetch_channel(700)).parent_id)
    commands = await client.http.bulk_upsert_global_commands(
        client.application_id,
        payload=[{"name": "model", "description": "choose", "options": [{"name": "preset", "type": 3, "description": "which"}]}],
    )
    out["commands"] = [c["name"] for c in commands]

    heard = coming("message", lambda m: "hello" in m.content)
    await asyncio.sleep(0)
    one = await client.http.request(Route("POST", "/channels/{channel_id}/messages", channel_id=600), json={"content": "ready", "nonce": "n1", "enforce_nonce": True})
    two = await client.http.request(Route("POST", "/channels/{channel_id}/messages", channel_id=600), json={"content": "ready", "nonce": "n1", "enforce_nonce": True})
    out["same"] = one["id"] == two["id"]
    m = await heard
    file = m.attachments[0]
    out["heard"] = [m.content, str(m.author.id), client.user in m.mentions, str(m.author.id), file.filename, file.size]
    out["file"] = (await client.http.get_from_cdn(file.url)).decode()
    await channel.typing()
    await m.add_reaction("👀")
    await m.remove_reaction("👀", client.user)
    reply = await m.reply("re: hello", mention_author=False)
    out["reply"] = reply.reference.message_id == m.id
    await reply.edit(content="re: hello!")
    sent = await channel.send(file=discord.File(io.BytesIO(b"data"), filename="out.txt"))
    out["sent"] = sent.attachments[0].filename
    await sent.delete()
    out["gone"] = await code(channel.fetch_message(sent.id))
    out["history"] = [x.content async for x in channel.history(after=discord.Object(int(one["id"])), limit=100)]

    out["tooLong"] = await code(channel.send("x" * 2001))
    out["empty"] = await code(channel.send(" "))
    out["unknown"] = await code(client.get_partial_messageable(12345).send("x"))
    out["archived"] = await code(client.get_partial_messageable(702).send("x"))
    out["locked"] = await code(client.http.edit_channel(701, archived=False))
    out["callback"] = await code(client.http.request(Route("POST", "/interactions/1/nope/callback"), json={"type": 4, "data": {"content": "x"}}))
    out["direct"] = str((await client.http.start_private_message(42))["id"])

    class Buttons(discord.ui.View):
        @discord.ui.button(label="Go", custom_id="go", style=discord.ButtonStyle.secondary)
        async def go(self, interaction, button):
            pass

    tapped = coming("interaction", lambda i: i.type is discord.InteractionType.component)
    await channel.send("press me", view=Buttons())
    tap = await tapped
    if not tap.response.is_done():
        await tap.response.defer()
    out["tap"] = [tap.data["custom_id"], str(tap.user.id), tap.message.content]
    used = coming("interaction", lambda i: i.type is discord.InteractionType.application_command)
    await channel.send("slash please")
    slash = await used
    await slash.response.send_message("done", ephemeral=True)
    out["slash"] = [slash.data["name"], slash.data["options"][0]["value"], str(slash.user.id)]

    resumed = coming("message", lambda x: x.content == "after the cut")
    await channel.send("cut me")
    out["resumed"] = (await resumed).content


async def refused(client, word, error):
    try:
        await asyncio.wait_for(client.start(word), 120)
    except error:
        return "refused"
    finally:
        await client.close()
    return "in"


async def main():
    client = discord.Client(intents=intents())
    running = asyncio.create_task(client.start(token))
    task = asyncio.create_task(work(client))
    await asyncio.wait([running, task], return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    await task
    await client.close()
    out["token"] = await refused(discord.Client(intents=intents()), "bad.token.here", discord.LoginFailure)
    out["intents"] = await refused(discord.Client(intents=intents(members=True)), token, discord.PrivilegedIntentsRequired)
    print(json.dumps(out))


asyncio.run(main())
