// The header of a page.
import type { ComponentChildren } from "preact";
import { t } from "../i18n";
import { drawer } from "../state/store";
import { Icon } from "../ui/icon";

export function Bar({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <header class="bar">
      <button type="button" class="button plain square only-narrow" aria-label={t("chats.open")} aria-expanded={drawer.value} onClick={() => (drawer.value = true)}>
        <Icon name="menu" />
      </button>
      <h1>{title}</h1>
      {children}
    </header>
  );
}
