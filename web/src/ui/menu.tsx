// A button that opens a list of actions.
import { useEffect, useRef, useState } from "preact/hooks";
import { Icon } from "./icon";
import type { IconName } from "./icon";

export interface Action {
  label: string;
  icon?: IconName;
  danger?: boolean;
  run(): void;
}

/** MenuButton shows its text, or three dots without one. */
export function MenuButton({ label, actions, text }: { label: string; actions: Action[]; text?: string }) {
  const [at, setAt] = useState<{ top: number; left: number } | undefined>(undefined);
  const button = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLDivElement>(null);

  useEffect(() => {
    if (!at) return;
    list.current?.querySelector("button")?.focus();
    const outside = (e: Event) => !list.current?.contains(e.target as Node) && setAt(undefined);
    addEventListener("pointerdown", outside, true);
    addEventListener("scroll", outside, true);
    return () => {
      removeEventListener("pointerdown", outside, true);
      removeEventListener("scroll", outside, true);
    };
  }, [at]);

  const toggle = () => {
    const r = button.current!.getBoundingClientRect();
    const room = actions.length * 44 + 16;
    setAt(
      at
        ? undefined
        : {
            top: r.bottom + room > innerHeight ? r.top - room + 8 : r.bottom + 4,
            left: Math.max(8, Math.min(r.left, innerWidth - 180)),
          },
    );
  };

  const close = () => {
    setAt(undefined);
    button.current?.focus();
  };

  const keys = (e: KeyboardEvent) => {
    const all = [...list.current!.querySelectorAll("button")];
    const n = all.indexOf(document.activeElement as HTMLButtonElement);
    if (e.key === "ArrowDown") all[(n + 1) % all.length]?.focus();
    else if (e.key === "ArrowUp") all[(n - 1 + all.length) % all.length]?.focus();
    else if (e.key === "Escape" || e.key === "Tab") close();
    else return;
    e.preventDefault();
    e.stopPropagation();
  };

  return (
    <>
      <button
        ref={button}
        type="button"
        class={text ? "button" : "button plain square"}
        aria-label={text ? undefined : label}
        aria-haspopup="menu"
        aria-expanded={at !== undefined}
        onClick={toggle}
      >
        {text}
        <Icon name={text ? "chevron" : "more"} class={text && "turned"} />
      </button>
      {at && (
        <div
          ref={list}
          class="menu"
          role="menu"
          aria-label={label}
          style={{ top: `${at.top}px`, left: `${at.left}px` }}
          onKeyDown={keys}
        >
          {actions.map((a) => (
            <button
              type="button"
              role="menuitem"
              class={a.danger ? "danger" : undefined}
              onClick={() => (close(), a.run())}
            >
              {a.icon && <Icon name={a.icon} />}
              {a.label}
            </button>
          ))}
        </div>
      )}
    </>
  );
}
