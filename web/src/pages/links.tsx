// The pages, as links below the conversations.
import { useState } from "preact/hooks";
import { t } from "../i18n";
import { openQuestions } from "../state/inbox";
import { names, route } from "../state/route";
import type { PageName } from "../state/route";
import { drawer } from "../state/store";
import { Icon } from "../ui/icon";
import { overlay } from "./keys";
import { table } from "./table";

export function Links() {
  const at = route.value.page;
  const manage = names.filter((n) => table[n].place === "manage");
  const [open, setOpen] = useState(manage.some((n) => n === at));

  return (
    <nav class="foot" aria-label={t("nav.work")}>
      <button
        type="button"
        class="button plain"
        aria-keyshortcuts="Control+K Meta+K"
        onClick={() => ((drawer.value = false), (overlay.value = "palette"))}
      >
        <Icon name="search" />
        {t("nav.palette")}
        <kbd aria-hidden="true">^K</kbd>
      </button>
      {names
        .filter((n) => table[n].place === "work")
        .map((n) => (
          <PageLink key={n} name={n} />
        ))}
      <button type="button" class="button plain" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="gear" />
        {t("nav.manage")}
      </button>
      {open && manage.map((n) => <PageLink key={n} name={n} />)}
    </nav>
  );
}

function PageLink({ name }: { name: PageName }) {
  const current = route.value.page === name;
  return (
    <a
      class={current ? "button plain current" : "button plain"}
      href={"#/" + name}
      aria-current={current ? "page" : undefined}
      onClick={() => (drawer.value = false)}
    >
      {t(table[name].title)}
      {name === "inbox" && <Waiting />}
    </a>
  );
}

/** Waiting is how many questions wait for an answer. */
export function Waiting() {
  return openQuestions.value > 0 ? <span class="count">{openQuestions.value}</span> : null;
}
