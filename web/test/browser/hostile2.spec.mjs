// Hostile text on the pages besides conversations: each place is one visit with all
// payloads in it.
import assert from "node:assert/strict";
import { pageTest, until, useBrowser, useListener } from "./fixture.mjs";
import { payloads } from "../rig/payloads.mjs";

useBrowser();
const listener = useListener();
const at = "2026-05-04T12:00:00Z";
const minute = (i) => new Date(Date.parse(at) + i * 60_000).toISOString();
const used = {
  prompt_tokens: 10,
  completion_tokens: 1,
  cached_tokens: 0,
  total_tokens: 11,
  requests: 1,
  cost_usd: 1,
  unpriced_requests: 0,
};
const line = (p) => p.replaceAll(/[\r\n]/g, " ");

const job = (p, i) => ({
  kind: i % 2 ? "trigger" : "job",
  id: "j" + i,
  name: p,
  message: p,
  when: p,
  schedule: { cron: p, tz: p },
  enabled: true,
  protected: false,
  running: false,
  channel: p,
  chat_id: p,
  session_key: p,
  deliver: true,
  last_run: at,
  last_status: p,
  last_error: p,
  undelivered: p,
  command: p,
  broken: i % 3 ? undefined : p,
});
const server = (p, i) => ({
  name: "s" + i,
  transport: "stdio",
  target: p,
  state: p,
  tools: 1,
  protocol: p,
  error: p,
  warnings: [p],
  enabled: true,
  tool_names: [p],
  held: [p],
  unaccepted: 1,
});
const skill = (p, i) => ({
  name: p,
  description: p,
  source: ["workspace", "installed", "builtin"][i % 3],
  available: i % 2 === 0,
  missing: p,
  disabled: i % 5 === 0,
  always: false,
  changed: false,
  from: p,
  homepage: p,
  path: p,
  notes: [p],
});
const chat = (p, i) => ({
  key: `websocket:p${i}`,
  title: p,
  preview: p,
  created_at: at,
  updated_at: at,
  messages: 1,
  bytes: 1,
  running: false,
});
const steps = (p, i) => [
  { at: minute(4 * i), duration_ms: 0, said: { index: i, role: "user", text: p } },
  {
    at: minute(4 * i + 1),
    duration_ms: 9,
    model: {
      model: p,
      provider: p,
      source: p,
      first_token_ms: 1,
      prompt_tokens: 1,
      completion_tokens: 1,
      billing: "priced",
      cost_usd: 1,
      outcome: p,
      error: p,
    },
  },
  { at: minute(4 * i + 2), duration_ms: 9, wait: { question: p, answer: p } },
  {
    at: minute(4 * i + 3),
    duration_ms: 9,
    tool: {
      call_id: p,
      name: p,
      arguments: JSON.stringify({ command: p }),
      is_error: true,
      error: p,
      untrusted: true,
      bytes: 4,
      edits: [{ path: p, added: 3, deleted: 1 }],
    },
  },
];
const file = (path, text) => ({ path, bytes: text.length, cap: 32768, text, version: "v" });

/** places: what the gateway tells, and where it is shown: route, what must be there,
 *  how many of it, and what is done before. Add a line for every new place. */
const places = {
  "lines of the log": (all) => ({
    reads: {
      log: {
        lines: all.map((p, i) => ({
          id: "s-" + i,
          at,
          level: p,
          message: p,
          attrs: [
            [p, p],
            ["session", p],
          ],
        })),
        before: null,
      },
    },
    visits: [["log", ".log li", all.length]],
  }),
  "jobs, triggers and their runs": (all) => ({
    reads: {
      "webui/automations": { automations: all.map(job) },
      "webui/automations/j0/history": {
        runs: all.map((p, i) => ({ at: minute(i), status: p, error: i % 2 ? p : undefined, note: p })),
        cursor: null,
      },
      "webui/automations/j1/history": { runs: [], cursor: null },
    },
    visits: [
      ["automations", ".thing", all.length],
      ["automations/j0", "main tbody tr", all.length],
      ["automations/j0/edit", "main form", 1],
      ["automations/j1", ".copy", 2],
    ],
  }),
  "platforms, and people who ask": (all) => ({
    reads: {
      "settings/nanobot-features": {
        channels: all.map((p, i) => ({
          name: "c" + i,
          title: p,
          configured: true,
          enabled: true,
          state: "failed",
          reason: p,
          identity: p,
        })),
      },
      "settings/pairing": {
        pending: all.map((p, i) => ({ channel: p, sender_id: p + i, expires_at: at })),
        approved: all.map((p, i) => ({ channel: p, sender_id: p + i, owner: i % 2 === 0 })),
      },
    },
    visits: [
      ["channels", ".thing", all.length],
      ["channels/people", ".thing", 2 * all.length],
    ],
  }),
  "MCP servers, their tools and what they write": (all) => ({
    reads: {
      "settings/mcp-presets": {
        servers: [
          { ...server(all[0], 0), tool_names: all, held: all, warnings: all },
          ...all.slice(1).map((p, i) => server(p, i + 1)),
        ],
      },
      "settings/mcp-log": { log: all.join("\n") },
    },
    acts: {
      "settings.mcp.test": {
        ok: true,
        state: all[0],
        seconds: 1,
        digest: "d",
        tools: all.map((p) => ({ name: p, description: p, tokens: 5 })),
        warnings: all,
      },
    },
    visits: [
      ["mcp", ".thing", all.length],
      ["mcp/s0", ".names code", all.length],
      ["mcp/s0", ".tool-def", all.length, (page) => page.getByRole("button", { name: "Review" }).click()],
    ],
  }),
  "a trial of an MCP server that fails": (all) => ({
    reads: { "settings/mcp-presets": { servers: [server("x", 0)] }, "settings/mcp-log": { log: all.join("\n") } },
    acts: {
      "settings.mcp.test": {
        ok: false,
        state: "x",
        seconds: 1,
        tools: [],
        error: all.join("\n"),
        hint: all.join("\n"),
        log: all.join("\n"),
      },
    },
    visits: [["mcp/s0", "main [role=alert] .tail", 1, (page) => page.getByRole("button", { name: "Review" }).click()]],
  }),
  "skills and their texts": (all) => ({
    reads: {
      "webui/skills": { skills: all.map(skill) },
      "webui/skills/x": { ...skill(all[0], 0), name: "x", disabled: false, text: all.join("\n\n"), notes: all },
    },
    visits: [
      ["skills", ".thing", all.length],
      ["skills/x", ".note.warn", all.length],
    ],
  }),
  "what a search finds, and titles of conversations": (all) => ({
    sessions: all.map(chat),
    reads: {
      search: {
        hits: all.map((p, i) => ({
          session: `websocket:p${i}`,
          source: i % 4 ? "session" : p,
          role: p,
          at,
          snippet: `a \u0002${p}\u0003 b ${p}`,
          index: i,
          untrusted: true,
        })),
        total: all.length,
        cursor: null,
      },
    },
    visits: [["search/boats", ".hits li", all.length]],
  }),
  "the steps of a turn": (all) => ({
    reads: {
      "sessions/websocket:a/turns/t": {
        turn_id: "t",
        began_at: at,
        duration_ms: 9000,
        model: all[0],
        stop_reason: all[1],
        error: all.join("\n"),
        steps: all.flatMap(steps),
      },
    },
    visits: [["replay/websocket%3Aa/t", "main tbody tr", 4 * all.length]],
  }),
  "memory: lines, findings, people, versions": (all) => ({
    reads: {
      memory: (url) =>
        url.searchParams.get("scope")
          ? {
              files: [file("memory/scopes/a/MEMORY.md", all.join("\n"))],
              scopes: [],
              findings: 0,
              history: { entries: 0, unread: 0 },
            }
          : {
              files: [file("USER.md", all.map((p) => "- " + line(p)).join("\n"))],
              scopes: all.map((p) => ({ name: p, bytes: 1 })),
              findings: 0,
              history: { entries: 1, unread: 1 },
              last_dream: { id: "c", time: at, subject: all[0] },
            },
      "memory/why": {
        file: "USER",
        facts: all.map((p, i) => ({
          line: i + 1,
          text: "- " + line(p),
          finding: p,
          sources: [{ session: p, sender: p, time: "2026-05-04 12:00" }],
        })),
      },
      "memory/findings": {
        findings: all.map((p, i) => ({
          id: "f" + i,
          target: p,
          text: p,
          time: at,
          order: i % 2 === 0,
          sources: [{ session: p, sender: p, time: "2026-05-04 12:00" }],
        })),
      },
      "memory/log": {
        changes: all.map((p, i) => ({ id: "c" + i, time: at, author: p, subject: p, body: p })),
        cursor: null,
      },
      "memory/diff": {
        change: null,
        files: [],
        diff: "--- a\n+++ b\n@@ -1 +1 @@\n" + all.map((p) => "+" + line(p)).join("\n"),
      },
    },
    visits: [
      ["memory", ".lines li", 40],
      ["memory/findings", ".finding", all.length],
      ["memory/people", "main li", all.length],
      ["memory/history", ".change", all.length],
      ["memory/history/c1", ".line-add", 40],
    ],
  }),
  "findings of the doctor": (all) => ({
    reads: {
      doctor: {
        running: false,
        started_at: at,
        findings: all.map((p, i) => ({
          id: p,
          state: ["fail", "warn", "skip", "ok"][i % 4],
          detail: p,
          fix: p,
          changes: [p],
        })),
      },
    },
    visits: [["doctor", ".rows li", all.length]],
  }),
  "devices, and those that want to sign in": (all) => ({
    reads: {
      devices: {
        devices: all.map((p, i) => ({ id: "d" + i, name: p, address: p, created: at, seen: at, expires: at })),
        waiting: all.slice(0, 16).map((p, i) => ({
          digits: String(100000 + i),
          name: p,
          address: p,
          local: true,
          expires: new Date(Date.now() + 600_000).toISOString(),
        })),
      },
      push: { enabled: true, key: "BKey", devices: [] },
    },
    visits: [["devices", ".rows li", all.length]],
  }),
  "answers of the inbox": (all) => ({
    reads: {
      "approvals/history": {
        answers: all.map((p, i) => ({ key: p, tool: p, what: p + i, reason: p, option: p, remark: p, at })),
        cursor: null,
      },
      questions: { questions: [] },
    },
    visits: [["inbox", "main tbody tr", all.length]],
  }),
  "turns that changed files": (all) => ({
    reads: {
      undo: {
        turns: [{ id: "u0", session: all[0], at, changes: all.map((p) => ({ path: p, what: p })), gaps: all }],
        total: 1,
      },
      "undo/u0": { diff: all.map((p) => `--- ${line(p)}\n+++ ${line(p)}\n@@ -1 +1 @@\n+${line(p)}`).join("\n") },
    },
    visits: [["changes", "section.change", 1]],
  }),
  "groups of the usage": (all) => ({
    reads: {
      budget: {
        today: { calls: 1, usd: 1, tokens: 1 },
        month: { calls: 1, usd: 1, tokens: 1 },
        limits: [],
        on_exceed: "stopAll",
      },
      "webui/automations": { automations: [] },
      "settings/usage": {
        days: [{ date: "2026-05-04", ...used, sources: { user: used } }],
        total: used,
        sources: {},
        timezone: "UTC",
        since: "2026-05-01",
        groups: all.map((p) => ({ name: p, ...used })),
      },
    },
    visits: [["usage", "main tbody tr", all.length]],
  }),
  "errors and problems of the overview": (all) => ({
    reads: {
      status: {
        gateway: {
          version: all[0],
          pid: 7,
          started_at: at,
          address: all[1],
          model: all[2],
          ready: true,
          problems: all,
          after_restart: all,
          agent: { turns: 1, waiting: 0 },
          queue: { inbound: 0, outbound: {} },
          jobs: 3,
          channels: all.map((p) => ({
            name: p,
            enabled: true,
            state: "failed",
            error: p,
            received: 1,
            sent: 2,
            failed: 3,
          })),
        },
        memory_bytes: 1,
        errors: all.map((p, i) => ({ id: "e" + i, at, level: "error", message: p, attrs: [["err", p]] })),
      },
      budget: { limits: [], today: { usd: 0, calls: 0 }, month: { usd: 0, calls: 0 } },
    },
    visits: [["status", ".facts", 1]],
  }),
};

/** unharmed: nothing ran, nothing was made of the text, nothing is outside of its box. */
async function unharmed(page, where) {
  assert.equal(await page.evaluate(() => window.pwned), undefined, where);
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
    "main img",
    "main video",
    "main audio",
    "[onclick]",
    "[onerror]",
    "[style]",
    ".approval",
  ]) {
    assert.equal(await page.locator(tag).count(), 0, `${where}: ${tag}`);
  }
  const hrefs = await page
    .locator("main a")
    .evaluateAll((all) => all.map((a) => (a.getAttribute("href") ?? "").slice(0, 60)));
  for (const h of hrefs) assert.match(h, /^(https?:|mailto:|#\/(?!in\/))/, `${where}: ${h}`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth + 1);
  assert.equal(wide, false, `${where} is wider than the window`);
}

for (const [place, make] of Object.entries(places)) {
  pageTest(`nothing in ${place} runs or leaves the page`, async ({ page, stub }) => {
    const { reads, acts = {}, sessions = [], visits } = make(payloads(listener.url).map((p) => p.toWellFormed())); // the gateway sends no halves of characters
    stub.reads.set("devices", { devices: [], waiting: [] });
    for (const [path, value] of Object.entries(reads)) stub.reads.set(path, value);
    for (const [name, value] of Object.entries(acts)) stub.acts.set(name, value);
    stub.sessions = sessions;
    await page.goto(stub.url);
    for (const [route, what, least, first] of visits) {
      await page.evaluate((hash) => (location.hash = hash), "#/" + route);
      await page.locator("main h1").waitFor();
      await first?.(page);
      await until(`${least} of ${what} on ${route}`, async () => (await page.locator(what).count()) >= least);
      await page.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));
      await unharmed(page, `${place}, ${route}`);
    }
    assert.deepEqual(listener.asked, []);
  });
}
