// What other pages in the same browser get, and what the browser is given.
import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { executable, newPage, patience, wait } from "./browser.mjs";
import { ended, newChat, rigTest, send, sharedRig, until, useListener, useRig } from "./fixture.mjs";
import { payloads } from "../rig/payloads.mjs";
import { chromium } from "playwright-core";

const secrets = ["sk-planted-secret-7351", "planted-bot-token-2204", "planted-mcp-token-9917"];

useRig({
  config: {
    channels: { telegram: { enabled: false, token: secrets[1], allowFrom: ["1"] } },
    tools: { mcpServers: { planted: { command: "/bin/false", env: { TOKEN: secrets[2] } } } },
  },
});
const listener = useListener();

// ---- foreign pages

let foreign;
before(async () => {
  const server = createServer((_, r) =>
    r.writeHead(200, { "Content-Type": "text/html" }).end("<!doctype html><title>foreign</title><body>"),
  );
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  foreign = { server, port: server.address().port };
});
after(() => foreign?.server.close());

/** tries are what a foreign page does against the gateway; each returns what it got. */
const tries = (base) => ({
  socket: `new Promise((done) => { const s = new WebSocket("${base.replace("http", "ws")}webui/socket"); s.onopen = () => done("open"); s.onerror = s.onclose = () => done("refused"); })`,
  read: `fetch("${base}api/sessions", { credentials: "include" }).then((r) => r.text().then((t) => "read " + r.status + t), () => "refused")`,
  readWithHeader: `fetch("${base}api/sessions", { credentials: "include", headers: { "X-Nanobot-Page": "1" } }).then((r) => "read " + r.status, () => "refused")`,
  readBlind: `fetch("${base}api/sessions", { credentials: "include", mode: "no-cors" }).then((r) => r.type === "opaque" ? "opaque" : "read", () => "refused")`,
  post: `fetch("${base}webui/logout", { method: "POST", credentials: "include", body: "{}" }).then((r) => "posted " + r.status, () => "refused")`,
  postBlind: `fetch("${base}webui/logout", { method: "POST", credentials: "include", mode: "no-cors", body: "{}" }).then((r) => "sent", () => "refused")`,
  beacon: `String(navigator.sendBeacon("${base}webui/logout", "{}"))`,
  form: `new Promise((done) => { const f = document.createElement("form"); f.method = "post"; f.action = "${base}webui/logout"; f.target = "hole"; const i = document.createElement("iframe"); i.name = "hole"; i.onload = () => done("loaded"); document.body.append(i, f); f.submit(); })`,
  frame: `new Promise((done) => { const i = document.createElement("iframe"); i.src = "${base}"; i.onload = () => { try { done(i.contentDocument ? "ours " + i.contentDocument.title : "closed") } catch { done("closed") } }; document.body.append(i); })`,
  script: `new Promise((done) => { const s = document.createElement("script"); s.src = "${base}api/sessions"; s.onload = () => done("ran"); s.onerror = () => done("refused"); document.body.append(s); })`,
  media: `new Promise((done) => { const i = new Image(); i.onload = () => done("shown"); i.onerror = () => done("refused"); i.src = "${base}api/media/guessed/picture.png"; })`,
});

for (const [name, host] of Object.entries({
  "another port of localhost": "127.0.0.1",
  "a name that resolves to 127.0.0.1": "evil.test",
})) {
  test(`a page of ${name} gets nothing`, { timeout: patience }, async () => {
    const browser = await chromium.launch({
      executablePath: executable,
      timeout: wait,
      args: [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--host-resolver-rules=MAP evil.test 127.0.0.1",
      ],
    });
    try {
      const { context, page } = await newPage(browser);
      const { rig } = await sharedRig();
      await rig.signIn(page);
      const other = await context.newPage();
      await other.goto(`http://${host}:${foreign.port}/`);
      // It tries the address that the owner uses, and itself as a name for our port.
      for (const base of [rig.url, `http://${host}:${rig.proxy.port}/`]) {
        const got = {};
        for (const [what, code] of Object.entries(tries(base))) got[what] = await other.evaluate(code);
        assert.equal(got.socket, "refused", `${base} socket`);
        for (const what of ["read", "readWithHeader", "post"])
          assert.equal(got[what], "refused", `${base} ${what}: ${got[what]}`);
        assert.equal(got.frame, "closed", `${base} frame`);
        assert.equal(got.script, "refused", `${base} script`);
        assert.equal(got.media, "refused", `${base} media`);
      }
      const frames = other.frames().filter((f) => f !== other.mainFrame());
      for (const f of frames)
        assert.equal(
          await f
            .locator("#composer")
            .count()
            .catch(() => 0),
          0,
          "the page is in a frame",
        );
      // Nothing of it signed the owner out.
      await page.reload();
      await page.waitForSelector("#composer:not([disabled])");
      // A document of the foreign name on our port is not served.
      if (host !== "127.0.0.1") {
        const answer = await other.goto(`http://${host}:${rig.proxy.port}/`);
        assert.equal(answer.status(), 403);
      }
    } finally {
      await browser.close();
    }
  });
}

// ---- what is planted shows as text, on every page

/** pages are those of web/src/pages/table.ts. */
async function pages() {
  const source = await readFile(new URL("../../src/pages/table.ts", import.meta.url), "utf8");
  return [...source.matchAll(/^ {2}(\w+): \{ title/gm)].map((m) => m[1]);
}

/** plants put hostile text where the program keeps what others wrote. Add one for
 *  every new place. */
const plants = {
  memory: (rig, all) =>
    writeFile(
      join(rig.gateway.workspace, "USER.md"),
      all.map((p) => "- " + p.replaceAll("\n", " ").slice(0, 150)).join("\n") + "\n",
    ),
  skill: async (rig, all) => {
    for (let i = 0; i < 30; i++) {
      const dir = join(rig.gateway.workspace, "skills", "skill-" + i);
      await mkdir(dir, { recursive: true });
      await writeFile(
        join(dir, "SKILL.md"),
        `---\nname: skill-${i}\ndescription: ${JSON.stringify(all[i * 6])}\n---\n${all.slice(i * 6, i * 6 + 6).join("\n\n")}\n`,
      );
    }
  },
  "file names": async (rig, all) => {
    for (const p of all) {
      const name = p.replaceAll("/", "\u2215").replaceAll("\0", "").slice(0, 40);
      await writeFile(join(rig.gateway.workspace, name), "x").catch(() => {}); // not every text is a name
    }
  },
};

rigTest(
  "hostile text in what the program keeps shows as text, and no secret reaches the browser",
  async ({ page, rig, context }) => {
    const all = payloads(listener.url);
    for (const plant of Object.values(plants)) await plant(rig, all);
    // Everything the browser receives: documents, reads, and frames of the socket.
    const received = [];
    page.on(
      "response",
      (r) =>
        void r.text().then(
          (t) => received.push(t),
          () => {},
        ),
    );
    page.on("websocket", (s) => s.on("framereceived", (f) => received.push(String(f.payload))));
    rig.model.on(
      "hostile turn",
      async (s) => {
        await s.think(all.slice(0, 20).join("\n\n"));
        await s.text(all.join("\n\n"), { size: 500 });
        s.call("exec", { command: `printf '%s' ${JSON.stringify(all[0])}` });
        s.call("list_dir", { path: "." });
        s.call("read_file", { path: "USER.md" });
        s.call("read_file", { path: "../config.json" });
      },
      (s) => s.text("The end of it."),
    );
    await newChat(page);
    await send(page, "hostile turn " + all.slice(0, 40).join("\n").replaceAll("\0", ""));
    await ended(page);
    for (const name of await pages()) {
      await page.evaluate((n) => (location.hash = "#/" + n), name);
      await page.locator("main h1").waitFor();
      await until(`${name} is there`, async () => (await page.getByText("Loading", { exact: true }).count()) === 0);
      await page.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));
      for (const tag of [
        "iframe",
        "object",
        "embed",
        "base",
        "meta[http-equiv]",
        "form[action]",
        "#app style",
        "#app script",
        "#app link",
        "[onclick]",
        "[onerror]",
      ]) {
        assert.equal(await page.locator(tag).count(), 0, `${name}: ${tag}`);
      }
      for (const href of await page.locator("a").evaluateAll((l) => l.map((a) => a.getAttribute("href") ?? ""))) {
        assert.doesNotMatch(href.trim(), /^(javascript|data|vbscript|file|blob):|^#\/in\//i, name);
      }
      assert.equal(await page.evaluate(() => window.pwned), undefined, name);
    }
    assert.deepEqual(listener.asked, []);
    // Nothing that was planted in the configuration is in what the browser has.
    const kept = await page.evaluate(async () => {
      const out = [
        JSON.stringify({ ...localStorage }),
        JSON.stringify({ ...sessionStorage }),
        document.cookie,
        location.href,
        document.documentElement.outerHTML,
      ];
      for (const db of await indexedDB.databases()) out.push(JSON.stringify(db));
      for (const name of await caches.keys()) {
        for (const q of await (await caches.open(name)).keys())
          out.push(q.url + (await (await caches.match(q)).text()));
      }
      return out.join("\n");
    });
    await until("what was received", () => received.length > 20);
    const bytes = received.join("\n") + kept;
    for (const s of [...secrets, (await context.cookies())[0].value])
      assert.ok(!bytes.includes(s), `${s.slice(0, 8)}... reached the page`);
  },
);
