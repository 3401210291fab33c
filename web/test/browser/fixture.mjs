// A page on a scripted gateway, for one test.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { Rig } from "../rig/rig.mjs";
import { Stub } from "../rig/stub.mjs";
import { launch, newPage, patience, wait } from "./browser.mjs";

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
  test(name, { timeout: patience }, async () => {
    const stub = await new Stub().start();
    const { page, context, problems } = await newPage(browser, options);
    try {
      await run({ page, stub, context, problems });
      assert.deepEqual(problems, []);
    } catch (e) {
      throw await told(e, page);
    } finally {
      await context.close();
      stub.stop();
    }
  });
}

/** told is an error that says what the page showed and what the gateway wrote. */
export async function told(e, page, log = "") {
  const seen = await page.evaluate(() => document.body.innerText).catch(String);
  e.stack += `\n--- ${page.url()}\n${seen.slice(-1500)}\n--- ${log.slice(-1500)}`;
  return e;
}

/** useListener is a server on another port that nothing may ask. */
export function useListener() {
  const l = { asked: [], url: "" };
  const server = createServer((q, r) => {
    l.asked.push(q.url);
    r.writeHead(404).end();
  });
  before(async () => {
    await new Promise((done) => server.listen(0, "127.0.0.1", done));
    l.url = `http://localhost:${server.address().port}/`;
  });
  after(() => server.close());
  return l;
}

let rig;

/** useRig starts the real gateway once for all tests of a file. */
export function useRig(options) {
  useBrowser();
  before(async () => {
    rig = await Rig.start(options);
  });
  after(() => rig?.stop());
}

/** rigTest runs a test with a page that is signed in to the real gateway; it
 *  fails if the page reported anything. */
export function rigTest(name, run, { signIn = true, timeout = patience, ...options } = {}) {
  test(name, { timeout }, async () => {
    const { page, context, problems } = await newPage(browser, { ignoreHTTPSErrors: true, ...options });
    try {
      if (signIn) await rig.signIn(page);
      await run({ page, rig, context, problems, browser });
      assert.deepEqual(problems, []);
    } catch (e) {
      if (process.env.SHOTS)
        await page.screenshot({ path: `${process.env.SHOTS}/${name.replace(/\W+/g, "-")}.png` }).catch(() => {});
      throw await told(e, page, rig.gateway?.log);
    } finally {
      await context.close();
    }
  });
}

/** sharedRig is the rig of the file, for tests with a browser of their own. */
export const sharedRig = async () => ({ rig });

/** newChat opens an empty conversation. */
export async function newChat(page) {
  await page.evaluate(() => (location.hash = "#/"));
  await page.locator(".welcome").waitFor();
}

/** ended waits for the end of the newest turn, and until all of it is on the screen. */
export async function ended(page, turns = 1) {
  const none = async (what) => (await what.count()) === 0;
  await until(
    "the end of the turn",
    async () =>
      (await page.locator(".footer").count()) >= turns &&
      (await none(page.getByRole("button", { name: "Stop" }))) &&
      (await none(page.locator(".md[aria-busy=true]"))),
  );
}

export const said = (page) => page.locator(".list").innerText();

/** saying is the message with a text, not what a screen reader is told of it. */
export const saying = (page, text) => page.locator(".list").getByText(text);

/** until waits for a state, never for a time. */
export async function until(what, check) {
  const end = Date.now() + wait;
  while (!(await check())) {
    if (Date.now() > end) throw new Error(`${what} did not happen`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

export async function send(page, text) {
  await page.fill("#composer", text);
  await page.press("#composer", "Enter");
}
