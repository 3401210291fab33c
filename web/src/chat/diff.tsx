// The changes of a file.
import type { Edit } from "../wire/types";
import { visible } from "../text/links";

export function Diff({ edit }: { edit: Edit }) {
  return (
    <div class="part">
      <h4>
        {visible(edit.path)} {edit.added !== undefined && <span class="add">+{edit.added}</span>} {edit.deleted !== undefined && <span class="del">−{edit.deleted}</span>}
      </h4>
      {edit.diff && (
        <pre class="output diff" tabIndex={0}>
          {edit.diff.split("\n").map((l) => (
            <span class={l.startsWith("+") ? "line-add" : l.startsWith("-") ? "line-del" : "line-same"}>{l || " "}</span>
          ))}
        </pre>
      )}
    </div>
  );
}
