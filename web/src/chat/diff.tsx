// Changes of files, line by line.
import { useState } from "preact/hooks";
import { t } from "../i18n/tools";
import { visible } from "../text/links";

const most = 400; // lines that are shown at once

export function Diff({
  path,
  added,
  deleted,
  diff,
}: {
  path?: string;
  added?: number;
  deleted?: number;
  diff?: string;
}) {
  return (
    <div class="part">
      {path !== undefined && (
        <h4>
          {visible(path)} {added !== undefined && <span class="add">+{added}</span>}{" "}
          {deleted !== undefined && <span class="del">−{deleted}</span>}
        </h4>
      )}
      {diff && <Lines diff={diff} />}
    </div>
  );
}

function classOf(line: string, at: number, list: readonly string[]): string {
  // A deleted line may begin with dashes as well: names of files come in pairs.
  if (
    (line.startsWith("--- ") && list[at + 1]?.startsWith("+++ ")) ||
    (line.startsWith("+++ ") && list[at - 1]?.startsWith("--- "))
  )
    return "line-file";
  switch (line[0]) {
    case "+":
      return "line-add";
    case "-":
      return "line-del";
    case "@":
      return "line-at";
    default:
      return "line-same";
  }
}

export function Lines({ diff }: { diff: string }) {
  const [all, setAll] = useState(false);
  const list = diff.replace(/\n$/, "").split("\n");
  return (
    <>
      <pre class="output diff" tabIndex={0}>
        {(all ? list : list.slice(0, most)).map((l, i) => (
          <span class={classOf(l, i, list)}>{visible(l) || " "}</span>
        ))}
      </pre>
      {!all && list.length > most && (
        <button type="button" class="button" onClick={() => setAll(true)}>
          {t("tools.rest", { n: list.length })}
        </button>
      )}
    </>
  );
}
