// Where the focus goes when what had it is gone.
import { useEffect, useRef } from "preact/hooks";

/** useHeldFocus is for a list whose rows go away by their own buttons: the list
 *  itself gets the focus then. It needs tabIndex -1. */
export function useHeldFocus<E extends HTMLElement>(rows: unknown) {
  const list = useRef<E>(null);
  const inside = useRef(false);
  useEffect(() => {
    const note = () => (inside.current = list.current?.contains(document.activeElement) ?? false);
    addEventListener("focusin", note);
    return () => removeEventListener("focusin", note);
  }, []);

  useEffect(() => {
    if (inside.current && document.activeElement === document.body) list.current?.focus();
  }, [rows]);
  return list;
}
