// Colours of code, found in a worker that is started with the first block.
import { languages } from "./languages";
import { trusted } from "./trusted";

/** Piece is a kind ("" for none) and its text. */
export type Piece = [kind: string, text: string];

const longest = 200 << 10;
const patience = 200; // milliseconds

let worker: Worker | undefined;
let last = 0;
let waiting: { id: number; lang: string; text: string; done(p: Piece[] | undefined): void }[] = [];
let timer: ReturnType<typeof setTimeout> | undefined;

/** highlight returns undefined if the code stays as it is. */
export function highlight(lang: string, text: string): Promise<Piece[] | undefined> {
  const name = lang.toLowerCase();
  const known = Object.hasOwn(languages, name) ? languages[name] : undefined;
  if (known === undefined || text.length > longest) return Promise.resolve(undefined);
  return new Promise((done) => {
    waiting.push({ id: ++last, lang: known, text, done });
    if (waiting.length === 1) next();
  });
}

function next() {
  const job = waiting[0];
  if (!job) return;
  const first = worker === undefined;
  worker ??= start();
  if (!worker) return finish(job.id, undefined);
  worker.postMessage({ id: job.id, lang: job.lang, text: job.text });
  // A worker that has to be loaded first gets more time for its first job.
  timer = setTimeout(
    () => {
      worker?.terminate();
      worker = undefined;
      finish(job.id, undefined);
    },
    first ? 5000 : patience,
  );
}

function finish(id: number, pieces: Piece[] | undefined) {
  if (waiting[0]?.id !== id) return;
  clearTimeout(timer);
  waiting.shift()!.done(pieces);
  next();
}

function start(): Worker | undefined {
  try {
    const made = new Worker(trusted());
    made.onmessage = (e: MessageEvent<{ id: number; pieces?: Piece[] }>) => finish(e.data.id, e.data.pieces);
    made.onerror = () => waiting[0] && finish(waiting[0].id, undefined);
    return made;
  } catch {
    return undefined; // without workers code has no colours
  }
}
