// The open questions of all conversations.
import { computed, effect, signal } from "@preact/signals";
import { read } from "../wire/api";
import type { AskedList } from "../wire/reads";
import type { Asked } from "../wire/types";
import { link } from "./base";
import { version } from "./read";

export const questions = signal<Asked[]>([]);
/** openQuestions is how many wait for an answer; it is shown in the title and on links. */
export const openQuestions = computed(() => questions.value.length);

let last = 0;

function refresh() {
  const n = ++last;
  read<AskedList>("questions").then(
    (r) => n === last && (questions.value = r.questions),
    () => {}, // the next change or connection reads it again
  );
}

effect(() => {
  void version("questions").value;
  if (link.value.state === "open") refresh();
});

effect(() => {
  const n = openQuestions.value;
  if ("setAppBadge" in navigator) void (n ? navigator.setAppBadge(n) : navigator.clearAppBadge()).catch(() => {}); // not installed
});
