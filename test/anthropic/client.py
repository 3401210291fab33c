"""Talks to the API of nanobot at argv[1] with the key argv[2] through Anthropic's
official client, and prints what the client understood, one JSON object.
client.mjs does the same."""

import json
import sys

import anthropic

url, key = sys.argv[1:]
options = {"base_url": url, "max_retries": 0}
client = anthropic.Anthropic(api_key=key, **options)
base = {"model": "nanobot", "max_tokens": 1024}
out = {}


def ask(content):
    return [{"role": "user", "content": content}]


def is_id(value):
    return (value or "").startswith("req_")


def texts(message):
    return "".join(b.text for b in message.content if b.type == "text")


def refused(call):
    try:
        call()
        return "no error"
    except anthropic.APIError as e:
        return {
            "name": type(e).__name__,
            "status": getattr(e, "status_code", None),
            "type": getattr(e, "type", None),
            "request": is_id(getattr(e, "request_id", None)),
        }


out["models"] = [m.id for m in client.models.list()]
out["model"] = client.models.retrieve("nanobot").display_name

# A whole answer, over a history of the client.
message = client.messages.create(
    **base,
    system=[{"type": "text", "text": "Be brief."}],
    messages=[
        {"role": "user", "content": "My name is Ada."},
        {"role": "assistant", "content": [{"type": "text", "text": "Hello Ada."}]},
        {"role": "user", "content": [{"type": "text", "text": "Who am I?"}]},
    ],
)
out["message"] = {
    "text": texts(message),
    "role": message.role,
    "type": message.type,
    "stop": message.stop_reason,
    "usage": message.usage.input_tokens > 0 and message.usage.output_tokens > 0,
    "request": is_id(message._request_id),
}

# A stream with what the model thinks, put together by the client.
with client.messages.stream(**base, thinking={"type": "enabled", "budget_tokens": 1024}, messages=ask("count")) as stream:
    pieces = list(stream.text_stream)
    streamed = stream.get_final_message()
out["stream"] = {
    "blocks": [[b.type, b.text if b.type == "text" else b.thinking] for b in streamed.content],
    "same": "".join(pieces) == texts(streamed),
    "pieces": len(pieces) > 1,
    "stop": streamed.stop_reason,
    "usage": streamed.usage.input_tokens > 0 and streamed.usage.output_tokens > 0,
}

# The agent's tool calls, for those who ask to see them.
seen = []
with client.messages.stream(**base, messages=ask("look"), extra_body={"nanobot": {"events": True}}) as work:
    for event in work:
        if event.type == "nanobot_event" and event.event["type"] == "tool":
            seen.append([event.event["tool"]["name"], event.event["tool"]["phase"]])
    out["work"] = {"text": texts(work.get_final_message()), "seen": seen}

# A conversation that is kept by nanobot.
headers = {"X-Nanobot-Session": "kept"}
client.messages.create(**base, messages=ask("My name is Bob."), extra_headers=headers)
out["kept"] = texts(client.messages.create(**base, messages=ask("Who am I now?"), extra_headers=headers))
out["deleted"] = client.delete("/v1/sessions/kept", cast_to=object)["deleted"]

# A picture and a document.
dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
out["files"] = texts(
    client.messages.create(
        **base,
        messages=ask(
            [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": dot}},
                {"type": "document", "title": "plan", "source": {"type": "text", "media_type": "text/plain", "data": "The plan is to rest."}},
                {"type": "text", "text": "What is this?"},
            ]
        ),
    )
)

# Tools of the client: not to be called, and results of earlier ones.
tools = [{"name": "weather", "input_schema": {"type": "object"}}]
out["tools"] = texts(
    client.messages.create(
        **base,
        tools=tools,
        tool_choice={"type": "none"},
        messages=[
            *ask("Is it sunny?"),
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"place": "here"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}, {"type": "text", "text": "So?"}]},
        ],
    )
)

# The other way to send the key.
out["bearer"] = texts(anthropic.Anthropic(auth_token=key, **options).messages.create(**base, messages=ask("hi")))

# What goes wrong.
stranger = anthropic.Anthropic(api_key="wrong-key-wrong-key", **options)
picture = [{"type": "image", "source": {"type": "url", "url": "http://127.0.0.1:1/x.png"}}]


def fail_late():
    with client.messages.stream(**base, messages=ask("fail late")) as stream:
        stream.get_final_message()


out["errors"] = {
    "key": refused(lambda: stranger.messages.create(**base, messages=ask("hi"))),
    "model": refused(lambda: client.messages.create(**{**base, "model": "claude-none"}, messages=ask("hi"))),
    "tools": refused(lambda: client.messages.create(**base, tools=tools, messages=ask("hi"))),
    "picture": refused(lambda: client.messages.create(**base, messages=ask(picture))),
    "count": refused(lambda: client.messages.count_tokens(model="nanobot", messages=ask("hi"))),
    "batches": refused(lambda: client.messages.batches.list()),
    "upstream": refused(lambda: client.messages.create(**base, messages=ask("fail"))),
    "midStream": refused(fail_late),
}

print(json.dumps(out))
