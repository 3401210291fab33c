// Several devices in one conversation.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { newPage } from "./browser.mjs";
import { ended, newChat, rigTest, saying, send, until, useRig } from "./fixture.mjs";

useRig({ config: { tools: { approval: { mode: "ask" } } } });

const card = (page) => page.locator(".approval:not(.closed)");

/** answer clicks until the card takes it: it ignores clicks in its first moments. */
async function answer(page, name) {
  const button = card(page).getByRole("button", { name, exact: true });
  await until("the answer", async () => {
    if ((await button.count()) === 0) return true;
    await button
      .first()
      .click({ timeout: 2000 })
      .catch(() => {});
    return (await card(page).count()) === 0;
  });
}

rigTest(
  "two tabs and a phone: one answers, and the card closes on all",
  async ({ page, rig, context, browser, problems }) => {
    rig.model.on(
      "write it",
      (s) => s.call("write_file", { path: "asked.txt", content: "yes\n" }),
      (s) => s.text("It is written."),
    );
    await newChat(page);
    await send(page, "say hello first");
    await ended(page);
    const address = page.url();
    const tab = await context.newPage();
    await tab.goto(address);
    const phone = await newPage(browser, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
    try {
      await rig.signIn(phone.page);
      await phone.page.goto(address);
      for (const p of [tab, phone.page]) await p.locator("article.user", { hasText: "say hello first" }).waitFor();
      await send(page, "write it");
      for (const p of [page, tab, phone.page]) await card(p).waitFor();
      await answer(phone.page, "Allow once");
      for (const p of [page, tab, phone.page]) {
        await until("the card is closed", async () => (await card(p).count()) === 0);
        await saying(p, "It is written.").waitFor();
      }
      assert.equal(await readFile(join(rig.gateway.workspace, "asked.txt"), "utf8"), "yes\n");
      assert.deepEqual(phone.problems.concat(problems), []);
    } finally {
      await phone.context.close();
    }
  },
);

rigTest("what is said between reading a conversation and connecting is there", async ({ page, rig, context }) => {
  rig.model.on("while it is deaf", (s) => s.text("The tab could not hear this."));
  await newChat(page);
  await send(page, "say hello first");
  await ended(page);
  const tab = await context.newPage();
  rig.proxy.deaf = true;
  try {
    await tab.goto(page.url());
    await tab.locator("article.user", { hasText: "say hello first" }).waitFor();
    await send(page, "while it is deaf");
    await ended(page, 2);
    assert.equal(await saying(tab, "The tab could not hear this.").count(), 0);
  } finally {
    rig.proxy.deaf = false;
  }
  await until("it was read again", async () => (await saying(tab, "The tab could not hear this.").count()) === 1);
  assert.equal(await tab.locator("article.user").count(), 2);
});

rigTest("a refused call does not run, and a reload shows the question with its answer", async ({ page, rig }) => {
  rig.model.on(
    "never write",
    (s) => s.call("write_file", { path: "never.txt", content: "x" }),
    (s) => s.text("Then not."),
  );
  await newChat(page);
  await send(page, "never write");
  await card(page).waitFor();
  await answer(page, "Deny");
  await saying(page, "Then not.").waitFor();
  await ended(page);
  await assert.rejects(readFile(join(rig.gateway.workspace, "never.txt")));
  await page.reload();
  await saying(page, "Then not.").waitFor();
  assert.equal(await card(page).count(), 0);
  await until("the answer is kept", async () => {
    await page.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));
    return /Answered: Deny[^]*never\.txt/.test(await page.locator(".list").innerText());
  });
});

rigTest(
  "a device that is signed out elsewhere is out within a second, and its socket is closed",
  async ({ page, rig }) => {
    const started = Date.now();
    const list = await rig.gateway.command("web", "devices");
    const one = Date.now() - started; // what a command takes on this machine
    const id = /^\s*([0-9a-f]{8,})/m.exec(list)?.[1];
    assert.ok(id, list);
    await newChat(page);
    const ids = [...list.matchAll(/^\s*([0-9a-f]{8,})/gm)].map((m) => m[1]);
    const began = Date.now();
    for (const one of ids) await rig.gateway.command("web", "revoke", one);
    await page.locator(".sign-in").waitFor();
    assert.ok(Date.now() - began < Math.max(500, 4 * one) * (ids.length + 2), "it took too long");
  },
);
