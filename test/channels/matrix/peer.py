"""A person with matrix-nio, told what to do by lines of JSON."""

import asyncio
import base64
import hashlib
import json
import sys
import time

import nio
from nio.crypto import Sas

# nio 0.26 names the method whose proofs it makes by the name of an older one, and
# writes the promise of a key in hexadecimal digits. The specification has both as
# here.
Sas._mac_normal = "hkdf-hmac-sha256.v2"
Sas._mac_v1 = [Sas._mac_normal]


def _check_commitment(self, key):
    start = nio.Api.to_canonical_json(self.start_verification().content)
    digest = hashlib.sha256((key + start).encode()).digest()
    return self.commitment == base64.b64encode(digest).decode().rstrip("=")


Sas._check_commitment = _check_commitment


async def main(homeserver, user, password, store):
    config = nio.AsyncClientConfig(encryption_enabled=store != "", store_sync_tokens=False)
    client = nio.AsyncClient(homeserver, user, store_path=store, config=config)
    seen = []

    async def on_event(room, event):
        if event.sender != client.user_id:
            seen.append((room, event))

    client.add_event_callback(on_event, nio.RoomMessage)
    client.add_event_callback(on_event, nio.MegolmEvent)
    client.add_event_callback(on_event, nio.RedactionEvent)
    client.add_event_callback(on_event, nio.UnknownEvent)

    def check(answer):
        if isinstance(answer, nio.ErrorResponse):
            raise RuntimeError(f"{answer.status_code} {answer.message}")
        return answer

    async def sync(wait=1000):
        check(await client.sync(timeout=wait, full_state=client.next_batch is None))
        if client.olm:
            for r in await client.run_response_callbacks([]) or []:
                pass
            if client.should_upload_keys:
                check(await client.keys_upload())
            if client.should_query_keys:
                check(await client.keys_query())
            await client.send_to_device_messages()

    async def until(ready, seconds=60):
        for _ in range(seconds):
            found = ready()
            if found:
                return found
            await sync()
        raise RuntimeError("nothing came within %d seconds" % seconds)

    def described(room, event):
        out = {"room": room.room_id, "sender": event.sender, "id": event.event_id, "kind": type(event).__name__, "decrypted": event.decrypted}
        for name in ("body", "formatted_body", "url", "redacts"):
            if hasattr(event, name):
                out[name] = getattr(event, name)
        relates = event.source["content"].get("m.relates_to", {})
        out["relates"], out["event"] = relates.get("rel_type", ""), relates.get("event_id", "")
        new = event.source["content"].get("m.new_content", {})
        out["new_body"] = new.get("body", "")
        return out

    async def login(c):
        answer = check(await client.login(c.get("password", password)))
        await sync(0)
        return {"user": answer.user_id, "device": answer.device_id}

    async def room(c):
        state = [nio.EnableEncryptionBuilder().as_dict()] if c.get("encrypted") else []
        answer = check(await client.room_create(invite=[c["invite"]], initial_state=state, is_direct=True))
        await until(lambda: c["invite"] in getattr(client.rooms.get(answer.room_id), "users", {})
                    and c["invite"] not in client.rooms[answer.room_id].invited_users)
        return {"room": answer.room_id}

    async def send(c):
        content = c.get("content") or {"msgtype": "m.text", "body": c["text"]}
        if client.rooms[c["room"]].encrypted and client.should_query_keys:
            check(await client.keys_query())
        answer = check(await client.room_send(c["room"], "m.room.message", content, tx_id=c.get("txn"), ignore_unverified_devices=True))
        return {"id": answer.event_id}

    async def receive(c):
        def ready():
            for room, event in seen:
                if c["text"] in (getattr(event, "body", "") or "") or c["text"] in event.source["content"].get("m.new_content", {}).get("body", ""):
                    return described(room, event)
            return None

        return await until(ready)

    async def upload(c):
        import io

        data = c["data"].encode()
        answer, keys = await client.upload(io.BytesIO(data), content_type="text/plain", filename=c["name"], encrypt=c.get("encrypted", False), filesize=len(data))
        check(answer)
        content = {"msgtype": "m.file", "body": c["name"], "info": {"size": len(data), "mimetype": "text/plain"}}
        if keys:
            keys["url"] = answer.content_uri
            content["file"] = keys
        else:
            content["url"] = answer.content_uri
        return await send({"room": c["room"], "content": content})

    async def download(c):
        def ready():
            for room, event in seen:
                if isinstance(event, (nio.RoomMessageMedia, nio.RoomEncryptedMedia)) and event.body == c["name"]:
                    return event
            return None

        event = await until(ready)
        answer = check(await client.download(event.url))
        data = answer.body
        if isinstance(event, nio.RoomEncryptedMedia):
            data = nio.crypto.decrypt_attachment(data, event.key["k"], event.hashes["sha256"], event.iv)
        return {"data": data.decode(), "kind": type(event).__name__}

    async def invitation(c):
        await until(lambda: c["room"] in client.invited_rooms)
        check(await client.join(c["room"]))
        await until(lambda: c["room"] in client.rooms)
        return {"members": sorted(client.rooms[c["room"]].users)}

    async def typing(c):
        check(await client.room_typing(c["room"], c["on"]))
        return {}

    async def refused(c):
        other = nio.AsyncClient(homeserver, user)
        answer = await other.login("wrong")
        await other.close()
        return {"error": getattr(answer, "status_code", "")}

    async def devices(c):
        check(await client.keys_query()) if client.should_query_keys else None
        return {"devices": [d.display_name for d in client.device_store.active_user_devices(c["user"])]}

    told = []
    client.add_to_device_callback(lambda e: told.append(e.source), nio.ToDeviceEvent)

    async def find(user):
        client.olm.users_for_key_query.add(user)
        check(await client.keys_query())
        return next(iter(client.device_store.active_user_devices(user)))

    async def verify(c):
        """Begins a verification and returns the emoji, or how it was declined."""
        device = await find(c["user"])
        txn = c["txn"]
        content = {"from_device": client.device_id, "methods": ["m.sas.v1"], "timestamp": int(time.time() * 1000), "transaction_id": txn}
        check(await client.to_device(nio.ToDeviceMessage("m.key.verification.request", device.user_id, device.id, content)))
        answers = ("m.key.verification.ready", "m.key.verification.cancel")
        answer = await until(lambda: [e for e in told if e["type"] in answers and e["content"]["transaction_id"] == txn])
        content = answer[0]["content"]
        if "code" in content:
            return {"code": content["code"], "reason": content["reason"]}
        sas = Sas(client.user_id, client.device_id, client.olm.account.identity_keys["ed25519"], device, txn)
        client.olm.key_verifications[txn] = sas
        check(await client.to_device(sas.start_verification()))
        await until(lambda: sas.established_sas or sas.canceled)
        # nio takes the numbers of emoji for bits.
        shown = sas.established_sas.bytes(sas._extra_info)
        return {"emoji": [Sas.emoji[i][0] for i in shown.emoji_indices], "cancelled": sas.cancel_reason}

    async def confirm(c):
        sas = client.olm.key_verifications[c["txn"]]
        check(await client.confirm_short_auth_string(c["txn"]))
        await until(lambda: sas.verified or sas.canceled)
        done = await until(lambda: [e for e in told if e["type"] == "m.key.verification.done"])
        return {"verified": client.olm.is_device_verified(sas.other_olm_device), "cancelled": sas.cancel_reason, "done": len(done)}

    async def redact(c):
        check(await client.room_redact(c["room"], c["id"]))
        return {}

    doing = dict(login=login, room=room, send=send, receive=receive, upload=upload, download=download, invitation=invitation,
                 typing=typing, refused=refused, devices=devices, redact=redact, verify=verify, confirm=confirm)
    loop = asyncio.get_running_loop()
    while True:
        line = await loop.run_in_executor(None, sys.stdin.readline)
        if not line:
            break
        c = json.loads(line)
        try:
            out = await doing[c["do"]](c)
        except Exception as e:  # the test shows it
            out = {"failed": f"{type(e).__name__}: {e}"}
        print(json.dumps(out), flush=True)
    await client.close()


asyncio.run(main(*sys.argv[1:5]))
