// A gateway for browser tests: it serves the built pages with the headers of the
// real one and speaks docs/websocket.md, with turns that follow a script.
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";

const dist = new URL("../../../internal/webui/pages/dist/", import.meta.url);
const types = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css", svg: "image/svg+xml" };
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

  drop(code) {
    for (const s of this.sockets) s.end(code);
    this.sockets.clear();
  }

  async http(q, r) {
    const url = new URL(q.url, this.url);
    r.setHeader("Content-Security-Policy", policy);
    r.setHeader("X-Content-Type-Options", "nosniff");
    const asset = /^\/assets\/[^/]+\/([\w.]+)$/.exec(url.pathname)?.[1] ?? (url.pathname === "/" ? "index.html" : undefined);
    if (asset) {
      const data = await readFile(fileURLToPath(new URL(asset, dist))).catch(() => undefined);
      r.writeHead(data ? 200 : 404, { "Content-Type": types[asset.split(".").pop()] });
      return r.end(asset === "index.html" ? String(data).replaceAll("BUILD", this.build) : data);
    }
    if (q.headers["x-nanobot-page"] !== "1") return this.refused(r, 403, "not_a_page");
    let body = "";
    for await (const piece of q) body += piece;
    if (url.pathname === "/webui/state") return this.json(r, this.state());
    if (url.pathname === "/webui/login") return this.login(r, JSON.parse(body));
    if (url.pathname === "/webui/logout") return (this.signedIn = false), this.json(r, {});
    if (!this.signedIn) return this.refused(r, 401, "signed_out");
    if (url.pathname === "/api/commands") return this.json(r, { commands: [{ name: "/stop", description: "Stop the turn" }, { name: "/status", description: "Show the status" }, { name: "/model", args: "[name]", description: "Show or change the model" }] });
    if (url.pathname === "/api/sessions") {
      const wanted = url.searchParams.get("query").toLowerCase();
      const found = this.sessions.filter((s) => (s.title + s.preview).toLowerCase().includes(wanted));
      return this.json(r, { sessions: found, total: found.length });
    }
    const key = /^\/api\/sessions\/([^/]+)\/webui-thread$/.exec(url.pathname)?.[1];
    const all = key && this.threads.get(decodeURIComponent(key));
    if (!all) return this.refused(r, 404, "not_found");
    const before = url.searchParams.has("before") ? Number(url.searchParams.get("before")) : Infinity;
    const fits = all.filter((m) => m.index < before);
    const page = fits.slice(-Number(url.searchParams.get("limit")));
    this.json(r, { messages: page, turns: page.filter((m) => m.usage || m.edits).map((m) => ({ turn_id: m.turn_id, duration_ms: m.latency_ms, model: m.model, usage: m.usage, error: m.error, edits: m.edits })), has_more: page.length < fits.length, before: page[0]?.index ?? null });
  }

  state() {
    const device = { id: "d1", name: "Chromium on Linux", address: "127.0.0.1", created: "2026-01-05T10:00:00Z", seen: "2026-01-05T10:00:00Z", expires: "2026-02-04T10:00:00Z" };
    return { gateway: "1a2b3c4d", build: this.build, signed_in: this.signedIn, ...(this.signedIn ? { device } : {}), time: new Date().toISOString(), encrypted: false };
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
    const accept = createHash("sha1").update(q.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
    raw.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
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
    const c = f.chat_id && this.chat(f.chat_id);
    switch (f.type) {
      case "attach":
      case "resume": {
        socket.places.add(f.chat_id);
        const after = f.last_seq ?? c.seq;
        socket.send({ event: "attached", chat_id: f.chat_id, seq: after, model_name: "scripted", ...(f.type === "resume" ? { resumed: true, complete: true } : {}) });
        for (const e of c.ring) if (e.seq > after) socket.send(e);
        if (c.turn) socket.send({ event: "goal_status", chat_id: f.chat_id, status: "running", turn_id: c.turn });
        return;
      }
      case "message": {
        socket.places.add(f.chat_id);
        const known = this.accepted.includes(f.turn_id);
        if (!known) {
          this.accepted.push(f.turn_id);
          this.store(f.chat_id, { role: "user", content: f.content, turn_id: f.turn_id, command: f.content.startsWith("/") || undefined });
        }
        socket.send({ event: "message_accepted", chat_id: f.chat_id, turn_id: f.turn_id, starts_turn: true });
        if (!known) void this.script(this, f.chat_id, f);
        return;
      }
      case "answer":
        this.answers.push(f);
        this.emit(f.chat_id, { event: "question_gone", question_id: f.question_id });
        return;
      case "webui_request":
        this.requests.push(f);
        if (f.action === "session.rename") this.sessions.find((s) => s.key === f.payload.key).title = f.payload.title;
        if (f.action === "session.delete") this.sessions = this.sessions.filter((s) => s.key !== f.payload.key);
        socket.send({ event: "webui_response", request_id: f.request_id, result: {} });
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
      this.sessions.unshift({ key, title: "", preview: m.content, created_at: new Date().toISOString(), updated_at: new Date().toISOString(), messages: 1, bytes: 1, running: false });
    }
    const all = this.threads.get(key);
    all.push({ index: all.length, at: new Date().toISOString(), ...m });
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
    for (let i = 0; i < text.length; i += size) this.emit(chat, { event: "delta", text: text.slice(i, i + size), stream_id: "s-" + turn });
    this.emit(chat, { event: "stream_end", stream_id: "s-" + turn });
    this.store(chat, { role: "assistant", content: text, turn_id: turn, latency_ms: 2100, model: "scripted", usage: { prompt_tokens: 17200, completion_tokens: 1000, cost_usd: 0.04 } });
    this.end(chat, turn);
  }
}

function frame(op, data) {
  const n = data.length;
  const head = n < 126 ? Buffer.from([128 | op, n]) : n < 65536 ? Buffer.from([128 | op, 126, n >> 8, n & 255]) : Buffer.alloc(10);
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
