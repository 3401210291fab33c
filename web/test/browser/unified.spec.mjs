// One conversation for all chats of the owner: pages, tabs and Telegram.
import assert from "node:assert/strict";
import { after } from "node:test";
import { Telegram } from "../rig/telegram.mjs";
import { ended, newChat, rigTest, saying, send, until, useRig } from "./fixture.mjs";

const telegram = await new Telegram().start();
useRig({
  config: {
    agents: { defaults: { model: "custom/scripted", provider: "custom", unifiedSession: true } },
    channels: { telegram: { enabled: true, token: telegram.token, apiBase: telegram.url, allowFrom: ["7"] } },
  },
});
after(() => telegram.stop());

rigTest("every chat shows the one conversation, after a reload and a restart, too", async ({ page, rig }) => {
  for (const word of ["apple", "pear", "plum"]) rig.model.on(`say ${word}`, (s) => s.text(`Here is ${word}.`));
  const all = (...words) =>
    until(
      words.join(),
      async () =>
        JSON.stringify(await page.locator("article .md").allInnerTexts()) ===
        JSON.stringify(words.map((w) => `Here is ${w}.`)),
    );
  await newChat(page);
  await send(page, "say apple");
  await ended(page);
  await page.reload();
  await all("apple");
  telegram.says(7, "ana", "say pear");
  await all("apple", "pear");
  await page.evaluate(() => (location.hash = "#/")); // a new chat is the same one
  await all("apple", "pear");
  await send(page, "say plum");
  await all("apple", "pear", "plum");
  await ended(page, 3);
  await until("nothing is unread", async () => (await page.locator("nav .badge").count()) === 0);
  await rig.gateway.kill();
  await rig.gateway.start();
  await page.reload();
  await all("apple", "pear", "plum");
  assert.deepEqual(await page.locator("article.user").allInnerTexts(), ["say apple", "say pear", "say plum"]);
  assert.equal(await page.getByRole("button", { name: /in a new chat$/ }).count(), 0); // there is no other
  await page.locator(".footer a", { hasText: "Replay" }).first().click();
  await page.getByRole("heading", { name: "Replay" }).waitFor();
  await page.getByText("custom/scripted").first().waitFor();
  await page.goto(`${rig.url}#/c/unified%3Adefault`);
  await page.getByText("All your chats are this one conversation.").waitFor();
  await saying(page, "Here is pear.").waitFor();
});
