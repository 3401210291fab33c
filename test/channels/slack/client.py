"""Runs Slack's own Python library against the fake.

Arguments: API address, bot token, app token, signing secret, signed body, time stamp, signature.
Prints what the library understood as one line of JSON.
"""
import json
import sys
import threading

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.signature import SignatureVerifier
from slack_sdk.socket_mode import SocketModeClient
from slack_sdk.socket_mode.response import SocketModeResponse

base, bot_token, app_token, secret, body, stamp, signature = sys.argv[1:]
client = WebClient(token=bot_token, base_url=base)
got = []
done = threading.Event()


def receive(socket, request):
    socket.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
    if request.type == "events_api":
        event = request.payload["event"]
        got.append({"event": event["type"], "text": event.get("text"), "id": request.payload["event_id"][:2]})
        done.set()


def refused(call):
    try:
        call()
        return ""
    except SlackApiError as err:
        return err.response["error"]


socket = SocketModeClient(app_token=app_token, web_client=client)
socket.socket_mode_request_listeners.append(receive)
socket.connect()
client.chat_postMessage(channel="G0SEC", text="connected")
if not done.wait(30):
    sys.exit("no event came")
posted = client.chat_postMessage(channel="C0GEN", text="x", blocks=[{"type": "section", "text": {"type": "mrkdwn", "text": "*x*"}}])
upload = client.files_upload_v2(channel="C0GEN", filename="b.txt", content="bytes", initial_comment="c")
verifier = SignatureVerifier(secret)
print(json.dumps({
    "got": got,
    "who": client.auth_test()["user_id"],
    "scopes": any(k.lower() == "x-oauth-scopes" and "chat:write" in v for k, v in client.auth_test().headers.items()),
    "text": posted["message"]["text"],
    "file": upload["files"][0]["id"][:1],
    "people": [u["name"] for page in client.users_list(limit=2) for u in page["members"]],
    "history": len(client.conversations_history(channel="C0GEN", oldest="0")["messages"]),
    "signed": verifier.is_valid(body, stamp, signature),
    "forged": verifier.is_valid(body + " ", stamp, signature),
    "errors": [
        refused(lambda: client.chat_update(channel="C0GEN", ts="1.000001", text="x")),
        refused(lambda: client.conversations_replies(channel="C0GEN", ts="1.000001")),
        refused(lambda: client.users_info(user="U0NOPE")),
        refused(lambda: client.chat_postMessage(channel="C0GEN", text="x" * 40001)),
        refused(lambda: client.chat_update(channel="C0GEN", ts=posted["ts"], text="x" * 4001)),
    ],
}))
socket.close()
