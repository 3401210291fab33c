"""Does with Feishu's own Python library what our driver does.

Arguments: address, app id, app secret, encrypt key, verification token. Prints
what the library understood as one line of JSON; see TestPythonSDK.
"""
import http.server
import json
import sys
import threading

import lark_oapi as lark
from lark_oapi.api.im.v1 import (
    CreateMessageRequest, CreateMessageRequestBody, GetMessageResourceRequest, P2ImMessageReceiveV1,
)
from lark_oapi.core.model import RawRequest
from lark_oapi.event.callback.model.p2_card_action_trigger import P2CardActionTrigger, P2CardActionTriggerResponse

domain, app_id, secret, key, token = sys.argv[1:]
client = lark.Client.builder().app_id(app_id).app_secret(secret).domain(domain).log_level(lark.LogLevel.CRITICAL).build()
got = []
pressed = []
news = threading.Condition()


def receive(way):
    def take(data: P2ImMessageReceiveV1) -> None:
        with news:
            m = data.event.message
            got.append([way, data.event.sender.sender_id.open_id, m.chat_type, m.message_type, m.content])
            news.notify_all()
    return take


def press(way):
    def take(data: P2CardActionTrigger) -> P2CardActionTriggerResponse:
        e = data.event
        with news:
            pressed.append([way, e.operator.open_id, e.action.tag, e.action.value["answer"], e.context.open_chat_id])
            news.notify_all()
        return P2CardActionTriggerResponse({
            "toast": {"type": "info", "content": f"done {way}"},
            "card": {"type": "raw", "data": card({"tag": "markdown", "content": f"answered {way}"})},
        })
    return take


def card(*elements):
    return {"schema": "2.0", "config": {"update_multi": True}, "body": {"elements": list(elements)}}


def button(answer):
    return {
        "tag": "button", "element_id": "b_" + answer, "text": {"tag": "plain_text", "content": answer},
        "behaviors": [{"type": "callback", "value": {"answer": answer}}],
    }


def until(n, presses=0):
    with news:
        if not news.wait_for(lambda: len(got) >= n and len(pressed) >= presses, 120):
            sys.exit(f"only {len(got)} events and {len(pressed)} presses came")


def send(kind, content):
    return client.im.v1.message.create(
        CreateMessageRequest.builder().receive_id_type("open_id").request_body(
            CreateMessageRequestBody.builder().receive_id("ou_ann").msg_type(kind).content(content).build()
        ).build())


def run():
    handler = lark.EventDispatcherHandler.builder("", "").register_p2_im_message_receive_v1(receive("socket")).register_p2_card_action_trigger(press("socket")).build()
    lark.ws.Client(app_id, secret, event_handler=handler, domain=domain, log_level=lark.LogLevel.CRITICAL).start()


threading.Thread(target=run, daemon=True).start()
until(2)
send("interactive", json.dumps(card(button("yes"), button("no"))))
until(2, 1)

hook = lark.EventDispatcherHandler.builder(key, token).register_p2_im_message_receive_v1(receive("hook")).register_p2_card_action_trigger(press("hook")).build()
status = []


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        req = RawRequest()
        req.uri, req.headers = self.path, dict(self.headers)
        req.body = self.rfile.read(int(self.headers["Content-Length"]))
        res = hook.do(req)
        status.append(res.status_code)
        self.send_response(res.status_code)
        self.end_headers()
        self.wfile.write(res.content or b"")

    def log_message(self, *args):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
threading.Thread(target=server.serve_forever, daemon=True).start()
said = send("text", json.dumps({"text": f"listening {server.server_address[1]}"}))
until(3, 2)
server.shutdown()
file_key = json.loads(got[1][4])["file_key"]
file = client.im.v1.message_resource.get(
    GetMessageResourceRequest.builder().message_id("om_file").file_key(file_key).type("file").build())
print(json.dumps({
    "got": got[:1] + [got[1][:4]] + got[2:],
    "pressed": pressed,
    "said": said.code,
    "status": status,
    "file": [file.file_name, file.file.read().decode()],
    "refused": [send("text", "no JSON").code, send("post", '{"zh_cn":{}}').code],
}))
