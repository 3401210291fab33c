// Overview, log, doctor, devices, palette, keys and the installed app.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { check, looks } from "./axe.mjs";
import { pageTest, saying, send, until, useBrowser } from "./fixture.mjs";

useBrowser();
const at = "2026-01-05T10:00:00Z";
const device = (id, name) => ({ id, name, address: "192.168.1.7", created: at, seen: at, expires: at });
const hostile = "<img src=x onerror=alert(1)> \u202eevil\u0007";

function status(stub) {
  stub.reads.set("status", {
    gateway: {
      version: "1.2.3",
      pid: 7,
      started_at: at,
      address: "127.0.0.1:18790",
      model: "scripted",
      ready: true,
      problems: ["only 100 MB are free"],
      after_restart: ["gateway.port"],
      agent: { turns: 1, waiting: 0 },
      queue: { inbound: 0, outbound: { telegram: 2 } },
      jobs: 3,
      channels: [
        { name: "telegram", enabled: true, state: "failed", error: "wrong token", received: 1, sent: 2, failed: 3 },
        { name: "slack", enabled: false, state: "stopped", received: 0, sent: 0, failed: 0 },
      ],
    },
    memory_bytes: 30 << 20,
    errors: [{ id: "e-1", at, level: "error", message: "a turn failed", attrs: [["err", hostile]] }],
  });
}

const line = (n, level = "info") => ({
  id: `s-${n}`,
  at,
  level,
  message: `line ${n} ${hostile}`,
  attrs: [
    ["session", "websocket:a"],
    ["err", hostile],
  ],
});

function everything(stub) {
  status(stub);
  stub.reads.set("devices", {
    devices: [device("d1", "Chromium on Linux"), device("d2", hostile)],
    waiting: [
      {
        digits: "271828",
        name: hostile,
        address: "10.0.0.9",
        local: true,
        expires: new Date(Date.now() + 600_000).toISOString(),
      },
    ],
  });
  stub.reads.set("log", { lines: [line(3, "error"), line(2, "warn"), line(1)], before: "s-1" });
  stub.reads.set("doctor", {
    running: false,
    started_at: at,
    findings: [
      { id: "config", state: "ok", detail: "fine" },
      { id: "files", state: "fail", detail: hostile, fix: "chmod", changes: ["chmod 0600 /home/x/config.json"] },
      { id: "disk", state: "warn", detail: "little" },
      { id: "skill.x", state: "skip", detail: "no" },
    ],
  });
  stub.reads.set("push", { enabled: true, key: "BKey", devices: [] });
}

pageTest("a sign-in request is on every page at once, and is answered there", async ({ page, stub }) => {
  let waiting = [];
  let reads = 0;
  stub.reads.set("devices", () => (reads++, { devices: [device("d1", "Chromium on Linux")], waiting }));
  status(stub);
  const answered = [];
  for (const action of ["approve", "deny"])
    stub.acts.set("device." + action, (p) => (answered.push(`${action} ${p.digits}`), (waiting = []), {}));
  const ask = (digits) => {
    waiting = [
      {
        digits,
        name: "Safari on iPhone",
        address: "192.168.1.9",
        local: false,
        expires: new Date(Date.now() + 600_000).toISOString(),
      },
    ];
    stub.tell("devices");
  };
  const press = (name) =>
    until(name, async () => {
      if (waiting.length > 0)
        await page
          .getByRole("button", { name })
          .click({ timeout: 2000 })
          .catch(() => {});
      return waiting.length === 0;
    });
  await page.goto(stub.url);
  await until("the connection", () => stub.sockets.size > 0);
  await page.fill("#composer:not([disabled])", "half a thought");
  // A click that was meant for what was there before does nothing.
  await page.evaluate(() => {
    new MutationObserver(() => document.querySelectorAll(".request button").forEach((b) => b.click())).observe(
      document.body,
      { childList: true, subtree: true },
    );
  });
  ask("314159");
  await page.getByText("314159").waitFor();
  const n = reads;
  stub.tell("devices");
  await until("another read", () => reads > n);
  assert.deepEqual(answered, []);
  assert.equal(await page.evaluate(() => document.activeElement.id), "composer"); // it takes no focus
  assert.equal(await page.inputValue("#composer"), "half a thought");
  await page.reload();
  await page.getByText("Safari on iPhone, from 192.168.1.9").waitFor();
  await press("Approve");
  await page.locator(".request").waitFor({ state: "detached" });
  await page.goto(stub.url + "#/status");
  await page.getByText("1.2.3").waitFor();
  ask("161803");
  await page.getByText("161803").waitFor();
  await press("Deny");
  assert.deepEqual(answered, ["approve 314159", "deny 161803"]);
});

pageTest("devices: list, sign out another, add a phone by QR code", async ({ page, stub }) => {
  everything(stub);
  stub.acts.set("device.revoke", () => ({}));
  stub.acts.set("device.link", (p) => ({
    link: p.base + "#/in/CODE",
    image:
      "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    expires_in: 300,
  }));
  await page.goto(stub.url + "#/devices");
  await page.locator(".rows li").nth(1).waitFor();
  await page.getByText("this device", { exact: true }).waitFor();
  await page.locator(".rows li").nth(1).getByRole("button").click();
  await page.locator("dialog").getByRole("button", { name: "Sign out" }).click();
  await until("the request", () => stub.requests.some((f) => f.action === "device.revoke"));
  assert.deepEqual(stub.requests.find((f) => f.action === "device.revoke").payload, { id: "d2" });
  await page.getByRole("button", { name: "Show a QR code" }).click();
  await page.getByRole("img", { name: "QR code" }).waitFor();
  assert.equal(stub.requests.find((f) => f.action === "device.link").payload.base, stub.url);
  stub.acts.set("device.link", { refuse: [409, "base_local"] });
  await page.getByRole("button", { name: "Show another one" }).click();
  await page.getByText("Other devices cannot use this address.").waitFor();
});

pageTest("overview: facts, reload, restart and the page comes back, downloads", async ({ page, stub }) => {
  everything(stub);
  stub.reads.set("devices", { devices: [], waiting: [] });
  stub.reads.set("budget", { limits: [{ name: "dailyUsd", unit: "usd", limit: 5, spent: 0.84 }] });
  stub.reads.set("webui/automations", {
    automations: [
      { name: "late", enabled: true, next_run: new Date(Date.now() + 9e7).toISOString() },
      { name: "soon <b>", enabled: true, next_run: new Date(Date.now() + 7.5e6).toISOString() },
      { name: "off", enabled: false, next_run: new Date(Date.now() + 1e6).toISOString() },
    ],
  });
  stub.reads.set("backup", "the backup");
  stub.acts.set("gateway.reload", { refuse: [422, "config_refused"] });
  stub.acts.set("gateway.restart", () => (setTimeout(() => stub.drop(1012)), {}));
  await page.goto(stub.url + "#/status");
  for (const text of [
    "1.2.3",
    "only 100 MB are free",
    "These settings are used after a restart: gateway.port",
    "wrong token",
    "30.0 MiB",
    "a turn failed",
    "3 jobs enabled",
    "Next: soon <b>, in 2 hours",
    "dailyUsd: $0.84 of $5.00",
  ])
    await page.getByText(text).first().waitFor();
  assert.equal(await page.getByText("slack").count(), 0);
  await page.getByRole("button", { name: "Reload settings" }).click();
  await page.getByText("The new configuration is not used").waitFor();
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Backup" }).click(),
  ]);
  assert.equal(await readFile(await file.path(), "utf8"), "the backup");
  const button = page.getByRole("button", { name: "Restart", exact: true });
  await button.click();
  await page.getByRole("button", { name: "Cancel" }).click();
  assert.equal(
    stub.requests.some((f) => f.action === "gateway.restart"),
    false,
  );
  await button.click();
  await page.locator("dialog").getByRole("button", { name: "Restart" }).click();
  await until("the request", () => stub.requests.some((f) => f.action === "gateway.restart"));
  await until("the connection", () => stub.sockets.size > 0);
  await page.getByText("The gateway is ready").waitFor();
});

pageTest("log: filters, older lines, new lines, hostile lines as text", async ({ page, stub }) => {
  stub.reads.set("devices", { devices: [], waiting: [] });
  let newest = 10;
  const asked = [];
  stub.reads.set("log", (url) => {
    const q = Object.fromEntries(url.searchParams);
    asked.push(q);
    if (q.before) return { lines: [line(1)] };
    return {
      lines:
        q.q === "nothing"
          ? []
          : Array.from({ length: newest - 1 }, (_, i) => line(newest - i, i === 0 ? "error" : "info")),
      before: "s-2",
    };
  });
  await page.goto(stub.url + "#/log");
  await page.getByText("line 10 ").waitFor();
  assert.ok((await page.locator(".log li").first().innerText()).includes("\\u{202e}evil\\u{7}"));
  assert.equal(await page.locator(".log img").count(), 0);
  await page.getByRole("button", { name: "Show older lines" }).click();
  await page.getByText("line 1 ", { exact: false }).last().waitFor();
  await until("ten lines", async () => (await page.locator(".log li").count()) === 10);
  assert.equal(asked.at(-1).before, "s-2");
  newest = 12;
  stub.tell("log");
  await page.getByText("line 12 ").waitFor();
  assert.equal(await page.locator(".log li").count(), 12); // none twice
  await page.getByLabel("Level, at least").selectOption("error");
  await until("the filter", () => asked.at(-1).level === "error");
  await page.getByLabel("Contains").fill("nothing");
  await page.getByText("None of the newest lines fits.").waitFor();
});

pageTest("doctor: findings come one by one, a fix shows what it does first", async ({ page, stub }) => {
  everything(stub);
  stub.reads.set("devices", { devices: [], waiting: [] });
  const all = [
    { id: "config", state: "ok", detail: "fine" },
    { id: "security.files.modes", state: "fail", detail: "too open", changes: ["chmod 0600 a", "chmod 0700 b\u202e"] },
  ];
  stub.reads.set("doctor", { running: false, findings: [] });
  stub.acts.set("doctor.run", () => (stub.reads.set("doctor", { running: true, started_at: at, findings: [] }), {}));
  stub.acts.set(
    "doctor.fix",
    () => (stub.reads.set("doctor", { running: false, started_at: at, findings: all.slice(0, 1) }), {}),
  );
  await page.goto(stub.url + "#/doctor");
  await page.getByText("have not run").waitFor();
  await page.getByRole("button", { name: "Run without network requests" }).click();
  await page.getByText("0 checks are done.").waitFor();
  for (const n of [1, 2]) {
    stub.reads.set("doctor", { running: n < 2, started_at: at, findings: all.slice(0, n) });
    stub.tell("doctor");
    await page.getByText(n === 1 ? "1 checks are done." : "1 broken, 0 to look at, 1 fine.").waitFor();
  }
  await page.getByRole("button", { name: "Fix: Who can read nanobot's files" }).click();
  assert.equal(await page.locator("dialog pre").innerText(), "chmod 0600 a\nchmod 0700 b\\u{202e}");
  assert.equal(
    stub.requests.some((f) => f.action === "doctor.fix"),
    false,
  );
  await page.locator("dialog").getByRole("button", { name: "Fix" }).click();
  await page.getByText("0 broken, 0 to look at, 1 fine.").waitFor();
  assert.deepEqual(stub.requests.find((f) => f.action === "doctor.fix").payload, {
    id: "security.files.modes",
    changes: ["chmod 0600 a", "chmod 0700 b\u202e"],
  });
});

pageTest("palette: by keyboard, with a screen reader, to everything", async ({ page, stub }) => {
  everything(stub);
  stub.reads.set("devices", { devices: [], waiting: [] });
  stub.store("trip", { role: "user", content: "Plan the journey to Bergen" });
  await page.goto(stub.url);
  await page.fill("#composer:not([disabled])", "kept");
  const box = page.getByRole("combobox");
  const open = async (text) => {
    await page.keyboard.press("Control+k");
    await box.waitFor();
    await box.fill(text);
  };
  await open("ovrv");
  await page.locator("[role=option][aria-selected=true]", { hasText: "Overview" }).waitFor();
  const chosen = page.locator(`[id="${await box.getAttribute("aria-activedescendant")}"]`);
  assert.equal(await chosen.getAttribute("aria-selected"), "true");
  assert.match(await chosen.innerText(), /Overview/);
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });
  await until("the focus is where it was", () => page.evaluate(() => document.activeElement.id === "composer"));
  assert.equal(await page.inputValue("#composer"), "kept");
  await open("bergen");
  await page.getByRole("option", { name: "Plan the journey to Bergen" }).first().waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL(/#\/c\/websocket%3Atrip$/);
  await open("devices");
  await page.keyboard.press("Enter");
  await page.waitForURL(/#\/devices$/);
  await open("/stat");
  await page.getByRole("option", { name: /Command \/status/ }).waitFor();
  await page.keyboard.press("Enter");
  await until("the command", async () => (await page.inputValue("#composer").catch(() => "")) === "/status kept");
  await open("wholly unknown words");
  await page.keyboard.press("Enter");
  await page.waitForURL(/#\/search\/wholly%20unknown%20words$/);
});

pageTest(
  "keys: g and a letter, j and k, e, the list; not while typing, and not if disabled",
  async ({ page, stub }) => {
    everything(stub);
    stub.reads.set("devices", { devices: [], waiting: [] });
    stub.threads.set("websocket:a", [
      { index: 0, role: "user", content: "Question", turn_id: "t", at },
      { index: 1, role: "assistant", content: "Answer", reasoning: "Hm.", turn_id: "t", at, latency_ms: 100 },
    ]);
    await page.goto(stub.url + "#/c/websocket%3Aa");
    await page.getByText("Answer").waitFor();
    await page.locator("#composer").fill("");
    await page.keyboard.type("gl?jk");
    assert.equal(await page.inputValue("#composer"), "gl?jk");
    await page.evaluate(() => document.activeElement.blur());
    const focused = () => page.evaluate(() => document.activeElement.innerText);
    await page.keyboard.press("k");
    await page.keyboard.press("k");
    assert.match(await focused(), /^Answer/);
    await page.keyboard.press("k");
    assert.match(await focused(), /Thinking/);
    await page.keyboard.press("e");
    await page.getByText("Hm.").waitFor();
    await page.keyboard.press("e");
    await page.getByText("Hm.").waitFor({ state: "hidden" });
    await page.keyboard.press("j");
    assert.match(await focused(), /^Answer/);
    await page.keyboard.press("?");
    await page.locator("dialog").getByText("Next message").waitFor();
    await page.keyboard.press("Escape");
    await page.locator("dialog").waitFor({ state: "detached" });
    await page.keyboard.press("g");
    await page.keyboard.press("d");
    await page.waitForURL(/#\/doctor$/);
    await page.goto(stub.url + "#/preferences");
    await page.getByLabel("Shortcuts of a single letter").uncheck();
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press("g");
    await page.keyboard.press("d");
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox").waitFor();
    assert.ok(page.url().endsWith("#/preferences"));
  },
);

pageTest("a text that another app shares becomes a draft, and leaves the address", async ({ page, stub }) => {
  stub.signedIn = false;
  await page.goto(stub.url + "?title=Trip&text=See%20this&url=https%3A%2F%2Fx.example%2F");
  await page.fill("input[name=code]", stub.code);
  assert.ok(!page.url().includes("See"));
  await page.getByRole("button", { name: "Sign in" }).click();
  await until(
    "the draft",
    async () => (await page.inputValue("#composer").catch(() => "")) === "Trip\nSee this\nhttps://x.example/",
  );
  assert.equal(stub.accepted.length, 0); // the person sends it
  await send(page, await page.inputValue("#composer"));
  await saying(page, "Hello.").waitFor();
});

// A push service is not there in a test: the browser's side of it is replaced.
const fakePush = () => {
  let sub = null;
  globalThis.asked = 0;
  Object.defineProperty(Notification, "permission", { get: () => "default" });
  Notification.requestPermission = async () => (globalThis.asked++, "granted");
  PushManager.prototype.getSubscription = async () => sub;
  PushManager.prototype.subscribe = async (o) =>
    (sub = {
      key: o.applicationServerKey,
      toJSON: () => ({ endpoint: "https://push.example/1", keys: { p256dh: "P", auth: "A" } }),
      unsubscribe: async () => ((sub = null), true),
    });
};

pageTest(
  "notifications are asked for after a click only; while the gateway is away a page says so",
  async ({ page, stub, context }) => {
    everything(stub);
    stub.reads.set("devices", { devices: [], waiting: [] });
    const here = [];
    stub.reads.set("push", () => ({ enabled: true, key: "BKey", devices: here }));
    stub.acts.set("push.subscribe", (p) => (here.push(p.device), {}));
    stub.acts.set("push.unsubscribe", () => (here.pop(), {}));
    await page.addInitScript(fakePush);
    await page.goto(stub.url + "#/devices");
    const enable = page.getByRole("button", { name: "Enable notifications" });
    await enable.waitFor();
    await page.getByText("no text, no name, no command").waitFor();
    assert.equal(await page.evaluate(() => globalThis.asked), 0);
    assert.equal(context.serviceWorkers().length, 0); // a page in a tab has none
    await enable.click();
    await page.getByText("Notifications are on.").waitFor();
    assert.deepEqual(stub.requests.find((f) => f.action === "push.subscribe").payload, {
      device: "d1",
      endpoint: "https://push.example/1",
      p256dh: "P",
      auth: "A",
    });
    const kept = await page.evaluate(async () => {
      const out = {};
      for (const name of await caches.keys())
        out[name] = (await (await caches.open(name)).keys()).map((r) => new URL(r.url).pathname);
      return out;
    });
    assert.deepEqual(kept, {
      "nanobot:1a2b3c4d:away": ["away.html", "main.css", "icon.svg"].map((f) => `/assets/${stub.build}/${f}`),
    });
    const url = stub.url;
    await stub.away();
    await page.goto(url);
    await page.getByText("The gateway does not answer.").waitFor();
    await stub.back();
    await page.waitForSelector("#composer:not([disabled])"); // by itself
  },
);

for (const [name, options] of Object.entries(looks)) {
  pageTest(
    `axe finds nothing on the pages about the gateway: ${name}`,
    async ({ page, stub }) => {
      everything(stub);
      await page.goto(stub.url);
      await page.locator(".request").waitFor();
      for (const [route, ready] of [
        ["status", ".facts"],
        ["log", ".log li"],
        ["doctor", ".rows li"],
        ["devices", ".rows li"],
      ]) {
        await page.goto(stub.url + "#/" + route);
        await page.locator(ready).first().waitFor();
        await check(page, route);
      }
      await page.keyboard.press("Control+k");
      await page.getByRole("option").first().waitFor();
      await check(page, "palette");
    },
    options,
  );
}
