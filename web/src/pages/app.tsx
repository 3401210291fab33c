// The frame around all pages.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Chat } from "../chat/chat";
import { Sidebar } from "../chat/sidebar";
import { t } from "../i18n";
import { route } from "../state/route";
import { drawer, fresh, gateway, link, newChat, newer, reachable, retryNow, says, unsaved } from "../state/store";
import { toasts } from "../state/toast";
import { Icon } from "../ui/icon";
import { useKeys } from "./keys";
import { SignIn } from "./signin";

export function App({ code }: { code: string }) {
  const g = gateway.value;
  useKeys();
  return (
    <>
      {g && !g.signed_in ? <SignIn code={code} /> : <Shell />}
      <div class="toasts" role="status">
        {toasts.value.map((x) => <div key={x.id} class={x.bad ? "toast bad" : "toast"}>{x.text}</div>)}
      </div>
      <div class="sr" aria-live="polite">{says.value}</div>
    </>
  );
}

function Shell() {
  return (
    <div class="shell">
      <a class="sr" href="#composer" onClick={(e) => (e.preventDefault(), document.getElementById("composer")?.focus())}>{t("app.skip")}</a>
      <Sidebar />
      {drawer.value && <button type="button" class="veil only-narrow" aria-label={t("chats.close")} onClick={() => (drawer.value = false)} />}
      <main>
        <Status />
        <Page />
        <div class="tabs-bottom">
          <button type="button" class="button plain" onClick={() => (drawer.value = true)}>
            <Icon name="menu" />
            {t("chats.title")}
          </button>
          <button type="button" class="button plain" onClick={newChat}>
            <Icon name="plus" />
            {t("chats.new")}
          </button>
          <a class="button plain" href="#/preferences">
            <Icon name="gear" />
            {t("prefs.title")}
          </a>
        </div>
      </main>
    </div>
  );
}

/** Status is one quiet line with the cause and the next step. */
function Status() {
  const l = link.value;
  const local = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
  if (!reachable.value) return <p class="status" role="status">{t("app.unreachable")}</p>;
  if (newer.value) {
    return (
      <p class="status" role="status">
        {t("app.newer")} <button type="button" class="button" onClick={() => location.reload()}>{t("app.reload")}</button>
      </p>
    );
  }
  if (l.state === "waiting") {
    return (
      <p class="status" role="status">
        {l.restarting ? t("link.restarting") : t("link.waiting", { seconds: l.seconds })} <button type="button" class="button" onClick={retryNow}>{t("link.retry")}</button>
      </p>
    );
  }
  if (unsaved.value) return <p class="status">{t("app.unsaved")}</p>;
  if (gateway.value && !gateway.value.encrypted && !local && location.protocol !== "https:") return <p class="status">{t("app.plain")}</p>;
  return null;
}

function Page() {
  const r = route.value;
  if (r.page === "preferences") return <Lazy load={() => import("./preferences")} />;
  return <Chat id={r.page === "chat" && r.key ? r.key : fresh.value} />;
}

/** Lazy shows a page whose script is loaded when it is first opened. */
function Lazy({ load }: { load(): Promise<{ default: ComponentType }> }) {
  const [Loaded, setLoaded] = useState<{ page: ComponentType } | undefined>(undefined);
  useEffect(() => {
    load().then((m) => setLoaded({ page: m.default }), () => (newer.value = true));
  }, []);
  return Loaded ? <Loaded.page /> : <p class="read-only" role="status">{t("app.loading")}</p>;
}
