// What axe finds on a page, and whether the page fits its window.
// Every page is checked in each of these looks.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const source = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const looks = {
  light: {},
  dark: { colorScheme: "dark" },
  "forced colours": { forcedColors: "active" },
  "320 px": { viewport: { width: 320, height: 640 } },
  "text at 200 %": { text: 2 },
  Chinese: { locale: "zh-CN" },
};

export async function check(page, where) {
  await page.evaluate(source);
  // Colours are those of the end: what fades in has others on its way.
  await page.evaluate(() => Promise.all(document.getAnimations().filter((a) => a.effect?.getComputedTiming().endTime !== Infinity).map((a) => a.finished.catch(() => {}))));
  const found = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] });
    return violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(" ")).slice(0, 3).join(", ")}`);
  });
  assert.deepEqual(found, [], where);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth + 1);
  assert.equal(wide, false, `${where} is wider than the window`);
}
