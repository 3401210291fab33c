// The worker: it splits code into pieces with a kind. It gets text and returns
// text; no markup is made anywhere.
import "./text/prism";
import "./text/grammars";
import { flatten } from "./text/flatten";
import type { PrismToken } from "./text/flatten";

interface PrismGlobal {
  languages: Record<string, unknown>;
  tokenize(text: string, grammar: unknown): PrismToken[];
}

self.onmessage = (e: MessageEvent<{ id: number; lang: string; text: string }>) => {
  const { id, lang, text } = e.data;
  const prism = (globalThis as unknown as { Prism: PrismGlobal }).Prism;
  const grammar = prism.languages[lang];
  self.postMessage({ id, pieces: grammar ? flatten(prism.tokenize(text, grammar)) : undefined });
};
