// Differences of memory files. Signs say what colours say.
import { t } from "../../i18n/memory";
import { visible } from "../../text/links";
import { around } from "../../text/linediff";
import type { DiffLine } from "../../text/linediff";

const signs = { same: "  ", add: "+ ", del: "- " };

export function LineDiff({ lines }: { lines: DiffLine[] }) {
  return (
    <pre class="output diff" tabIndex={0} role="region" aria-label={t("memory.diff")}>
      {around(lines).map((l, n) => (
        <span key={n} class={l ? `line-${l.kind}` : "line-same"}>
          {l ? signs[l.kind] + visible(l.text) : "⋯"}
        </span>
      ))}
    </pre>
  );
}

/** PatchView shows a unified diff of the gateway. */
export function PatchView({ diff }: { diff: string }) {
  return (
    <pre class="output diff" tabIndex={0} role="region" aria-label={t("memory.diff")}>
      {diff
        .replace(/\n$/, "")
        .split("\n")
        .map((l, n) => (
          <span key={n} class={/^\+(?!\+\+ )/.test(l) ? "line-add" : /^-(?!-- )/.test(l) ? "line-del" : "line-same"}>
            {visible(l) || " "}
          </span>
        ))}
    </pre>
  );
}
