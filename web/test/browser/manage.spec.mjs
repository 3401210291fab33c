// Schedule, channels and people, skills and MCP servers on the real gateway, with
// the model that is inside the binary.
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Gateway } from "../rig/gateway.mjs";
import { signedIn } from "../rig/rig.mjs";
import { Telegram } from "../rig/telegram.mjs";
import { check, looks } from "./axe.mjs";
import { launch, newPage, patience } from "./browser.mjs";
import { until } from "./fixture.mjs";

const server = fileURLToPath(new URL("../rig/mcp.mjs", import.meta.url));
let browser, gateway, telegram, files;

before(async () => {
  files = await mkdtemp(join(tmpdir(), "nanobot-manage-"));
  telegram = await new Telegram().start();
  gateway = await new Gateway({
    gateway: { port: 0 },
    channels: { telegram: { enabled: false, apiBase: telegram.url } },
  }).start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await gateway?.stop();
  telegram?.stop();
  await rm(files, { recursive: true, force: true });
});

function manageTest(name, run, options = {}) {
  test(name, { timeout: patience }, async () => {
    const { page, context, problems } = await newPage(browser, options);
    try {
      const link = await gateway.link();
      await page.goto(link);
      await page.waitForSelector("#composer:not([disabled])");
      await signedIn(page);
      const at = (hash) => page.goto(link.replace(/#.*/, hash));
      await run({ page, at });
      assert.deepEqual(problems, []);
    } catch (e) {
      if (process.env.SHOT) await page.screenshot({ path: `${process.env.SHOT}/${name.slice(0, 12)}.png` });
      throw e;
    } finally {
      await context.close();
    }
  });
}

const button = (page, name) => page.getByRole("button", { name, exact: true });
const link = (page, name) => page.getByRole("link", { name, exact: true });
/** field is found by how its label begins; a hint may follow. */
const field = (page, name) => page.getByLabel(new RegExp("^" + name));
const inDialog = (page, name) => page.getByRole("dialog").getByRole("button", { name, exact: true });

manageTest("a job: preview in words, run, history, edit, calendar, delete", async ({ page, at }) => {
  await at("#/automations");
  await link(page, "New job").click();
  await field(page, "Task").fill("Say hello");
  await page.getByLabel("Name", { exact: true }).fill("Greeting");
  await page.getByLabel("Mon", { exact: true }).check();
  await page.getByLabel("Fri", { exact: true }).check();
  await page.getByLabel("Time", { exact: true }).fill("07:30");
  await page.locator(".preview", { hasText: "Mon, Fri at 07:30" }).waitFor();
  await until("five runs", async () => (await page.locator(".preview li").count()) === 5);
  await page.getByLabel("Cron expression").check();
  await field(page, "Expression").fill("99 * * * *");
  await page.locator(".preview .wrong").waitFor();
  await page.getByLabel("On days, at a time").check();
  await button(page, "Save").click();
  await button(page, "Run now").click();
  await page.getByRole("table", { name: "History" }).locator(".state.good", { hasText: "Done" }).waitFor();
  await button(page, "Disable").click();
  await page.locator(".state", { hasText: "Off" }).waitFor();
  await button(page, "Enable").click();
  await link(page, "Edit").click();
  await until("the task", async () => (await field(page, "Task").inputValue()) === "Say hello");
  assert.equal(await page.getByLabel("Mon", { exact: true }).isChecked(), true);
  await page.getByLabel("Mon", { exact: true }).uncheck();
  await page.getByLabel("Name", { exact: true }).fill("Friday greeting");
  await button(page, "Save").click();
  await page.locator("dd", { hasText: "Fri at 07:30" }).waitFor();
  await at("#/automations/calendar");
  await link(page, "Friday greeting").waitFor();
  assert.equal(await link(page, "Friday greeting").count(), 1);
  await link(page, "Friday greeting").click();
  await button(page, "Delete").click();
  await inDialog(page, "Delete").click();
  await page.waitForURL(/#\/automations$/);
  await until("the job is gone", async () => (await link(page, "Friday greeting").count()) === 0);
});

manageTest("a trigger shows its secret once, and gets another", async ({ page, at }) => {
  await at("#/automations/new-trigger");
  await page.getByLabel("Name", { exact: true }).fill("Door");
  await button(page, "Create").click();
  const first = await page.getByLabel("Secret", { exact: true }).innerText();
  assert.match(first, /^[0-9a-f]{64}$/);
  await link(page, "Done").click();
  await page.getByText("The secret was shown when it was made.").waitFor();
  assert.equal((await page.content()).includes(first), false);
  await button(page, "Renew secret").click();
  await inDialog(page, "Renew secret").click();
  const second = await page.getByLabel("Secret", { exact: true }).innerText();
  assert.match(second, /^[0-9a-f]{64}$/);
  assert.notEqual(second, first);
  const id = /trg_\w+/.exec(await page.getByLabel("On this machine").innerText())[0];
  assert.equal((await gateway.command("trigger", "secret", id)).trim(), second);
});

manageTest("Telegram in four steps; requests are approved with the person's code", async ({ page, at }) => {
  await at("#/channels/telegram/setup");
  await page.getByLabel("Token").fill("123456:wrong_token_of_the_bot_0123456789");
  await button(page, "Check").click();
  await page.getByRole("alert").waitFor();
  await page.getByLabel("Token").fill(telegram.token);
  await button(page, "Check").click();
  await button(page, "Connect @nanobot_test_bot").click();
  const href = await link(page, "Open the link on this device").getAttribute("href");
  assert.match(href, /^https:\/\/t\.me\/nanobot_test_bot\?start=\w{20,}$/);
  await page.getByAltText("QR code with the link to your bot").waitFor();
  telegram.says(7, "ann", "/start " + href.split("=")[1]);
  await page.getByText("The bot knows you.").waitFor();
  telegram.says(8, "eve", "/start " + href.split("=")[1]);
  await at("#/channels/people");
  const request = page.locator(".thing.ask", { hasText: "8" });
  await request.waitFor();
  const told = () => telegram.sent.find((m) => m.chat_id == 8);
  await until("the code is sent", told); // the page may know of the request before
  const code = /[A-Z0-9]{4}-[A-Z0-9]{4}/.exec(told().text)[0];
  await request.getByLabel("Code of 8").fill("AAAA-AAAA");
  await request.getByRole("button", { name: "Approve", exact: true }).click();
  await page.locator(".toast.bad").first().waitFor();
  await request.getByLabel("Code of 8").fill(code);
  await request.getByRole("button", { name: "Approve", exact: true }).click();
  const row = (id) => page.locator(".thing:not(.ask)", { hasText: id });
  await row("8").getByText("Guest").waitFor();
  await row("7").getByText("Owner").waitFor();
  await row("8").getByRole("button", { name: "Revoke" }).click();
  await inDialog(page, "Revoke").click();
  await until("the person is out", async () => (await row("8").count()) === 0);
  telegram.says(9, "bob", "hello");
  await page.locator(".thing.ask", { hasText: "9" }).getByRole("button", { name: "Deny" }).click();
  await page.getByText("No requests.").waitFor();
  await at("#/channels/telegram");
  await button(page, "Restart").click();
  await page.locator(".spread .state", { hasText: "Connected" }).waitFor();
  assert.equal((await page.content()).includes("good_token"), false);
  await page.getByText("All settings").click();
  await field(page, "Reply to message").check();
  await button(page, "Save").click();
  await until("it is saved", async () =>
    /"replyToMessage": true/.test(await readFile(join(gateway.data, "config.json"), "utf8")),
  );
  assert.match(await readFile(join(gateway.data, "config.json"), "utf8"), /good_token/);
});

manageTest("a second account of a platform stands beside the first", async ({ page, at }) => {
  const other = await new Telegram().start();
  Object.assign(other, { token: "654321:other_token_of_the_bot_0123456789a", name: "nanobot_work_bot" });
  try {
    await at("#/channels/telegram");
    await page.getByLabel("Name", { exact: false }).last().fill("work");
    await button(page, "Continue").click();
    await page.waitForURL(/#\/channels\/telegram\.work$/);
    await page.getByLabel("Token").first().fill(other.token);
    await page.getByText("All settings").click();
    await field(page, "Api base").fill(other.url);
    await button(page, "Add").click();
    await page.locator(".spread .state", { hasText: "Connected" }).waitFor();
    const config = JSON.parse(await readFile(join(gateway.data, "config.json"), "utf8"));
    assert.equal(config.channels["telegram.work"].apiBase, other.url);
    assert.equal(config.channels.telegram.apiBase, telegram.url);
    await at("#/channels");
    for (const name of ["telegram", "telegram.work"])
      await page.locator(`a[href="#/channels/${name}"]`).first().waitFor();
    other.says(21, "kim", "hello");
    await until("an answer of the second account", () => other.sent.some((m) => m.chat_id == 21));
    await at("#/channels/telegram.work");
    await button(page, "Disable").click();
    await page.locator(".spread .state", { hasText: "Off" }).waitFor();
  } finally {
    other.stop();
  }
});

manageTest("a skill: written with a check, disabled, enabled, deleted", async ({ page, at }) => {
  await at("#/skills/+new");
  await field(page, "Name").fill("tea");
  await page.locator(".state.good", { hasText: "No problems" }).waitFor();
  await page.getByLabel("SKILL.md").fill("no front matter");
  await page.locator(".checks .state.bad").first().waitFor();
  await until("it cannot be saved", () => button(page, "Save").isDisabled());
  await page
    .getByLabel("SKILL.md")
    .fill("---\nname: tea\ndescription: How to make tea\n---\n# Tea\n\nBoil <script>alert(1)</script> water.\n");
  await page.locator(".state.good", { hasText: "No problems" }).waitFor();
  await button(page, "Save").click();
  await page.getByLabel("Text", { exact: true }).getByText("Boil <script>").waitFor();
  await link(page, "Edit").click();
  await page.getByLabel("SKILL.md").fill("---\nname: tea\ndescription: How to make tea\n---\n# Tea\n\nSteep.\n");
  await page.locator(".state.good", { hasText: "No problems" }).waitFor();
  await button(page, "Save").click();
  await page.getByLabel("Text", { exact: true }).getByText("Steep.").waitFor();
  await button(page, "Disable").click();
  await page.locator(".thing", { hasText: "tea" }).getByRole("button", { name: "Enable" }).click();
  await link(page, "tea").click();
  await button(page, "Delete").click();
  await inDialog(page, "Delete").click();
  await until("it is gone", async () => (await link(page, "tea").count()) === 0);
  await link(page, "weather").waitFor();
});

manageTest("an MCP server: added, tested, accepted, changed, removed", async ({ page, at }) => {
  const words = join(files, "about.txt");
  await at("#/mcp");
  await page.getByText("No MCP servers yet").waitFor();
  await link(page, "Add server").click();
  await field(page, "Name").first().fill("rig");
  await field(page, "Command").fill(process.execPath);
  await field(page, "Args").fill(`${server}\n${words}`);
  await page.getByPlaceholder("Name").fill("KEY");
  await button(page, "Add").click();
  await page.getByRole("textbox", { name: "KEY", exact: true }).fill("planted-secret-of-rig");
  await button(page, "Save").click();
  await button(page, "Test").click();
  await page.getByText("Says the same again").waitFor();
  assert.equal((await page.content()).includes("planted-secret-of-rig"), false);

  // A turn starts it; then its definitions wait for the owner.
  await at("#/");
  await page.fill("#composer", "hello");
  await page.press("#composer", "Enter");
  await at("#/mcp/rig");
  await page.locator(".spread .state.good", { hasText: "Ready" }).waitFor();
  await page.getByText("You have not reviewed 2 descriptions.").waitFor();
  await page.getByLabel("Log of the program").getByText("the server has started").waitFor();
  await button(page, "Review tools").click();
  await page.getByText("Says the same again").waitFor();
  await writeFile(words, "Does something else now");
  await button(page, "Accept these descriptions").click();
  await page.locator(".toast.bad", { hasText: "look at them again" }).waitFor();
  await button(page, "Review tools").click();
  await page.getByText("Does something else now").waitFor();
  await button(page, "Accept these descriptions").click();
  await until("they are accepted", async () => (await page.getByText("You have not reviewed").count()) === 0);

  await button(page, "Choose tools").click();
  await page.getByLabel("time", { exact: true }).uncheck();
  await button(page, "Save the choice").click();
  await until("the choice is saved", async () =>
    /"enabledTools": \[\s*"echo"\s*\]/.test(await readFile(join(gateway.data, "config.json"), "utf8")),
  );
  await button(page, "Disable").click();
  await page.locator(".spread .state", { hasText: "Off" }).waitFor();
  await button(page, "Remove").click();
  await inDialog(page, "Remove").click();
  await page.getByText("No MCP servers yet").waitFor();

  await link(page, "Import").click();
  await field(page, "JSON block").fill("{ not json");
  await button(page, "Import").click();
  await page.getByText("neither JSON nor a link").waitFor();
  await field(page, "JSON block").fill(
    JSON.stringify({ mcpServers: { files: { command: "no-such-program" }, "bad name": { command: "x" } } }),
  );
  await button(page, "Import").click();
  await page.getByText("bad name was skipped").waitFor();
  await link(page, "files").click();
  await button(page, "Test").click();
  await page.getByRole("alert").getByText("not in PATH").waitFor();
});

const pages = [
  "automations",
  "automations/new",
  "automations/calendar",
  "automations/heartbeat",
  "channels",
  "channels/people",
  "channels/discord",
  "channels/telegram/setup",
  "skills",
  "skills/+new",
  "skills/+install",
  "skills/weather",
  "mcp",
  "mcp/+add",
  "mcp/+import",
];

for (const [name, options] of Object.entries(looks)) {
  manageTest(
    `axe finds nothing: ${name}`,
    async ({ page, at }) => {
      for (const hash of pages) {
        await at("#/" + hash);
        await page.locator(".page h2, .page .things").first().waitFor();
        for (const more of await page.locator(".page details").all()) await more.evaluate((d) => (d.open = true));
        await check(page, hash);
      }
    },
    options,
  );
}
