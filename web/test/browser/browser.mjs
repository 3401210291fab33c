// The system's Chromium, and a page that fails the test on any report of the
// security policy or uncaught error.
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const places = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
export const executable = places.find((p) => p && existsSync(p));

/** patience is how long a test may take on a slow machine, wait how long one step of it. */
export const patience = 600_000;
export const wait = 30_000;

export const launch = () =>
  chromium.launch({
    executablePath: executable,
    timeout: wait,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });

/** newPage: text is how large text is, for people who make all of it larger. */
export async function newPage(browser, { text = 1, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, locale: "en-US", ...options });
  if (text !== 1) {
    // Constructed styles are no inline styles: the policy allows them.
    await context.addInitScript((n) => {
      const s = new CSSStyleSheet();
      s.replaceSync(`html { font-size: ${n * 100}% }`);
      document.adoptedStyleSheets = [s];
    }, text);
  }
  context.setDefaultTimeout(wait); // of all its pages
  const page = await context.newPage();
  const problems = [];
  page.on("pageerror", (e) => problems.push(String(e)));
  page.on(
    "console",
    (m) => m.type() === "error" && !/WebSocket|Failed to load resource/.test(m.text()) && problems.push(m.text()),
  );
  page.on(
    "request",
    (q) =>
      !/^((https?|wss?):\/\/127\.0\.0\.1|data:|blob:|about:)/.test(q.url()) && problems.push("request to " + q.url()),
  );
  return { page, context, problems };
}
