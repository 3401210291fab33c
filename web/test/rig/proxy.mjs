// A proxy in front of the gateway: it mounts it below a path, keeps or strips
// the path, terminates TLS, cuts and refuses connections, and delays frames.
import { createServer, request } from "node:http";
import { createServer as createSecure } from "node:https";
import { connect } from "node:net";
import { certificate } from "./certificate.mjs";

export class Proxy {
  down = false; // refuse everything
  deaf = false; // refuse new sockets
  frames = 0; // from the gateway, since the last cutAfter
  cuts = 0;
  delay = 0; // milliseconds before each piece of a socket
  seen = []; // paths
  sockets = new Set();
  #limit = Infinity;

  constructor({ prefix = "/", strip = true, tls = false } = {}) {
    Object.assign(this, { prefix, strip, tls });
  }

  async start(upstream) {
    this.upstream = upstream; // host:port, or a function that returns it
    const handler = (q, r) => this.http(q, r);
    this.server = this.tls ? createSecure(certificate(), handler) : createServer(handler);
    this.server.on("upgrade", (q, s, head) => this.upgrade(q, s, head));
    this.server.on("connection", (s) => this.down && s.destroy());
    this.server.on("tlsClientError", () => {});
    await new Promise((done) => this.server.listen(0, "127.0.0.1", done));
    this.port = this.server.address().port;
    this.url = `${this.tls ? "https" : "http"}://127.0.0.1:${this.port}${this.prefix}`;
    return this;
  }

  stop() {
    this.cut();
    this.server.closeAllConnections();
    this.server.close();
  }

  /** cut ends all sockets without a word. */
  cut() {
    for (const s of this.sockets) s.destroy();
    this.sockets.clear();
  }

  /** refuse cuts, and lets nothing pass until it is called with false. */
  refuse(down = true) {
    this.down = down;
    if (!down) return;
    this.cut();
    this.server.closeAllConnections();
  }

  /** cutAfter ends the connection once, after so many frames from now on. */
  cutAfter(n) {
    this.frames = 0;
    this.#limit = n;
  }

  target() {
    const [host, port] = (typeof this.upstream === "function" ? this.upstream() : this.upstream).split(":");
    return { host, port: Number(port) };
  }

  /** path is what the gateway sees, or undefined outside of the prefix. */
  path(url) {
    if (!url.startsWith(this.prefix)) return undefined;
    return this.strip ? "/" + url.slice(this.prefix.length) : url;
  }

  http(q, r) {
    const path = this.path(q.url);
    this.seen.push(q.url);
    if (path === undefined || this.down) return r.writeHead(this.down ? 502 : 404).end();
    const up = request(
      {
        ...this.target(),
        method: q.method,
        path,
        headers: { ...q.headers, "x-forwarded-proto": this.tls ? "https" : "http" },
      },
      (answer) => {
        r.writeHead(answer.statusCode, answer.headers);
        answer.pipe(r);
      },
    );
    up.on("error", () => (r.headersSent ? r.destroy() : r.writeHead(502).end()));
    q.pipe(up);
  }

  upgrade(q, down, head) {
    const path = this.path(q.url);
    if (path === undefined || this.down || this.deaf) return down.destroy();
    const t = this.target();
    const up = connect(t.port, t.host);
    const end = () => (up.destroy(), down.destroy(), this.sockets.delete(down));
    for (const s of [up, down]) s.on("error", end).on("close", end);
    this.sockets.add(down);
    const headers = Object.entries(q.headers).map(([k, v]) => `${k}: ${v}\r\n`);
    up.write(`GET ${path} HTTP/1.1\r\n${headers.join("")}\r\n`);
    up.write(head);
    down.pipe(up);
    const counter = new Counter();
    let order = Promise.resolve();
    up.on("data", (data) => {
      for (const piece of counter.split(data)) {
        order = order.then(async () => {
          if (this.delay > 0) await new Promise((done) => setTimeout(done, this.delay));
          if (down.destroyed) return;
          down.write(piece.data);
          if (!piece.frame || ++this.frames !== this.#limit) return;
          this.#limit = Infinity;
          this.cuts++;
          down.end(); // what was written arrives, nothing after it
          up.destroy();
          this.sockets.delete(down);
        });
      }
    });
  }
}

/** Counter splits what a server sends into the answer to the handshake and
 *  whole frames. */
class Counter {
  buffer = Buffer.alloc(0);
  open = false;

  split(data) {
    this.buffer = Buffer.concat([this.buffer, data]);
    const out = [];
    if (!this.open) {
      const at = this.buffer.indexOf("\r\n\r\n");
      if (at < 0) return out;
      out.push(this.take(at + 4, false));
      this.open = true;
    }
    for (let n = size(this.buffer); n !== undefined && n <= this.buffer.length; n = size(this.buffer))
      out.push(this.take(n, (this.buffer[0] & 15) < 3));
    return out;
  }

  take(n, frame) {
    const data = this.buffer.subarray(0, n);
    this.buffer = this.buffer.subarray(n);
    return { data, frame };
  }
}

/** size is the length of the frame at the beginning, if it can be told. */
function size(b) {
  if (b.length < 2) return undefined;
  const n = b[1] & 127;
  if (n < 126) return 2 + n;
  if (n === 126) return b.length < 4 ? undefined : 4 + b.readUInt16BE(2);
  return b.length < 10 ? undefined : 10 + Number(b.readBigUInt64BE(2));
}
