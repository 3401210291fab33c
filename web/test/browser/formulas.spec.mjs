// Formulas in messages, and lists of thousands.
import assert from "node:assert/strict";
import { check } from "./axe.mjs";
import { pageTest, send, until, useBrowser } from "./fixture.mjs";

useBrowser();

const answer = (text) => [
  { index: 0, role: "user", content: "q", turn_id: "t" },
  { index: 1, role: "assistant", content: text, turn_id: "t", latency_ms: 1 },
];

pageTest("formulas become MathML, prices and code stay", async ({ page, stub }) => {
  const loaded = [];
  page.on("request", (q) => loaded.push(q.url()));
  stub.threads.set(
    "websocket:a",
    answer(
      "Euler: $e^{i\\pi}+1=0$ costs $5 or $6, `$x$`.\n\n$$\n\\int_0^1 x\\,dx = \\frac{1}{2}\n$$\n\n\\[ \\begin{pmatrix}1&2\\\\3&4\\end{pmatrix} \\] and $\\nosuch{x}$",
    ),
  );
  await page.goto(stub.url + "#/");
  await page.locator("#composer").waitFor();
  assert.equal(
    loaded.some((u) => u.endsWith("/math.js")),
    false,
    "the library is not loaded without a formula",
  );
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await page.locator(".formula.block mfrac").waitFor();
  await until("three formulas", async () => (await page.locator(".md math").count()) === 3);
  await page.locator(".md code.tex", { hasText: "\\nosuch{x}" }).waitFor();
  await page.getByText("costs $5 or $6").waitFor();
  assert.equal(
    await page
      .locator(".md math")
      .first()
      .evaluate((e) => e.namespaceURI),
    "http://www.w3.org/1998/Math/MathML",
  );
  const box = await page.locator("mfrac").boundingBox();
  assert.ok(box.height > 25, `the fraction is ${box.height} px high`);
  await check(page, "formulas");
});

pageTest("a formula that is streamed appears when it is complete and stays", async ({ page, stub }) => {
  stub.script = (s, chat, m) => {
    s.begin(chat, m.turn_id);
    s.emit(chat, { event: "delta", text: "So\n\n$$\na^2", stream_id: "s" });
  };
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await send(page, "go");
  await page.getByText("$$ a^2").waitFor();
  assert.equal(await page.locator("math").count(), 0);
  stub.emit("a", { event: "delta", text: " + b^2\n$$\n", stream_id: "s" });
  await page.locator("math msup").nth(1).waitFor();
  stub.emit("a", { event: "delta", text: "\nThe end", stream_id: "s" });
  await page.getByText("The end").waitFor();
  assert.equal(await page.locator("math").count(), 1);
});

pageTest("hostile formulas reach nothing, and nothing leaves its box", async ({ page, stub }) => {
  const texts = [
    "\\href{javascript:alert(1)}{x}",
    "\\includegraphics{http://localhost:1/a.png}",
    "\\class{danger}{x}",
    "\\style{position:fixed}{x}",
    "\\data{a=b}{x}",
    "\\def\\a{\\a\\a}\\a",
    "\\hspace{-900em}x",
    "\\hspace{900em}x",
    "\\rule{900em}{900em}",
    "\\raisebox{-90em}{x}",
    "\\sqrt{".repeat(500) + "x" + "}".repeat(500),
  ];
  stub.threads.set("websocket:a", answer(texts.map((x) => `$${x}$`).join("\n\n") + "\n\n$y$"));
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await page.locator(".formula mi", { hasText: "y" }).waitFor();
  assert.equal(await page.locator(".md a, .md img, .md [href], .md [src], .md .danger, .md [id]").count(), 0);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth + 1), false);
  assert.ok(
    (await page
      .locator(".formula")
      .evaluateAll((all) => Math.max(...all.map((e) => e.getBoundingClientRect().height)))) < 1000,
  );
});

pageTest("1,000 formulas in a message do not hold up the page", async ({ page, stub }) => {
  stub.threads.set(
    "websocket:a",
    answer(Array.from({ length: 1000 }, (_, i) => `Number ${i}: $x_{${i}}^2 + \\frac{${i}}{y}$.`).join("\n\n")),
  );
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await page.locator("math").first().waitFor();
  await page.locator("#composer").fill("alive");
  assert.equal(await page.inputValue("#composer"), "alive");
  await until("all of them", async () => (await page.locator("math").count()) === 1000);
  await page.locator("math", { hasText: "999" }).first().waitFor();
});

pageTest("10,000 chats: a part is listed, more on request, and a menu opens", async ({ page, stub }) => {
  const at = new Date().toISOString();
  stub.sessions = Array.from({ length: 10_000 }, (_, i) => ({
    key: `websocket:n${i}`,
    title: `Chat ${i}`,
    preview: "",
    created_at: at,
    updated_at: at,
    messages: 1,
    bytes: 1,
    running: false,
  }));
  await page.goto(stub.url + "#/");
  await page.getByRole("link", { name: "Chat 0", exact: true }).waitFor();
  const count = await page.locator("*").count();
  assert.ok(count < 6000, `${count} elements`);
  assert.equal(
    await page
      .locator(".chat-row")
      .nth(200)
      .evaluate((e) => getComputedStyle(e).contentVisibility),
    "auto",
  );
  await page.getByRole("button", { name: /9,?700/ }).click();
  await page.getByRole("link", { name: "Chat 599", exact: true }).waitFor({ state: "attached" });
  await page.getByRole("button", { name: "Actions for Chat 3", exact: true }).click();
  const menu = await page.getByRole("menu").boundingBox();
  assert.ok(menu.height > 100, "the menu is not cut");
  await page.getByRole("menuitem", { name: "Rename" }).click();
  await page.locator("dialog input[name=title]").waitFor();
});

pageTest("500 skills: a part is mounted, the rest when the person gets there", async ({ page, stub }) => {
  stub.reads.set("webui/skills", {
    skills: Array.from({ length: 500 }, (_, i) => ({
      name: `skill-${i}`,
      source: "workspace",
      available: true,
      description: `Number ${i}`,
    })),
  });
  await page.goto(stub.url + "#/skills");
  await page.getByRole("link", { name: "skill-0", exact: true }).waitFor();
  assert.ok((await page.locator(".things > *").count()) < 250);
  assert.ok((await page.locator("*").count()) < 3000);
  await until("the last one", async () => {
    await page
      .locator(".things > *")
      .last()
      .scrollIntoViewIfNeeded()
      .catch(() => {}); // another is the last one now
    return (await page.getByRole("link", { name: "skill-499", exact: true }).count()) === 1;
  });
  await page.getByRole("link", { name: "skill-499", exact: true }).click();
  await until("its page", () => page.url().endsWith("#/skills/skill-499"));
});
