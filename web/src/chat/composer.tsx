// Where messages are written. Its text is not state: a key press renders nothing.
import { useEffect, useRef, useState } from "preact/hooks";
import { look, t } from "../i18n";
import { drafts, gateway, send, stop } from "../state/store";
import { Icon } from "../ui/icon";
import { bytes, sends } from "./keys";

const most = 64 << 10;
const warnAt = 60 << 10;

export function Composer({ chat, draftKey, running }: { chat: string; draftKey: string; running: boolean }) {
  const field = useRef<HTMLTextAreaElement>(null);
  const composed = useRef(false);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const [size, setSize] = useState(0); // only near the limit

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

  const changed = () => {
    const f = field.current!;
    grow(f);
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
  const key = (e: KeyboardEvent) => {
    if (!sends(e, look.peek().enter, composed.current)) return;
    e.preventDefault();
    submit();
  };
  return (
    <form class="composer" onSubmit={(e) => (e.preventDefault(), submit())}>
      <div class="frame">
        <textarea
          ref={field}
          id="composer"
          rows={1}
          dir="auto"
          autocomplete="off"
          enterkeyhint="send"
          aria-label={t("compose.label")}
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
