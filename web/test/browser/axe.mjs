// What axe finds on a page, whether the page fits its window, and whether a person can
// see and press its buttons.
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
  await page.evaluate(() =>
    Promise.all(
      document
        .getAnimations()
        .filter((a) => a.effect?.getComputedTiming().endTime !== Infinity)
        .map((a) => a.finished.catch(() => {})),
    ),
  );
  const found = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
    });
    return violations.map(
      (v) =>
        `${v.id}: ${v.nodes
          .map((n) => n.target.join(" "))
          .slice(0, 3)
          .join(", ")}`,
    );
  });
  assert.deepEqual(found, [], where);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth + 1);
  assert.equal(wide, false, `${where} is wider than the window`);
  assert.deepEqual(await page.evaluate(unusable), [], `${where} has buttons that a person cannot see or press`);
}

/** unusable runs on the page: buttons that are faint, narrower than their words, or
 *  covered. Of an open dialog, all others are behind it. A button may appear when the
 *  pointer or the focus comes to it. */
function unusable() {
  const top = [...document.querySelectorAll("dialog[open]")].pop() ?? document.querySelector(".menu") ?? document.body;
  const buttons = top.querySelectorAll("button, [role=button], a.button, input[type=submit]");
  const opacity = (e) => (e ? Number(getComputedStyle(e).opacity) * opacity(e.parentElement) : 1);
  const problems = [];
  for (const b of buttons) {
    if (
      !b.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true }) ||
      b.closest("[inert]") ||
      b.closest("details:not([open])")
    )
      continue;
    const name = (b.getAttribute("aria-label") || b.innerText || b.className).trim().slice(0, 60);
    b.scrollIntoView({ block: "nearest", inline: "nearest" });
    const r = b.getBoundingClientRect();
    if (r.width === 0 || r.height === 0) {
      problems.push(`${name}: has no size`);
      continue;
    }
    const hidden = opacity(b) < 0.99;
    const before = document.activeElement;
    if (hidden) b.focus({ preventScroll: true });
    if (opacity(b) < 0.99 && !b.disabled) problems.push(`${name}: has the opacity ${opacity(b)}`);
    if (b.scrollWidth > Math.ceil(b.clientWidth) + 1 && getComputedStyle(b).textOverflow !== "ellipsis")
      problems.push(`${name}: is ${b.clientWidth} px wide, its text ${b.scrollWidth}`);
    const hit = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2);
    if (!hit || !(b.contains(hit) || (hit.contains(b) && hit.closest("label, button, a"))))
      problems.push(`${name}: at its centre is ${hit ? hit.tagName + "." + hit.className : "nothing"}`);
    if (hidden) before?.focus?.({ preventScroll: true });
  }
  return problems;
}
