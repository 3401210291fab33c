import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, sends } from "../../src/chat/keys";
import { ansi } from "../../src/text/ansi";
import { Markdown, cost } from "../../src/text/blocks";
import type { Block } from "../../src/text/blocks";
import { flatten } from "../../src/text/flatten";
import { decode, dense, label, ownHref, safeHref, visible } from "../../src/text/links";

function parse(text: string): Block[] {
  const doc = new Markdown();
  for (let left = doc.set(text); left;) left = doc.work();
  return doc.blocks;
}

function stream(text: string, size: number): Block[] {
  const doc = new Markdown();
  for (let at = size; at < text.length + size; at += size) doc.set(text.slice(0, at));
  while (doc.work());
  return doc.blocks;
}

const kinds = (blocks: Block[]) => blocks.map((b) => (b.type === "tokens" ? b.tokens[0]!.type : b.type));

const sample = `# Title

A paragraph with **bold**, \`code\` and [a link](https://example.com).
Second line.

- one
- two
  \`\`\`js
  inside(list)
  \`\`\`

  more of two
- three

1. first

2. second

| a | b |
|---|--:|
| 1 | 2 |

> quoted
> text

\`\`\`go
func main() {

}
\`\`\`
Text right after.

***

<b>not bold</b>

[1]: https://example.com
Last words`;

test("blocks are found", () => {
  assert.deepEqual(kinds(parse(sample)), [
    "heading",
    "paragraph",
    "list",
    "list",
    "table",
    "blockquote",
    "code",
    "paragraph",
    "hr",
    "paragraph",
    "def",
    "paragraph",
  ]);
});

test("text that comes in pieces of any size gives the same blocks", () => {
  const want = JSON.stringify(parse(sample));
  for (const size of [1, 2, 3, 7, 16, 50, 333])
    assert.equal(JSON.stringify(stream(sample, size)), want, `pieces of ${size}`);
});

test("long text parsed in steps gives the same blocks as in one", () => {
  const long = Array.from({ length: 120 }, (_, i) => sample.replace("Title", `Title ${i}`)).join("\n\n");
  const blocks = parse(long);
  assert.equal(kinds(blocks).filter((k) => k === "heading").length, 120);
  assert.equal(JSON.stringify(stream(long, 5000)), JSON.stringify(blocks));
});

test("texts made of hard parts give the same blocks in pieces", () => {
  const bits = [
    "\n",
    "\n\n",
    "- a",
    "  - b",
    "1. c",
    "> q",
    "```",
    "```js\n",
    "~~~",
    "**",
    "`",
    "| a | b |\n|---|---|\n",
    "# h",
    "    ind",
    "\t",
    "[x](http://a.b)",
    "text",
    "<div>",
    "</div>",
    "---",
    "===",
    "[r]: /x",
    "  ",
    "*",
    "\r\n",
  ];
  let seed = 1;
  const random = () => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) / 0x7fffffff;
  for (let i = 0; i < 500; i++) {
    const text = Array.from(
      { length: 3 + Math.floor(random() * 25) },
      () => bits[Math.floor(random() * bits.length)],
    ).join("");
    const want = JSON.stringify(parse(text));
    for (const size of [1, 4]) assert.equal(JSON.stringify(stream(text, size)), want, JSON.stringify(text));
  }
});

test("a table that is longer than a part keeps its head", () => {
  const blocks = parse("| a | b |\n|---|---|\n" + "| 1 | 2 |\n".repeat(3000));
  assert.ok(blocks.length > 1);
  assert.ok(
    kinds(blocks).every((k) => k === "table"),
    kinds(blocks).join(" "),
  );
});

test("no character of the text is lost", () => {
  const text = (b: Block) => (b.type === "tokens" ? b.raw : b.text);
  for (const source of [
    sample,
    sample.replace(/\n/g, "\r\n"),
    "a\r\rb",
    "\0",
    "\n\n\n",
    "\t- x\n\n    code\n\nend",
    "a\n===\nb\n---\n",
  ]) {
    const all = parse(source).map(text).join("").replace(/\s/g, "");
    for (const word of source.replace(/```\w*/g, "").match(/[a-z]{2,}/gi) ?? [])
      assert.ok(all.includes(word), `${word} of ${JSON.stringify(source.slice(0, 40))}`);
  }
});

test("a finished block stays the same object while text comes in", () => {
  const doc = new Markdown();
  doc.set("# One\n\nTwo\n\nThree\n\nFour");
  const first = doc.blocks[0];
  doc.set("# One\n\nTwo\n\nThree\n\nFour and more");
  assert.equal(doc.blocks[0], first);
  doc.set("Other text");
  assert.deepEqual(kinds(doc.blocks), ["paragraph"]);
});

test("streaming a long text parses each part a few times, not each time", () => {
  const long = Array.from(
    { length: 400 },
    (_, i) => `Paragraph ${i} with some words in it, to be long enough to count.`,
  ).join("\n\n");
  cost.block = cost.inline = 0;
  const pieces = Math.ceil(long.length / 20);
  stream(long, 20);
  assert.ok(cost.block < pieces * 400, `${cost.block} characters for ${long.length} in ${pieces} pieces`);
  const code = "```js\n" + "let x = 1;\n".repeat(20_000);
  cost.block = cost.inline = 0;
  stream(code, 1000);
  assert.equal(cost.block, 0, "code is not parsed");
});

// Each of these must cost no more than a few times its length. What the parser
// could not do cheaply does not reach it.
const hostile: [name: string, text: string, most: number][] = [
  ["unclosed fence", "```js\n" + "x\n".repeat(50_000), 0],
  ["200 nested lists", Array.from({ length: 200 }, (_, i) => " ".repeat(i * 2) + "- x").join("\n"), 9_000],
  ["nested lists on a line", "- ".repeat(500) + "x", 0],
  ["nested quotes", ">".repeat(500) + "x", 0],
  ["1,000 columns", "|a".repeat(1000) + "|\n" + "|-".repeat(1000) + "|\n" + "|b".repeat(1000) + "|", 0],
  ["a line of 1 MB", "x".repeat(1 << 20), 0],
  ["50,000 brackets", "[".repeat(50_000), 0],
  ["brackets in lines", ("[".repeat(100) + "\n").repeat(500), 120_000],
  ["stars in lines", ("*a _b ".repeat(20) + "\n").repeat(100), 40_000],
  ["backticks", "`".repeat(49) + " " + ("`".repeat(7) + " x ").repeat(2000), 0],
  ["open tags", "<a ".repeat(5000), 30_000],
  ["many fences", "```\n```\n".repeat(5000), 0],
  ["right-to-left marks", "\u202e\u200f".repeat(5000), 20_000],
  ["joined emoji", "👩‍👩‍👧‍👦".repeat(1000), 20_000],
];

const mostParsed = 24 << 10; // characters given to the parser in one step
const mostMade = 12_000; // tokens that one step may make, each an element or two

/** tokensOf counts all tokens of a block. */
function tokensOf(b: Block): number {
  const count = (x: unknown): number => {
    if (Array.isArray(x)) return x.reduce((sum: number, y) => sum + count(y), 0);
    if (typeof x !== "object" || x === null) return 0;
    return 1 + Object.values(x).reduce((sum: number, y) => sum + count(y), 0);
  };
  return b.type === "tokens" ? count(b.tokens) : 1;
}

for (const [name, text, most] of hostile) {
  test(`hostile: ${name}`, () => {
    cost.block = cost.inline = 0;
    const blocks = parse(text);
    assert.ok(blocks.length > 0);
    assert.ok(cost.block <= most, `${cost.block} characters were parsed, ${most} are allowed`);
    assert.ok(cost.inline <= most, `${cost.inline} characters were parsed, ${most} are allowed`);
  });

  // A step is what the page does without a break. Its work has a bound, whatever the
  // text is, and however it comes.
  for (const pieces of [1, 40]) {
    test(`hostile, in ${pieces} pieces: no step is long: ${name}`, () => {
      const doc = new Markdown();
      for (let n = 1; n <= pieces; n++) {
        const part = text.slice(0, Math.ceil((text.length * n) / pieces));
        for (let left = true, first = true; left; first = false) {
          cost.block = cost.inline = 0;
          const known = new Set(doc.blocks);
          left = first ? doc.set(part) : doc.work();
          const made = doc.blocks.filter((b) => !known.has(b)).reduce((sum, b) => sum + tokensOf(b), 0);
          assert.ok(
            cost.block <= mostParsed && cost.inline <= mostParsed,
            `${cost.block} and ${cost.inline} characters in one step`,
          );
          assert.ok(made <= mostMade, `${made} tokens in one step`);
          if (pieces > 1) break; // the rest comes with the next piece
        }
      }
    });
  }
}

test("only addresses that are safe become links", () => {
  for (const bad of [
    "javascript:alert(1)",
    " javascript:alert(1)",
    "JAVASCRIPT:x",
    "java\nscript:x",
    "data:text/html,x",
    "vbscript:x",
    "file:///etc/passwd",
    "//evil.example",
    "/settings",
    "evil",
    "blob:x",
    "https://",
    "http://\u0000x",
    "\u0001javascript:x",
    "api/../secret",
    "#x",
  ]) {
    assert.equal(safeHref(bad), undefined, bad);
  }
  assert.equal(safeHref("https://example.com/a?b#c"), "https://example.com/a?b#c");
  assert.equal(safeHref("mailto:a@b.example"), "mailto:a@b.example");
  assert.equal(safeHref("#/c/x"), "#/c/x");
  assert.ok(ownHref("/api/media/abc.def"));
  assert.ok(!ownHref("https://evil.example/api/media/x"));
});

test("entities are decoded and nothing more", () => {
  assert.equal(
    decode("a &amp; b &lt;b&gt; &#39; &#x41; &unknown; &#0; &toString;"),
    "a & b <b> ' A &unknown; \ufffd &toString;",
  );
});

test("characters that hide or reorder text are shown", () => {
  assert.equal(visible("a\u202eb\u200bc\u0007"), "a\\u{202e}b\\u{200b}c\\u{7}");
  assert.equal(visible("plain text, Ünïcode, 中文"), "plain text, Ünïcode, 中文");
});

test("names keep joined emoji and lose what reorders text", () => {
  assert.equal(label("a\u202eb\nc 👩\u200d👧"), "a b c 👩\u200d👧");
});

test("colours of commands become classes, the rest is dropped", () => {
  assert.deepEqual(ansi("a\u001b[31mred\u001b[0m b"), [
    { text: "a", cls: "" },
    { text: "red", cls: "fg-1" },
    { text: " b", cls: "" },
  ]);
  assert.deepEqual(ansi("\u001b]8;;http://x\u0007link\u001b]8;;\u0007"), [{ text: "link", cls: "" }]);
  assert.deepEqual(ansi("\u001b[2J\u001b[1;4mx\u001b[38;5;9my"), [{ text: "xy", cls: "bold underline" }]);
  assert.deepEqual(ansi("10%\r50%\r100%\ndone\r\n"), [{ text: "100%\ndone\n", cls: "" }]);
  assert.deepEqual(ansi("\u001b["), [{ text: "[", cls: "" }]);
});

test("nested tokens of code become flat pieces", () => {
  assert.deepEqual(
    flatten([
      "a ",
      { type: "keyword", content: "if" },
      { type: "template-string", content: ["`x", { type: "unknown", content: "y" }] },
    ]),
    [
      ["", "a "],
      ["keyword", "if"],
      ["string", "`xy"],
    ],
  );
  assert.deepEqual(flatten([{ type: "constructor", content: "x" }]), [["", "x"]]);
});

test("Enter sends, but never out of an input method", () => {
  const press = {
    key: "Enter",
    keyCode: 13,
    isComposing: false,
    shiftKey: false,
    ctrlKey: false,
    metaKey: false,
    altKey: false,
  };
  assert.ok(sends(press, "send", false));
  assert.ok(!sends({ ...press, isComposing: true }, "send", false));
  assert.ok(!sends({ ...press, keyCode: 229 }, "send", false));
  assert.ok(!sends(press, "send", true));
  assert.ok(!sends({ ...press, shiftKey: true }, "send", false));
  assert.ok(!sends(press, "break", false));
  assert.ok(sends({ ...press, ctrlKey: true }, "break", false));
  assert.equal(bytes("中".repeat(30_000), 60 << 10), 90_000);
});

test("empty space cannot push the end of a command out of sight", () => {
  const say = { spaces: (n: number) => `${n} spaces`, empty: (n: number) => `${n} empty lines` };
  const end = "rm -rf ~";
  assert.equal(dense("date" + " ".repeat(900) + end, say), "date‹900 spaces›" + end);
  assert.equal(dense("date\n" + "\n".repeat(900) + end, say), "date\n‹900 empty lines›\n" + end);
  assert.equal(dense("date" + "\t".repeat(60) + end, say), "date‹60 spaces›" + end);
  assert.equal(dense("date\n" + (" ".repeat(99) + "\n\n").repeat(99) + end, say), "date\n‹198 empty lines›\n" + end);
  assert.equal(dense("if true; then\n\n    date\nfi\n", say), "if true; then\n\n    date\nfi\n");
});
