// Where messages are written. Its text is not state: a key press renders nothing.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { look, t } from "../i18n";
import { attached, taken } from "../state/attach";
import { commands, drafts, gateway, keyOf, send, stop } from "../state/store";
import { toast } from "../state/toast";
import type { SlashCommand } from "../wire/types";
import { Icon } from "../ui/icon";
import { Estimate } from "./estimate";
import { Attachments, add, filesOf } from "./files";
import { bytes, sends } from "./keys";
import { Mic } from "./mic";
import { Palette, completed, fitting } from "./palette";

const none = { fit: [], chosen: 0 };
const most = 64 << 10;
const warnAt = 60 << 10;

const longPaste = 16 << 10; // characters; the browser's own paste of many lines takes seconds

export function Composer({ chat, draftKey, running }: { chat: string; draftKey: string; running: boolean }) {
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const composed = useRef(false);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const [size, setSize] = useState(0); // only near the limit
  const [palette, setPalette] = useState<{ fit: SlashCommand[]; chosen: number }>(none);

  const keep = (f: HTMLTextAreaElement) => {
    clearTimeout(timer.current);
    timer.current = undefined;
    drafts.write(draftKey, f.value);
  };

  // Drafts are known when the gateway has told its id; what was typed before is kept there.
  const known = gateway.value?.gateway;
  useLayoutEffect(() => {
    const f = field.current!;
    if (f.value === "") f.value = drafts.read(draftKey);
    else keep(f);
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

  const empty = (f: HTMLTextAreaElement) => {
    f.value = "";
    changed();
    keep(f);
    f.focus();
  };

  // asFile attaches a text, and reports whether it could.
  const asFile = (text: string): boolean => {
    const before = attached(draftKey).peek().length;
    add(draftKey, [new File([text], t("compose.filename"), { type: "text/plain" })]);
    return attached(draftKey).peek().length > before;
  };

  // convert makes a file of a text that is too long for a message.
  const convert = () => {
    const f = field.current!;
    if (asFile(f.value)) empty(f);
  };

  const submit = () => {
    const f = field.current!;
    const text = f.value.trim();
    const files = attached(draftKey).peek();
    if (bytes(text, warnAt) > most) return convert();
    if (files.some((a) => a.failure)) return toast(t("attach.failed"), true);
    if (files.some((a) => !a.upload)) return toast(t("attach.wait"));
    if (text === "" && files.length === 0) return;
    const media = taken(draftKey);
    empty(f);
    send(chat, text, media);
  };

  const insert = (text: string) => {
    const f = field.current;
    const joined = (old: string) => [old.trimEnd(), text].filter(Boolean).join(" ");
    if (!f) return drafts.write(draftKey, joined(drafts.read(draftKey))); // the person has gone to another page
    f.value = joined(f.value);
    changed();
    f.focus();
  };

  const paste = (e: ClipboardEvent) => {
    const files = filesOf(e.clipboardData);
    const text = e.clipboardData?.getData("text/plain") ?? "";
    if (files.length === 0 && text.length < longPaste) return;
    e.preventDefault();
    if (files.length > 0) return add(draftKey, files);
    if (bytes(text, most) > most) return void (asFile(text) && toast(t("compose.pasted", { most: most >> 10 })));
    const f = field.current!;
    f.setRangeText(text.replace(/\r\n?/g, "\n"), f.selectionStart, f.selectionEnd, "end");
    changed();
  };

  useEffect(() => {
    // A file that misses the composer must not replace the page.
    const over = (e: DragEvent) => e.dataTransfer?.types.includes("Files") && e.preventDefault();
    const drop = (e: DragEvent) => {
      if (!e.dataTransfer?.types.includes("Files")) return;
      e.preventDefault();
      add(draftKey, filesOf(e.dataTransfer));
    };

    addEventListener("dragover", over);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("drop", drop);
    };
  }, [draftKey]);

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
        <Attachments of={draftKey} />
        <textarea
          ref={field}
          id="composer"
          rows={1}
          autocomplete="off"
          enterkeyhint="send"
          aria-label={t("compose.label")}
          aria-autocomplete="list"
          aria-controls={palette.fit.length > 0 ? "palette" : undefined}
          aria-activedescendant={palette.fit.length > 0 ? `command-${palette.chosen}` : undefined}
          onBlur={() => setPalette(none)}
          placeholder={running ? t("compose.steer") : t("compose.placeholder")}
          onInput={changed}
          onPaste={paste}
          onKeyDown={key}
          onCompositionEnd={() => {
            composed.current = true;
            setTimeout(() => (composed.current = false)); // after the key that ended it
          }}
        />
        <div class="row">
          <input
            ref={picker}
            type="file"
            multiple
            hidden
            onChange={(e) => (add(draftKey, e.currentTarget.files ?? []), (e.currentTarget.value = ""))}
          />
          <button
            type="button"
            class="button plain square"
            aria-label={t("attach.pick")}
            title={t("attach.pick")}
            onClick={() => picker.current!.click()}
          >
            <Icon name="clip" />
          </button>
          <Mic onText={insert} />
          {size > 0 && (
            <span class="count bad" role="status">
              {size > most
                ? t("compose.toolong", { most: most >> 10 })
                : t("compose.count", { used: Math.ceil(size / 1024), most: most >> 10 })}
            </span>
          )}
          {size > 0 && (
            <button type="button" class="button" onClick={convert}>
              {t("compose.convert")}
            </button>
          )}
          <Estimate session={keyOf(chat)} field={field} />
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
