// Connections that break, a gateway that dies, and messages written meanwhile.
import assert from "node:assert/strict";
import { ended, newChat, rigTest, saying, send, until, useRig } from "./fixture.mjs";

useRig();

const words = Array.from({ length: 260 }, (_, i) => `word${i}`);
const long = words.join(" ");

/** answers is the text of the answers that are shown. */
const answers = (page) => page.locator("article[aria-label=nanobot] .md").allInnerTexts();
const asked = (page) => page.locator("article.user").allInnerTexts();

/** reconnect does not wait for the next attempt of the page, unless it is under way. */
async function reconnect(page) {
  await until("the connection", async () => {
    const again = page.getByRole("button", { name: "Try now" });
    if ((await again.count()) === 0) return true;
    await again.click({ timeout: 1000 }).catch(() => {});
    return false;
  });
}

// NANOBOT_CUTS=all cuts after each of the first 200 frames; without it after some.
const points = Array.from({ length: 200 }, (_, i) => i + 1).filter(
  (n) => process.env.NANOBOT_CUTS === "all" || n <= 6 || n % 23 === 0,
);

rigTest(
  "a connection that is cut after any frame loses and doubles nothing",
  async ({ page, rig }) => {
    rig.model.on("cut me", async (s) => {
      await s.think("A thought before.", { size: 4 });
      await s.text(long, { size: 7, every: 2 });
    });
    for (const n of points) {
      await newChat(page);
      const cuts = rig.proxy.cuts;
      rig.proxy.cutAfter(n);
      await send(page, `cut me after ${n}`);
      await ended(page);
      assert.equal(rig.proxy.cuts, cuts + 1, `there were fewer than ${n} frames`);
      assert.deepEqual(await answers(page), [long], `after frame ${n}`);
      assert.deepEqual(await asked(page), [`cut me after ${n}`]);
      const live = await page.locator(".list").innerText();
      await page.reload();
      await ended(page);
      assert.equal(await page.locator(".list").innerText(), live, `a reload after frame ${n}`);
    }
  },
  { timeout: 900_000 },
);

rigTest("two messages written without a connection are sent once and in order", async ({ page, rig }) => {
  rig.model.on("first", (s) => s.text("Answer one."));
  rig.model.on("second", (s) => s.text("Answer two."));
  await newChat(page);
  rig.proxy.refuse();
  await page.getByText("Not connected.").waitFor();
  await send(page, "first of two");
  await send(page, "second of two");
  await until("both wait", async () => (await page.getByText("Waiting to be sent").count()) === 2);
  rig.proxy.refuse(false);
  await reconnect(page);
  await saying(page, "Answer two.").waitFor();
  await until("the end", async () => (await page.getByRole("button", { name: "Stop" }).count()) === 0);
  assert.deepEqual(await asked(page), ["first of two", "second of two"]);
  await page.reload();
  await saying(page, "Answer two.").waitFor();
  assert.deepEqual(await asked(page), ["first of two", "second of two"]);
  const all = rig.model.requests
    .at(-1)
    .messages.filter((m) => m.role === "user")
    .map((m) => JSON.stringify(m.content));
  for (const text of ["first of two", "second of two"])
    assert.equal(all.filter((m) => m.includes(text)).length, 1, text);
});

rigTest("a gateway that is killed in an answer loses and doubles nothing", async ({ page, rig }) => {
  let calls = 0;
  rig.model.on("die in this", async (s) => {
    await s.text("The beginning. ");
    await s.wait(++calls === 1 ? "never" : "again");
    await s.text("The end.");
  });
  await newChat(page);
  await send(page, "die in this");
  await saying(page, "The beginning.").waitFor();
  await page.locator("#composer").fill("a draft");
  await rig.gateway.kill();
  await page.getByText("Not connected.").waitFor();
  await rig.gateway.start();
  await reconnect(page);
  assert.equal(await page.inputValue("#composer"), "a draft");
  await until("the turn goes on", () => calls === 2);
  await saying(page, "The beginning.").waitFor();
  rig.model.gate("again").open();
  await ended(page);
  const live = await page.locator(".list").innerText();
  assert.deepEqual(await asked(page), ["die in this"]);
  assert.equal(live.match(/The beginning\./g)?.length, 1, live);
  assert.doesNotMatch(live, /interrupted/i); // it has its answer
  await page.reload();
  await ended(page);
  assert.equal(await page.locator(".list").innerText(), live);
  rig.model.gate("never").open();
});
