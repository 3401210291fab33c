"""Writes configurations with the models of Python nanobot itself.

    python generate.py FOLDER

In an environment with nanobot-ai and the libraries of its channels. Writes
default.json, what "nanobot onboard" leaves behind; filled.json, in which every
setting has another value than its default and every channel is enabled; and
snake.json, the same with the names of Python's fields, which it reads as well.
Each is read by Python nanobot once more before it is written.
"""
import json
import sys
import types
import typing
import warnings
from pathlib import Path

from annotated_types import Ge, Le
from loguru import logger
from pydantic import BaseModel
from pydantic.alias_generators import to_snake

from nanobot.channels import registry
from nanobot.config.schema import Config

logger.remove()
warnings.simplefilter("ignore")

# What a rule cannot guess: addresses, words that a channel compares with, and
# texts with a form.
WORDS = {
    "access_token": "tok", "agent_user_id": "agent-1", "allow_from_match_mode": "email", "api_base": "https://models.example/v1",
    "attachments_dir": "/srv/signal", "base_url": "https://service.example", "bridge_url": "ws://127.0.0.1:3999", "bot_token": "xoxb-1",
    "app_token": "xapp-1", "cdn_base_url": "https://cdn.example", "cron": "0 3 * * *", "domain": "lark", "from_address": "bot@example.com",
    "group_policy": "open", "group_policy_in_thread": "mention", "homeserver": "https://matrix.example", "host": "127.0.0.1", "imap_host": "imap.example.com",
    "imap_mailbox": "Work", "mode": "socket", "msg_format": "markdown", "path": "/hook", "policy": "allowlist", "proxy": "http://127.0.0.1:7890",
    "provider": "custom", "reasoning_effort": "high", "sandbox": "bwrap", "secret": "s3cret", "server_url": "https://chat.example", "smtp_host": "smtp.example.com",
    "socket_path": "/socket.io", "socket_url": "https://socket.example", "timezone": "Asia/Shanghai", "token": "123456789:AAEabcdefghijklmnopqrstuvwxyz0123456", "transcription_provider": "openai",
    "type": "stdio", "user_id": "@bot:matrix.example", "webhook_path": "/slack/hook", "ws_url": "ws://127.0.0.1:3002", "phone_number": "+4915100000001",
    "daemon_host": "127.0.0.1", "url": "", "command": "true", "transcription_language": "de", "token_issue_path": "/token", "bot_icon": "B", "bot_name": "Bo",
    "reply_delay_mode": "non-mention", "thinking_style": "enable_thinking", "language": "de", "model_preset": "123_456", "public_ws_url": "wss://bot.example/hook", "unix_socket_path": "/run/bot.sock", "ssl_certfile": "", "ssl_keyfile": "", "webhook_url": "https://bot.example/telegram", "model_override": "123_456", "fallback_models": "123_456",
}
LISTS = {"trusted_peer_cidrs": ["10.0.0.0/8"], "allow_attachment_types": ["text/plain"], "groups": None, "trusted_service_url_hosts": ["*.example.com"], "ssrf_whitelist": ["100.64.0.0/10"],
         "allowed_attachment_types": ["image/png"], "args": ["-a"], "enabled_tools": ["one"], "instances": None}

# OpenAI alone may have another type, and servers with an address another way to
# log in; the others are refused unless they have
# their defaults (decision 66).
KEPT = ("api_type", "auth", "cli_apps", "webui_allow_remote_package_install")


def value(name, kind, default, field):
    kinds = [kind]
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kinds = [k for k in typing.get_args(kind) if k is not type(None)]
    words = [c for k in kinds if typing.get_origin(k) is typing.Literal for c in typing.get_args(k)]
    if name in KEPT:
        return default.model_dump() if isinstance(default, BaseModel) else default
    if words:
        return next((c for c in words if c != default), default)
    if name in WORDS and not isinstance(default, (BaseModel, dict, list)):
        return WORDS[name]
    for k in kinds:
        origin = typing.get_origin(k)
        if origin is typing.Annotated:
            k = typing.get_args(k)[0]
        if isinstance(k, type) and issubclass(k, BaseModel):
            return fill(k)
        if k is bool:
            return default is not True
        if k in (int, float) and not isinstance(default, str):
            number = (default or 0) + 1
            for m in field.metadata:
                if isinstance(m, Le) and number > m.le:
                    number = default - 1 if k is int else default / 2
                if isinstance(m, Ge) and number < m.ge:
                    number = m.ge
            return k(number)
        if k is str:
            return "x-" + name.replace("_", "-")
        if origin is list:
            if LISTS.get(name):
                return LISTS[name]
            (inner,) = typing.get_args(k)
            return [value(name, inner, None, field)] if not (isinstance(inner, type) and issubclass(inner, BaseModel)) else [fill(inner)]
        if origin is dict:
            if name == "headers":
                return {}  # a server with a command has none
            _, inner = typing.get_args(k)
            if inner is str:
                return {"A_B": "c"}
            return {"123_456": value(name, inner, None, field)} if inner is not typing.Any else {}
    return default


def fill(model):
    return {n: value(n, f.annotation, f.get_default(call_default_factory=True), f) for n, f in model.model_fields.items() if not f.exclude}


def channels():
    """Yields the name, the model of the section, and the default section."""
    find = getattr(registry, "discover_all", None)
    if find is None:
        raise SystemExit("this version of Python nanobot is not known")
    for name, cls in sorted(find().items()):
        module = sys.modules[cls.__module__]
        kinds = [k for k in vars(module).values() if isinstance(k, type) and issubclass(k, BaseModel) and k.__name__.lower() == cls.__name__.lower().replace("channel", "config")]
        yield name, kinds[0], cls.default_config()


def camel(data, model):
    return model.model_validate(data).model_dump(mode="json", by_alias=True)


def several(filled, snake):
    """Makes a second app of Feishu, in the form that Python nanobot keeps several."""
    try:
        from nanobot.channels.feishu.instances import update_managed_feishu_instance as update
    except ImportError:
        return
    one = filled["feishu"]
    filled["feishu"] = update(update({"instances": []}, one), one | {"appId": "x-second-id"}, instance_id="work")
    snake["feishu"] = {"instances": [{to_snake(k): v for k, v in each.items()} for each in filled["feishu"]["instances"]]}


def main(folder):
    default, filled, snake = Config().model_dump(mode="json", by_alias=True), fill(Config), fill(Config)
    for c in (filled, snake):
        c["tools"]["web"]["search"]["provider"] = "brave"
        if "transcription" in c:
            c["transcription"]["provider"] = "openai"
    filled = Config.model_validate(filled).model_dump(mode="json", by_alias=True)
    for name, model, section in channels():
        default["channels"][name] = json.loads(json.dumps(section))
        mine = fill(model) | {"enabled": True}
        filled["channels"][name] = camel(mine, model) | {"enabled": True}
        snake["channels"][name] = model.model_validate(mine).model_dump(mode="json", by_alias=False)
    several(filled["channels"], snake["channels"])
    for name, data in {"default": default, "filled": filled, "snake": snake}.items():
        Config.model_validate(data)
        Path(folder, name + ".json").write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


main(sys.argv[1])
