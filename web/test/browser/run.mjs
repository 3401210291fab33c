// Runs the browser tests, or says why not.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

let reason = "";
try {
  const { executable } = await import("./browser.mjs");
  if (!executable) reason = "Chromium is missing";
} catch {
  reason = "playwright-core is missing: run npm ci in web";
}
if (reason) {
  console.log(`${reason}: the browser tests of the pages are left out`);
} else {
  const specs = ["signin", "chat", "hostile", "access"].map((n) => fileURLToPath(new URL(`${n}.spec.mjs`, import.meta.url)));
  process.exit(spawnSync(process.execPath, ["--test", "--test-concurrency=1", "--test-reporter=spec", ...specs], { stdio: "inherit" }).status ?? 1);
}
