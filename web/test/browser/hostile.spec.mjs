import assert from "node:assert/strict";
import { pageTest, send, until, useBrowser } from "./fixture.mjs";

useBrowser();

const act = "window.pwned=1";
const payloads = [
  `<script>${act}</script>`,
  `<img src=x onerror="${act}">`,
  `<svg onload="${act}"><a xlink:href="javascript:${act}">x</a></svg>`,
  `<iframe srcdoc="<script>parent.${act}</script>"></iframe>`,
  `<style>@import 'http://evil.example/x.css'; * { display: none }</style>`,
  `<link rel=stylesheet href=http://evil.example/x.css>`,
  `<meta http-equiv=refresh content="0;url=http://evil.example">`,
  `<base href="http://evil.example/">`,
  `<form action=http://evil.example><button>Allow once</button></form>`,
  `[x](javascript:${act})`,
  `[x](JaVaScRiPt:${act})`,
  `[x](java\tscript:${act})`,
  `[x](&#106;avascript:${act})`,
  `[x](data:text/html,<script>${act}</script>)`,
  `![x](http://evil.example/pixel.png)`,
  `![x](//evil.example/pixel.png)`,
  `![x](data:image/svg+xml,<svg onload=${act}>)`,
  `<http://evil.example/"onmouseover="${act}>`,
  `[x](http://evil.example "title\\" onclick=\\"${act}")`,
  `[x]: javascript:${act}\n\n[x]`,
  "```\"><script>" + act + "</script>\ncode\n```",
  "`<img src=x onerror=" + act + ">`",
  `| <img src=x onerror=${act}> |\n|---|\n| <script>${act}</script> |`,
  `# <img src=x onerror=${act}>`,
  `- [ ] <img src=x onerror=${act}>`,
  `__proto__ constructor [x](__proto__) \`\`\`constructor`,
  "```constructor\nx\n```",
  "```__proto__\nx\n```",
  `$\\href{javascript:${act}}{x}$`,
  `\u202e${act}\u202c \ud800 \u0000 \ufeff`,
];

pageTest("nothing in a message, title, tool, question or error runs or leaves the page", async ({ page, stub }) => {
  const at = new Date().toISOString();
  stub.sessions = payloads.map((p, i) => ({ key: `websocket:p${i}`, title: p, preview: p, created_at: at, updated_at: at, messages: 1, bytes: 1, running: false }));
  stub.threads.set(
    "websocket:p0",
    payloads.flatMap((p, i) => [
      { index: 3 * i, role: "user", content: p, turn_id: `t${i}`, media: [p] },
      { index: 3 * i + 1, role: "assistant", content: p, reasoning: p, turn_id: `t${i}`, tool_calls: [{ call_id: `k${i}`, name: p, arguments: { command: p }, result: p, untrusted: true }], edits: [{ call_id: `k${i}`, path: p, added: 1, deleted: 1, diff: "+" + p }], latency_ms: 5, model: p, error: p },
    ]),
  );
  stub.script = (s, chat, m) => {
    s.begin(chat, m.turn_id);
    payloads.forEach((p, i) => {
      s.emit(chat, { event: "delta", text: p, stream_id: "s" + i });
      s.emit(chat, { event: "stream_end", stream_id: "s" + i });
      s.emit(chat, { event: "message", text: p, turn_id: m.turn_id, question: { id: "q" + i, code: p, options: [p, "yes"] } });
      s.emit(chat, { event: "message", kind: "notice", text: p });
      s.emit(chat, { event: "error", detail: p, reason: p });
      s.emit(chat, { event: p, text: p });
    });
    s.end(chat, m.turn_id);
  };
  await page.goto(stub.url + "#/c/websocket%3Ap0");
  await page.locator(".chat-row").first().waitFor();
  const thread = page.locator(".thread");
  const walk = async () => {
    await thread.evaluate((e) => e.scrollTo(0, 0));
    for (;;) {
      await page.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));
      const end = await thread.evaluate((e) => {
        const before = e.scrollTop;
        e.scrollBy(0, 600);
        return e.scrollTop === before;
      });
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
      if (end) return;
    }
  };
  await until("the messages", async () => (await page.locator(".item").count()) > 5);
  await walk();
  await send(page, payloads[0]);
  await page.locator(".footer", { hasText: "scripted" }).waitFor();
  await walk();
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  for (const tag of ["iframe", "object", "embed", "base", "meta[http-equiv]", "form[action]", "#app style", "#app script", "#app link", "img"]) {
    assert.equal(await page.locator(tag).count(), 0, tag);
  }
  const hrefs = await page.locator(".thread a").evaluateAll((all) => all.map((a) => a.protocol));
  assert.ok(hrefs.every((p) => ["http:", "https:", "mailto:"].includes(p)), hrefs.join(" "));
});

pageTest("garbage on the socket changes nothing", async ({ page, stub }) => {
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await until("the connection", () => stub.sockets.size > 0);
  for (const s of stub.sockets) {
    for (const e of ["x", 1, null, [], {}, { event: 5 }, { event: "delta" }, { event: "delta", chat_id: "a", seq: "x", text: {} }, { event: "message", chat_id: "a", seq: 1 }, { event: "unheard_of", chat_id: "a", seq: 2000 }]) s.send(e);
  }
  stub.chat("a").seq = 3000;
  await send(page, "still alive?");
  await page.getByText("Hello.").waitFor();
});
