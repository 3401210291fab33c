// Hard inputs, and browsers that lack something.
import assert from "node:assert/strict";
import { pageTest, saying, send, until, useBrowser } from "./fixture.mjs";
import { inputs } from "../rig/inputs.mjs";

useBrowser();

for (const [name, [text, most]] of Object.entries(inputs)) {
  pageTest(`the page does not hang: ${name}`, async ({ page, stub }) => {
    // Both ways: stored, and streamed in pieces.
    stub.threads.set("websocket:a", [
      { index: 0, role: "user", content: text, turn_id: "t" },
      { index: 1, role: "assistant", content: text, turn_id: "t", latency_ms: 1 },
    ]);
    await page.goto(stub.url + "#/c/websocket%3Aa");
    await page.locator(".item").first().waitFor();
    stub.script = (s, chat, m) => s.say(chat, m.turn_id, text, { size: Math.max(1, Math.ceil(text.length / 40)) });
    await send(page, "go");
    await page.locator(".footer", { hasText: "scripted" }).waitFor();
    // The composer still takes keys, and no more was built than the text needs.
    await page.locator("#composer").fill("alive");
    assert.equal(await page.inputValue("#composer"), "alive");
    const count = await page.locator("*").count();
    assert.ok(count <= 3 * most, `${count} elements`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth + 1);
    assert.equal(wide, false, "it is wider than the window");
  });
}

pageTest("without storage the page works and says that it keeps nothing", async ({ page, stub }) => {
  await page.addInitScript(() => {
    for (const name of ["localStorage", "sessionStorage"])
      Object.defineProperty(window, name, {
        get: () => {
          throw new DOMException("blocked", "SecurityError");
        },
      });
  });
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await page.getByText("This browser stores nothing for this page").waitFor();
  await send(page, "hello");
  await saying(page, "Hello.").waitFor();
});

pageTest("a full storage keeps what is typed in memory", async ({ page, stub }) => {
  await page.addInitScript(() => {
    const set = Storage.prototype.setItem;
    Storage.prototype.setItem = function (k, v) {
      if (k.includes("draft") || k.includes("outbox")) throw new DOMException("full", "QuotaExceededError");
      return set.call(this, k, v);
    };
  });
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await page.fill("#composer:not([disabled])", "a draft");
  await page.evaluate(() => (location.hash = "#/preferences"));
  await page.locator(".facts").waitFor();
  await page.goBack();
  await page.waitForSelector("#composer:not([disabled])");
  assert.equal(await page.inputValue("#composer"), "a draft");
  await send(page, "hello");
  await saying(page, "Hello.").waitFor();
  assert.equal(stub.accepted.length, 1);
});

pageTest("without cookies the sign-in page says so", async ({ page, stub }) => {
  stub.signedIn = false;
  await page.route("**/webui/login", (r) => r.fulfill({ contentType: "application/json", body: '{"state":"in"}' })); // it answers, but no cookie is kept
  await page.goto(stub.url);
  await page.fill("input[name=code]", stub.code);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("This browser keeps no cookies").waitFor();
});

for (const [name, off] of Object.entries({ "a day ahead": 86_400_000, "a day behind": -86_400_000 })) {
  pageTest(`a clock that is ${name} does not close a question`, async ({ page, stub }) => {
    stub.script = (s, chat, m) => {
      s.begin(chat, m.turn_id);
      s.emit(chat, {
        event: "message",
        text: "May I?",
        turn_id: m.turn_id,
        question: { id: "q", code: "c", options: ["yes", "no"], expires: new Date(Date.now() + 290_000).toISOString() },
      });
    };
    await page.addInitScript((off) => {
      const now = Date.now;
      const Real = Date;
      globalThis.Date = class extends Real {
        constructor(...args) {
          super(...(args.length ? args : [now() + off]));
        }
        static now = () => now() + off;
      };
    }, off);
    await page.goto(stub.url + "#/c/websocket%3Aa");
    await send(page, "go");
    await page.locator(".approval").waitFor();
    assert.match(await page.locator(".approval").innerText(), /[0-4]:[0-5]\d left/);
    await until("the answer", async () => {
      await page
        .getByRole("button", { name: "Deny" })
        .click({ timeout: 2000 })
        .catch(() => {});
      return stub.answers.length > 0;
    });
  });
}

pageTest(
  "without script the document explains itself",
  async ({ page, stub }) => {
    await page.goto(stub.url);
    const text = page.locator(".no-script");
    await text.waitFor();
    assert.match(await text.innerText(), /This page needs JavaScript\.[^]*此页面需要 JavaScript/);
    const top = await text.evaluate((e) => document.elementFromPoint(innerWidth / 2, 80)?.closest(".no-script") === e);
    assert.ok(top, "something covers it");
    assert.equal(await text.locator("a").first().getAttribute("href"), "readyz");
  },
  { javaScriptEnabled: false },
);

for (const [name, answer] of Object.entries({
  "500 to everything": { status: 500, body: "broken" },
  "a page of a proxy": {
    status: 502,
    contentType: "text/html",
    body: "<h1>Bad gateway</h1><script>window.pwned=1</script>",
  },
  garbage: { status: 200, body: "{" },
})) {
  pageTest(`a gateway that answers ${name} costs no typed text`, async ({ page, stub }) => {
    await page.goto(stub.url + "#/c/websocket%3Aa");
    await page.fill("#composer:not([disabled])", "typed");
    await page.route(/\/(api|webui)\//, (r) => r.fulfill(answer));
    stub.refuse = true;
    stub.drop();
    await page.getByText("Not connected.").waitFor();
    await send(page, "typed and sent");
    await page.getByText("Waiting to be sent").waitFor();
    assert.equal(await page.locator("dialog[open]").count(), 0);
    await page.unroute(/\/(api|webui)\//);
    stub.refuse = false;
    await saying(page, "Hello.").waitFor();
    assert.equal(stub.accepted.length, 1);
    assert.equal(await page.evaluate(() => window.pwned), undefined);
  });
}
