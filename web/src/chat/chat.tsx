// A conversation: header, messages, composer.
import { useEffect, useRef } from "preact/hooks";
import { t } from "../i18n";
import type { Thread } from "../state/items";
import { chatOf, fresh, gateway, open, says, sessions, thread } from "../state/store";
import { label, visible } from "../text/links";
import { Bar } from "../pages/bar";
import { Composer } from "./composer";
import { ThreadView } from "./thread";

export function titleOf(key: string): string {
  const s = sessions.value?.find((x) => x.key === key);
  return label(s?.title || s?.preview || "") || t("chats.untitled");
}

export function Chat({ id }: { id: string }) {
  const chat = chatOf(id);
  const state = thread(id).value;
  const signedIn = gateway.value?.signed_in;
  useEffect(() => {
    if (signedIn) open(id);
  }, [id, signedIn]);
  const title = titleOf(id);
  useEffect(() => {
    document.title = `${title} - ${t("app.name")}`;
  }, [title]);
  useAnnounce(state);
  return (
    <>
      <Bar title={title}>{state.model && <span class="model">{visible(state.model)}</span>}</Bar>
      {state.items.length === 0 && state.loaded ? <Welcome /> : <ThreadView key={id} id={id} chat={chat ?? ""} thread={state} />}
      {chat === undefined ? (
        <p class="read-only">{t("chat.readonly", { channel: visible(id.split(":")[0]!) })}</p>
      ) : (
        <Composer key={id} chat={chat} draftKey={id === fresh.value ? "new" : id} running={state.running !== undefined} />
      )}
    </>
  );
}

function Welcome() {
  return (
    <div class="thread">
      <div class="welcome">
        <h2>{t("chat.empty.title")}</h2>
        <p>{t("chat.empty.text")}</p>
      </div>
    </div>
  );
}

// Screen readers hear finished paragraphs of the answer and the states of a
// turn, not every character.
function useAnnounce(state: Thread) {
  const heard = useRef({ id: "", length: 0, running: false });
  const running = state.running !== undefined;
  const last = state.items[state.items.length - 1];
  useEffect(() => {
    const h = heard.current;
    if (last?.kind === "text") {
      if (last.id.split("@")[0] !== h.id) Object.assign(h, { id: last.id.split("@")[0], length: running ? 0 : last.text.length });
      const end = last.open ? last.text.lastIndexOf("\n\n") : last.text.length;
      if (end > h.length) {
        says.value = last.text.slice(h.length, end).slice(0, 2000);
        h.length = end;
      }
    }
    if (running !== h.running) {
      h.running = running;
      says.value = running ? t("chat.working") : t("chat.done");
    }
  }, [last, running]);
}
