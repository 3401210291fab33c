// Topics that change without an action of a client.
import { useEffect } from "preact/hooks";
import { changed } from "./read";
import type { Topic } from "./read";

/** useWatch reads a topic again every few seconds while the page is in view. */
export function useWatch(topic: Topic, on = true, every = 3000) {
  useEffect(() => {
    if (!on) return;
    const timer = setInterval(() => document.hidden || changed(topic), every);
    return () => clearInterval(timer);
  }, [topic, on, every]);
}
