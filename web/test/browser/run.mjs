// Runs the browser tests, or says why not.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
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
  const { binary } = await import("../rig/gateway.mjs");
  process.env.NANOBOT_BIN = binary(); // built once
  const folder = fileURLToPath(new URL(".", import.meta.url));
  // The first look at a change takes three minutes, all specs take twelve.
  const quick = ["first", "signin", "chat", "guard", "tools"].map((n) => n + ".spec.mjs");
  const specs = readdirSync(folder)
    .filter((n) => n.endsWith(".spec.mjs") && (!process.argv.includes("--quick") || quick.includes(n)))
    .map((n) => folder + n);
  process.exit(
    spawnSync(process.execPath, ["--test", "--test-concurrency=2", "--test-reporter=spec", ...specs], {
      stdio: "inherit",
    }).status ?? 1,
  );
}
