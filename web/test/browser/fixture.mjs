// A page on a scripted gateway, for one test.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Stub } from "../rig/stub.mjs";
import { launch, newPage } from "./browser.mjs";

let browser;

export function useBrowser() {
  before(async () => {
    browser = await launch();
  });
  after(() => browser.close());
}

/** pageTest runs a test with a page and a gateway of its own; it fails if the
 *  page reported anything. */
export function pageTest(name, run, options = {}) {
  test(name, { timeout: 180_000 }, async () => {
    const stub = await new Stub().start();
    const { page, context, problems } = await newPage(browser, options);
    try {
      await run({ page, stub, context, problems });
      assert.deepEqual(problems, []);
    } finally {
      await context.close();
      stub.stop();
    }
  });
}

export const said = (page) => page.locator(".list").innerText();

/** until waits for a state, never for a time. */
export async function until(what, check) {
  const end = Date.now() + 60_000;
  while (!(await check())) {
    if (Date.now() > end) throw new Error(`${what} did not happen`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

export async function send(page, text) {
  await page.fill("#composer", text);
  await page.press("#composer", "Enter");
}
