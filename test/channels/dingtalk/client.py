"""A bot made with DingTalk's SDK for Python that does what ours does. It prints
what it understood; see TestLibraries."""
import asyncio
import json
import logging
import os
import sys

root, client_id, secret, template = sys.argv[1:5]
os.environ["DINGTALK_OPENAPI_ENDPOINT"] = root

import dingtalk_stream  # noqa: E402
import requests  # noqa: E402

plain_request = requests.Session.request


def request(self, method, url, **more):
    """The address that takes files is a constant of the library."""
    return plain_request(self, method, url.replace("https://oapi.dingtalk.com", root), **more)


requests.Session.request = request
logging.disable(logging.CRITICAL)
out = {}


class Bot(dingtalk_stream.ChatbotHandler):
    async def process(self, callback):
        m = dingtalk_stream.ChatbotMessage.from_dict(callback.data)
        if m.message_type == "picture":
            out["picture"] = requests.get(self.get_image_download_url(m.image_content.download_code)).text
            out["upload"] = self.dingtalk_client.upload_to_dingtalk(b"\x89PNG\r\n\x1a\n").startswith("@")
            finished.set()
            return dingtalk_stream.AckMessage.STATUS_OK, "OK"
        words = m.text.content.strip()
        out.setdefault("heard", []).append([words, m.sender_staff_id, m.sender_nick, m.conversation_type, m.conversation_id])
        if words == "hello":
            out["text"] = self.reply_text("re: hello", m)["errcode"]
            out["markdown"] = self.reply_markdown("title", "**re**", m)["errcode"]
            grown = dingtalk_stream.AIMarkdownCardInstance(self.dingtalk_client, m)
            grown.ai_start()
            grown.ai_streaming("It", append=True)
            grown.ai_streaming(" is.", append=True)
            grown.ai_finish()
            plain = dingtalk_stream.AICardReplier(self.dingtalk_client, m)
            card = plain.start(template, {})
            plain.streaming(card, "content", "half", append=False, finished=False, failed=False)
            plain.streaming(card, "content", "added", append=True, finished=False, failed=False)  # refused
            plain.streaming(card, "content", "whole", append=False, finished=True, failed=False)
            plain.streaming(card, "content", "late", append=False, finished=False, failed=False)  # refused
            failed = plain.start(template, {})
            plain.streaming(failed, "content", "oh", append=False, finished=False, failed=True)
            out["cards"] = [grown.card_instance_id != "", card != "", plain.start("unknown", {}) == ""]
        if m.conversation_type == "2":
            replier = dingtalk_stream.CardReplier(self.dingtalk_client, m)
            replier.create_and_deliver_card(template, {"content": "for you"}, at_sender=True)
        return dingtalk_stream.AckMessage.STATUS_OK, "OK"


async def main():
    global finished
    finished = asyncio.Event()
    wrong = dingtalk_stream.DingTalkStreamClient(dingtalk_stream.Credential(client_id, "wrong"))
    out["secret"] = [wrong.open_connection(), wrong.get_access_token()]
    client = dingtalk_stream.DingTalkStreamClient(dingtalk_stream.Credential(client_id, secret))
    client.register_callback_handler(dingtalk_stream.chatbot.ChatbotMessage.TOPIC, Bot())
    running = asyncio.create_task(client.start())
    await asyncio.wait_for(finished.wait(), 50)
    await asyncio.sleep(0.5)  # for the last confirmation
    print(json.dumps(out), flush=True)
    running.cancel()
    os._exit(0)


asyncio.run(main())
