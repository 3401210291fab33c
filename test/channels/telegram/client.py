"""Runs python-telegram-bot against the fake.

Arguments: address of the Bot API, token. The test plays the people and, by messages to the chat
7000, is told what to do next. Prints what the library understood as one line of JSON.
"""
import asyncio
import json
import sys

from telegram import BotCommand, InlineKeyboardButton, InlineKeyboardMarkup, ReplyParameters, Update
from telegram.error import ChatMigrated, Conflict, InvalidToken, RetryAfter, TelegramError
from telegram.ext import Application, CallbackQueryHandler, CommandHandler, MessageHandler, filters

base, token = sys.argv[1:]
ANN, GROUP, STEPS = 42, -100500, 7000
got = {"heard": [], "conflict": False}
news = asyncio.Event()


async def until(what):
    while not what():
        news.clear()
        await asyncio.wait_for(news.wait(), 60)


def heard(text):
    got["heard"].append(text)
    news.set()


async def on_text(update: Update, _):
    m = update.effective_message
    edited = "edited " if update.edited_message else ""
    heard([edited + m.text, m.from_user.username, m.chat.type, m.reply_to_message.text if m.reply_to_message else None])


async def on_command(update: Update, context):
    heard(["command", context.args])


async def on_file(update: Update, _):
    m = update.effective_message
    f = await (m.document or m.photo[-1]).get_file()
    heard(["file", m.caption, bytes(await f.download_as_bytearray()).decode()])


async def on_tap(update: Update, _):
    q = update.callback_query
    await q.answer()
    await q.edit_message_text("chosen: " + q.data)
    heard(["tap", q.data, q.message.text])


async def refused(call):
    try:
        await call
        return None
    except RetryAfter as err:
        after = err.retry_after
        return ["RetryAfter", after if isinstance(after, int) else int(after.total_seconds())]
    except ChatMigrated as err:
        return ["ChatMigrated", err.new_chat_id]
    except TelegramError as err:
        return [type(err).__name__, err.message]


def builder(secret):
    return Application.builder().token(secret).base_url(base + "/bot").base_file_url(base + "/file/bot")


async def api(bot):
    me = await bot.get_me()
    got["me"] = [me.id, me.username, me.is_bot]
    rich = await bot.send_message(ANN, "<b>bold</b> &amp; <a href=\"https://example.com/\">a 🙂 link</a>", parse_mode="HTML")
    got["rich"] = [rich.text, [[e.type, e.offset, e.length, e.url] for e in rich.entities], rich.from_user.is_bot, rich.chat.type]
    answer = await bot.send_message(ANN, "an answer", reply_parameters=ReplyParameters(rich.message_id))
    got["reply"] = answer.reply_to_message.message_id == rich.message_id
    edited = await bot.edit_message_text("another", ANN, answer.message_id)
    got["edited"] = [edited.text, edited.edit_date is not None]
    group = await bot.send_message(GROUP, "to all", message_thread_id=5)
    got["group"] = [group.chat.type, group.message_thread_id]
    sent = await bot.send_document(ANN, b"content", filename="out.txt", caption="<i>a</i> file", parse_mode="HTML")
    back = await (await bot.get_file(sent.document.file_id)).download_as_bytearray()
    got["document"] = [sent.document.file_name, sent.document.file_size, sent.caption, sent.text, sent.caption_entities[0].type, bytes(back).decode()]
    photo = await bot.send_photo(ANN, b"\x89PNG\r\n\x1a\nx", filename="p.png")
    got["photo"] = [len(photo.photo) > 0, photo.document is None]
    await bot.send_chat_action(ANN, "typing")
    await bot.set_message_reaction(ANN, 1, "👍")
    await bot.set_my_commands([BotCommand("new", "a new conversation")])
    got["commands"] = [[c.command, c.description] for c in await bot.get_my_commands()]
    got["webhook"] = [(await bot.get_webhook_info()).url]
    got["deleted"] = await bot.delete_message(ANN, answer.message_id)
    got["refused"] = {
        "same": await refused(bot.edit_message_text("to all", GROUP, group.message_id)),
        "long": await refused(bot.send_message(ANN, "x" * 4097)),
        "long edit": await refused(bot.edit_message_text("🙂" * 2049, ANN, rich.message_id)),
        "empty": await refused(bot.send_message(ANN, " ")),
        "caption": await refused(bot.send_document(ANN, b"x", caption="x" * 1025)),
        "markup": await refused(bot.send_message(ANN, "<b>open", parse_mode="HTML")),
        "gone": await refused(bot.edit_message_text("x", ANN, answer.message_id)),
        "deleted": await refused(bot.delete_message(ANN, answer.message_id)),
        "no chat": await refused(bot.send_message("@nobody", "x")),
        "no file": await refused(bot.get_file("nothing")),
        "large file": await refused(bot.get_file("id-large.bin")),
        "action": await refused(bot.send_chat_action(ANN, "dancing")),
        "reaction": await refused(bot.set_message_reaction(ANN, 1, "🪑")),
        "button": await refused(bot.send_message(ANN, "x", reply_markup=InlineKeyboardMarkup([[InlineKeyboardButton("b", callback_data="x" * 65)]]))),
        "answer": await refused(bot.send_message(ANN, "x", reply_parameters=ReplyParameters(987654))),
        "command": await refused(bot.set_my_commands([BotCommand("No Good", "x")])),
        "http webhook": await refused(bot.set_webhook("http://127.0.0.1/")),
        "moved": await refused(bot.send_message(-77, "x")),
        "limit": await refused(bot.send_voice(ANN, b"OggS")),
        "blocked": await refused(bot.send_audio(ANN, b"ID3")),
    }


async def main():
    app = builder(token).build()
    app.add_handler(CommandHandler("start", on_command))
    app.add_handler(MessageHandler(filters.Document.ALL | filters.PHOTO, on_file))
    app.add_handler(CallbackQueryHandler(on_tap))
    app.add_handler(MessageHandler(filters.TEXT, on_text))

    def trouble(err):
        got["conflict"] = got["conflict"] or isinstance(err, Conflict)
        news.set()

    await app.initialize()
    await app.start()
    await app.updater.start_polling(poll_interval=0, timeout=5, error_callback=trouble)
    await app.bot.send_message(STEPS, "connected")
    await until(lambda: len(got["heard"]) >= 6)
    await app.bot.send_message(ANN, "choose", reply_markup=InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="y")]]))
    await until(lambda: len(got["heard"]) >= 7)
    await app.bot.send_message(STEPS, "another program asks")
    await until(lambda: got["conflict"])
    await app.updater.stop()
    await api(app.bot)
    await app.stop()
    await app.shutdown()

    try:
        await builder("1:" + "x" * 35).build().initialize()
        got["token"] = "taken"
    except InvalidToken:
        got["token"] = "refused"
    print(json.dumps(got))


asyncio.run(main())
