// A conversation: header, messages, composer.
import type { ComponentType } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../i18n";
import type { Thread } from "../state/items";
import {
  chatOf,
  fresh,
  gateway,
  isTemporary,
  open,
  openPart,
  partOf,
  says,
  seen,
  sessions,
  temporaries,
  thread,
} from "../state/store";
import { fail } from "../state/toast";
import { label, visible } from "../text/links";
import { Icon } from "../ui/icon";
import { kept } from "../wire/api";
import type { Goal } from "../wire/types";
import { Bar } from "../pages/bar";
import { Meter } from "../pages/meter";
import { Composer } from "./composer";
import { ThreadView } from "./thread";

export function titleOf(key: string): string {
  const s = sessions.value?.find((x) => x.key === key);
  if (isTemporary(key)) return t("chats.temporary.title");
  return label(s?.title || thread(key).value.title || s?.preview || "") || t("chats.untitled");
}

export function Chat({ id, at }: { id: string; at?: number }) {
  const chat = chatOf(id);
  const whole = thread(id).value;
  const state = whole.frozen ? { ...whole, items: whole.frozen } : whole;
  const part = at === undefined ? undefined : partOf(id, at);
  const shown = part === undefined ? state : thread(part).value;
  const signedIn = gateway.value?.signed_in;
  useEffect(() => {
    if (!signedIn) return;
    open(id);
    if (at !== undefined) void openPart(id, at);
  }, [id, at, signedIn]);

  useSeen(id);
  useAnnounce(id, state);

  return (
    <>
      <Bar title={titleOf(id)}>
        {chat !== undefined && !isTemporary(id) ? (
          <Chosen chat={chat} thread={state} />
        ) : (
          state.model && <span class="model">{visible(state.model)}</span>
        )}
        <Meter />
      </Bar>
      {state.goal?.active && <GoalLine goal={state.goal} />}
      {shown.items.length === 0 && shown.loaded && part === undefined ? (
        <Welcome id={id} missing={state.missing === true && id !== fresh.value} demo={state.model === demoModel} />
      ) : (
        <ThreadView key={part ?? id} id={part ?? id} chat={chat ?? ""} thread={shown} at={at} />
      )}
      <Below id={id} state={state} />
    </>
  );
}

/** Nowhere is what an address of no page shows. */
export function Nowhere({ text }: { text: string }) {
  return (
    <>
      <Bar title={t("app.nowhere.title")} />
      <div class="thread">
        <div class="welcome" role="status">
          <h2>{t("app.nowhere.title")}</h2>
          <p>{text}</p>
          <p>
            <a class="button primary" href="#/">
              {t("chats.new")}
            </a>
          </p>
        </div>
      </div>
    </>
  );
}

/** Below is the composer, or why there is none. */
function Below({ id, state }: { id: string; state: Thread }) {
  const chat = chatOf(id);
  if (id.startsWith("unified:")) return <p class="read-only">{t("chat.unified")}</p>;
  if (chat === undefined) return <p class="read-only">{t("chat.readonly", { channel: visible(id.split(":")[0]!) })}</p>;
  if (isTemporary(id) && !temporaries.value.includes(id)) return <p class="read-only">{t("chats.temporary.over")}</p>;
  return (
    <Composer key={id} chat={chat} draftKey={id === fresh.value ? "new" : id} running={state.running !== undefined} />
  );
}

/** useSeen says that new answers were shown, once the person can see them. */
function useSeen(id: string) {
  const key = kept.get(id) ?? id;
  const unread = sessions.value?.find((s) => s.key === key)?.unread ?? 0;
  useEffect(() => {
    if (unread === 0) return;
    const tell = () => document.hidden || seen(key);
    tell();
    addEventListener("visibilitychange", tell);
    return () => removeEventListener("visibilitychange", tell);
  }, [key, unread]);
}

/** Chosen shows the model of a conversation and opens its options. */
function Chosen({ chat, thread: state }: { chat: string; thread: Thread }) {
  const [View, setView] = useState<
    { is: ComponentType<{ chat: string; thread: Thread; onClose(): void }> } | undefined
  >(undefined);
  const name = state.preset?.replace(/^model /, "") || state.model || t("chat.options");
  return (
    <>
      <button
        type="button"
        class="button plain model"
        aria-haspopup="dialog"
        title={t("chat.options")}
        onClick={() => import("./options").then((m) => setView({ is: m.Options }), fail)}
      >
        <span class="name">{visible(name)}</span>
        <Icon name="chevron" class="turned" />
      </button>
      {View && <View.is chat={chat} thread={state} onClose={() => setView(undefined)} />}
    </>
  );
}

function GoalLine({ goal }: { goal: Goal }) {
  return (
    <p class="goal" role="status">
      <strong>{t("chat.goal")}</strong> <span class="name">{visible(goal.ui_summary || goal.objective || "")}</span>
      {goal.rounds ? <span class="hint">{t("chat.goal.round", { n: goal.rounds })}</span> : null}
    </p>
  );
}

/** demoModel is what the gateway calls its built-in demo. */
const demoModel = "demo (not an AI)";

function Welcome({ id, missing, demo }: { id: string; missing: boolean; demo: boolean }) {
  if (missing && !isTemporary(id)) {
    return (
      <div class="thread">
        <div class="welcome" role="status">
          <h2>{t("app.nowhere.title")}</h2>
          <p>{t("chat.nowhere")}</p>
          <p>
            <a class="button" href="#/">
              {t("chats.new")}
            </a>
          </p>
        </div>
      </div>
    );
  }
  return (
    <div class="thread">
      <div class="welcome">
        <h2>{t("chat.empty.title")}</h2>
        <p>{isTemporary(id) ? t("chats.temporary.text") : t("chat.empty.text")}</p>
        {demo && (
          <p>
            {t("chat.empty.demo")} <a href="#/setup">{t("chat.empty.setup")}</a>
          </p>
        )}
      </div>
    </div>
  );
}

// Screen readers hear finished paragraphs of the answer and the states of a
// turn, not every character.
function useAnnounce(id: string, state: Thread) {
  const heard = useRef({ chat: "", id: "", length: 0, running: false });
  const running = state.running !== undefined;
  // Calls and the line below the turn may follow the text in the same frame.
  const last = state.items.findLast((i) => i.kind === "text" || i.kind === "user");
  useEffect(() => {
    const h = heard.current;
    if (h.chat !== id) Object.assign(h, { chat: id, id: "", length: 0, running }); // another conversation is not news
    let said = "";
    if (last?.kind === "text") {
      const name = last.id.split("@")[0];
      if (name !== h.id) Object.assign(h, { id: name, length: running || h.running ? 0 : last.text.length });
      const end = last.open ? last.text.lastIndexOf("\n\n") : last.text.length;
      said = last.text.slice(h.length, Math.max(h.length, end)).slice(0, 2000);
      h.length = Math.max(h.length, end);
    }

    if (running !== h.running) {
      h.running = running;
      said = running ? `${t("chat.working")} ${said}` : `${said}\n${t("chat.done")}`;
    }
    if (said) says.value = said;
  }, [id, last, running]);
}
