// Reading a conversation: scrolling while an answer comes in, back and forward,
// and printing.
import assert from "node:assert/strict";
import { ended, newChat, rigTest, saying, send, until, useRig } from "./fixture.mjs";

useRig();

/** paragraphs differ: the gateway stops a model that repeats itself. */
const paragraphs = (from, to) =>
  Array.from(
    { length: to - from },
    (_, i) =>
      `Paragraph ${from + i} has ${((from + i) * 7919) % 1000} words, ${"and more ".repeat((from + i) % 5)}or none.\n\n`,
  ).join("");

rigTest("scrolling up while an answer comes in holds its position", async ({ page, rig }) => {
  rig.model.on("talk", async (s) => {
    await s.text(paragraphs(0, 60), { size: 400 });
    await s.wait("more");
    await s.text(paragraphs(60, 120), { size: 80, every: 2 });
  });
  await newChat(page);
  await send(page, "talk for long");
  const thread = page.locator(".thread");
  await until("the end in view", () =>
    thread.evaluate((e) => e.scrollTop > 1000 && e.scrollHeight - e.scrollTop - e.clientHeight < 60),
  );
  await thread.hover();
  await page.mouse.wheel(0, -700);
  await page.getByRole("button", { name: "Latest messages" }).waitFor();
  const at = () =>
    page
      .locator(".md p")
      .evaluateAll((all) =>
        all.map((p) => Math.round(p.getBoundingClientRect().top)).filter((y) => y > 100 && y < 500),
      );
  let before = await at();
  await until("the scroll has ended", async () => {
    const now = await at();
    const still = JSON.stringify(now) === JSON.stringify(before);
    before = now;
    return still;
  });
  const height = await thread.evaluate((e) => e.scrollHeight);
  rig.model.gate("more").open();
  await until("more text", () => thread.evaluate((e, h) => e.scrollHeight > h + 500, height));
  assert.deepEqual(await at(), before);
  await ended(page);
  assert.deepEqual(await at(), before);
});

rigTest(
  "an answer that was joined in the middle stays where it is when it is read again at its end",
  async ({ page, rig }) => {
    rig.model.on("talk", async (s) => {
      await s.text(paragraphs(0, 60), { size: 400 });
      await s.wait("joined");
      await s.text(paragraphs(60, 70));
    });
    await newChat(page);
    await send(page, "talk for long");
    await saying(page, "Paragraph 59").waitFor();
    await page.reload();
    await saying(page, "Paragraph 59").waitFor();
    await page
      .locator(".md p")
      .nth(30)
      .evaluate((p) => p.classList.add("same"));
    const again = page.waitForResponse((r) => r.url().includes("webui-thread"));
    rig.model.gate("joined").open();
    await (await again).finished();
    await ended(page);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    assert.equal(await page.locator(".md p").nth(30).getAttribute("class"), "same");
  },
);

rigTest("back and forward lead through conversations and pages", async ({ page, rig }) => {
  rig.model.on("apple", (s) => s.text("About apples."));
  rig.model.on("pear", (s) => s.text("About pears."));
  for (const [q, a] of [
    ["apple", "About apples."],
    ["pear", "About pears."],
  ]) {
    await newChat(page);
    await send(page, q);
    await saying(page, a).waitFor();
  }
  await ended(page);
  await page.evaluate(() => (location.hash = "#/preferences"));
  await page.locator(".facts").waitFor();
  await page.goBack();
  await saying(page, "About pears.").waitFor();
  await page.goBack();
  await page.locator(".welcome").waitFor();
  await page.goBack();
  await saying(page, "About apples.").waitFor();
  await page.goForward();
  await page.locator(".welcome").waitFor();
  await page.goForward();
  await saying(page, "About pears.").waitFor();
  await page.goForward();
  await page.locator(".facts").waitFor();
});

rigTest("a printed conversation has all messages and no controls", async ({ page, rig }) => {
  const parts = 24;
  rig.model.on(
    "print",
    ...Array.from(
      { length: parts },
      (_, n) => async (s) => (
        await s.text(`Part ${n} begins. ${paragraphs(n * 20, n * 20 + 20)}`),
        s.call("glob", { pattern: `*.${n}` })
      ),
    ),
    (s) => s.text("All is said."),
  );
  await newChat(page);
  await send(page, "print me");
  await ended(page);
  assert.equal(await saying(page, "Part 0 begins.").count(), 0, "the conversation is too short to show anything");
  await page.emulateMedia({ media: "print" });
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  for (const hidden of [".side", "#composer"])
    assert.equal(await page.locator(hidden).first().isVisible(), false, hidden);
  for (let n = 0; n < parts; n++) await saying(page, `Part ${n} begins.`).waitFor();
  const cut = await page.locator(".thread").evaluate((e) => e.scrollHeight - e.clientHeight);
  assert.ok(cut <= 1, `${cut} px are not printed`);
  const pdf = await page.pdf();
  const pages = pdf.toString("latin1").match(/\/Type\s*\/Page\b/g)?.length ?? 0;
  assert.ok(pages >= parts / 3, `${pages} pages`);
  await page.emulateMedia({ media: "screen" });
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  await until("the window", async () => (await saying(page, "Part 0 begins.").count()) === 0);
});
