// The real gateway in an empty home, and a model server on loopback for it.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createSocket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../../", import.meta.url));
let built;

/** binary is the program: NANOBOT_BIN, or what the sources give. */
function binary() {
  if (process.env.NANOBOT_BIN) return process.env.NANOBOT_BIN;
  if (!built) {
    built = join(mkdtempSync(join(tmpdir(), "nanobot-bin-")), "nanobot");
    execFileSync("go", ["build", "-tags", "goolm", "-o", built, "./cmd/nanobot"], { cwd: root, stdio: "inherit" });
    process.on("exit", () => rmSync(join(built, ".."), { recursive: true, force: true }));
  }
  return built;
}

const freePort = () =>
  new Promise((done) => {
    const s = createSocket().listen(0, "127.0.0.1", () => {
      const { port } = s.address();
      s.close(() => done(port));
    });
  });

export class Gateway {
  async start(config = {}) {
    this.home = mkdtempSync(join(tmpdir(), "nanobot-home-"));
    this.port = await freePort();
    this.file = join(this.home, "config.json");
    writeFileSync(
      this.file,
      JSON.stringify(
        { ...config, gateway: { port: this.port, heartbeat: { enabled: false }, ...config.gateway } },
        null,
        2,
      ),
      { mode: 0o600 },
    );
    this.env = { PATH: process.env.PATH, HOME: this.home, NANOBOT_HOME: this.home };
    this.process = spawn(binary(), ["gateway"], { env: this.env, stdio: ["ignore", "pipe", "pipe"] });
    this.log = "";
    for (const s of [this.process.stdout, this.process.stderr]) s.on("data", (b) => (this.log += b));
    const end = Date.now() + 180_000;
    for (;;) {
      const ok = await fetch(`http://127.0.0.1:${this.port}/readyz`).then(
        (r) => r.ok,
        () => false,
      );
      if (ok) return this;
      if (this.process.exitCode !== null || Date.now() > end)
        throw new Error("the gateway did not start:\n" + this.log);
      await new Promise((done) => setTimeout(done, 50));
    }
  }

  /** link signs one browser in. */
  link() {
    const out = execFileSync(binary(), ["web", "--no-open"], { env: this.env, encoding: "utf8" });
    return /http:\/\/\S+#\/in\/\S+/.exec(out)[0];
  }

  text() {
    return readFileSync(this.file, "utf8");
  }

  async stop() {
    const gone = new Promise((done) => this.process.once("exit", done));
    if (this.process.exitCode === null) {
      this.process.kill("SIGTERM");
      await gone;
    }
    rmSync(this.home, { recursive: true, force: true });
  }
}

/** ModelServer speaks the protocol that most providers share. */
export class ModelServer {
  key = "sk-planted-in-the-test-0123456789";
  answer = "The first real answer.";

  async start() {
    this.server = createServer((q, r) => {
      q.resume();
      if (q.headers.authorization !== "Bearer " + this.key) {
        r.writeHead(401, { "Content-Type": "application/json" });
        return r.end(JSON.stringify({ error: { message: `wrong key ${q.headers.authorization}` } }));
      }
      if (q.url.endsWith("/models"))
        return r.end(JSON.stringify({ data: [{ id: "small-1" }, { id: "large-1", context_length: 128000 }] }));
      r.writeHead(200, { "Content-Type": "text/event-stream" });
      const piece = (delta, finish) =>
        `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish ?? null }] })}\n\n`;
      r.end(piece({ role: "assistant", content: this.answer }) + piece({}, "stop") + "data: [DONE]\n\n");
    });
    await new Promise((done) => this.server.listen(0, "127.0.0.1", done));
    this.base = `http://127.0.0.1:${this.server.address().port}/v1`;
    return this;
  }

  stop() {
    this.server.closeAllConnections();
    this.server.close();
  }
}
