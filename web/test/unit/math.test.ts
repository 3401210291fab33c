import assert from "node:assert/strict";
import { test } from "node:test";
import type { Token } from "marked";
import { Markdown } from "../../src/text/blocks";
import type { Block } from "../../src/text/blocks";
import { formula } from "../../src/text/formula";
import { draw } from "../../src/text/math";

function parse(text: string, size = text.length): Block[] {
  const doc = new Markdown();
  for (let at = size; at < text.length + size; at += size) doc.set(text.slice(0, at));
  while (doc.work());
  return doc.blocks;
}

type Deep = { type: string; text: string; display?: boolean; tokens?: Deep[]; items?: Deep[] };
function found(blocks: Block[]): string[] {
  const out: string[] = [];
  const walk = (t: Deep) => {
    if (t.type === "math") out.push((t.display ? "block " : "") + t.text.trim());
    for (const c of t.tokens ?? t.items ?? []) walk(c);
  };
  for (const b of blocks) if (b.type === "tokens") (b.tokens as Token[]).forEach((t) => walk(t as unknown as Deep));
  return out;
}
const formulas = (text: string, size?: number) => found(parse(text, size));

test("formulas are found in all four forms", () => {
  assert.deepEqual(formulas("Euler: $e^{i\\pi}+1=0$, and \\(a_1*b_1\\)."), ["e^{i\\pi}+1=0", "a_1*b_1"]);
  assert.deepEqual(formulas("Text:\n$$\na\n- b\n$$\nmore"), ["block a\n- b"]);
  assert.deepEqual(formulas("\\[ x \\\\[2pt] y \\]\n\nand $$z$$ inline"), ["block x \\\\[2pt] y", "block z"]);
  assert.deepEqual(formulas("1. first\n   \\[\n   x\n   \\]\n2. **$y$**"), ["block x", "y"]);
  assert.deepEqual(formulas("$\\text{a \\$5 note}$"), ["\\text{a \\$5 note}"]);
});

test("prices, variables and code are no formulas", () => {
  const none = [
    "It costs $5 and $10.",
    "$ 5 $",
    "US$5 or HK$ 6",
    "$HOME/$USER",
    "`$x$` and ``\\(y\\)``",
    "```\n$$x$$\n```",
    "\\$a\\$",
    "$5`$`",
    "a $x\n\ny$",
    "$$\n\n$$",
    "$$x",
    "\\[x",
    "\\(x",
    "$x\ny$",
  ];
  for (const text of none) assert.deepEqual(formulas(text), [], text);
});

test("a formula that comes in pieces is one, also when it is long open", () => {
  const text = "Before\n\n$$\na\n= b\n- c\n$$\nafter $x_1$ and\n\n- item \\(y\\)\n\n$$ open\n\nend";
  const want = JSON.stringify(parse(text));
  assert.deepEqual(formulas(text), ["block a\n= b\n- c", "x_1", "y"]);
  for (const size of [1, 2, 3, 7, 16]) assert.equal(JSON.stringify(parse(text, size)), want, `pieces of ${size}`);
});

test("long formulas and texts full of signs stay text", () => {
  assert.equal(formula("$$" + "x".repeat(11 << 10) + "$$"), undefined);
  for (const text of [
    "$".repeat(20000),
    "$$\n".repeat(7000),
    "\\(".repeat(10000),
    "\\[\n".repeat(7000),
    "$x ".repeat(7000),
    "a$b".repeat(7000),
    "\\".repeat(9000) + "$",
  ]) {
    assert.deepEqual(formulas(text), [], JSON.stringify(text.slice(0, 6)));
  }
});

interface Made {
  type: string;
  props: Record<string, unknown> & { children?: unknown };
}
function nodes(made: unknown, out: Made[] = []): Made[] {
  if (Array.isArray(made)) for (const m of made) nodes(m, out);
  else if (made && typeof made === "object") {
    out.push(made as Made);
    nodes((made as Made).props.children, out);
  }
  return out;
}
const words = (made: unknown): string =>
  typeof made === "string"
    ? made
    : Array.isArray(made)
      ? made.map(words).join("")
      : made && typeof made === "object"
        ? words((made as Made).props.children)
        : "";

test("a formula becomes MathML", () => {
  const made = draw("\\frac{a^2}{\\sqrt{b}} \\begin{pmatrix}1&2\\\\3&4\\end{pmatrix} \\text{if } x \\le \\infty", true);
  const types = new Set(nodes(made).map((n) => n.type));
  for (const want of ["math", "mfrac", "msup", "msqrt", "mtable", "mtd", "mtext"]) assert.ok(types.has(want), want);
  assert.equal(nodes(made)[0]!.props.display, "block");
  assert.match(words(made), /if.*x.*≤.*∞/s);
});

test("hostile formulas make no link, image, class, id, style or address", () => {
  const bad = [
    "\\href{javascript:alert(1)}{x}",
    "\\url{javascript:alert(1)}",
    "\\includegraphics{http://x.example/a.png}",
    "\\class{danger}{x}",
    "\\id{main}{x}",
    "\\style{position:fixed;background:url(http://x.example)}{x}",
    "\\data{a=b}{x}",
    "\\htmlClass{danger}{x}",
    "\\htmlStyle{color:red}{x}",
    "\\htmlData{a=b}{x}",
    "\\ref{x}",
    "\\label{main} x",
    "\\tag{<img src=x>} x",
    "\\text{<img src=x onerror=alert(1)>}",
    "\\texttip{x}{y}",
    "\\color{url(x)} x",
    "\\colorbox{red}{x}",
    "\\hspace{-99999em} x",
    "\\hspace{99999em} x",
    "\\rule{9999em}{9999em}",
    "\\kern-9999pt x",
    "\\raisebox{9999em}{x}",
    "\\raisebox{-90em}{x}",
    "\\hskip 9999em",
    "\\__proto__",
    "\\constructor",
    "\\toString",
  ];
  for (const tex of bad)
    for (const n of nodes(draw(tex, false))) {
      assert.match(n.type, /^m/, tex);
      for (const [name, value] of Object.entries(n.props)) {
        if (name === "children") continue;
        const text = JSON.stringify(value);
        assert.doesNotMatch(name, /href|src|^id$|title|data|^on|html/i, tex);
        assert.doesNotMatch(
          text,
          /url|javascript|danger|fixed|absolute|(?<![\d.])(?:[4-9]\d|\d{3,})(?:\.\d+)?(?:em|pt|px)/,
          `${tex}: ${name}=${text}`,
        );
      }
    }
});

test("macro bombs, deep and broken formulas stay text", () => {
  const bombs = [
    "\\def\\a{\\a\\a}\\a",
    "\\newcommand{\\a}{xxxxxxxx}\\a",
    "\\gdef\\a{x}\\a",
    "\\let\\a\\b",
    "{".repeat(3000) + "}".repeat(3000),
    "\\sqrt{".repeat(1500) + "x" + "}".repeat(1500),
    "x^{".repeat(2000),
    "\\frac{a",
    "\\nosuchcommand",
    "\\left( x",
  ];
  for (const tex of bombs) assert.equal(draw(tex, true), null, tex.slice(0, 30));
});
