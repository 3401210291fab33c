// A question of the agent, with its answers. The card never takes the focus and
// ignores clicks in its first half second: it may appear under a click that was
// meant for something else.
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../i18n";
import type { QuestionItem } from "../state/items";
import { answer, serverNow } from "../state/store";
import { toast } from "../state/toast";
import { visible } from "../text/links";

const calm = 500;

/** label is what a button says. The answers to an approval are the same everywhere. */
function label(item: QuestionItem, option: string): string {
  if (item.code === undefined) return visible(option);
  switch (option) {
    case "yes":
      return t("ask.yes");
    case "no":
      return t("ask.no");
    case "turn":
      return t("ask.turn");
    case "session":
      return t("ask.session");
    default:
      return visible(option);
  }
}

export function Approval({ item, chat }: { item: QuestionItem; chat: string }) {
  const title = item.code === undefined ? t("ask.question") : t("ask.title");
  const since = useRef(performance.now());
  const remark = useRef<HTMLInputElement>(null);
  if (item.state !== "open") {
    const option = item.option === undefined ? "" : label(item, item.option);
    const said = item.state === "sent" ? t("ask.sent", { option }) : item.state === "answered" && option ? t("ask.answered", { option }) : (item.why ?? t("ask.gone"));
    return (
      <section class="approval closed" aria-label={title}>
        <div class="asked">{lines(item.text)}</div>
        <p class="hint">{said}</p>
      </section>
    );
  }
  const say = (option: string) => {
    if (performance.now() - since.current < calm) return;
    if (!answer(chat, item.id, option, remark.current?.value.trim() ?? "")) toast(t("ask.offline"), true);
  };
  const key = (e: KeyboardEvent) => {
    if (e.target !== e.currentTarget || e.ctrlKey || e.metaKey || e.altKey) return;
    const option = item.options.find((o) => o.toLowerCase().startsWith(e.key));
    if (option !== undefined && (e.key === "y" || e.key === "n")) {
      e.stopPropagation();
      say(option);
    }
  };
  return (
    <section class="approval" tabIndex={0} aria-label={title} onKeyDown={key}>
      <h3>
        {title}
        {item.expires && <Left until={item.expires} />}
      </h3>
      <div class="asked" tabIndex={0}>{lines(item.text)}</div>
      {item.code !== undefined && (
        <label class="field remark">
          <span>{t("ask.remark")}</span>
          <input ref={remark} class="input" maxLength={2000} />
        </label>
      )}
      <div class="row">
        {item.options.map((o) => (
          <button type="button" class="button" onClick={() => say(o)}>{label(item, o)}</button>
        ))}
      </div>
    </section>
  );
}

const lines = (s: string) => s.split("\n").map(visible).join("\n");

function Left({ until }: { until: string }) {
  const [now, setNow] = useState(serverNow());
  useEffect(() => {
    const timer = setInterval(() => setNow(serverNow()), 1000);
    return () => clearInterval(timer);
  }, []);
  const s = Math.max(0, Math.round((Date.parse(until) - now) / 1000));
  return <span class="left">{t("ask.left", { time: `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")}` })}</span>;
}
