// Parts of pages that list things: a state in words, a row, a question before
// something is lost, a text to copy.
import type { ComponentChildren } from "preact";
import { t } from "../i18n";
import { copy } from "../text/code";
import { Dialog } from "./dialog";

export type Tone = "good" | "bad" | "warn" | "off";

const marks: Record<Tone, string> = { good: "●", bad: "▲", warn: "◆", off: "○" };

/** State is never told by its colour alone: each has a shape, and words. */
export function State({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return (
    <span class={"state " + tone}>
      <span aria-hidden="true">{marks[tone]}</span> {children}
    </span>
  );
}

/** Row is one thing of a list. */
export function Row({
  href,
  title,
  state,
  about,
  children,
}: {
  href?: string;
  title: string;
  state?: ComponentChildren;
  about?: ComponentChildren;
  children?: ComponentChildren;
}) {
  return (
    <li class="thing">
      <div class="what">
        {href ? <a href={href}>{title}</a> : <b>{title}</b>}
        {state}
        {about && <span class="hint">{about}</span>}
      </div>
      {children}
    </li>
  );
}

/** Confirm asks before something is lost. */
export function Confirm({
  title,
  text,
  action,
  onConfirm,
  onClose,
}: {
  title: string;
  text?: string;
  action: string;
  onConfirm(): void;
  onClose(): void;
}) {
  return (
    <Dialog title={title} onClose={onClose}>
      <form method="dialog" onSubmit={onConfirm}>
        {text && <p>{text}</p>}
        <div class="row">
          <button type="button" class="button" onClick={(e) => e.currentTarget.closest("dialog")?.close()}>
            {t("dialog.cancel")}
          </button>
          <button type="submit" class="button danger">
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** Copy is a text that belongs somewhere else. */
export function Copy({ text, label }: { text: string; label: string }) {
  return (
    <div class="copy">
      <pre tabIndex={0} aria-label={label}>
        {text}
      </pre>
      <button type="button" class="button" onClick={() => void copy(text)}>
        {t("chat.copy")}
      </button>
    </div>
  );
}
