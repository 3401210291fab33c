// Texts for the composer that come from elsewhere: from another app, or the palette.
import { effect } from "@preact/signals";
import { gateway } from "./base";
import { go, route } from "./route";

/** compose puts a text where messages are written. The person sends it. */
export function compose(text: string) {
  if (route.peek().page !== "chat") go("#/");
  // The composer of another page is there after the next frames, and its draft one later.
  const put = (tries: number) => {
    const f = document.getElementById("composer") as HTMLTextAreaElement | null;
    if (!f || f.disabled) return void (tries > 0 && requestAnimationFrame(() => put(tries - 1)));
    requestAnimationFrame(() => {
      const typed = f.value.startsWith("/") ? "" : f.value; // only a command gives way
      f.value = typed ? text.trimEnd() + (text.startsWith("/") ? " " : "\n") + typed : text;
      f.focus();
      f.dispatchEvent(new InputEvent("input", { bubbles: true }));
    });
  };

  requestAnimationFrame(() => put(60));
}

/** takeShared takes what another app shared with this one out of the address, and
 *  offers it as a message when the person is signed in. */
export function takeShared() {
  if (!location.search) return;
  const q = new URLSearchParams(location.search);
  const parts = ["title", "text", "url"].map((n) => q.get(n) ?? "").filter((s, i, all) => s && all.indexOf(s) === i);
  history.replaceState(null, "", location.pathname + (parts.length ? "#/" : location.hash));
  if (parts.length === 0) return;
  const stop = effect(() => {
    if (!gateway.value?.signed_in) return;
    compose(parts.join("\n").slice(0, 60_000));
    queueMicrotask(() => stop());
  });
}
