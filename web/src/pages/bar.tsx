// The header of a page.
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { t } from "../i18n";
import { openQuestions } from "../state/inbox";
import { asking, drawer, sessions } from "../state/store";
import { Icon } from "../ui/icon";

export function Bar({ title, children }: { title: string; children?: ComponentChildren }) {
  const news =
    Math.max(asking.value, openQuestions.value) + (sessions.value?.reduce((n, s) => n + (s.unread ?? 0), 0) ?? 0);
  useEffect(() => {
    document.title = `${news > 0 ? `(${news}) ` : ""}${title} - ${t("app.name")}`;
  }, [title, news]);
  return (
    <header class="bar">
      <button
        type="button"
        class="button plain square only-narrow"
        aria-label={t("chats.open")}
        aria-expanded={drawer.value}
        onClick={() => (drawer.value = true)}
      >
        <Icon name="menu" />
      </button>
      <h1>{title}</h1>
      {children}
    </header>
  );
}
