// A difference between two texts.
import { t } from "../../i18n/settings";
import { visible } from "../../text/links";

export function DiffText({ text }: { text: string }) {
  const lines = text.split("\n").filter((l) => !/^(---|\+\+\+) /.test(l));
  return (
    <pre class="output diff" tabIndex={0} role="region" aria-label={t("settings.diff")}>
      {lines.map((l) => (
        <span class={l.startsWith("+") ? "line-add" : l.startsWith("-") ? "line-del" : "line-same"}>
          {visible(l) || " "}
        </span>
      ))}
    </pre>
  );
}
