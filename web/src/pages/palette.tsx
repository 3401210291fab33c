// The palette: pages, conversations, commands, settings and actions by name. And
// the list of keys.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { language, look, setLook, t as words } from "../i18n";
import { t } from "../i18n/palette";
import { chatHref, go, names } from "../state/route";
import { compose } from "../state/shared";
import { commands, newChat, request, sessions, signOut } from "../state/store";
import { fail, toast } from "../state/toast";
import { fuzzy } from "../text/fuzzy";
import { label } from "../text/links";
import type { SlashCommand } from "../wire/types";
import { Dialog } from "../ui/dialog";
import { overlay } from "./keys";
import { table } from "./table";
import { useName } from "../ui/portal";

interface Choice {
  id: string;
  kind: "page" | "chat" | "command" | "setting" | "action" | "search";
  name: string;
  hint?: string;
  run(): void;
}

const topics = ["models", "providers", "safety", "speech", "images", "web", "all", "raw", "versions"] as const;

function fixed(slash: SlashCommand[]): Choice[] {
  const action = (id: string, name: string, run: () => void): Choice => ({
    id: "action " + id,
    kind: "action",
    name,
    run,
  });
  return [
    action("new", words("chats.new"), newChat),
    ...names
      .filter((n) => n !== "replay")
      .map((n): Choice => ({
        id: "page " + n,
        kind: "page",
        name: words(table[n].title),
        hint: table[n].letter && `g ${table[n].letter}`,
        run: () => go("#/" + n),
      })),
    ...topics.map((n): Choice => ({
      id: "setting " + n,
      kind: "setting",
      name: t(`value.palette.${n}`),
      run: () => go("#/settings/" + n),
    })),
    ...slash.map((c): Choice => ({
      id: "command " + c.name,
      kind: "command",
      name: "/" + c.name.replace(/^\//, ""),
      hint: c.description,
      run: () => compose("/" + c.name.replace(/^\//, "") + " "),
    })),
    action("theme", t("palette.theme"), () =>
      setLook({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" }),
    ),
    action("language", t("palette.language"), () => setLook({ language: language.peek() === "zh" ? "en" : "zh" })),
    action("keys", t("keys.title"), () => (overlay.value = "keys")),
    action(
      "reload",
      t("palette.reload"),
      () => void request("gateway.reload", {}).then(() => toast(t("palette.reloaded")), fail),
    ),
    action("signout", words("prefs.signout"), () => void signOut().catch(fail)),
  ];
}

const most = 50;

function choices(all: Choice[], typed: string): Choice[] {
  if (typed.trim() === "") return all.slice(0, most);
  const found = all
    .map((c) => ({
      c,
      rate: Math.max(fuzzy(typed, c.name), c.hint && c.kind === "command" ? fuzzy(typed, c.hint) / 2 : 0),
    }))
    .filter((x) => x.rate > 0)
    .sort((a, b) => b.rate - a.rate)
    .slice(0, most)
    .map((x) => x.c);

  return [
    ...found,
    {
      id: "search",
      kind: "search",
      name: t("palette.search", { words: typed.trim() }),
      run: () => go("#/search/" + encodeURIComponent(typed.trim())),
    },
  ];
}

function Palette({ onClose }: { onClose(): void }) {
  const box = useRef<HTMLDialogElement>(null);
  const id = useName();
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const [slash, setSlash] = useState<SlashCommand[]>([]);
  useEffect(() => {
    const before = document.activeElement;
    box.current?.showModal();
    void commands().then(setSlash);
    return () => before instanceof HTMLElement && before.isConnected && before.focus();
  }, []);

  const chats = sessions.value ?? [];
  const all = useMemo(() => {
    const list = fixed(slash);
    const talks = chats.map((s): Choice => ({
      id: "chat " + s.key,
      kind: "chat",
      name: label(s.title || s.preview) || words("chats.untitled"),
      run: () => go(chatHref(s.key)),
    }));
    return typed.trim() === "" ? [list[0]!, ...talks.slice(0, 5), ...list.slice(1)] : [...list, ...talks];
  }, [slash, chats, typed === "", look.value]);

  const found = choices(all, typed);
  const chosen = Math.min(at, found.length - 1);
  useEffect(() => {
    document.getElementById(`${id}-${chosen}`)?.scrollIntoView({ block: "nearest" });
  }, [chosen, typed]);

  const run = (c: Choice | undefined) => {
    if (!c) return;
    onClose();
    queueMicrotask(c.run); // after the focus went back
  };

  const keys = (e: KeyboardEvent) => {
    if (e.isComposing) return;
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[e.key];
    if (by)
      setAt(
        Math.abs(by) === 1
          ? (chosen + by + found.length) % found.length
          : Math.max(0, Math.min(found.length - 1, chosen + by)),
      );
    else if (e.key === "Enter") run(found[chosen]);
    else return;

    e.preventDefault();
  };

  return (
    <dialog
      ref={box}
      class="finder"
      aria-label={t("palette.title")}
      onClose={onClose}
      onClick={(e) => e.target === box.current && box.current?.close()}
    >
      <input
        class="input"
        role="combobox"
        aria-expanded="true"
        aria-controls={id}
        aria-autocomplete="list"
        aria-activedescendant={`${id}-${chosen}`}
        aria-label={t("palette.title")}
        placeholder={t("palette.placeholder")}
        autocomplete="off"
        spellcheck={false}
        autofocus
        value={typed}
        onInput={(e) => (setTyped(e.currentTarget.value), setAt(0))}
        onKeyDown={keys}
      />
      <ul id={id} role="listbox" aria-label={t("palette.title")}>
        {found.map((c, i) => (
          <li key={c.id} id={`${id}-${i}`} role="option" aria-selected={i === chosen} onClick={() => run(c)}>
            <span class="kind">{t(`value.palette.kind.${c.kind}`)}</span>
            <span class="name">{c.name}</span>
            {c.hint && <span class="hint">{c.hint}</span>}
          </li>
        ))}
      </ul>
      <p class="sr" role="status">
        {t("palette.count", { n: found.length })}
      </p>
    </dialog>
  );
}

const mod = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘" : "Ctrl";

function Keys({ onClose }: { onClose(): void }) {
  const general: [string[], string][] = [
    [[mod, "K"], t("keys.palette")],
    [["Enter"], t(look.value.enter === "send" ? "keys.enter.send" : "keys.enter.break")],
    [[mod, "."], t("keys.stop")],
    [["Esc"], t("keys.escape")],
  ];

  const single: [string[], string][] = [
    [["/"], t("keys.compose")],
    [["n"], words("chats.new")],
    [["["], t("keys.before")],
    [["]"], t("keys.after")],
    [["j"], t("keys.next")],
    [["k"], t("keys.previous")],
    [["e"], t("keys.expand")],
    [["d"], t("keys.diff")],
    [["u"], t("keys.undo")],
    [["y", "n"], t("keys.answer")],
    [["?"], t("keys.title")],
    ...names
      .filter((n) => table[n].letter)
      .map((n): [string[], string] => [["g", table[n].letter!], words(table[n].title)]),
  ];

  const rows = (list: [string[], string][]) => (
    <dl class="key-list">
      {list.map(([k, text]) => (
        <div key={text}>
          <dt>
            {k.map((x) => (
              <kbd key={x}>{x}</kbd>
            ))}
          </dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
  );

  return (
    <Dialog title={t("keys.title")} onClose={onClose}>
      <div class="key-box" role="region" aria-label={t("keys.title")} tabIndex={0}>
        {rows(general)}
        <h3>{t("keys.single")}</h3>
        {look.value.letters ? rows(single) : <p class="hint">{t("keys.off")}</p>}
      </div>
      <div class="row">
        <button type="button" class="button" onClick={onClose}>
          {t("keys.close")}
        </button>
      </div>
    </Dialog>
  );
}

export default function Overlay({ kind }: { kind: "palette" | "keys" }) {
  const close = () => {
    if (overlay.peek() === kind) overlay.value = undefined;
  };
  return kind === "palette" ? <Palette onClose={close} /> : <Keys onClose={close} />;
}
