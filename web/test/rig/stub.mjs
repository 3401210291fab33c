// A gateway for browser tests: it serves the built pages with the headers of the
// real one and speaks docs/reference/websocket.md, with turns that follow a script.
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";

const dist = new URL("../../../internal/web/pages/dist/", import.meta.url);
const types = {
  html: "text/html; charset=utf-8",
  js: "text/javascript",
  css: "text/css",
  svg: "image/svg+xml",
  png: "image/png",
  webmanifest: "application/manifest+json",
};
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; connect-src 'self'; " +
  "manifest-src 'self'; worker-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types nanobot";

export class Stub {
  build = "0123456789abcdef";
  signedIn = true;
  code = "ABCD2345"; // signs in
  device = "pending"; // what polling answers
  sessions = [];
  threads = new Map(); // key -> stored messages
  requests = []; // webui_request frames
  accepted = []; // turn ids, in order
  sockets = new Set();
  chats = new Map(); // chat -> {seq, ring: [{seq, ...event}]}
  answers = []; // answer frames
  refuse = false; // no connections
  reads = new Map(); // path below api/ -> answer, or a function of the address; {refuse: [status, code]} refuses
  promised = new Map(); // address of a download -> read
  // action -> answer, or a function of the payload; the same
  acts = new Map([
    [
      "download.create",
      ({ read }) => (
        this.promised.set("webui/download/t" + this.requests.length, read),
        { url: "webui/download/t" + this.requests.length }
      ),
    ],
  ]);
  frames = []; // all frames of pages
  forgotten; // a temporary chat that has ended
  uploads = []; // {name, type, bytes}
  refuseUpload = undefined; // [status, code]
  sidebar = {};
  archived = [];
  settings = { config: {}, model: { name: "scripted" } };
  script = (stub, chat, message) => stub.say(chat, message.turn_id, "Hello.");

  async start() {
    this.server = createServer((q, r) => void this.http(q, r).catch((e) => r.destroy(e)));
    this.server.on("upgrade", (q, s) => this.upgrade(q, s));
    await new Promise((done) => this.server.listen(0, "127.0.0.1", done));
    this.url = `http://127.0.0.1:${this.server.address().port}/`;
    return this;
  }

  stop() {
    this.drop();
    this.server.closeAllConnections();
    this.server.close();
  }

  /** away takes the gateway off its port; back brings it again. */
  async away() {
    this.drop();
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }

  async back() {
    await new Promise((done) => this.server.listen(Number(new URL(this.url).port), "127.0.0.1", done));
  }

  drop(code) {
    for (const s of this.sockets) s.end(code);
    this.sockets.clear();
  }

  async http(q, r) {
    const url = new URL(q.url, this.url);
    r.setHeader("Content-Security-Policy", policy);
    r.setHeader("X-Content-Type-Options", "nosniff");
    const asset =
      /^\/assets\/[^/]+\/([\w.-]+)$/.exec(url.pathname)?.[1] ??
      { "/": "index.html", "/sw.js": "sw.js", "/manifest.webmanifest": "manifest.webmanifest" }[url.pathname];
    if (asset) {
      const data = await readFile(fileURLToPath(new URL(asset + ".gz", dist)))
        .then(gunzipSync, () => readFile(fileURLToPath(new URL(asset, dist))))
        .catch(() => undefined);
      r.writeHead(data ? 200 : 404, { "Content-Type": types[asset.split(".").pop()] });
      return r.end(
        /^(index|away)\.html$|^sw\.js$|\.webmanifest$/.test(asset)
          ? String(data).replaceAll("BUILD", this.build)
          : data,
      );
    }
    const file = this.promised.get(url.pathname.slice(1));
    if (file !== undefined) {
      this.promised.delete(url.pathname.slice(1));
      return (
        r.writeHead(200, { "Content-Disposition": `attachment; filename="chat.md"` }),
        r.end(this.reads.get(decodeURIComponent(file.split("?")[0])))
      );
    }
    if (q.headers["x-nanobot-page"] !== "1") return this.refused(r, 403, "not_a_page");
    if (url.pathname === "/webui/upload") return this.upload(q, r);
    let body = "";
    for await (const piece of q) body += piece;
    if (url.pathname === "/webui/state") return this.json(r, this.state());
    if (url.pathname === "/webui/login") return this.login(r, JSON.parse(body));
    if (url.pathname === "/webui/logout") return ((this.signedIn = false), this.json(r, {}));
    if (!this.signedIn) return this.refused(r, 401, "signed_out");
    if (url.pathname === "/api/commands")
      return this.json(r, {
        commands: [
          { name: "/stop", description: "Stop the turn" },
          { name: "/status", description: "Show the status" },
          { name: "/model", args: "[name]", description: "Show or change the model" },
        ],
      });
    if (url.pathname === "/api/settings") return this.json(r, this.settings);
    if (url.pathname === "/api/workspaces")
      return this.json(r, {
        workspaces: [{ path: "/home/me/work", name: "work", default: true }],
        default: "/home/me/work",
      });
    if (url.pathname === "/api/webui/sidebar-state") return this.json(r, this.sidebar);
    if (url.pathname === "/api/sessions" && url.searchParams.get("archived"))
      return this.json(r, { sessions: this.archived, total: this.archived.length, cursor: null });
    if (url.pathname === "/api/sessions") {
      const wanted = url.searchParams.get("query").toLowerCase();
      const found = this.sessions.filter((s) => (s.title + s.preview).toLowerCase().includes(wanted));
      return this.json(r, {
        sessions: found.slice(0, Number(url.searchParams.get("limit")) || undefined),
        total: found.length,
      });
    }
    const known = this.reads.get(decodeURIComponent(url.pathname.slice("/api/".length)));
    if (known !== undefined) {
      const answer = typeof known === "function" ? known(url) : known;
      return answer.refuse ? this.refused(r, ...answer.refuse) : this.json(r, answer);
    }
    const key = /^\/api\/sessions\/([^/]+)\/webui-thread$/.exec(url.pathname)?.[1];
    const all = key && this.threads.get(decodeURIComponent(key));
    if (!all) return this.refused(r, 404, "not_found");
    if (url.searchParams.has("around") || url.searchParams.has("after"))
      return this.json(r, part(all, url.searchParams));
    const before = url.searchParams.has("before") ? Number(url.searchParams.get("before")) : Infinity;
    const fits = all.filter((m) => m.index < before);
    const page = fits.slice(-Number(url.searchParams.get("limit")));
    this.json(r, {
      messages: page,
      turns: page
        .filter((m) => m.usage || m.edits)
        .map((m) => ({
          turn_id: m.turn_id,
          duration_ms: m.latency_ms,
          model: m.model,
          usage: m.usage,
          error: m.error,
          edits: m.edits,
          undo_id: m.undo_id,
          undone_by: m.undone_by,
        })),
      seq: this.chats.get(decodeURIComponent(key).slice("websocket:".length))?.seq,
      has_more: page.length < fits.length,
      before: page[0]?.index ?? null,
    });
  }

  async upload(q, r) {
    let n = 0;
    for await (const piece of q) n += piece.length;
    if (this.refuseUpload) return this.refused(r, ...this.refuseUpload);
    this.uploads.push({
      name: decodeURIComponent(q.headers["x-nanobot-name"]),
      type: q.headers["x-nanobot-type"],
      bytes: n,
    });
    this.json(r, {
      upload_id: `up${this.uploads.length}`,
      size: n,
      type: q.headers["x-nanobot-type"],
      expires_in: 3600,
    });
  }

  /** tell is an event of a topic, or of none. */
  tell(e) {
    if (typeof e === "string") e = { topic: e };
    for (const s of this.sockets) s.send(e.topic ? { event: "changed", n: (s.n = (s.n ?? 0) + 1), ...e } : e);
  }

  state() {
    const device = {
      id: "d1",
      name: "Chromium on Linux",
      address: "127.0.0.1",
      created: "2026-01-05T10:00:00Z",
      seen: "2026-01-05T10:00:00Z",
      expires: "2026-02-04T10:00:00Z",
    };
    return {
      gateway: "1a2b3c4d",
      build: this.build,
      signed_in: this.signedIn,
      ...(this.signedIn ? { device } : {}),
      time: new Date().toISOString(),
      encrypted: false,
    };
  }

  login(r, body) {
    if (body.device) return this.json(r, { state: "pending", digits: "482913", poll: "secret", expires_in: 600 });
    if (body.poll) {
      if (this.device === "in") this.signedIn = true;
      return this.json(r, { state: this.device });
    }
    if (body.code.toUpperCase() !== this.code) return this.refused(r, 401, "wrong_code");
    this.signedIn = true;
    this.json(r, { state: "in" });
  }

  /** change says that something of a topic is not what it was. */
  change(topic) {
    for (const s of this.sockets) s.send({ event: "changed", topic });
  }

  json(r, value) {
    r.writeHead(200, { "Content-Type": "application/json" });
    r.end(JSON.stringify(value));
  }

  refused(r, status, code) {
    r.writeHead(status, { "Content-Type": "application/json" });
    r.end(JSON.stringify({ error: { status, code, message: code } }));
  }

  // ---- the socket

  upgrade(q, raw) {
    if (this.refuse || !this.signedIn) return raw.destroy();
    const accept = createHash("sha1")
      .update(q.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
      .digest("base64");
    raw.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    const socket = {
      places: new Set(),
      send: (e) => raw.writable && raw.write(frame(1, Buffer.from(JSON.stringify(e)))),
      end: (code) => {
        if (code) raw.write(frame(8, Buffer.from([code >> 8, code & 255])));
        raw.destroySoon();
      },
    };
    this.sockets.add(socket);
    let buffer = Buffer.alloc(0);
    raw.on("data", (d) => {
      buffer = Buffer.concat([buffer, d]);
      for (let f = unframe(buffer); f; f = unframe(buffer)) {
        buffer = buffer.subarray(f.size);
        if (f.op === 8) raw.destroySoon();
        else if (f.op === 1) this.receive(socket, JSON.parse(f.data));
      }
    });
    raw.on("error", () => {});
    raw.on("close", () => this.sockets.delete(socket));
    socket.send({ event: "ready", chat_id: "home", client_id: "x" });
  }

  chat(id) {
    if (!this.chats.has(id)) this.chats.set(id, { seq: 1000, ring: [], turn: undefined });
    return this.chats.get(id);
  }

  receive(socket, f) {
    this.frames.push(f);
    const c = f.chat_id && this.chat(f.chat_id);
    switch (f.type) {
      case "attach":
      case "resume": {
        if (f.chat_id === this.forgotten)
          return socket.send({ event: "error", chat_id: f.chat_id, code: "access_denied", detail: "access_denied" });
        socket.places.add(f.chat_id);
        const after = f.last_seq ?? c.seq;
        socket.send({
          event: "attached",
          chat_id: f.chat_id,
          seq: after,
          model_name: "scripted",
          ...(f.type === "resume" ? { resumed: true, complete: true } : {}),
        });
        for (const e of c.ring) if (e.seq > after) socket.send(e);
        for (const q of c.open ?? []) socket.send(q);
        if (c.turn) socket.send({ event: "goal_status", chat_id: f.chat_id, status: "running", turn_id: c.turn });
        return;
      }
      case "message": {
        socket.places.add(f.chat_id);
        const known = this.accepted.includes(f.turn_id);
        if (!known) {
          this.accepted.push(f.turn_id);
          this.store(f.chat_id, {
            role: "user",
            content: f.content,
            turn_id: f.turn_id,
            command: f.content.startsWith("/") || undefined,
          });
        }
        socket.send({ event: "message_accepted", chat_id: f.chat_id, turn_id: f.turn_id, starts_turn: true });
        if (!known) void this.script(this, f.chat_id, f);
        return;
      }
      case "watch": {
        const id = "@" + f.key;
        socket.places.add(id);
        socket.send({
          event: "attached",
          chat_id: id,
          key: f.key,
          read_only: true,
          seq: f.last_seq ?? this.chat(id).seq,
        });
        return;
      }
      case "subscribe":
        return socket.send({ event: "subscribed", topics: f.topics });
      case "stop":
        if (c.turn && (!f.turn_id || f.turn_id === c.turn)) this.end(f.chat_id, c.turn);
        return;
      case "transcribe_audio":
        if (this.unheard)
          return socket.send({ event: "transcription_error", request_id: f.request_id, detail: this.unheard });
        return socket.send({ event: "transcription_result", request_id: f.request_id, text: "buy milk" });
      case "set_model":
        return this.emit(f.chat_id, {
          event: "session_updated",
          scope: "model",
          model_name: f.model ?? f.preset,
          model_preset: f.preset ?? "model " + f.model,
        });
      case "new_temporary_chat":
        socket.places.add("temp-1");
        return socket.send({ event: "attached", chat_id: "temp-1", seq: 1, temporary: true });
      case "fork_chat":
        this.threads.set(
          "websocket:forked",
          this.threads.get("websocket:" + f.source_chat_id).filter((m) => m.index < f.before_index),
        );
        return socket.send({ event: "attached", chat_id: "forked", seq: 1 });
      case "answer":
        this.answers.push(f);
        c.open = [];
        this.emit(f.chat_id, { event: "question_gone", question_id: f.question_id });
        return;
      case "webui_request":
        this.requests.push(f);
        if (this.acts.has(f.action)) {
          const known = this.acts.get(f.action);
          const answer = typeof known === "function" ? known(f.payload) : known;
          const [status, code, params] = answer.refuse ?? [];
          return socket.send({
            event: "webui_response",
            request_id: f.request_id,
            ...(status ? { error: { status, code, params, message: code } } : { result: answer }),
          });
        }
        if (!/^(session\.(rename|delete|erase|archive|restore|seen)|sidebar\.update)$/.test(f.action)) {
          // A page must not take an empty answer for the one that it expects.
          return socket.send({
            event: "webui_response",
            request_id: f.request_id,
            error: { status: 404, code: "action_unknown", message: "the stub has no " + f.action },
          });
        }
        if (f.action === "session.rename") this.sessions.find((s) => s.key === f.payload.key).title = f.payload.title;
        if (f.action === "session.erase") this.sessions = this.sessions.filter((s) => s.key !== f.payload.key);
        if (f.action === "session.archive") {
          const s = this.sessions.find((x) => x.key === f.payload.key);
          this.sessions = this.sessions.filter((x) => x !== s);
          this.archived.push({ ...s, archive_id: "a1" });
        }
        if (f.action === "session.restore") this.sessions.push(...this.archived.splice(0));
        if (f.action === "session.seen")
          this.sessions = this.sessions.map((s) => (s.key === f.payload.key ? { ...s, unread: undefined } : s));
        if (f.action === "sidebar.update")
          this.tell({ event: "sidebar_state_updated", state: (this.sidebar = f.payload.state) });
        socket.send({
          event: "webui_response",
          request_id: f.request_id,
          result: f.action === "session.restore" ? { key: this.sessions.at(-1).key } : {},
        });
    }
  }

  // ---- what a turn does

  emit(chat, e) {
    const c = this.chat(chat);
    const event = { ...e, chat_id: chat, seq: ++c.seq };
    c.ring.push(event);
    for (const s of this.sockets) if (s.places.has(chat)) s.send(event);
  }

  store(chat, m) {
    const key = "websocket:" + chat;
    if (!this.threads.has(key)) {
      this.threads.set(key, []);
      this.sessions.unshift({
        key,
        title: "",
        preview: m.content,
        created_at: new Date().toISOString(),
        updated_at: new Date().toISOString(),
        messages: 1,
        bytes: 1,
        running: false,
      });
    }
    const all = this.threads.get(key);
    all.push({ index: all.length, at: new Date().toISOString(), ...m });
    this.tell({ topic: "sessions" });
  }

  begin(chat, turn) {
    this.chat(chat).turn = turn;
    this.emit(chat, { event: "goal_status", status: "running", turn_id: turn });
  }

  end(chat, turn, usage = { prompt_tokens: 17200, completion_tokens: 1000, cost_usd: 0.04 }) {
    this.emit(chat, { event: "turn_end", turn_id: turn, id: "o-" + turn, latency_ms: 2100, usage, model: "scripted" });
    this.chat(chat).turn = undefined;
    this.emit(chat, { event: "goal_status", status: "idle", turn_id: turn });
  }

  /** say answers with a text in pieces. */
  say(chat, turn, text, { size = 7 } = {}) {
    this.begin(chat, turn);
    for (let i = 0; i < text.length; i += size)
      this.emit(chat, { event: "delta", text: text.slice(i, i + size), stream_id: "s-" + turn });
    this.emit(chat, { event: "stream_end", stream_id: "s-" + turn });
    this.store(chat, {
      role: "assistant",
      content: text,
      turn_id: turn,
      latency_ms: 2100,
      model: "scripted",
      usage: { prompt_tokens: 17200, completion_tokens: 1000, cost_usd: 0.04 },
    });
    this.end(chat, turn);
  }
}

/** part is a page around or behind an index. */
function part(all, query) {
  const limit = Number(query.get("limit"));
  const from = query.has("after")
    ? Number(query.get("after")) + 1
    : Math.max(0, Number(query.get("around")) - limit / 2);
  const messages = all.slice(from, from + limit);
  return {
    messages,
    has_more: from > 0,
    before: messages[0]?.index ?? null,
    has_newer: from + limit < all.length,
    after: messages.at(-1)?.index ?? null,
  };
}

function frame(op, data) {
  const n = data.length;
  const head =
    n < 126 ? Buffer.from([128 | op, n]) : n < 65536 ? Buffer.from([128 | op, 126, n >> 8, n & 255]) : Buffer.alloc(10);
  if (n >= 65536) {
    head[0] = 128 | op;
    head[1] = 127;
    head.writeBigUInt64BE(BigInt(n), 2);
  }
  return Buffer.concat([head, data]);
}

function unframe(b) {
  if (b.length < 2) return undefined;
  let n = b[1] & 127;
  let at = 2;
  if (n === 126) {
    if (b.length < 4) return undefined;
    n = b.readUInt16BE(2);
    at = 4;
  } else if (n === 127) {
    if (b.length < 10) return undefined;
    n = Number(b.readBigUInt64BE(2));
    at = 10;
  }
  if (b.length < at + 4 + n) return undefined;
  const mask = b.subarray(at, at + 4);
  const data = Buffer.from(b.subarray(at + 4, at + 4 + n).map((x, i) => x ^ mask[i & 3]));
  return { op: b[0] & 15, data: data.toString(), size: at + 4 + n };
}
