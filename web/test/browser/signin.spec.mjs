import assert from "node:assert/strict";
import { pageTest, saying, send, until, useBrowser } from "./fixture.mjs";

useBrowser();

pageTest("a link signs in, and its code leaves the address at once", async ({ page, stub }) => {
  stub.signedIn = false;
  await page.goto(stub.url + "#/in/" + stub.code);
  await page.waitForSelector("#composer:not([disabled])");
  assert.equal(new URL(page.url()).hash, "#/");
  const history = await page.evaluate(() => JSON.stringify({ ...localStorage }) + history.length);
  assert.ok(!history.includes(stub.code));
});

pageTest("a wrong code says so, the right one signs in", async ({ page, stub }) => {
  stub.signedIn = false;
  await page.goto(stub.url);
  await page.fill("input[name=code]", "WRONG234");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("This code is wrong.").waitFor();
  await page.fill("input[name=code]", "abcd-2345");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForSelector("#composer:not([disabled])");
});

pageTest("another device approves", async ({ page, stub }) => {
  stub.signedIn = false;
  await page.goto(stub.url);
  await page.getByRole("button", { name: "Ask another device" }).click();
  await page.getByText("482913").waitFor();
  stub.device = "in";
  await page.waitForSelector("#composer:not([disabled])");
});

pageTest("another device denies", async ({ page, stub }) => {
  stub.signedIn = false;
  stub.device = "denied";
  await page.goto(stub.url);
  await page.getByRole("button", { name: "Ask another device" }).click();
  await page.getByText("Another device denied the request.").waitFor();
});

pageTest("a device that is signed out returns to the same place with its draft", async ({ page, stub }) => {
  await page.goto(stub.url + "#/c/websocket%3Aplace");
  await page.fill("#composer:not([disabled])", "half a thought");
  await until("the connection", () => stub.sockets.size > 0);
  stub.signedIn = false;
  stub.drop(4401);
  await page.fill("input[name=code]", stub.code);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForSelector("#composer:not([disabled])");
  assert.equal(await page.inputValue("#composer"), "half a thought");
  assert.ok(page.url().endsWith("#/c/websocket%3Aplace"));
});

pageTest("a device that was signed out while it was away is told when it comes back", async ({ page, stub }) => {
  await page.goto(stub.url);
  await until("the connection", () => stub.sockets.size > 0);
  await page.fill("#composer:not([disabled])", "half a thought");
  stub.signedIn = false; // the browser only learns that there is no connection
  stub.drop(1012);
  await page.fill("input[name=code]", stub.code);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForSelector("#composer:not([disabled])");
  assert.equal(await page.inputValue("#composer"), "half a thought");
});

pageTest("a refusal that is older than the sign-in does not end it", async ({ page, stub }) => {
  await page.goto(stub.url);
  await until("the connection", () => stub.sockets.size > 0);
  let refused = 0;
  await page.route(
    "**/api/memory*",
    (r) => (
      refused++,
      r.fulfill({ status: 401, contentType: "application/json", body: '{"error":{"code":"signed_out"}}' })
    ),
  );
  const asked = page.waitForResponse("**/webui/state");
  await page.evaluate(() => (location.hash = "#/memory"));
  await asked;
  await until("the refusal", () => refused > 0);
  await page.evaluate(() => (location.hash = "#/"));
  await send(page, "Still here?");
  await saying(page, "Hello.").waitFor();
  assert.equal(await page.getByRole("heading", { name: "Sign in" }).count(), 0);
  // One that the gateway means ends it.
  stub.signedIn = false;
  await page.evaluate(() => (location.hash = "#/memory"));
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
});

pageTest("a page of an older build asks for a reload once and keeps working", async ({ page, stub }) => {
  await page.goto(stub.url);
  await until("the connection", () => stub.sockets.size > 0);
  stub.build = "fedcba9876543210";
  stub.drop(1012);
  await page.getByText("The gateway has a newer version of this page.").waitFor();
  await send(page, "Still here?");
  await saying(page, "Hello.").waitFor();
  await Promise.all([page.waitForEvent("load"), page.getByRole("button", { name: "Reload" }).click()]);
  await page.waitForSelector("#composer:not([disabled])");
  assert.equal(await page.getByText("The gateway has a newer version").count(), 0);
});
