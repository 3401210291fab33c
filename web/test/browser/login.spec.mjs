// Logins that go step by step: a QR code, a question, the end.
import assert from "node:assert/strict";
import { pageTest, until, useBrowser } from "./fixture.mjs";

useBrowser();
const pixel =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

function offer(stub) {
  stub.reads.set("settings/nanobot-features", {
    channels: [
      {
        name: "weixin",
        title: "Weixin",
        login: true,
        configured: true,
        enabled: true,
        state: "failed",
        reason: "log in <b>first</b>\u202e",
      },
    ],
  });
  stub.reads.set("settings/pairing", { pending: [], approved: [] });
  stub.reads.set("settings/channel-schema", {
    name: "weixin",
    title: "Weixin",
    needed: [],
    schema: { type: "object", properties: { limits: { type: "object", additionalProperties: { type: "string" } } } },
    settings: { limits: { a: "1" } },
  });
}

const sent = (stub, action) => stub.requests.filter((f) => f.action === action).map((f) => f.payload);

pageTest("a login shows a code to scan, then asks, then closes", async ({ page, stub }) => {
  offer(stub);
  stub.acts.set("settings.channel.connect.start", {
    state: "waiting",
    qr_image: pixel,
    url: "javascript:alert(1)",
    note: "Scan it",
  });
  stub.acts.set("settings.channel.connect.poll", (p) =>
    p.answer ? { state: "done" } : { state: "waiting", ask: "Password", hidden: true },
  );
  await page.goto(stub.url + "#/channels/weixin");
  await page.getByText("log in <b>first</b>\\u{202e}").waitFor();
  await page.getByRole("button", { name: "Connect the account" }).click();
  const answer = page.getByRole("dialog").getByLabel("Password");
  await answer.fill("secret");
  assert.equal(await answer.getAttribute("type"), "password");
  assert.equal(await page.getByRole("dialog").getByRole("link").count(), 0); // no link to a script
  await page.getByRole("button", { name: "Send" }).click();
  await until("the dialog is closed", async () => (await page.getByRole("dialog").count()) === 0);
  assert.deepEqual(
    sent(stub, "settings.channel.connect.poll").map((p) => p.answer),
    [undefined, "secret"],
  );
  assert.deepEqual(sent(stub, "settings.channel.connect.cancel"), []);
});

pageTest("an account is connected before there are settings", async ({ page, stub }) => {
  offer(stub);
  const state = stub.reads.get("settings/nanobot-features").channels[0];
  Object.assign(state, { configured: false, enabled: false, state: "stopped", reason: undefined });
  stub.acts.set("settings.channel.connect.start", { state: "waiting", qr_image: pixel });
  stub.acts.set(
    "settings.channel.connect.poll",
    () => (
      Object.assign(state, { configured: true, enabled: true, state: "running", identity: "Ana" }),
      { state: "done" }
    ),
  );
  await page.goto(stub.url + "#/channels/weixin");
  await page.getByRole("button", { name: "Connect the account" }).click();
  await page.getByText("Connected.").waitFor();
  assert.deepEqual(sent(stub, "settings.channel.connect.start"), [{ name: "weixin", force: false }]);
  await page.getByText("Ana", { exact: true }).waitFor();
});

pageTest("a login that is closed is cancelled, and the focus goes back", async ({ page, stub }) => {
  offer(stub);
  stub.acts.set("settings.channel.connect.start", { state: "waiting", ask: "Phone number" });
  await page.goto(stub.url + "#/channels/weixin");
  const connect = page.getByRole("button", { name: "Connect the account" });
  await connect.click();
  await page.getByLabel("Phone number").waitFor();
  await page.keyboard.press("Escape");
  await until("it is cancelled", () => sent(stub, "settings.channel.connect.cancel").length === 1);
  await until("the focus is back", () => connect.evaluate((b) => document.activeElement === b));
});

pageTest("an account is logged out after a question, and a second one is added by name", async ({ page, stub }) => {
  offer(stub);
  stub.reads.get("settings/nanobot-features").channels[0].logout = true;
  stub.acts.set("settings.channel.logout", {});
  await page.goto(stub.url + "#/channels/weixin");
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByRole("dialog").getByText("nanobot forgets this login").waitFor();
  assert.deepEqual(sent(stub, "settings.channel.logout"), []);
  await page.getByRole("dialog").getByRole("button", { name: "Log out" }).click();
  await page.getByText("Logged out.").waitFor();
  assert.deepEqual(sent(stub, "settings.channel.logout"), [{ name: "weixin" }]);
  await page.locator("input[name=name]").fill("work");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("heading", { name: "Weixin (weixin.work)" }).waitFor();
  await until("no login to end", async () => (await page.getByRole("button", { name: "Log out" }).count()) === 0);
});

pageTest("a form changes maps and sends only what changed", async ({ page, stub }) => {
  offer(stub);
  await page.goto(stub.url + "#/channels/weixin");
  await page.getByText("All settings").click();
  await page.getByPlaceholder("Name").fill("b");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByLabel("b", { exact: true }).fill("2");
  await page.getByRole("button", { name: "Remove a" }).click();
  await page.getByRole("button", { name: "Save" }).click();
  await until("it is sent", () => sent(stub, "settings.channel.configure").length === 1);
  assert.deepEqual(sent(stub, "settings.channel.configure")[0], {
    name: "weixin",
    settings: { limits: { a: null, b: "2" } },
  });
});
