// A modal dialog. The browser keeps the focus inside, and gives it back.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

export function Dialog({ title, onClose, children }: { title: string; onClose(): void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    ref.current?.showModal();
    return () => before instanceof HTMLElement && before.focus();
  }, []);
  return (
    <dialog ref={ref} class="dialog" aria-labelledby={id} onClose={onClose} onClick={(e) => e.target === ref.current && ref.current?.close()}>
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}
