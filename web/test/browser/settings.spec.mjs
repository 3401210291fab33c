// Setup and settings on the real gateway, with a model server on loopback.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Gateway, ModelServer } from "../rig/real.mjs";
import { signedIn } from "../rig/rig.mjs";
import { check, looks } from "./axe.mjs";
import { launch, newPage, patience } from "./browser.mjs";
import { saying, send, told, until } from "./fixture.mjs";

/** realTest runs a test on a gateway and a model server of its own. It fails if a
 *  page reported anything, or received a key. */
function realTest(name, config, run) {
  test(name, { timeout: patience }, async () => {
    const models = await new ModelServer().start();
    const gateway = await new Gateway().start(typeof config === "function" ? config(models) : config);
    const browser = await launch();
    const received = [];
    const all = [];
    const pages = [];
    const open = async (route = "", options = {}) => {
      const { page, problems } = await newPage(browser, options);
      all.push(problems);
      pages.push(page);
      page.on(
        "response",
        (r) =>
          void r.text().then(
            (t) => received.push(t),
            () => {},
          ),
      );
      page.on("websocket", (w) => w.on("framereceived", (f) => received.push(String(f.payload))));
      await page.goto(gateway.link());
      await page.waitForSelector("#composer:not([disabled])");
      await signedIn(page);
      if (route) await page.goto(`http://127.0.0.1:${gateway.port}/${route}`);
      return page;
    };
    try {
      await run({ gateway, models, open });
      assert.deepEqual(all.flat(), []);
      assert.ok(!received.join("\n").includes(models.key), "a page received the key");
    } catch (e) {
      throw pages.length > 0 ? await told(e, pages.at(-1), gateway.log) : e;
    } finally {
      await browser.close();
      await gateway.stop();
      models.stop();
    }
  });
}

const withKey = (models) => ({
  agents: { defaults: { model: "small-1", provider: "custom" } },
  providers: { custom: { apiBase: models.base, apiKey: models.key } },
});

realTest(
  "setup by mouse: a wrong key says so, the right one leads to the first answer",
  {},
  async ({ gateway, models, open }) => {
    const page = await open();
    await page.getByRole("link", { name: "Set up a model" }).click();
    await page.getByRole("heading", { name: "Choose a model source" }).waitFor();
    await page.getByLabel("Another provider").click();
    await page.getByRole("combobox", { name: "Provider" }).selectOption("custom");
    await page.getByLabel("Base URL").fill(models.base);
    await page.getByLabel("API key, if the server needs one").fill("sk-wrong-9876543210");
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByText("The provider refused the key.").waitFor();
    await page.getByLabel("API key, if the server needs one").fill(models.key);
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByText("2 models.").waitFor();
    await page.getByText("128k tokens").waitFor();
    await page.getByLabel("large-1").click();
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByLabel("Daily limit in US dollars").fill("3");
    assert.ok(!gateway.text().includes(models.key), "nothing is saved before the last step");
    await page.getByRole("button", { name: "Save and start" }).click();
    await page.getByText("large-1").waitFor(); // the model of the new chat
    await until(
      "nothing to set up",
      async () => (await page.getByRole("link", { name: "Set up a model" }).count()) === 0,
    );
    assert.match(gateway.text(), /"dailyUsd": 3/);
    await send(page, "Hello?");
    await saying(page, models.answer).waitFor();
  },
);

realTest("setup by keyboard alone", {}, async ({ gateway, models, open }) => {
  const page = await open("#/setup");
  await page.getByRole("heading", { name: "Choose a model source" }).waitFor();
  const focused = () =>
    page.evaluate(() =>
      document.activeElement === document.body
        ? ""
        : (document.activeElement?.labels?.[0]?.innerText ?? document.activeElement?.innerText ?? ""),
    );
  const tabTo = async (name) => {
    for (let i = 0; i < 60; i++) {
      if ((await focused()).includes(name)) return;
      await page.keyboard.press("Tab");
    }
    throw new Error(`Tab does not reach ${name}`);
  };
  await tabTo("Another provider");
  await page.keyboard.press("Space");
  await tabTo("Provider");
  await page.keyboard.type("Other");
  await page.getByLabel("Base URL").waitFor();
  await tabTo("Base URL");
  await page.keyboard.type(models.base);
  await tabTo("API key");
  await page.keyboard.type(models.key);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Choose a model" }).and(page.locator(":focus")).waitFor();
  await tabTo("large-1");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Limit the costs" }).and(page.locator(":focus")).waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#composer:focus");
  await page.keyboard.type("Hello?");
  await page.keyboard.press("Enter");
  await saying(page, models.answer).waitFor();
  assert.match(gateway.text(), /"model": "small-1"/);
});

realTest("two tabs change the same setting: the second sees the difference", withKey, async ({ gateway, open }) => {
  const [a, b] = [await open("#/settings/models"), await open("#/settings/models")];
  await a.getByRole("spinbutton", { name: "Longest answer" }).fill("1111");
  await b.getByRole("spinbutton", { name: "Longest answer" }).fill("2222");
  await b.getByRole("spinbutton", { name: "Temperature" }).fill("0.5");
  // What was typed stays when the page shows another part, and nothing is saved.
  await b.getByRole("link", { name: "Web", exact: true }).click();
  await b.getByLabel("Results per search").waitFor();
  await b.getByRole("link", { name: "Models", exact: true }).click();
  await until(
    "the unsaved value",
    async () => (await b.getByRole("spinbutton", { name: "Longest answer" }).inputValue()) === "2222",
  );
  assert.ok(!gateway.text().includes("2222"));
  await a.getByRole("button", { name: "Save changes (1)" }).click();
  await a.locator(".toast", { hasText: "Saved." }).first().waitFor();
  await b.getByRole("button", { name: "Save changes (2)" }).click();
  await b.getByText("The configuration file has changed since you opened this page.").waitFor();
  const row = b.getByRole("row", { name: /Longest answer/ });
  assert.match(await row.innerText(), /1111\s+2222/);
  assert.ok(gateway.text().includes("1111"));
  await b.getByRole("button", { name: "Save mine anyway" }).click();
  await b.locator(".toast", { hasText: "Saved." }).first().waitFor();
  assert.ok(gateway.text().includes("2222") && gateway.text().includes("0.5"));
  await until(
    "the other tab",
    async () => (await a.getByRole("spinbutton", { name: "Longest answer" }).inputValue()) === "2222",
  );
});

realTest("an address opens the settings of one subject", withKey, async ({ open }) => {
  const page = await open("#/usage");
  await page.getByRole("link", { name: "Change the limits" }).click();
  await page.getByLabel("agents.defaults.budget.dailyUsd").waitFor();
  await until("the focus", () => page.evaluate(() => document.activeElement?.type === "search"));
  await until("only what was found", async () => (await page.getByLabel("agents.defaults.botName").count()) === 0);
});

realTest("a value that cannot be used is told at its field", withKey, async ({ gateway, open }) => {
  const page = await open("#/settings/models");
  const before = gateway.text();
  await page.getByRole("spinbutton", { name: "Temperature" }).fill("9");
  await page.getByRole("button", { name: "Save changes (1)" }).click();
  await page.locator(".setting", { hasText: "Temperature" }).getByRole("alert").waitFor();
  assert.equal(gateway.text(), before);
  await page.getByRole("button", { name: "Revert" }).click();
  await until(
    "the old value",
    async () => (await page.getByRole("spinbutton", { name: "Temperature" }).inputValue()) === "0.1",
  );
  // Every other setting is found by a word.
  await page.getByRole("link", { name: "All", exact: true }).click();
  await page.getByLabel("Search settings").fill("botName");
  await page.getByLabel("agents.defaults.botName").fill("Ada");
  await page.getByRole("button", { name: "Save changes (1)" }).click();
  await page.locator(".toast", { hasText: "Saved." }).first().waitFor();
  assert.match(gateway.text(), /"botName": "Ada"/);
});

realTest(
  "the text of the file: an error at its line, a hidden key that stays",
  withKey,
  async ({ gateway, models, open }) => {
    const page = await open("#/settings/raw");
    const area = page.getByLabel("Configuration file");
    const shown = await area.inputValue();
    assert.ok(shown.includes('"apiKey": "***"'));
    await area.fill(shown.replace('"model": "small-1",', '"model": "small-1"'));
    await page.getByRole("button", { name: "Save the file" }).click();
    const line = shown.split("\n").findIndex((l) => l.includes('"provider": "custom"')) + 1;
    await page.getByRole("button", { name: `Line ${line}`, exact: true }).click();
    await until("the line is selected", async () =>
      (await page.evaluate(() => getSelection().toString())).includes('"provider": "custom"'),
    );
    await area.fill(shown.replace('"small-1"', '"large-1"').replace("{", "{ // by hand"));
    await page.getByRole("button", { name: "Save the file" }).click();
    await page.locator(".toast", { hasText: "Saved." }).first().waitFor();
    assert.ok(
      gateway.text().includes("// by hand") &&
        gateway.text().includes("large-1") &&
        gateway.text().includes(models.key),
    );
  },
);

realTest("a version is compared and restored", withKey, async ({ gateway, models, open }) => {
  const page = await open("#/settings/models");
  const before = gateway.text();
  await page.getByRole("spinbutton", { name: "Longest answer" }).fill("1234");
  await page.getByRole("button", { name: "Save changes (1)" }).click();
  await page.locator(".toast", { hasText: "Saved." }).first().waitFor();
  await page.getByRole("link", { name: "Versions" }).click();
  await page.getByRole("button", { name: /^Compare/ }).click();
  await page.locator(".line-del", { hasText: "1234" }).waitFor();
  await page.getByRole("button", { name: "Restore this version" }).click();
  await until("the restore", () => gateway.text() === before);
  assert.ok(before.includes(models.key));
});

realTest("a rule is saved, and a call is tested against it", withKey, async ({ gateway, open }) => {
  const page = await open("#/settings/safety");
  await page.getByRole("button", { name: "Add a rule" }).click();
  await page.getByLabel("Text of rule 1").fill("git push");
  await page.getByLabel("Action of rule 1").selectOption("deny");
  await page.getByRole("checkbox", { name: "Run commands" }).uncheck(); // another section, which is saved on its own
  await page.locator("section", { hasText: "Add a rule" }).getByRole("button", { name: "Save changes (1)" }).click();
  await page.locator(".toast", { hasText: "Saved." }).first().waitFor();
  assert.match(gateway.text(), /"match": "git push"/);
  assert.doesNotMatch(gateway.text(), /"enable": false/);
  await page.getByRole("button", { name: "Save changes (1)" }).click();
  await until("the second save", () => /"enable": false/.test(gateway.text()));
  await page.getByRole("button", { name: "Save changes (1)" }).waitFor({ state: "detached" });
  await until("the new value", async () => !(await page.getByRole("checkbox", { name: "Run commands" }).isChecked()));
  await page.getByRole("checkbox", { name: "Run commands" }).check();
  await page.getByRole("button", { name: "Save changes (1)" }).click();
  await until("the third save", () => !/"enable": false/.test(gateway.text()));
  await page.getByRole("button", { name: "Test a call" }).click();
  await page.getByRole("button", { name: "Explain" }).click();
  await page.getByText("It would be refused.").waitFor();
});

for (const [look, options] of Object.entries(looks)) {
  realTest(`axe finds nothing in setup and settings: ${look}`, withKey, async ({ gateway, open }) => {
    const page = await open("#/setup", options);
    for (const where of [
      "setup",
      ...["models", "providers", "safety", "speech", "images", "web", "all", "raw", "versions"].map(
        (x) => "settings/" + x,
      ),
    ]) {
      await page.goto(`http://127.0.0.1:${gateway.port}/#/${where}`);
      await page.locator(".page h2").first().waitFor();
      await until("the end of loading", async () => (await page.getByText("Loading", { exact: false }).count()) === 0);
      await check(page, where);
    }
  });
}
