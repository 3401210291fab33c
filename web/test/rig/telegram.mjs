// The part of the Telegram Bot API that a gateway needs to receive and answer.
import { createServer } from "node:http";

export class Telegram {
  token = "123456:good_token_of_the_bot_0123456789ab";
  name = "nanobot_test_bot";
  sent = []; // messages of the bot
  #updates = [];
  #waiting = [];
  #last = 0;

  async start() {
    this.server = createServer((q, r) => void this.#answer(q, r).catch(() => r.destroy()));
    await new Promise((done) => this.server.listen(0, "127.0.0.1", done));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  stop() {
    this.server.closeAllConnections();
    this.server.close();
  }

  /** says lets a person write to the bot, in a topic of the chat if there is one. */
  says(id, name, text, topic) {
    const n = ++this.#last;
    this.#updates.push({
      update_id: n,
      message: {
        message_id: n,
        ...(topic && { message_thread_id: topic, is_topic_message: true }),
        date: Math.floor(Date.now() / 1000),
        from: { id, is_bot: false, first_name: name, username: name },
        chat: { id, type: "private", first_name: name },
        text,
      },
    });
    for (const wake of this.#waiting.splice(0)) wake();
  }

  async #answer(q, r) {
    let body = "";
    for await (const piece of q) body += piece;
    const [, token, method] = /^\/bot([^/]+)\/(\w+)/.exec(q.url) ?? [];
    const reply = (status, value) => {
      r.writeHead(status, { "Content-Type": "application/json" });
      r.end(JSON.stringify(value));
    };
    if (decodeURIComponent(token ?? "") !== this.token)
      return reply(401, { ok: false, error_code: 401, description: "Unauthorized" });
    const params = body.startsWith("{") ? JSON.parse(body) : {};
    let result = true;
    if (method === "getMe")
      result = { id: parseInt(this.token), is_bot: true, first_name: "Test", username: this.name };
    if (method === "getWebhookInfo") result = { url: "" };
    if (method === "getUpdates") {
      this.#updates = this.#updates.filter((u) => u.update_id >= (params.offset ?? 0));
      if (this.#updates.length === 0) {
        await new Promise((done) => {
          this.#waiting.push(done);
          r.on("close", done);
          setTimeout(done, 5000);
        });
      }
      result = this.#updates.filter((u) => u.update_id >= (params.offset ?? 0));
    }
    if (method.startsWith("send")) {
      this.sent.push(params);
      result = {
        message_id: 1000 + this.sent.length,
        date: 1,
        chat: { id: params.chat_id, type: "private" },
        text: params.text,
      };
    }
    if (method === "editMessageText") {
      // an answer that grows
      this.sent[params.message_id - 1001].text = params.text;
      result = {
        message_id: params.message_id,
        date: 1,
        chat: { id: params.chat_id, type: "private" },
        text: params.text,
      };
    }
    reply(200, { ok: true, result });
  }
}
