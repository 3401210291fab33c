import assert from "node:assert/strict";
import { pageTest, saying, send, until, useBrowser, useListener } from "./fixture.mjs";
import { payloads } from "../rig/payloads.mjs";

useBrowser();

/** Places where outside text is shown: what the gateway tells about payload i.
 *  Add a line for every new one. */
const stored = {
  "a message of a person": (p, i) => ({ role: "user", content: p, turn_id: `t${i}` }),
  "an attachment": (p, i) => ({
    role: "user",
    content: "file",
    turn_id: `a${i}`,
    attachments: [{ name: p, type: p, size: 1, url: p }],
    media: [p],
  }),
  "an answer": (p, i) => ({ role: "assistant", content: p, turn_id: `t${i}`, latency_ms: 5, model: p, error: p }),
  "a thought": (p, i) => ({ role: "assistant", content: "x", reasoning: p, turn_id: `t${i}` }),
  "a tool with arguments and result": (p, i) => ({
    role: "assistant",
    content: "",
    turn_id: `t${i}`,
    tool_calls: [{ call_id: `k${i}`, name: p, arguments: { command: p, [p]: p }, result: p, untrusted: true }],
  }),
  "a tool that is known": (p, i) => ({
    role: "assistant",
    content: "",
    turn_id: `t${i}`,
    tool_calls: [
      { call_id: `e${i}`, name: "exec", arguments: { command: p }, result: p },
      { call_id: `w${i}`, name: "web_fetch", arguments: { url: p }, result: p, is_error: true },
    ],
  }),
  "a diff": (p, i) => ({
    role: "assistant",
    content: "",
    turn_id: `d${i}`,
    latency_ms: 5,
    tool_calls: [{ call_id: `d${i}`, name: "edit_file", arguments: { path: p }, result: "ok" }],
    edits: [{ call_id: `d${i}`, path: p, added: 1, deleted: 1, diff: `--- a\n+++ b\n@@ -1 +1 @@\n-${p}\n+${p}` }],
  }),
  "a question and its answer": (p, i) => ({ role: "assistant", content: p, turn_id: `t${i}`, event: "question" }),
};

const live = {
  "streamed text": (p, i) => [
    { event: "delta", text: p, stream_id: "s" + i },
    { event: "stream_end", stream_id: "s" + i },
  ],
  "a streamed thought": (p) => [{ event: "reasoning_delta", text: p }, { event: "reasoning_end" }],
  "a question": (p, i) => [
    {
      event: "message",
      text: p,
      question: { id: "q" + i, code: p, options: [p, "yes"], detail: { tool: p, command: p, reason: p, paths: [p] } },
    },
  ],
  "a notice": (p) => [{ event: "message", kind: "notice", text: p }],
  "an error": (p) => [{ event: "error", detail: p, reason: p }],
  "an event of another kind": (p) => [{ event: p, text: p }],
  "a call being written": (p, i) => [{ event: "tool_delta", call_id: "w" + i, name: p, arguments: p }],
  "a call with output": (p, i) => [
    {
      event: "message",
      kind: "progress",
      text: p,
      tool_events: [{ phase: "start", call_id: "c" + i, name: p, arguments: { [p]: p } }],
    },
    { event: "tool_output", call_id: "c" + i, text: p, output: p },
    {
      event: "message",
      kind: "progress",
      text: p,
      tool_events: [{ phase: "error", call_id: "c" + i, name: p, error: p }],
    },
  ],
  "a name of a model": (p) => [{ event: "turn_model_updated", model_name: p, fallback: true }],
  "a goal": (p) => [{ event: "goal_state", goal_state: { active: true, text: p, goal: p } }],
};

/** walk scrolls through everything and opens what can be opened. */
async function walk(page) {
  const thread = page.locator(".thread");
  await until("the beginning", async () => {
    await thread.evaluate((e) => e.scrollTo(0, 0));
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    return (await page.getByText("Loading older messages").count()) === 0;
  });
  for (;;) {
    await page.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));
    const end = await thread.evaluate((e) => {
      const before = e.scrollTop;
      e.scrollBy(0, 2000);
      return e.scrollTop === before;
    });
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    if (end) return;
  }
}

/** unharmed: nothing ran, nothing was made of the text, nothing left the page. */
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
    ".thread img",
    ".thread video",
    ".thread [onclick]",
    ".thread [style*=fixed]",
  ]) {
    assert.equal(await page.locator(tag).count(), 0, `${where}: ${tag}`);
  }
  const hrefs = await page
    .locator(".thread a")
    .evaluateAll((all) => all.map((a) => (a.getAttribute("href") ?? "").slice(0, 40)));
  for (const h of hrefs) assert.match(h, /^(https?:|mailto:|#\/(?!in\/)|\/?api\/media\/)/, `${where}: ${h}`);
}

const listener = useListener();

for (const [place, make] of Object.entries(stored)) {
  pageTest(`nothing in ${place} runs or leaves the page`, async ({ page, stub }) => {
    const all = payloads(listener.url);
    stub.threads.set(
      "websocket:p",
      all.map(make).map((m, index) => ({ index, ...m })),
    );
    await page.goto(stub.url + "#/c/websocket%3Ap");
    await until("the messages", async () => (await page.locator(".item").count()) > 1);
    await walk(page);
    await unharmed(page, place);
    assert.deepEqual(listener.asked, []);
  });
}

for (const [place, make] of Object.entries(live)) {
  pageTest(`nothing in ${place} runs or leaves the page`, async ({ page, stub }) => {
    const all = payloads(listener.url);
    stub.script = (s, chat, m) => {
      s.begin(chat, m.turn_id);
      all.forEach((p, i) => make(p, i).forEach((e) => s.emit(chat, { turn_id: m.turn_id, ...e })));
      s.end(chat, m.turn_id);
    };
    await page.goto(stub.url + "#/c/websocket%3Ap");
    await send(page, "go");
    await page.locator(".footer").waitFor();
    await walk(page);
    await unharmed(page, place);
    assert.deepEqual(listener.asked, []);
    // A card of the gateway is the only one; text that looks like one is text.
    if (place !== "a question") assert.equal(await page.locator(".approval").count(), 0);
  });
}

pageTest("nothing in a title runs or leaves the page", async ({ page, stub }) => {
  const at = new Date().toISOString();
  stub.sessions = payloads(listener.url).map((p, i) => ({
    key: `websocket:p${i}`,
    title: p,
    preview: p,
    created_at: at,
    updated_at: at,
    messages: 1,
    bytes: 1,
    running: false,
  }));
  await page.goto(stub.url + "#/c/websocket%3Ap0");
  await page.locator(".chat-row").first().waitFor();
  await page.locator(".side").evaluate((e) => e.querySelectorAll("*").forEach((x) => x.scrollTo(0, 1e6)));
  await unharmed(page, "a title");
  assert.deepEqual(listener.asked, []);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth + 1);
  assert.equal(wide, false);
});

pageTest("garbage on the socket changes nothing", async ({ page, stub }) => {
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await until("the connection", () => stub.sockets.size > 0);
  for (const s of stub.sockets) {
    for (const e of [
      "x",
      1,
      null,
      [],
      {},
      { event: 5 },
      { event: "delta" },
      { event: "delta", chat_id: "a", seq: "x", text: {} },
      { event: "message", chat_id: "a", seq: 1 },
      { event: "unheard_of", chat_id: "a", seq: 2000 },
    ])
      s.send(e);
  }
  stub.chat("a").seq = 3000;
  await send(page, "still alive?");
  await saying(page, "Hello.").waitFor();
});
