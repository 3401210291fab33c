// The list of conversations.
import { useRef, useState } from "preact/hooks";
import { t } from "../i18n";
import { chatHref, route } from "../state/route";
import { chatOf, drawer, filter, newChat, refreshSessions, remove, rename, serverNow, sessions } from "../state/store";
import { fail } from "../state/toast";
import { label, visible } from "../text/links";
import type { Session } from "../wire/types";
import { Dialog } from "../ui/dialog";
import { Icon } from "../ui/icon";
import { MenuButton } from "../ui/menu";

export interface Group {
  title: string;
  sessions: Session[];
}

type Label = "chats.today" | "chats.yesterday" | "chats.week" | "chats.older";

/** groups orders our conversations by day and those of other channels by channel. */
export function groups(all: readonly Session[], now: Date, say: (key: Label) => string): Group[] {
  const day = 24 * 3600 * 1000;
  const today = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const out = new Map<string, Group>();
  const put = (id: string, title: string, s: Session) => {
    const g = out.get(id) ?? { title, sessions: [] };
    g.sessions.push(s);
    out.set(id, g);
  };
  const names: Label[] = ["chats.today", "chats.yesterday", "chats.week", "chats.older"];
  for (const s of all) {
    if (chatOf(s.key) === undefined) continue;
    const at = Date.parse(s.updated_at) || 0;
    const n = at >= today ? 0 : at >= today - day ? 1 : at >= today - 6 * day ? 2 : 3;
    put(names[n]!, say(names[n]!), s);
  }
  for (const s of all) {
    if (chatOf(s.key) !== undefined) continue;
    const channel = visible(s.key.split(":")[0]!);
    put("channel " + channel, channel, s);
  }
  return [...out.values()];
}

export function Sidebar() {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const all = sessions.value;
  const search = (words: string) => {
    filter.value = words;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => void refreshSessions(), 200);
  };
  return (
    <aside class={drawer.value ? "side open" : "side"} aria-label={t("chats.title")}>
      <div class="top">
        <button type="button" class="button" onClick={newChat}>
          <Icon name="plus" />
          {t("chats.new")}
        </button>
        <input class="input" type="search" aria-label={t("chats.search")} placeholder={t("chats.search")} value={filter.value} onInput={(e) => search(e.currentTarget.value)} />
      </div>
      <nav aria-label={t("chats.title")}>
        {all?.length === 0 && <p class="empty">{filter.value ? t("chats.notfound") : t("chats.none")}</p>}
        {all && groups(all, new Date(serverNow()), t).map((g) => (
          <section key={g.title}>
            <h2>{g.title}</h2>
            {g.sessions.map((s) => <ChatRow key={s.key} session={s} />)}
          </section>
        ))}
      </nav>
      <div class="foot">
        <a class="button plain" href="#/preferences" onClick={() => (drawer.value = false)}>
          <Icon name="gear" />
          {t("prefs.title")}
        </a>
      </div>
    </aside>
  );
}

function ChatRow({ session }: { session: Session }) {
  const [asked, setAsked] = useState<"rename" | "delete" | undefined>(undefined);
  const r = route.value;
  const current = r.page === "chat" && r.key === session.key;
  const title = label(session.title || session.preview) || t("chats.untitled");
  return (
    <div class={current ? "chat-row current" : "chat-row"}>
      {session.running && <span class="dot" role="img" aria-label={t("chats.running")} />}
      <a href={chatHref(session.key)} aria-current={current ? "page" : undefined} title={title} onClick={() => (drawer.value = false)}>{title}</a>
      <MenuButton
        label={t("chats.menu", { title })}
        actions={[
          { label: t("chats.rename"), icon: "edit", run: () => setAsked("rename") },
          { label: t("chats.delete"), icon: "bin", danger: true, run: () => setAsked("delete") },
        ]}
      />
      {asked === "rename" && <Rename session={session} onClose={() => setAsked(undefined)} />}
      {asked === "delete" && <Delete session={session} title={title} onClose={() => setAsked(undefined)} />}
    </div>
  );
}

function Rename({ session, onClose }: { session: Session; onClose(): void }) {
  const save = (e: SubmitEvent) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget as HTMLFormElement);
    rename(session.key, String(form.get("title") ?? "")).then(onClose, fail);
  };
  return (
    <Dialog title={t("chats.rename.title")} onClose={onClose}>
      <form onSubmit={save}>
        <label class="field">
          <span>{t("chats.rename.label")}</span>
          <input class="input" name="title" maxLength={200} defaultValue={session.title} autofocus />
        </label>
        <div class="row">
          <button type="button" class="button" onClick={onClose}>{t("dialog.cancel")}</button>
          <button type="submit" class="button primary">{t("dialog.save")}</button>
        </div>
      </form>
    </Dialog>
  );
}

function Delete({ session, title, onClose }: { session: Session; title: string; onClose(): void }) {
  const confirm = (e: SubmitEvent) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget as HTMLFormElement);
    remove(session.key, form.get("jobs") !== null).then(onClose, fail);
  };
  return (
    <Dialog title={t("chats.delete.title", { title })} onClose={onClose}>
      <form onSubmit={confirm}>
        <p>{t("chats.delete.text")}</p>
        <label class="row">
          <input type="checkbox" name="jobs" /> {t("chats.delete.jobs")}
        </label>
        <div class="row">
          <button type="button" class="button" onClick={onClose}>{t("dialog.cancel")}</button>
          <button type="submit" class="button danger">{t("chats.delete")}</button>
        </div>
      </form>
    </Dialog>
  );
}
