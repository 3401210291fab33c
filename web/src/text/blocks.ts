// Markdown as a list of blocks. Text that comes in pieces is parsed once: blocks
// that cannot change any more are kept, and only the end is parsed again. What a
// hostile text could make expensive is shown as plain text instead.
import { Lexer } from "marked";
import type { MarkedOptions, Token } from "marked";
import { formulas } from "./formula";

export type Block =
  | { type: "tokens"; tokens: Token[]; raw: string }
  | { type: "code"; lang: string; text: string; closed: boolean }
  | { type: "plain"; text: string };

/** cost counts the characters given to the parser, for tests. */
export const cost = { block: 0, inline: 0 };

const budget = 8 << 10; // characters parsed in one step
const window = 12 << 10; // and given to the parser at once: a longer block is split
const ahead = 4 << 10; // shown as plain text until they are parsed; laying out all that is left takes long
const longLine = 8 << 10;
const maxMarkers = 12; // nested lists and quotes
const maxIndent = 40;
const maxPipes = 64; // columns of a table
const maxInline = 8 << 10; // of one paragraph
const maxSpecial = 200; // characters of one paragraph that may begin something
const maxSpecials = 600; // of all that is given to the parser at once

const special = /[[\]*_~`<&]/g;
const options = { gfm: true, extensions: formulas } as unknown as MarkedOptions;
const specials = (text: string) => text.match(special)?.length ?? 0;

export class Markdown {
  readonly blocks: Block[] = []; // finished, then those of the end
  private text = "";
  private done = 0; // characters of text that finished blocks stand for
  private fixed = 0; // how many blocks are finished
  private fence = 0; // an open code block was searched for its end up to here
  private head = ""; // of a table that was split

  /** set gives the whole text; it reports whether work is left. */
  set(text: string): boolean {
    if (!text.startsWith(this.text.slice(0, this.done))) this.reset();
    if (text.length < this.text.length) this.fence = this.done;
    this.text = text;
    return this.work();
  }

  private reset() {
    this.blocks.length = 0;
    this.done = this.fixed = this.fence = 0;
  }

  /** work parses one step further; it reports whether more is left. */
  work(): boolean {
    this.blocks.length = this.fixed;
    for (let left = budget; left > 0 && this.done < this.text.length;) {
      const before = this.done;
      if (!this.step()) return false; // the rest is the end, which may still change
      left -= this.done - before;
    }

    if (this.done >= this.text.length) return false;
    this.blocks.push({ type: "plain", text: this.text.slice(this.done, this.done + ahead) }); // until the next step
    return true;
  }

  private finish(block: Block | undefined, length: number) {
    if (block) this.blocks.push(block);
    this.fixed = this.blocks.length;
    this.done += length;
    this.fence = this.done;
  }

  /** step finishes at least one block, or puts the end into blocks and reports false. */
  private step(): boolean {
    const blank = /^(?:[ \t]*\n)+/.exec(this.text.slice(this.done, this.done + 256));
    if (blank) {
      this.finish(undefined, blank[0].length);
      return true;
    }

    const line = this.line(this.done);
    const open = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})[ \t]*([^\s`]*)/.exec(line.slice(0, 1024));
    if (open && line.length < 1024) return this.code(line, open[1]!, open[2] ?? "");
    if (hostile(line)) return this.plain();
    return this.parse();
  }

  private line(from: number): string {
    const end = this.text.indexOf("\n", from);
    return this.text.slice(from, end < 0 ? this.text.length : end);
  }

  // code handles fenced code without the parser: its text may be long, and is
  // searched only once for its end.
  private code(first: string, fence: string, lang: string): boolean {
    const start = this.done + first.length + 1;
    let at = Math.max(start, this.fence);
    while (at < this.text.length) {
      const line = this.line(at);
      const ended = at + line.length < this.text.length;
      const close = line.length < 1024 && /^ {0,3}(`{3,}|~{3,})[ \t]*$/.exec(line);
      if (close && close[1]![0] === fence[0] && close[1]!.length >= fence.length) {
        const block: Block = {
          type: "code",
          lang,
          text: this.text.slice(start, Math.max(start, at - 1)),
          closed: true,
        };

        if (!ended)
          this.blocks.push(block); // the line may go on, and be part of the code
        else this.finish(block, at + line.length + 1 - this.done);
        return ended;
      }

      if (!ended) break;
      at += line.length + 1;
    }

    this.fence = Math.max(start, at);
    this.blocks.push({ type: "code", lang, text: this.text.slice(start), closed: false });
    return false;
  }

  // plain takes the lines up to the next empty one as they are.
  private plain(): boolean {
    let end = this.text.indexOf("\n\n", this.done);
    const last = end < 0;
    if (last) end = this.text.length;
    const text = this.text.slice(this.done, end);
    if (last) {
      this.blocks.push({ type: "plain", text });
      return false;
    }

    this.finish({ type: "plain", text }, text.length + 1);
    return true;
  }

  // parse gives the next part to the parser and keeps what cannot change any more.
  private parse(): boolean {
    const { part, sealed } = this.part();
    const head = part.startsWith("|") ? this.head : "";
    this.head = "";
    const tokens = lex(head + part);
    const whole = !sealed && this.done + part.length >= this.text.length;
    // The last two blocks may grow: a list, a table, a paragraph. Others may still
    // become one with those up to an empty line.
    let keep = tokens.length;
    for (let solid = 0; keep > 0 && solid < 2;) if (tokens[--keep]!.type !== "space") solid++;
    while (keep > 0 && tokens[keep - 1]!.type !== "space" && !tokens[keep - 1]!.raw.endsWith("\n\n")) keep--;
    if (sealed || (keep === 0 && !whole)) {
      const last = tokens[tokens.length - 1];
      if (!sealed && last?.type === "table") this.head = last.raw.split("\n", 2).join("\n") + "\n";
      keep = tokens.length;
    }

    let extra = head.length; // was added, and is not a text of ours
    for (const t of tokens.slice(0, keep)) {
      this.finish(block(t), t.raw.length - extra);
      extra = 0;
    }

    if (!whole) return true;
    this.head = keep === 0 ? head : this.head;
    for (const t of tokens.slice(keep)) {
      const b = block(t);
      if (b) this.blocks.push(b);
    }
    return false;
  }

  // part is the text up to a fence or a hostile line, which seal what is before
  // them, and at most as much as the parser gets at once.
  private part(): { part: string; sealed: boolean } {
    const limit = Math.min(this.text.length, this.done + window);
    let at = this.done;
    let found = 0;
    let sealed = false;
    while (at < limit) {
      const line = this.line(at);
      found += specials(line) + (/^ {0,3}(?:\$\$|\\\[)/.test(line) ? 16 : 0); // a formula cuts paragraphs
      if (at > this.done) {
        sealed = hostile(line) || /^(?:```|~~~)/.test(line.slice(0, 3));
        if (sealed || at + line.length > limit || found > maxSpecials) break;
      }
      at += line.length + 1;
    }

    return { part: this.text.slice(this.done, Math.min(at, this.text.length)), sealed };
  }
}

/** hostile reports whether a line would make parsing expensive. */
function hostile(line: string): boolean {
  if (line.length > longLine) return true;
  if (line.length < maxMarkers) return false;
  const start = /^[\s>*+\-\d.)]*/.exec(line)![0];
  if (start.length > maxIndent || (start.match(/[>*+\-)]|\d\./g)?.length ?? 0) > maxMarkers)
    return !/^[-*_=\s]+$/.test(line);
  let pipes = 0;
  for (let i = line.indexOf("|"); i >= 0; i = line.indexOf("|", i + 1)) if (++pipes > maxPipes) return true;
  return false;
}

function lex(part: string): Token[] {
  cost.block += part.length;
  const lexer = new Lexer({ ...options });
  const tokens = lexer.blockTokens(
    part.replace(/\r\n?|\0/g, (c) => (c === "\0" ? "\ufffd" : "\n".padStart(c.length))),
    [],
  );
  // References to addresses that are written elsewhere stay text: the text
  // before them may be on the screen already.
  lexer.tokens.links = {};
  for (const { src, tokens: into } of lexer.inlineQueue) {
    if (expensive(src)) into.push({ type: "text", raw: src, text: src, escaped: false } as Token);
    else {
      cost.inline += src.length;
      lexer.inlineTokens(src, into);
    }
  }

  return tokens;
}

function expensive(src: string): boolean {
  return src.length > maxInline || specials(src) > maxSpecial;
}

function block(t: Token): Block | undefined {
  if (t.type === "space") return undefined;
  if (t.type === "code") return { type: "code", lang: "", text: (t as { text: string }).text, closed: true };
  return { type: "tokens", tokens: [t], raw: t.raw };
}
