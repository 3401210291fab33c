// The system's Chromium, and a page that fails the test on any report of the
// security policy or uncaught error.
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const places = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
export const executable = places.find((p) => p && existsSync(p));

export const launch = () =>
  chromium.launch({
    executablePath: executable,
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });

export async function newPage(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, locale: "en-US", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const problems = [];
  page.on("pageerror", (e) => problems.push(String(e)));
  page.on("console", (m) => m.type() === "error" && !/WebSocket|Failed to load resource/.test(m.text()) && problems.push(m.text()));
  page.on("request", (q) => !q.url().startsWith("http://127.0.0.1") && !q.url().startsWith("ws://127.0.0.1") && !/^(data|blob|about):/.test(q.url()) && problems.push("request to " + q.url()));
  return { page, context, problems };
}
