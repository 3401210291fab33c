// The line below a turn.
import { count, money, t } from "../i18n";
import { t as tt } from "../i18n/tools";
import type { EndItem } from "../state/items";
import { showDiff, undoing } from "../state/panel";
import { markUndone } from "../state/undo";
import { visible } from "../text/links";
import { ReplayLink } from "./replaylink";

/** price is what a turn cost, as far as that can be said. */
function price(usage: EndItem["usage"]): string {
  const cost = usage?.cost_usd ?? 0;
  if (cost > 0) return money(cost);
  switch (usage?.billing) {
    case "free":
    case "subscription":
    case "unknown":
      return tt(`value.billing.${usage.billing}`);
    default:
      return "";
  }
}

/** Spent is what a turn used. */
export function Spent({ usage }: { usage: EndItem["usage"] }) {
  const tokens = (usage?.prompt_tokens ?? 0) + (usage?.completion_tokens ?? 0);
  const cost = price(usage);
  return (
    <>
      {tokens > 0 && <span>{t("end.tokens", { n: count(tokens) })}</span>}
      {cost && <span>{cost}</span>}
    </>
  );
}

export function Footer({ item }: { item: EndItem }) {
  return (
    <footer class="footer">
      {item.ms !== undefined && (
        <span>
          {t("end.seconds", { n: item.ms < 10_000 ? (item.ms / 1000).toFixed(1) : Math.round(item.ms / 1000) })}
        </span>
      )}
      <Spent usage={item.usage} />
      {item.model && (
        <span>{item.fallback ? tt("footer.fallback", { model: visible(item.model) }) : visible(item.model)}</span>
      )}
      {(item.stop === "stopped" || item.stop === "cancelled") && <span>{t("end.stopped")}</span>}
      <ReplayLink turn={item.turn} />
      {item.error && <span class="bad">{t("end.error", { why: item.error })}</span>}
      {item.undo && item.files ? <Changes id={item.undo} undone={item.undone} files={item.files} /> : null}
    </footer>
  );
}

function Changes({ id, undone, files }: { id: string; undone?: string; files: number }) {
  return (
    <>
      <span>{files === 1 ? tt("footer.files.one") : tt("footer.files", { n: files })}</span>
      <button type="button" class="button" data-key="d" onClick={() => showDiff(id)}>
        {tt("footer.diff")}
      </button>
      {undone ? (
        <>
          <strong>{tt("footer.undone")}</strong>
          <button
            type="button"
            class="button"
            onClick={() => (undoing.value = { id: undone, done: () => markUndone(id, undefined) })}
          >
            {tt("footer.redo")}
          </button>
        </>
      ) : (
        <button
          type="button"
          class="button"
          data-key="u"
          onClick={() => (undoing.value = { id, done: (by) => markUndone(id, by) })}
        >
          {tt("footer.undo")}
        </button>
      )}
    </>
  );
}
