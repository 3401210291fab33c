// The real program with a home of its own.
import { execFile, spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const run = promisify(execFile);

/** binary is the program under test: NANOBOT_BIN, or one that is built. */
export function binary() {
  if (process.env.NANOBOT_BIN) return process.env.NANOBOT_BIN;
  const at = join(root, "web", ".unit", "nanobot");
  const flags = spawnSync("cat", [join(root, "deploy/build.flags")])
    .stdout.toString()
    .trim()
    .replace(/\s+/g, " ");
  const env = { ...process.env, CGO_ENABLED: "0", GOFLAGS: flags };
  const built = spawnSync("go", ["build", "-trimpath", "-ldflags", "-s -w", "-o", at, "./cmd/nanobot"], {
    cwd: root,
    env,
    stdio: "inherit",
  });
  if (built.status !== 0 || !existsSync(at)) throw new Error("nanobot cannot be built");
  process.env.NANOBOT_BIN = at;
  return at;
}

/** settings of a new install, with the scripted model. */
export function settings(model, more = {}) {
  const { tools = {}, ...rest } = more;
  return {
    gateway: { port: 0 },
    ...(model
      ? {
          agents: { defaults: { model: "custom/scripted", provider: "custom" } },
          providers: { custom: { apiBase: model.url, apiKey: "sk-planted-secret-7351" } },
        }
      : {}),
    tools: { restrictToWorkspace: true, exec: { sandbox: "auto", timeout: 20 }, approval: { mode: "auto" }, ...tools },
    ...rest,
  };
}

export class Gateway {
  output = "";

  constructor(config) {
    this.config = config;
  }

  async start() {
    if (!this.home) {
      this.home = await mkdtemp(join(tmpdir(), "nanobot-web-"));
      this.data = join(this.home, ".nanobot");
      this.workspace = join(this.data, "workspace");
      await mkdir(this.workspace, { recursive: true, mode: 0o700 });
      if (this.config) await writeFile(join(this.data, "config.json"), JSON.stringify(this.config), { mode: 0o600 });
    }
    const child = spawn(binary(), ["gateway", "--logs"], {
      cwd: this.home,
      env: this.env(),
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child = child;
    this.gone = new Promise((done) => child.on("exit", done));
    await new Promise((done, fail) => {
      let said = "";
      const hear = (data) => {
        said += data;
        this.output += data;
        const at = /listening\s+http:\/\/(\S+)/.exec(said)?.[1];
        if (at) ((this.address = at), done());
      };
      child.stdout.setEncoding("utf8").on("data", hear);
      child.stderr.setEncoding("utf8").on("data", hear);
      child.on("exit", (code) => fail(new Error(`the gateway ended with ${code}:\n${said}`)));
    });
    return this;
  }

  env() {
    const { PATH, NANOBOT_BIN } = process.env;
    return { PATH, NANOBOT_BIN, HOME: this.home, LANG: "C.UTF-8", TZ: "UTC", ...(this.more ?? {}) };
  }

  /** kill ends the process as a crash or a power cut does. */
  async kill() {
    this.child.kill("SIGKILL");
    await this.gone;
  }

  async end() {
    if (this.child?.exitCode === null && this.child.signalCode === null) {
      this.child.kill("SIGTERM");
      await this.gone;
    }
  }

  async stop() {
    await this.end();
    if (this.home) await rm(this.home, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }

  /** command runs nanobot in the same home. */
  async command(...args) {
    const { stdout } = await run(binary(), args, { cwd: this.home, env: this.env(), timeout: 600_000 });
    return stdout;
  }

  /** link signs one browser in. */
  async link(base) {
    const said = await this.command("web", "--no-open", ...(base ? ["--url", base] : []));
    return /https?:\/\/\S+#\/in\/\S+/.exec(said)[0];
  }

  async code(base) {
    const said = await this.command("web", "--code", ...(base ? ["--url", base] : []));
    return /([A-Z0-9]{4}-[A-Z0-9]{4})/.exec(said)[1];
  }
}
