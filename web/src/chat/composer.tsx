// Where messages are written. Its text is not state: a key press renders nothing.
import { useEffect, useRef, useState } from "preact/hooks";
import { look, t } from "../i18n";
import { commands, drafts, gateway, send, stop } from "../state/store";
import type { SlashCommand } from "../wire/types";
import { Icon } from "../ui/icon";
import { bytes, sends } from "./keys";
import { Palette, completed, fitting } from "./palette";

const none = { fit: [], chosen: 0 };
const most = 64 << 10;
const warnAt = 60 << 10;

export function Composer({ chat, draftKey, running }: { chat: string; draftKey: string; running: boolean }) {
  const field = useRef<HTMLTextAreaElement>(null);
  const composed = useRef(false);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const [size, setSize] = useState(0); // only near the limit
  const [palette, setPalette] = useState<{ fit: SlashCommand[]; chosen: number }>(none);

  const keep = (f: HTMLTextAreaElement) => {
    clearTimeout(timer.current);
    timer.current = undefined;
    drafts.write(draftKey, f.value);
  };
  // Drafts are known when the gateway has told its id; what was typed before stays.
  const known = gateway.value?.gateway;
  useEffect(() => {
    const f = field.current!;
    if (f.value === "") f.value = drafts.read(draftKey);
    grow(f);
  }, [draftKey, known]);
  useEffect(() => {
    const f = field.current!;
    if (matchMedia("(pointer: fine)").matches) f.focus();
    const leave = () => {
      if (timer.current) keep(f);
    };
    addEventListener("pagehide", leave);
    return () => {
      leave();
      removeEventListener("pagehide", leave);
    };
  }, [draftKey]);

  const suggest = async (text: string) => {
    const fit = text.startsWith("/") ? fitting(await commands(), text) : [];
    if (field.current?.value === text) setPalette({ fit, chosen: 0 });
  };
  const choose = (c: SlashCommand) => {
    const f = field.current!;
    f.value = completed(c);
    changed();
    setPalette(none);
    f.focus();
  };
  const changed = () => {
    const f = field.current!;
    grow(f);
    if (f.value.startsWith("/") || palette.fit.length > 0) void suggest(f.value);
    const used = bytes(f.value, warnAt);
    setSize(used > warnAt ? used : 0);
    timer.current ??= setTimeout(() => keep(f), 500);
  };
  const submit = () => {
    const f = field.current!;
    const text = f.value.trim();
    if (text === "" || bytes(text, warnAt) > most) return;
    f.value = "";
    changed();
    keep(f);
    send(chat, text);
    f.focus();
  };
  // pick reports whether a key was for the list of commands.
  const pick = (e: KeyboardEvent): boolean => {
    const { fit, chosen } = palette;
    if (fit.length === 0 || e.isComposing || composed.current) return false;
    const step = e.key === "ArrowDown" ? 1 : e.key === "ArrowUp" ? fit.length - 1 : 0;
    if (step) setPalette({ fit, chosen: (chosen + step) % fit.length });
    else if (e.key === "Escape") setPalette(none);
    else if (e.key === "Tab" && !e.shiftKey) choose(fit[chosen]!);
    else if (e.key === "Enter" && field.current!.value !== completed(fit[chosen]!).trim()) choose(fit[chosen]!);
    else return false;
    return true;
  };
  const key = (e: KeyboardEvent) => {
    if (pick(e)) {
      e.preventDefault();
      e.stopPropagation();
      return;
    }
    if (!sends(e, look.peek().enter, composed.current)) return;
    e.preventDefault();
    submit();
  };
  return (
    <form class="composer" onSubmit={(e) => (e.preventDefault(), submit())}>
      {palette.fit.length > 0 && <Palette commands={palette.fit} chosen={palette.chosen} onChoose={choose} />}
      <div class="frame">
        <textarea
          ref={field}
          id="composer"
          rows={1}
          dir="auto"
          autocomplete="off"
          enterkeyhint="send"
          aria-label={t("compose.label")}
          aria-autocomplete="list"
          aria-controls={palette.fit.length > 0 ? "palette" : undefined}
          aria-activedescendant={palette.fit.length > 0 ? `command-${palette.chosen}` : undefined}
          onBlur={() => setPalette(none)}
          placeholder={t("compose.placeholder")}
          onInput={changed}
          onKeyDown={key}
          onCompositionEnd={() => {
            composed.current = true;
            setTimeout(() => (composed.current = false)); // after the key that ended it
          }}
        />
        <div class="row">
          {size > 0 && (
            <span class={size > most ? "count bad" : "count"} role="status">
              {size > most ? t("compose.toolong", { most: most >> 10 }) : t("compose.count", { used: Math.ceil(size / 1024), most: most >> 10 })}
            </span>
          )}
          <span class="row right">
            {running && (
              <button type="button" class="button" onClick={() => stop(chat)}>
                <Icon name="stop" />
                {t("compose.stop")}
              </button>
            )}
            <button type="submit" class="button primary">
              <Icon name="send" />
              {t("compose.send")}
            </button>
          </span>
        </div>
      </div>
    </form>
  );
}

// grow is for browsers without field-sizing: as many rows as lines, no layout is read.
function grow(f: HTMLTextAreaElement) {
  let lines = 1;
  for (let i = f.value.indexOf("\n"); i >= 0 && lines < 12; i = f.value.indexOf("\n", i + 1)) lines++;
  if (f.rows !== lines) f.rows = lines;
}
