// Every page with axe, in each look.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { pageTest, useBrowser } from "./fixture.mjs";

useBrowser();
const source = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

async function check(page, where) {
  await page.evaluate(source);
  const found = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] });
    return violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(" ")).slice(0, 3).join(", ")}`);
  });
  assert.deepEqual(found, [], where);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth + 1);
  assert.equal(wide, false, `${where} is wider than the window`);
}

const looks = {
  light: {},
  dark: { colorScheme: "dark" },
  "forced colours": { forcedColors: "active" },
  "320 px": { viewport: { width: 320, height: 640 } },
  Chinese: { locale: "zh-CN" },
};

for (const [name, options] of Object.entries(looks)) {
  pageTest(`axe finds nothing: ${name}`, async ({ page, stub }) => {
    const at = new Date().toISOString();
    stub.sessions = ["a", "b"].map((k) => ({ key: "websocket:" + k, title: "Chat " + k, preview: "", created_at: at, updated_at: at, messages: 1, bytes: 1, running: k === "b" }));
    stub.threads.set("websocket:a", [
      { index: 0, role: "user", content: "Question", turn_id: "t", at },
      { index: 1, role: "assistant", content: "# Title\n\nText with [a link](https://example.com), `code`.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- [x] task\n\n```js\nlet x = 1; // note\n```", reasoning: "Hm.", turn_id: "t", at, latency_ms: 100, tool_calls: [{ call_id: "k", name: "exec", arguments: { command: "ls" }, result: "\u001b[31mred", untrusted: true }] },
    ]);
    stub.script = (s, chat, m) => {
      s.begin(chat, m.turn_id);
      s.emit(chat, { event: "message", text: "May I?", turn_id: m.turn_id, question: { id: "q", code: "c", options: ["yes", "no"], expires: new Date(Date.now() + 60_000).toISOString() } });
    };
    await page.goto(stub.url + "#/c/websocket%3Aa");
    await page.locator(".h-keyword").waitFor();
    await page.fill("#composer", "go");
    await page.press("#composer", "Enter");
    await page.locator(".approval").waitFor();
    await page.locator("details.tool summary").click();
    await check(page, "chat");
    await page.goto(stub.url + "#/preferences");
    await page.locator(".facts").waitFor();
    await check(page, "preferences");
    await page.goto(stub.url + "#/c/websocket%3Anew");
    await page.locator(".welcome").waitFor();
    await check(page, "new chat");
    stub.signedIn = false;
    await page.reload();
    await page.locator(".sign-in").waitFor();
    await check(page, "sign-in");
  }, options);
}
