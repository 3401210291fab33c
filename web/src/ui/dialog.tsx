// A modal dialog. The browser keeps the focus inside, and gives it back.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Portal, useName } from "./portal";

interface Props {
  title: string;
  onClose(): void;
  children: ComponentChildren;
}

export function Dialog(props: Props) {
  return (
    <Portal>
      <Modal {...props} />
    </Portal>
  );
}

function Modal({ title, onClose, children }: Props) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useName();
  useEffect(() => {
    const before = document.activeElement;
    ref.current?.showModal();
    return () => before instanceof HTMLElement && before.focus();
  }, []);

  return (
    <dialog
      ref={ref}
      class="dialog"
      aria-labelledby={id}
      onClose={onClose}
      onClick={(e) => e.target === ref.current && ref.current?.close()}
    >
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}
