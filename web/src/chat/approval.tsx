// A question of the agent, with its answers. The card never takes the focus and
// ignores clicks in its first half second: it may appear under a click that was
// meant for something else.
import { useEffect, useRef, useState } from "preact/hooks";
import { shortTime, t } from "../i18n";
import { t as tt } from "../i18n/tools";
import type { QuestionItem } from "../state/items";
import { answer, link, request, serverNow } from "../state/store";
import { fail, toast } from "../state/toast";
import { dense, visible } from "../text/links";
import { Icon } from "../ui/icon";
import { MenuButton } from "../ui/menu";
import type { Detail } from "../wire/types";
import { Lines } from "./diff";
import { lines, pretty } from "./tool";

const calm = 500;

/** optionLabel is what a button says. The answers to an approval are the same everywhere. */
export function optionLabel(option: string): string {
  switch (option) {
    case "yes":
      return t("ask.yes");
    case "no":
      return t("ask.no");
    case "turn":
      return t("ask.turn");
    case "session":
      return t("ask.session");
    case "always":
      return tt("approve.always");
    default:
      return visible(option);
  }
}

const titled = ["exec", "write_file", "edit_file", "apply_patch", "message", "cron"] as const;

function titleOf(item: QuestionItem): string {
  const d = item.detail;
  if (item.code === undefined) return t("ask.question");
  if (!d) return t("ask.title");
  if (d.host) return tt("approve.host", { host: visible(d.host) });
  const known = titled.find((x) => x === d.tool);
  return known ? tt(`value.ask.${known}`) : tt("value.ask.other", { name: visible(d.tool) });
}

/** Approval has no chat if the question was asked on another channel. */
export function Approval({ item, chat }: { item: QuestionItem; chat?: string }) {
  const asked = item.state === "open" && (chat !== undefined || item.code !== undefined); // others are answered by a message there
  return asked ? <Card key={item.id} item={item} chat={chat} /> : <Closed item={item} />;
}

/** Closed is one line: what became of the question. */
function Closed({ item }: { item: QuestionItem }) {
  const plain = item.code === undefined;
  const option = item.option === undefined ? "" : plain ? visible(item.option) : optionLabel(item.option);
  const said =
    item.state === "sent"
      ? t("ask.sent", { option })
      : item.state === "answered" && option
        ? t("ask.answered", { option })
        : (item.why ?? tt("approve.unanswered"));

  return (
    <details class="tool asked-before">
      <summary>
        <Icon name="chevron" class="chevron" />
        <span class="what">{plain ? t("ask.question") : tt("approve.closed")}</span>
        <span class="what flex">{said}</span>
        {item.remark && <q>{visible(item.remark)}</q>}
      </summary>
      <div class="asked part">{lines(item.text)}</div>
    </details>
  );
}

function Card({ item, chat }: { item: QuestionItem; chat?: string }) {
  const since = useRef(performance.now());
  const remark = useRef<HTMLInputElement>(null);
  const [sent, setSent] = useState(false);
  const open = link.value.state === "open";
  useEffect(() => setSent(false), [open]); // an answer may be lost with its connection
  const title = titleOf(item);
  const say = (option: string) => {
    if (sent || performance.now() - since.current < calm) return;
    const words = remark.current?.value.trim() ?? "";
    if (chat === undefined)
      request("approval.answer", { question_id: item.id, option, remark: words }).catch(
        (e: unknown) => (setSent(false), fail(e)),
      );
    else if (!answer(chat, item.id, option, words)) return toast(t("ask.offline"), true);
    setSent(true);
  };

  const approval = item.code !== undefined;
  const key = (e: KeyboardEvent) => {
    if (e.target !== e.currentTarget || e.ctrlKey || e.metaKey || e.altKey || !approval) return;
    const option = e.key === "y" ? "yes" : e.key === "n" ? "no" : "";
    if (!item.options.includes(option)) return;
    e.stopPropagation();
    e.preventDefault();
    say(option);
  };

  // An approval: deny, the narrowest yes, and a menu of those that last.
  const first = item.options.find((o) => o !== "no");
  const more = item.options.filter((o) => o !== "no" && o !== first);

  return (
    <section
      class="approval"
      tabIndex={0}
      aria-label={title}
      aria-keyshortcuts={approval ? "y n" : undefined}
      onKeyDown={key}
    >
      <h3>
        {title}
        {item.expires && <Left until={item.expires} />}
      </h3>
      {item.detail ? (
        <Facts detail={item.detail} text={item.text} />
      ) : (
        <div class="asked" tabIndex={0}>
          {lines(item.text)}
        </div>
      )}
      {approval ? (
        <>
          <label class="field remark">
            <span>{t("ask.remark")}</span>
            <input ref={remark} class="input" maxLength={2000} />
          </label>
          <div class="row">
            {item.options.includes("no") && (
              <button type="button" class="button" disabled={sent} onClick={() => say("no")}>
                {optionLabel("no")}
              </button>
            )}
            {first && (
              <button type="button" class="button" disabled={sent} onClick={() => say(first)}>
                {optionLabel(first)}
              </button>
            )}
            {more.length > 0 && (
              <MenuButton
                label={tt("approve.more")}
                text={tt("approve.more")}
                actions={more.map((o) => ({ label: optionLabel(o), run: () => say(o) }))}
              />
            )}
          </div>
          <p class="hint keys">{tt("approve.keys")}</p>
        </>
      ) : (
        <div class="row">
          {item.options.map((o) => (
            <button type="button" class="button" disabled={sent} onClick={() => say(o)}>
              {visible(o)}
            </button>
          ))}
        </div>
      )}
    </section>
  );
}

/** asked is a text to decide about: nothing in it can be scrolled out of sight by empty space. */
function asked(text: string): string {
  return dense(text, { spaces: (n) => tt("approve.spaces", { n }), empty: (n) => tt("approve.empty", { n }) });
}

/** Facts show the call that is asked about, whole. */
function Facts({ detail: d, text }: { detail: Detail; text: string }) {
  const args =
    typeof d.arguments === "object" && d.arguments !== null ? (d.arguments as Record<string, unknown>) : undefined;
  const rest = args && Object.keys(args).length > 0 ? asked(pretty("", args)) : "";
  const network =
    d.network === "host" || d.network === "proxy" || d.network === "none"
      ? tt(`value.network.${d.network}`)
      : d.network;
  const command = d.command !== undefined || d.tool === "exec";

  return (
    <>
      {d.command && (
        <pre class="output box" tabIndex={0} aria-label={tt("approve.command")}>
          {lines(asked(d.command))}
        </pre>
      )}
      {d.diff ? (
        <Lines diff={d.diff} />
      ) : (
        rest && (
          <pre class="output box" tabIndex={0} aria-label={tt("approve.arguments")}>
            {rest}
          </pre>
        )
      )}
      {d.reason && <p>{tt("approve.reason", { reason: visible(d.reason) })}</p>}
      {d.untrusted?.length ? (
        <p class="outside">
          {tt("approve.read", {
            what: d.untrusted.map((r) => `${visible(r.what)} (${shortTime(r.at)})`).join(tt("tools.and")),
          })}
        </p>
      ) : null}
      <dl class="facts">
        {d.folder && <dt>{tt("approve.in")}</dt>}
        {d.folder && <dd>{visible(d.folder)}</dd>}
        {!command && d.paths?.length ? <dt>{tt("approve.files")}</dt> : null}
        {!command && d.paths?.length ? <dd>{d.paths.map(visible).join(" ")}</dd> : null}
        {command && <dt>{tt("approve.sandbox")}</dt>}
        {command && <dd>{d.sandbox ? tt("approve.yes") : tt("approve.no")}</dd>}
        {command && network && <dt>{tt("approve.network")}</dt>}
        {command && network && <dd>{network}</dd>}
      </dl>
      {d.covers && <p class="hint">{tt("approve.covers", { covers: visible(d.covers) })}</p>}
      <details class="whole">
        <summary class="hint">{tt("approve.whole")}</summary>
        <div class="asked" tabIndex={0}>
          {lines(text)}
        </div>
      </details>
    </>
  );
}

function Left({ until }: { until: string }) {
  const [now, setNow] = useState(serverNow());
  useEffect(() => {
    const timer = setInterval(() => setNow(serverNow()), 1000);
    return () => clearInterval(timer);
  }, []);
  const s = Math.max(0, Math.round((Date.parse(until) - now) / 1000));
  return (
    <span class="left">{t("ask.left", { time: `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")}` })}</span>
  );
}
