// Figures of the pages, with their targets: real gateway, scripted model,
// headless Chromium. Nothing else should run on the machine. Names of measures as
// arguments run only these.
import { readFileSync, readdirSync } from "node:fs";
import { readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { executable, launch, newPage } from "./browser/browser.mjs";
import { inputs } from "./rig/inputs.mjs";
import { Rig } from "./rig/rig.mjs";

const seconds = Number(process.env.NANOBOT_BENCH_SECONDS ?? 60); // of the long stream
const rows = [];
/** row notes a figure; most is its target. */
function row(what, value, most, unit = "ms") {
  const fine = value <= most;
  rows.push({ what, value, most, unit, fine });
  const show = (n) => (n >= 100 ? Math.round(n) : Math.round(n * 10) / 10);
  console.log(
    `${fine ? "  " : "! "}${what.padEnd(66)} ${String(show(value)).padStart(8)} ${unit.padEnd(5)} (at most ${most})`,
  );
}
const p95 = (all) => all.sort((a, b) => a - b)[Math.min(all.length - 1, Math.floor(all.length * 0.95))] ?? 0;
const median = (all) => all.sort((a, b) => a - b)[all.length >> 1];
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

if (!executable) {
  console.log("Chromium is missing: the figures of the pages are left out");
  process.exit(0);
}

// ---- sizes

function sizes() {
  const dist = new URL("../../internal/web/pages/dist/", import.meta.url);
  const first = String(gunzipSync(readFileSync(new URL("index.html.gz", dist))))
    .match(/assets\/BUILD\/[\w.]+\.(?:js|css)/g)
    .map((p) => p.slice(13));
  const sum = { first: 0, styles: 0, formulas: 0, all: 0, raw: 0 };
  for (const file of readdirSync(dist)) {
    const data = readFileSync(new URL(file, dist));
    const name = file.replace(/\.gz$/, "");
    sum.raw += name === file ? data.length : gunzipSync(data).length;
    if (!/\.(js|css)$/.test(name)) continue;
    const small = data.length;
    sum.all += small;
    if (first.includes(name)) sum.first += small;
    if (name.endsWith(".css")) sum.styles += small;
    if (/temml|math/.test(name)) sum.formulas += small;
  }
  row("script and styles before the first message, gzip", sum.first / 1000, 100, "KB");
  row("styles of it", sum.styles / 1000, 16, "KB");
  row("all script and styles, gzip", (sum.all - sum.formulas) / 1000, 400, "KB");
  row("with formulas", sum.all / 1000, 470, "KB");
  row("all embedded files", sum.raw / 1e6, 1, "MB");
}

// ---- a page that measures itself

/** watch notes when the composer can be used, long tasks, and when pieces of the
 *  socket come and are on the screen. */
const watch = () => {
  const m = (window.measured = { ready: 0, tasks: [], pending: [], shown: [] });
  new PerformanceObserver((l) => l.getEntries().forEach((e) => m.tasks.push(e.duration))).observe({
    type: "longtask",
    buffered: true,
  });
  const Native = WebSocket;
  window.WebSocket = class extends Native {
    constructor(...args) {
      super(...args);
      this.addEventListener(
        "message",
        (e) => String(e.data).startsWith('{"event":"delta"') && m.pending.push(performance.now()),
      );
    }
  };
  new MutationObserver(() => {
    if (!m.ready && document.querySelector("#composer:not([disabled])")) m.ready = performance.now();
    if (m.pending.length === 0) return;
    const waiting = m.pending.splice(0);
    requestAnimationFrame(() => {
      const channel = new MessageChannel(); // after the frame is painted
      channel.port1.onmessage = () => waiting.forEach((t) => m.shown.push(performance.now() - t));
      channel.port2.postMessage(0);
    });
  }).observe(document, {
    childList: true,
    subtree: true,
    characterData: true,
    attributes: true,
    attributeFilter: ["disabled"],
  });
};

async function measured(page, read) {
  return page.evaluate(read);
}

async function cpu(cdp) {
  const { metrics } = await cdp.send("Performance.getMetrics");
  return Object.fromEntries(metrics.map((m) => [m.name, m.value]));
}

/** ticks are the CPU milliseconds of a process so far. */
function ticks(pid) {
  const f = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(f[11]) + Number(f[12])) * 10;
}
/** quiet waits until a process has done what it does after its start, such as indexing. */
async function quiet(pid) {
  for (let calm = 0, before = ticks(pid); calm < 3;) {
    await sleep(1000);
    const now = ticks(pid);
    calm = now - before > 20 ? 0 : calm + 1;
    before = now;
  }
}
const resident = (pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;

async function send(page, text) {
  await page.fill("#composer:not([disabled])", text);
  await page.press("#composer", "Enter");
}

const stopped = (page) =>
  page.waitForFunction(
    () =>
      document.querySelector(".footer") &&
      ![...document.querySelectorAll("button")].some((b) => b.textContent.trim() === "Stop"),
    null,
    { timeout: 180_000 },
  );

// ---- the measures

async function start(browser, rig, state) {
  const once = async (throttle, storage) => {
    const { page, context } = await newPage(browser, { storageState: storage });
    const cdp = await context.newCDPSession(page);
    await page.addInitScript(watch);
    if (throttle > 1) await cdp.send("Emulation.setCPUThrottlingRate", { rate: throttle });
    await page.goto(rig.url);
    await page.waitForFunction(() => window.measured.ready > 0);
    const cold = await measured(page, () => ({
      paint:
        performance.getEntriesByName("first-contentful-paint")[0]?.startTime ??
        performance.getEntriesByType("paint")[0].startTime,
      ready: window.measured.ready,
    }));
    await page.reload();
    await page.waitForFunction(() => window.measured.ready > 0);
    cold.warm = await measured(page, () => window.measured.ready);
    await context.close();
    return cold;
  };
  const all = [];
  for (let i = 0; i < 7; i++) all.push(await once(1, state));
  const slow = [];
  for (let i = 0; i < 3; i++) slow.push(await once(4, state));
  row("first paint, cold", median(all.map((x) => x.paint)), 300);
  row("first paint, cold, CPU four times slower", median(slow.map((x) => x.paint)), 900);
  row("ready to type, cold", median(all.map((x) => x.ready)), 500);
  row("ready to type, warm", median(all.map((x) => x.warm)), 200);
}

const prose = (n) => Array.from({ length: n }, (_, i) => `Word${i}${i % 40 === 39 ? ".\n\n" : " "}`).join("");

async function streaming(browser, rig, state) {
  const { page, context } = await newPage(browser, { storageState: state });
  const cdp = await context.newCDPSession(page);
  await cdp.send("Performance.enable");
  await page.addInitScript(watch);
  await page.goto(rig.url);
  rig.model.on("stream for long", (s) => s.text(prose(200 * seconds), { size: 9, every: 5 }));
  await send(page, "stream for long");
  await page.locator(".md").first().waitFor();
  await page.evaluate(() => (window.measured.tasks.length = window.measured.shown.length = 0));
  const before = await cpu(cdp);
  const began = performance.now();
  await sleep(Math.max(5, seconds - 10) * 1000);
  const after = await cpu(cdp);
  const wall = (performance.now() - began) / 1000;
  const got = await measured(page, () => window.measured);
  row("delta on the socket to text on the screen, p95", p95(got.shown), 50);
  row(
    `page CPU at about 200 deltas/s for ${Math.round(wall)} s`,
    (100 * (after.TaskDuration - before.TaskDuration)) / wall,
    30,
    "%",
  );
  row("longest task meanwhile", Math.max(0, ...got.tasks), 50);
  await stopped(page);
  await context.close();
}

const fileOf = (chat) => Buffer.from("websocket:" + chat).toString("base64url") + ".jsonl";
/** plain is a log without checksums, which changed lines would not have. */
const plain = (text) => text.replace(/,"_crc":"[0-9a-f]{8}"\}$/gm, "}");

/** grow makes a conversation of n messages of one that has two: it repeats its log,
 *  and says in each metadata line where it is, as the gateway does. */
async function grow(rig, chat, n) {
  const folder = join(rig.gateway.data, "sessions");
  const name = (await readdir(folder, { recursive: true })).find((f) => f.endsWith(fileOf(chat)));
  if (!name) throw new Error(`no log of ${chat}`);
  const path = join(folder, name);
  const lines = plain(await readFile(path, "utf8"))
    .trimEnd()
    .split("\n");
  const from = lines.findIndex((l) => JSON.parse(l).role === "user");
  const out = [];
  let [at, count] = [0, 0];
  const add = (line, index, offset) => {
    line = line.replace(
      /"_replay":\{[^}]*\}/,
      () => `"_replay":{"index":${index},"offset":${offset},"count":${count},"at":${at}}`,
    );
    if (line.startsWith('{"role"')) count++;
    out.push(line);
    at += Buffer.byteLength(line) + 1;
  };
  for (const l of lines.slice(0, from)) add(l, 0, 0);
  for (let i = 0; i < n / 2; i++) {
    const [index, offset] = [count, at];
    for (const l of lines.slice(from)) {
      add(
        l
          .replaceAll("TURN", String(i))
          .replace(/"(turn_id|_turn|inbound_id|_inbound_id|id)":"([^"]*)"/g, (_, k, v) => `"${k}":"${v}-${i}"`),
        index,
        offset,
      );
    }
  }
  await writeFile(path, out.join("\n") + "\n");
  return path;
}

async function long(browser, rig, state) {
  rig.model.on("a message to repeat", (s) => s.text("An answer with **some** words and `code`.\n\n- one\n- two\n"));
  const { page, context } = await newPage(browser, { storageState: state });
  const keys = {};
  for (const n of [10_000, 100_000]) {
    await page.goto(rig.url + "#/");
    await page.reload();
    await send(page, "a message to repeat, number " + n);
    await stopped(page);
    keys[n] = decodeURIComponent(new URL(page.url()).hash.slice(4));
  }
  await context.close();
  await rig.gateway.end();
  for (const [n, key] of Object.entries(keys)) {
    const path = await grow(rig, key.split(":")[1], Number(n));
    if (Number(n) === 10_000) {
      const chat = key.split(":")[1];
      const first = (await readFile(path, "utf8")).split("\n").slice(0, 4).join("\n") + "\n";
      for (let i = 0; i < 1000; i++) {
        const id = `0000${String(i).padStart(4, "0")}-0000-4000-8000-000000000000`;
        await writeFile(join(path, "..", fileOf(id)), first.replaceAll(chat, id), { mode: 0o600 });
      }
    }
  }
  await rig.gateway.start();
  const reader = await newPage(browser, { storageState: state });
  await reader.page.goto(rig.url);
  await reader.page.waitForSelector("#composer:not([disabled])");
  await quiet(rig.gateway.child.pid);
  const reads = async (path, what, most) => {
    const get = (p) =>
      reader.page.evaluate((p) => fetch(p, { headers: { "X-Nanobot-Page": "1" } }).then((r) => r.json()), p);
    const first = await get(path);
    const before = ticks(rig.gateway.child.pid);
    for (let i = 0; i < 40; i++) await get(path);
    row(
      `${what} (${first.messages ? first.total + " messages" : first.total + " chats"})`,
      (ticks(rig.gateway.child.pid) - before) / 40,
      most,
    );
  };
  await reads(
    `api/sessions/${encodeURIComponent(keys[10_000])}/webui-thread?limit=100`,
    "newest page of 10,000, CPU of the gateway",
    15,
  );
  await reads(
    `api/sessions/${encodeURIComponent(keys[100_000])}/webui-thread?limit=100`,
    "newest page of 100,000, CPU of the gateway",
    15,
  );
  await reads("api/sessions?limit=1000&query=", "list of 1,000 chats, CPU of the gateway", 30);
  await reader.context.close();
  await scrolling(browser, rig, state, keys[10_000]);
}

async function scrolling(browser, rig, state, key) {
  const { page, context } = await newPage(browser, { storageState: state });
  await page.addInitScript(watch);
  await page.goto(rig.url);
  await page.waitForFunction(() => window.measured.ready > 0);
  const opened = await page.evaluate(
    async (hash) => {
      const began = performance.now();
      location.hash = hash;
      for (;;) {
        await new Promise(requestAnimationFrame);
        const t = document.querySelector(".thread");
        if (t && document.querySelectorAll(".item").length > 3 && t.scrollHeight - t.scrollTop - t.clientHeight < 60)
          return performance.now() - began;
      }
    },
    "#/c/" + encodeURIComponent(key),
  );
  row("10,000 messages: open at the end", opened, 400);
  const frames = await page.evaluate(async () => {
    const t = document.querySelector(".thread");
    const out = [];
    let last = performance.now();
    for (const end = last + 5000; last < end;) {
      const now = await new Promise(requestAnimationFrame);
      out.push(now - last);
      t.scrollBy(0, -6 * (now - last));
      last = now;
    }
    return out.slice(2);
  });
  row("10,000 messages: scroll at 6,000 px/s, frames p95", p95([...frames]), 17);
  row("10,000 messages: worst frame", Math.max(...frames), 50);
  const cdp = await context.newCDPSession(page);
  await cdp.send("HeapProfiler.collectGarbage");
  await cdp.send("Performance.enable");
  row("10,000 messages: heap", (await cpu(cdp)).JSHeapUsedSize / 1e6, 40, "MB");
  row("10,000 messages: elements", await page.locator("*").count(), 6000, "");
  // Typing while an answer comes in.
  rig.model.on("stream while I type", (s) => s.text(prose(3000), { size: 9, every: 5 }));
  await page
    .getByRole("button", { name: "Latest messages" })
    .click()
    .catch(() => {});
  await send(page, "stream while I type");
  await page.locator("button", { hasText: "Stop" }).waitFor();
  await page.evaluate(() => {
    window.keys = [];
    document.querySelector("#composer").addEventListener("keydown", () => {
      const began = performance.now();
      requestAnimationFrame(() => {
        const c = new MessageChannel();
        c.port1.onmessage = () => window.keys.push(performance.now() - began);
        c.port2.postMessage(0);
      });
    });
  });
  await page.focus("#composer");
  await page.keyboard.type("The quick brown fox jumps over the lazy dog. ".repeat(3), { delay: 40 });
  row("key to screen in 10,000 messages while streaming, p95", p95(await page.evaluate(() => window.keys)), 32);
  await stopped(page);
  await context.close();
}

async function heavy(browser, rig, state) {
  const { page, context } = await newPage(browser, { storageState: state });
  await page.addInitScript(watch);
  await page.goto(rig.url);
  const code = Array.from(
    { length: 100 },
    (_, i) => `Text ${i}.\n\n\`\`\`go\n${`func f${i}() int { return ${i} }\n`.repeat(60)}\`\`\`\n`,
  ).join("\n");
  rig.model.on("a heavy one", (s) => s.text(code, { size: 2000 }));
  await send(page, "a heavy one");
  await page.evaluate(() => (window.measured.tasks.length = 0));
  await stopped(page);
  row(
    `message of ${Math.round(code.length / 1000)} KB with code, longest task`,
    await page.evaluate(() => Math.max(0, ...window.measured.tasks)),
    50,
  );
  // A paste as a person does it, up to the next frame.
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: new URL(rig.url).origin });
  await page.evaluate(async (text) => {
    await navigator.clipboard.writeText(text);
    const f = document.querySelector("#composer");
    f.focus();
    window.pasted = new Promise((done) => {
      f.addEventListener(
        "paste",
        () => {
          const began = performance.now();
          requestAnimationFrame(() => {
            const c = new MessageChannel();
            c.port1.onmessage = () => done(performance.now() - began);
            c.port2.postMessage(0);
          });
        },
        { capture: true, once: true },
      );
    });
  }, "a line of text\n".repeat(20_000));
  await page.keyboard.press("Control+V");
  const paste = await page.evaluate(() => window.pasted);
  row("paste of 20,000 lines", paste, 100);
  await context.close();
}

/** hard shows texts that are hard to parse and draw, as one message each. */
async function hard(browser, rig, state) {
  let worst = ["", 0];
  for (const [name, [text]] of Object.entries(inputs)) {
    const { page, context } = await newPage(browser, { storageState: state });
    await page.addInitScript(watch);
    await page.goto(rig.url);
    rig.model.on("show " + name, (s) => s.text(text, { size: Math.ceil(text.length / 40) }));
    await send(page, "show " + name);
    await page.evaluate(() => (window.measured.tasks.length = 0));
    await stopped(page);
    const longest = await page.evaluate(() => Math.max(0, ...window.measured.tasks));
    if (longest > 100) console.log(`  ${name}: ${Math.round(longest)} ms`);
    if (longest >= worst[1]) worst = [name, longest];
    await context.close();
  }
  row(`hard texts, longest task (${worst[0]})`, worst[1], 100);
}

async function offline(browser, rig, state) {
  const { page, context } = await newPage(browser, { storageState: state });
  await page.goto(rig.url);
  const text = prose(110_000); // about 1 MB
  rig.model.on("a megabyte", async (s) => {
    await s.text(text.slice(0, 20_000), { size: 500 });
    await s.wait("offline");
    await s.text(text.slice(20_000), { size: 5000 });
  });
  await send(page, "a megabyte");
  await page.getByText("Word100 ").first().waitFor();
  rig.proxy.refuse();
  await page.getByText("Not connected.").waitFor();
  rig.model.gate("offline").open();
  await sleep(30_000); // the rest comes meanwhile
  rig.proxy.refuse(false);
  const began = performance.now();
  await page.evaluate(() => dispatchEvent(new Event("online")));
  await page.waitForFunction(
    (end) => [...document.querySelectorAll("article .md")].at(-1)?.lastElementChild?.textContent.includes(end),
    "Word109999",
  );
  row(
    `reconnect in a stream of ${(text.length / 1e6).toFixed(1)} MB: all of it is there after`,
    performance.now() - began,
    1000,
  );
  const shown = (await page.locator("article .md").last().innerText()).replace(/\s+/g, " ").trim();
  row("bytes lost or doubled", Math.abs(shown.length - text.replace(/\s+/g, " ").trim().length), 0, "bytes");
  await context.close();
}

async function idle(browser, rig, state) {
  const pid = rig.gateway.child.pid;
  await sleep(3000);
  const alone = { rss: resident(pid), cpu: ticks(pid) };
  await sleep(10_000);
  alone.cpu = ticks(pid) - alone.cpu;
  const { page, context } = await newPage(browser, { storageState: state });
  await page.goto(rig.url);
  await page.waitForSelector("#composer:not([disabled])");
  await sleep(3000);
  const before = ticks(pid);
  await sleep(10_000);
  row("gateway with an idle page against none: CPU", Math.max(0, (ticks(pid) - before - alone.cpu) / 10), 1, "ms/s");
  row("gateway with an idle page against none: memory", Math.max(0, resident(pid) - alone.rss), 1, "MiB");
  await context.close();
}

sizes();
const browser = await launch();
const rig = await Rig.start();
try {
  const { page, context } = await newPage(browser);
  await rig.signIn(page);
  const state = await context.storageState();
  await context.close();
  for (const f of [start, idle, streaming, heavy, hard, offline, long].filter(
    (f) => process.argv.length < 3 || process.argv.includes(f.name),
  )) {
    await f(browser, rig, state).catch((e) => {
      process.exitCode = 1;
      console.log(`! ${f.name}: ${String(e).split("\n")[0]}`);
    });
  }
} finally {
  await browser.close();
  await rig.stop();
}
const missed = rows.filter((r) => !r.fine);
console.log(
  process.exitCode
    ? "some measures failed"
    : missed.length === 0
      ? "all targets are met"
      : `${missed.length} of ${rows.length} targets are missed`,
);
