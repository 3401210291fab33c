// A model that follows a script, for the real gateway: it speaks the API of
// OpenAI-compatible servers on loopback.
import { createServer } from "node:http";

/** textOf is what a message says, without pictures. */
const textOf = (m) => (typeof m.content === "string" ? m.content : (m.content ?? []).map((p) => p.text ?? "").join(""));

export class Model {
  requests = []; // bodies, in order
  turns = new Map(); // words of a message -> what the model does, one function per call
  held = new Map(); // name -> {open, wait}

  async start() {
    this.server = createServer((q, r) => void this.http(q, r).catch(() => r.destroy()));
    await new Promise((done) => this.server.listen(0, "127.0.0.1", done));
    this.url = `http://127.0.0.1:${this.server.address().port}/v1`;
    return this;
  }

  stop() {
    for (const g of this.held.values()) g.open();
    this.server.closeAllConnections();
    this.server.close();
  }

  /** on says what the model does in a turn whose message contains these words. */
  on(words, ...steps) {
    this.turns.set(words, steps);
  }

  /** gate is where a script waits until the test opens it. */
  gate(name) {
    if (!this.held.has(name)) {
      let open;
      const wait = new Promise((done) => (open = done));
      this.held.set(name, { open, wait });
    }
    return this.held.get(name);
  }

  async http(q, r) {
    let body = "";
    for await (const piece of q) body += piece;
    if (!q.url.endsWith("/chat/completions")) {
      r.writeHead(200, { "Content-Type": "application/json" });
      return r.end(JSON.stringify({ data: [{ id: "scripted" }, { id: "second" }] }));
    }
    const request = JSON.parse(body);
    this.requests.push(request);
    const at = request.messages.findLastIndex((m) => m.role === "user");
    const words = at < 0 ? "" : textOf(request.messages[at]);
    const step = request.messages.slice(at + 1).filter((m) => m.role === "assistant").length;
    const found = [...this.turns.keys()].filter((k) => words.includes(k)).sort((a, b) => b.length - a.length)[0];
    const steps = found === undefined ? [(s) => s.text("Hello.")] : this.turns.get(found);
    const reply = new Reply(this, r, request);
    await steps[Math.min(step, steps.length - 1)](reply);
    reply.end();
  }
}

/** Reply writes one answer of the model. */
class Reply {
  calls = 0;
  words = 0;
  failed = false;

  constructor(model, response, request) {
    Object.assign(this, { model, response, request });
  }

  event(delta, finish = null, more = {}) {
    if (!this.response.headersSent) this.response.writeHead(200, { "Content-Type": "text/event-stream" });
    this.response.write(
      `data: ${JSON.stringify({ id: "x", model: this.request.model, choices: [{ index: 0, delta, finish_reason: finish }], ...more })}\n\n`,
    );
  }

  /** text says something, in pieces; every: milliseconds between them. */
  async text(text, { size = 12, every = 0 } = {}) {
    await this.pieces("content", text, size, every);
  }

  async think(text, { size = 12, every = 0 } = {}) {
    await this.pieces("reasoning_content", text, size, every);
  }

  async pieces(name, text, size, every) {
    const all = Array.from(text); // never half of a character
    for (let i = 0; i < all.length && !this.response.destroyed; i += size) {
      this.event({ [name]: all.slice(i, i + size).join("") });
      this.words++;
      if (every > 0) await new Promise((done) => setTimeout(done, every));
    }
  }

  call(name, args) {
    const index = this.calls++;
    this.event({
      tool_calls: [
        {
          index,
          id: `call_${this.model.requests.length}_${index}`,
          type: "function",
          function: { name, arguments: JSON.stringify(args) },
        },
      ],
    });
  }

  wait(gate) {
    return this.model.gate(gate).wait;
  }

  fail(status, message) {
    this.failed = true;
    this.response.writeHead(status, { "Content-Type": "application/json" });
    this.response.end(JSON.stringify({ error: { message, type: "server_error" } }));
  }

  end() {
    if (this.failed || this.response.destroyed) return;
    this.event({}, this.calls > 0 ? "tool_calls" : "stop", {
      usage: { prompt_tokens: 1200, completion_tokens: 10 + this.words },
    });
    this.response.end("data: [DONE]\n\n");
  }
}
