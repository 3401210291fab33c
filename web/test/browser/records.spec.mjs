// Memory, search, export and replay of the real gateway.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ended, newChat, rigTest, send, until, useRig } from "./fixture.mjs";

useRig({ config: { tools: { restrictToWorkspace: true, approval: { mode: "ask" } } } });

rigTest("a turn with an approval is found, replayed and saved", async ({ page, rig }) => {
  rig.model.on(
    "sort the herrings",
    async (s) => (await s.text("I write it down."), s.call("write_file", { path: "fish.md", content: "one\ntwo\n" })),
    (s) => s.text("The herrings are sorted."),
  );
  await newChat(page);
  await send(page, "Please sort the herrings");
  const allow = page.getByRole("button", { name: "Allow once" });
  await allow.waitFor();
  await until("the answer counts", async () => {
    if (await allow.count()) await allow.click({ timeout: 2000 }).catch(() => {}); // a click in the first half second does nothing
    return (await allow.count()) === 0;
  });
  await ended(page);
  const key = decodeURIComponent((await page.evaluate(() => location.hash)).split("/")[2]);

  await page.getByRole("link", { name: "Replay" }).click();
  await page.locator(".lanes").waitFor();
  const steps = page.getByRole("region", { name: "Steps" });
  assert.match(
    await steps.innerText(),
    /You\s[^]*sort the herrings[^]*scripted[^]*Waited for an answer: yes[^]*write_file[^]*fish\.md \+2 −0[^]*scripted[^]*The herrings are sorted\./,
  );
  assert.match(await page.locator(".sums").innerText(), /Waiting for you\s+[\d.]+ s[^]*Tokens\s+2\.4k/);
  await page.goto(rig.url + "#/usage");
  await page.getByRole("cell", { name: "scripted" }).waitFor();

  await page.goto(rig.url + "#/search/herrings");
  await page.locator(".hits li").first().waitFor();
  assert.equal(await page.locator(".snippet mark").first().innerText(), "herrings");
  const href = await page.locator(".hits a").first().getAttribute("href");
  assert.match(href, new RegExp(`^#/c/${encodeURIComponent(key)}/\\d+$`));
  await page.locator(".hits a").first().click();
  await page.locator(".list", { hasText: "herrings" }).waitFor();

  await page
    .getByRole("button", { name: /Actions for/ })
    .first()
    .click();
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("menuitem", { name: "Save as Markdown" }).click(),
  ]);
  assert.match(file.suggestedFilename(), /\.md$/);
  assert.match(
    await readFile(await file.path(), "utf8"),
    /## You[^]*sort the herrings[^]*## nanobot[^]*The herrings are sorted\./,
  );
});

rigTest("memory is edited in two places, undone and forgotten", async ({ page, rig, context }) => {
  const path = join(rig.gateway.workspace, "USER.md");
  await writeFile(path, "# About\n\n- Prefers short answers.\n- Lives in Bergen.\n");
  await page.goto(rig.url + "#/memory");
  await page.getByText("Lives in Bergen.").waitFor();
  const other = await context.newPage();
  await other.goto(rig.url + "#/memory");
  for (const [p, town] of [
    [other, "Oslo"],
    [page, "Tromsø"],
  ]) {
    await p.getByRole("button", { name: "Edit" }).click();
    await p
      .getByRole("textbox", { name: "Text of USER.md" })
      .fill(`# About\n\n- Prefers short answers.\n- Lives in ${town}.\n`);
  }
  await other.getByRole("button", { name: "Save" }).click();
  await other.locator(".words", { hasText: "Oslo" }).waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await page.locator(".stale .line-del", { hasText: "Oslo" }).waitFor();
  assert.match(await readFile(path, "utf8"), /Oslo/);
  await page.getByRole("button", { name: "Save mine over it" }).click();
  await other.locator(".words", { hasText: "Tromsø" }).waitFor(); // without a reload

  await page.goto(rig.url + "#/memory/history");
  await page.locator(".change", { hasText: "edit: by hand" }).first().click();
  await page.locator(".line-add", { hasText: "Tromsø" }).waitFor();
  await page.getByRole("button", { name: "Undo only this change" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Undo", exact: true }).click();
  await until("it is undone", async () => /Oslo/.test(await readFile(path, "utf8")));

  await page.goto(rig.url + "#/memory/USER");
  await page.getByRole("button", { name: "Forget: Lives in Oslo." }).click();
  await page.getByText("Lines to remove: 1.").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Forget", exact: true }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.equal(await readFile(path, "utf8"), "# About\n\n- Prefers short answers.\n");
  await page.goto(rig.url + "#/memory/history");
  await page.locator(".change").first().waitFor();
  assert.equal(await page.getByText("Oslo").count(), 0);
});
