// What a page shows of turns that run: usage, approvals that wait, here and on
// Telegram, subagents, and temporary chats.
import assert from "node:assert/strict";
import { after } from "node:test";
import { Telegram } from "../rig/telegram.mjs";
import { ended, newChat, rigTest, saying, send, until, useRig } from "./fixture.mjs";

const telegram = await new Telegram().start();
useRig({
  config: {
    tools: { approval: { mode: "ask", rules: [{ tool: "spawn", action: "allow" }] } },
    channels: { telegram: { enabled: true, token: telegram.token, apiBase: telegram.url, allowFrom: ["7"] } },
  },
});
after(() => telegram.stop());

const card = (page) => page.locator(".approval:not(.closed)");
const call = (page, words) => page.locator("details.tool:not(.asked-before)", { hasText: words });

rigTest("a call waits, is shown as such after a reload, and reads Denied", async ({ page, rig }) => {
  rig.model.on(
    "write it",
    (s) => s.call("list_dir", { path: "." }),
    (s) => s.call("write_file", { path: "asked.txt", content: "yes\n" }),
    async (s) => (await s.wait("denied"), await s.text("Then not.")),
  );
  await newChat(page);
  await send(page, "hello");
  await ended(page);
  await send(page, "write it");
  await card(page).waitFor();
  assert.match(await page.locator(".so-far").innerText(), /^So far\s+2\.4k tokens/);
  await page.reload();
  await card(page).waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor();
  const waits = call(page, "asked.txt");
  await until("the call waits", async () => /^Writing/.test(await waits.innerText()));
  assert.doesNotMatch(await page.locator(".list").innerText(), /No result/);
  assert.match(await page.locator(".so-far").innerText(), /^So far\s+2\.4k tokens/);
  await until("the answer counts", async () => {
    await card(page)
      .getByRole("button", { name: "Deny" })
      .click({ timeout: 2000 })
      .catch(() => {}); // a click in the first half second does nothing
    return (await card(page).count()) === 0;
  });
  // While the turn goes on, and when it has ended.
  await until("it was denied at once", async () => /^Writing[^]*Denied$/.test(await waits.innerText()));
  await page.reload();
  await until("it was denied in a turn that goes on", async () =>
    /^Writing[^]*Denied$/.test((await waits.count()) ? await waits.innerText() : ""),
  );
  assert.equal(await saying(page, "Then not.").count(), 0);
  rig.model.gate("denied").open();
  await saying(page, "Then not.").waitFor();
  await ended(page, 2);
  for (const again of [false, true]) {
    if (again) await page.reload();
    await until(`it was denied, ${again}`, async () =>
      /^Writing[^]*Denied$/.test((await waits.count()) ? await waits.innerText() : ""),
    );
    await page.locator(".so-far").waitFor({ state: "detached" });
  }
});

rigTest("a question that was asked on Telegram is answered in the inbox", async ({ page, rig }) => {
  rig.model.on(
    "write from afar",
    (s) => s.call("write_file", { path: "afar.txt", content: "yes\n" }),
    (s) => s.text("It is written."),
  );
  telegram.says(7, "ana", "write from afar");
  await until("the question", () => telegram.sent.some((m) => m.text?.includes("afar.txt")));
  await page.goto(rig.url + "#/inbox");
  await card(page).waitFor();
  await until("the answer counts", async () => {
    await card(page)
      .getByRole("button", { name: "Allow once" })
      .click({ timeout: 2000 })
      .catch(() => {}); // a click in the first half second does nothing
    return (await card(page).count()) === 0;
  });
  await until("the answer on Telegram", () => telegram.sent.some((m) => m.text?.includes("It is written.")));
  await page.getByRole("cell", { name: "write_file: afar.txt" }).waitFor();
});

rigTest("a conversation on Telegram is read live, each topic by itself", async ({ page, rig }) => {
  const here = (topic, word) => {
    rig.model.on(
      `say ${word}`,
      (s) => s.call("list_dir", { path: "." }),
      (s) => s.text(`Here is ${word}.`),
    );
    telegram.says(7, "ana", `say ${word}`, topic);
    return until(`the answer ${word}`, () => telegram.sent.some((m) => m.text?.includes(`Here is ${word}.`)));
  };
  await here(undefined, "apple");
  await here(5, "pear");
  for (const [key, other, topic, mine, theirs] of [
    ["telegram:7", 5, undefined, "plum", "fig"],
    ["telegram:7:topic:5", undefined, 5, "lime", "date"],
  ]) {
    await page.goto(`${rig.url}#/c/${encodeURIComponent(key)}`);
    await page.locator(".footer").first().waitFor();
    const turns = await page.locator(".footer").count();
    await here(other, theirs);
    await here(topic, mine);
    await saying(page, `Here is ${mine}.`).waitFor();
    await ended(page, turns + 1);
    await here(topic, mine + "s"); // the end of the turn before was the last of it
    await saying(page, `Here is ${mine}s.`).waitFor();
    await ended(page, turns + 2);
    await page.getByText("nanobot is working").waitFor({ state: "detached" });
    const live = await page.locator(".list").innerText();
    assert.doesNotMatch(live, new RegExp(theirs));
    await page.reload();
    await until("the same after a reload", async () => (await page.locator(".list").innerText()) === live);
  }
});

rigTest("a subagent works in the card of its call, and its answer is there", async ({ page, rig }) => {
  rig.model.on(
    "ask another",
    (s) => s.call("spawn", { task: "Count the sheep", label: "sheep" }),
    (s) => s.text("Started."),
  );
  rig.model.on(
    "Count the sheep",
    (s) => s.call("list_dir", { path: "." }),
    async (s) => (await s.wait("sheep"), await s.text("There are **7** sheep.")),
  );
  rig.model.on("A subagent of this conversation", (s) => s.text("Seven, it says."));
  await newChat(page);
  await send(page, "ask another");
  await saying(page, "Started.").waitFor();
  const spawn = call(page, "Count the sheep");
  for (const again of [false, true]) {
    if (again) await page.reload();
    await until(`it works, ${again}`, async () =>
      /Works in the background$/.test((await spawn.count()) ? await spawn.locator("summary").innerText() : ""),
    );
    if (again) continue;
    await spawn.locator("summary").click(); // what it does is in the card
    await spawn.locator("pre", { hasText: /^ls / }).waitFor();
  }
  rig.model.gate("sheep").open();
  await until("it is said once", async () => (await saying(page, "Seven, it says.").count()) === 1); // twice if a page had it before the events, until it is read again
  for (const again of [false, true]) {
    if (again) await page.reload();
    await until(`it has ended, ${again}`, async () =>
      /Finished$/.test((await spawn.count()) ? await spawn.innerText() : ""),
    );
    await spawn.locator("summary").click();
    assert.equal(await spawn.locator("strong").innerText(), "7");
    assert.equal(await page.locator("article.user").count(), 1);
    assert.equal(await page.locator(".note").count(), 0);
  }
});

rigTest("a temporary chat goes on after a lost connection", async ({ page, rig }) => {
  rig.model.on("remember seven", (s) => s.text("I do."));
  rig.model.on("which number", (s) =>
    s.text(
      s.request.messages.some((m) => JSON.stringify(m.content).includes("remember seven"))
        ? "It was seven."
        : "I forgot.",
    ),
  );
  await page.getByRole("button", { name: "More about conversations" }).click();
  await page.getByRole("menuitem", { name: "Temporary chat" }).click();
  await page.getByText("This chat is not stored.").waitFor();
  await send(page, "remember seven");
  await ended(page);
  rig.proxy.cut();
  await send(page, "which number");
  await saying(page, "It was seven.").waitFor();
});

rigTest("models of the provider are offered for a conversation, and one is chosen", async ({ page, rig }) => {
  rig.model.on("who answers", (s) => s.text(`It is ${s.request.model}.`));
  await newChat(page);
  await send(page, "hello");
  await ended(page);
  await page.getByRole("button", { name: "scripted" }).click();
  await page.getByRole("radio", { name: "Another model" }).check();
  await page.locator("#models option[value='custom/second']").waitFor({ state: "attached" });
  await page.fill("dialog input[name=name]", "custom/second");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: "custom/second" }).waitFor();
  await send(page, "who answers");
  await saying(page, "It is second.").waitFor();
});
