// What keys do in the composer.

export interface Press {
  key: string;
  keyCode: number;
  isComposing: boolean;
  shiftKey: boolean;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
}

/** sends reports whether a key sends the message. Enter that ends the
 *  composition of an input method never does: some browsers say so in
 *  isComposing, some by key 229, some only by compositionend just before. */
export function sends(e: Press, enter: "send" | "break", composed: boolean): boolean {
  if (e.key !== "Enter" || e.isComposing || e.keyCode === 229 || composed || e.altKey || e.shiftKey) return false;
  const command = e.ctrlKey || e.metaKey;
  return enter === "send" ? true : command;
}

/** bytes is the size of a text in UTF-8, without encoding short ones. */
export function bytes(text: string, enough: number): number {
  if (text.length * 3 < enough) return text.length;
  return new TextEncoder().encode(text).length;
}
