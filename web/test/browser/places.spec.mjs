// Below a path, over TLS, and two gateways on one host.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, newPage, patience } from "./browser.mjs";
import { ended, newChat, saying, send, until } from "./fixture.mjs";
import { Proxy } from "../rig/proxy.mjs";
import { Rig } from "../rig/rig.mjs";

let browser;
const rigs = [];
before(async () => {
  browser = await launch();
  rigs.push(await Rig.start(), await Rig.start());
});
after(async () => {
  await browser?.close();
  for (const r of rigs) await r.stop();
});

const places = {
  "below a path that the proxy strips": { prefix: "/a/b/", strip: true },
  "below a path that the proxy keeps": { prefix: "/a/b/", strip: false },
  "over TLS": { tls: true },
  "over TLS below a path": { tls: true, prefix: "/a/b/", strip: true },
};

for (const [name, options] of Object.entries(places)) {
  test(name, { timeout: patience }, async () => {
    const rig = rigs[0];
    const proxy = await new Proxy(options).start(() => rig.gateway.address);
    const { page, context, problems } = await newPage(browser, { ignoreHTTPSErrors: true });
    try {
      await rig.signIn(page, proxy.url);
      rig.model.on("where are you", (s) => s.text("Here, in `code`:\n\n```js\nlet x = 1;\n```\n"));
      await send(page, "where are you");
      await ended(page);
      await page.locator(".h-keyword").waitFor(); // the worker runs, too
      await page.evaluate(() => (location.hash = "#/preferences"));
      await page.locator(".facts").waitFor(); // a page that is loaded on demand
      await page.goBack();
      await saying(page, "Here, in").waitFor();
      await page.reload();
      await saying(page, "Here, in").waitFor();
      const outside = proxy.seen.filter((p) => !p.startsWith(proxy.prefix));
      assert.deepEqual(outside, [], "requests outside of the path");
      assert.deepEqual(problems, []);
    } finally {
      await context.close();
      proxy.stop();
    }
  });
}

test("two gateways on one host do not meet in one browser", { timeout: patience }, async () => {
  const { context, page: first, problems } = await newPage(browser);
  const second = await context.newPage();
  try {
    await rigs[0].signIn(first);
    await rigs[1].signIn(second);
    rigs[0].model.on("who", (s) => s.text("I am the first."));
    rigs[1].model.on("who", (s) => s.text("I am the second."));
    for (const [page, answer] of [
      [first, "I am the first."],
      [second, "I am the second."],
    ]) {
      await newChat(page);
      await send(page, "who are you");
      await saying(page, answer).waitFor();
      await page.locator("#composer").fill("a draft for " + answer);
      await page.reload();
      await saying(page, answer).waitFor();
      assert.equal(await page.inputValue("#composer"), "a draft for " + answer);
    }
    // Ports do not separate cookies: both are there, under names of their own.
    const cookies = (await context.cookies()).map((c) => c.name);
    assert.equal(new Set(cookies).size, 2);
    for (const c of await context.cookies())
      assert.ok(c.httpOnly && c.sameSite === "Strict" && c.path === "/", JSON.stringify(c));
    // Signing out of one leaves the other.
    await first.evaluate(() => (location.hash = "#/preferences"));
    await first.getByRole("button", { name: "Sign out" }).click();
    await first.locator(".sign-in").waitFor();
    await second.reload();
    await until("the second page", async () => (await saying(second, "I am the second.").count()) > 0);
    assert.deepEqual(problems, []);
  } finally {
    await context.close();
  }
});
