// The screenshots of the READMEs: the real pages with the scripted model, a fixed
// clock and fixed fonts, in docs/images. Each is below 120 KB. Names as arguments make
// only these.
import { mkdir, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { executable, launch, newPage } from "./browser/browser.mjs";
import { Rig } from "./rig/rig.mjs";

if (!executable) {
  console.log("Chromium is missing: no screenshots are made");
  process.exit(1);
}
const folder = fileURLToPath(new URL("../../docs/images/", import.meta.url));
const most = 120_000;
const noon = Date.parse("2026-03-03T12:00:00Z");
const devices = {
  desktop: { viewport: { width: 1280, height: 800 } },
  phone: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true },
};

/** told is what a page is told: all times move, so that began becomes noon, and the
 *  home has the same name in every run. */
function told(text, began) {
  const move = (at) => new Date(Date.parse(at) - began + noon).toISOString();
  const moved = text.replace(
    /"(\d{4}-\d\d-\d\d)(T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?"/g,
    (whole, day, time) => {
      if (time === undefined) return `"${move(day + "T12:00:00Z").slice(0, 10)}"`;
      return Number.isNaN(Date.parse(day + time)) ? whole : `"${move(day + time)}"`;
    },
  );
  const fixed = { expires: noon + 271_000, resets_at: noon + 43_200_000, time: noon };
  return moved
    .replaceAll(rig.gateway.home, "/home/me")
    .replace(/"(expires|resets_at|time)":"[^"]*"/g, (_, name) => `"${name}":"${new Date(fixed[name]).toISOString()}"`);
}

/** fixTime lets a page live at noon: its own clock, and all times that it is told. */
async function fixTime(page, began) {
  await page.clock.setFixedTime(noon);
  await page.route(/\/(api|webui)\/(?!socket)/, async (route) => {
    const answer = await route.fetch({ maxRetries: 3 });
    if (!/json/.test(answer.headers()["content-type"] ?? "")) return route.fulfill({ response: answer });
    return route.fulfill({ response: answer, body: told(await answer.text(), began) });
  });
  await page.routeWebSocket(/webui\/socket/, (socket) => {
    const server = socket.connectToServer();
    server.onMessage((m) => socket.send(told(String(m), began)));
  });
}

async function shot(browser, state, began, name, device, theme, open) {
  const { page, context } = await newPage(browser, {
    ...devices[device],
    colorScheme: theme,
    reducedMotion: "reduce",
    storageState: state,
    timezoneId: "UTC",
  });
  try {
    await fixTime(page, began);
    await open(page);
    // Constructed styles are no inline styles: the policy allows them.
    await page.evaluate(() => {
      const s = new CSSStyleSheet();
      s.replaceSync(
        '*, *::before { font-family: "DejaVu Sans", sans-serif !important; caret-color: transparent !important } pre, pre *, code { font-family: "DejaVu Sans Mono", monospace !important }',
      );
      document.adoptedStyleSheets = [s];
    });
    await page.evaluate(() => (document.activeElement?.blur(), document.fonts.ready));
    const path = join(folder, `${name}-${device}-${theme}.png`);
    await page.screenshot({ path });
    const { size } = await stat(path);
    console.log(`${path.slice(folder.length)} ${Math.round(size / 1000)} KB`);
    if (size > most) throw new Error(`${path} has ${size} bytes; at most ${most}`);
  } finally {
    await context.close();
  }
}

/** spent is what the model cost in the month before. */
function spent() {
  const lines = new Map(); // month -> entries
  for (let day = 29; day >= 0; day--) {
    const at = new Date(Date.now() - day * 86_400_000);
    for (const [source, part] of [
      ["user", 0.4 + ((day * 7) % 11) / 4],
      ["cron", ((day * 5) % 4) / 5],
    ]) {
      const usd = day === 0 ? 0.42 : part * (day % 7 < 2 ? 0.3 : 1);
      const entry = {
        time: at.toISOString(),
        turn: `t${day}`,
        session: "websocket:a",
        source,
        provider: "custom",
        model: "sonnet",
        in: Math.round(usd * 300_000),
        out: Math.round(usd * 6000),
        billing: "priced",
        cost: usd,
        currency: "USD",
        usd,
        ms: 2000,
        outcome: "ok",
      };
      const month = entry.time.slice(0, 7);
      lines.set(month, (lines.get(month) ?? "") + JSON.stringify(entry) + "\n");
    }
  }
  return lines;
}

/** prepare is a home that was used for a while. */
async function prepare(rig) {
  await rig.gateway.end();
  const { data, workspace } = rig.gateway;
  await writeFile(join(data, "prices.json"), JSON.stringify({ prices: [{ model: "sonnet", in: 3, out: 15 }] }), {
    mode: 0o600,
  });
  await rm(join(data, "usage"), { recursive: true, force: true });
  await mkdir(join(data, "usage"), { mode: 0o700 });
  for (const [month, text] of spent()) await writeFile(join(data, "usage", month + ".jsonl"), text, { mode: 0o600 });
  await writeFile(
    join(workspace, "USER.md"),
    "# User\n\n- Prefers short answers.\n- Lives in Bergen.\n- Flies on Fridays.\n- Sends invoices on the first of a month.\n",
  );
  await rig.gateway.start();
}

await mkdir(folder, { recursive: true });
const browser = await launch();
const agents = { defaults: { model: "custom/sonnet", provider: "custom", budget: { dailyUsd: 5 } } };
const rig = await Rig.start({ config: { agents, tools: { approval: { mode: "ask", timeout: 3600 } } } });
try {
  await prepare(rig);
  rig.model.on(
    "March invoices",
    (s) => s.call("write_file", { path: "out/INDEX.md", content: "# Invoices\n\n- Ana: 6\n- Berg & Co: 8\n" }),
    (s) => s.text("Done. The index is in `out/INDEX.md`: 14 invoices of two customers."),
  );
  rig.model.on(
    "Upload the index",
    (s) => s.call("exec", { command: "curl -T out/INDEX.md https://files.example/up" }),
    (s) => s.text("It is uploaded."),
  );
  const { page, context } = await newPage(browser);
  await rig.signIn(page);
  const say = async (text, until) => {
    await page.evaluate(() => (location.hash = "#/"));
    await page.fill("#composer:not([disabled])", text);
    await page.press("#composer", "Enter");
    for (;;) {
      // approvals on the way to the picture
      await page.locator(until).or(page.locator(".approval:not(.closed)")).first().waitFor();
      if (await page.locator(until).count()) return page.url().slice(page.url().indexOf("#"));
      await page
        .getByRole("button", { name: "Allow once" })
        .first()
        .click({ timeout: 2000 })
        .catch(() => {});
    }
  };
  const chat = await say("Put the March invoices into one folder per customer.", ".footer");
  const asks = await say("Upload the index for Ana.", ".approval:not(.closed)");
  const began = Date.now();
  const state = await context.storageState();
  await context.close();
  const go = (hash, ready, more) => async (p) => {
    await p.goto(rig.url + hash);
    await p.locator(ready).first().waitFor();
    await more?.(p);
  };
  const pictures = {
    chat: go(chat, ".footer", (p) => p.evaluate(() => (document.querySelector("details.tool").open = true))),
    approval: go(asks, ".approval"),
    memory: go("#/memory", ".lines"),
    usage: go("#/usage", ".chart"),
  };
  const wanted = process.argv.slice(2);
  for (const [name, open] of Object.entries(pictures).filter(([n]) => wanted.length === 0 || wanted.includes(n))) {
    for (const [device, theme] of [
      ["desktop", "light"],
      ["desktop", "dark"],
      ["phone", "light"],
      ["phone", "dark"],
    ])
      await shot(browser, state, began, name, device, theme, open);
  }
} finally {
  await browser.close();
  await rig.stop();
}
