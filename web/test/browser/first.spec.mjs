// From the first start to the first answer, with the demo model of the binary.
import assert from "node:assert/strict";
import { rigTest, saying, until, useRig } from "./fixture.mjs";

useRig({ demo: true });

/** arrive follows the link of nanobot web. Setup can be skipped. */
async function arrive(page, rig, skip) {
  await page.goto(await rig.gateway.link(rig.url));
  const field = page.locator("#composer:not([disabled])");
  const later = page.getByRole("button", { name: skip }).or(page.getByRole("link", { name: skip }));
  await until("the page", async () => (await field.count()) + (await later.count()) > 0);
  return { field, later };
}

rigTest(
  "by mouse",
  async ({ page, rig }) => {
    const { field, later } = await arrive(page, rig, "Skip for now");
    if (await later.count()) await later.first().click();
    await field.click();
    await page.keyboard.insertText("what can you do?");
    await page.getByRole("button", { name: "Send" }).click();
    await page.locator(".footer").waitFor();
    assert.match(await page.locator("article[aria-label=nanobot]").innerText(), /demo/i);
  },
  { signIn: false },
);

rigTest(
  "by keyboard alone",
  async ({ page, rig }) => {
    const { field, later } = await arrive(page, rig, "Skip for now");
    const focused = (what) => what.evaluate((e) => e === document.activeElement).catch(() => false);
    /** tab moves the focus to an element; every element on the way shows its focus. */
    const tab = async (what) => {
      for (let i = 0; i < 80; i++) {
        if ((await what.count()) && (await focused(what.first()))) return;
        await page.keyboard.press("Tab");
      }
      assert.fail("the keyboard does not reach it");
    };
    if (await later.count()) {
      await tab(later);
      await page.keyboard.press("Enter");
      await field.waitFor();
    }
    await tab(field);
    await page.keyboard.type('write "milk" to todo.txt');
    await page.keyboard.press("Enter");
    await page.locator(".footer").waitFor();
    await page.keyboard.press("Shift+Tab");
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.notEqual(outline, "none", "the focus shows");
    assert.match(await page.locator(".list").innerText(), /todo\.txt/);
  },
  { signIn: false },
);

rigTest(
  "on a phone, by touch",
  async ({ page, rig }) => {
    const { field, later } = await arrive(page, rig, "Skip for now");
    if (await later.count()) await later.first().tap();
    await field.tap();
    await page.keyboard.insertText("what can you do?");
    await page.getByRole("button", { name: "Send" }).tap();
    await page.locator(".footer").waitFor();
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `the page is ${wide} px too wide`);
    for (const b of await page.locator("button:visible").all()) {
      const box = await b.boundingBox();
      assert.ok(box.height >= 44 || box.width >= 44, `${await b.innerText()} is ${box.width}x${box.height}`);
    }
  },
  { signIn: false, viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true },
);

rigTest(
  "in Chinese",
  async ({ page, rig }) => {
    const { field, later } = await arrive(page, rig, "暂时跳过");
    if (await later.count()) await later.first().click();
    await field.fill("你能做什么？");
    await page.getByRole("button", { name: "发送" }).click();
    await page.locator(".footer").waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.lang), "zh-CN");
    assert.match(await page.locator(".list").innerText(), /演示|模型/);
    // No English of ours is left over.
    const seen = await page.evaluate(() =>
      [...document.querySelectorAll("button, a, label, h1, h2, [aria-label]")]
        .map((e) => e.getAttribute("aria-label") ?? e.textContent)
        .filter((s) => /^[A-Z][a-z]+ /.test(s)),
    );
    assert.deepEqual(seen, []);

    // What the program itself says is Chinese, too: commands and their answers,
    // descriptions of settings, findings of the doctor.
    const english = async (what) =>
      (await page.locator(what).allInnerTexts()).filter((s) => /\b(the|is|are|was|with|not|your)\b/.test(s));
    await field.fill("/");
    await page.locator("#palette li").first().waitFor();
    assert.deepEqual(await english("#palette li"), []);
    await field.fill("/help");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "发送", exact: true }).click();
    await saying(page, "停止当前").waitFor();
    const help = await page.locator(".said").innerText();
    assert.match(help, /\n +\/stop +停止当前/); // a line each, as in a terminal
    await field.fill("/trigger backup");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "发送", exact: true }).click();
    await until("two replies", async () => (await page.locator(".said").count()) === 2);
    const kept = await page.locator(".said").last().innerText();
    await page.reload();
    await until(
      "the stored reply",
      async () =>
        (await page
          .locator(".said")
          .last()
          .innerText()
          .catch(() => "")) === kept,
    );
    await page.goto(rig.url + "#/settings/all/agents.defaults");
    await page.locator(".setting .hint").first().waitFor();
    await until("descriptions in Chinese", async () => (await english(".setting .hint")).length === 0);
    await page.goto(rig.url + "#/doctor");
    await page.getByRole("button", { name: "不使用网络运行" }).click();
    await page.locator(".rows .wrap").first().waitFor();
    await until("findings in Chinese", async () => (await english(".rows .wrap")).length === 0);
  },
  { signIn: false, locale: "zh-CN" },
);
