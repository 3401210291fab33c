// A formula as MathML. The library gives a tree, of which only known elements with
// known attributes become elements of the page; no HTML is made.
import { h } from "preact";
import type { ComponentChild } from "preact";
import temml from "temml";

interface Node {
  type?: string;
  text?: string;
  attributes?: Record<string, unknown>;
  classes?: string[];
  style?: Record<string, unknown>;
  children?: Node[] | null;
}

const words = (list: string) => new Set(list.split(" "));
const elements = words(
  "math mrow mi mn mo ms mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover mmultiscripts mprescripts none mtable mtr mtd mstyle mpadded mphantom menclose",
);
const attributes = words(
  "accent accentunder columnalign columnlines columnspacing columnspan depth display displaystyle fence form height largeop linethickness lspace mathbackground mathcolor mathsize mathvariant maxsize minsize movablelimits notation rowlines rowspacing rowspan rspace scriptlevel separator stretchy symmetric voffset width",
);
const styles = words(
  "border borderTop borderRight borderBottom borderLeft padding paddingTop paddingRight paddingBottom paddingLeft textAlign fontWeight fontStyle width height mathDepth",
);
const classes =
  /^(?:tml-(?:left|right|center|overline|underline|fbox|cancel|xcancel|jot|small|prime|hat-\d|tilde-\d)|upstrike|downstrike|sout|menclose)$/;
// Words, colours and lengths below 40, so that nothing is far away or huge.
const harmless = (v: string) => /^[\w.%#+ -]{0,40}$/.test(v) && !/(?:^|[ +-])(?:[4-9]\d|\d{3,})(?![\d%])/.test(v);

const deepest = 100;
const most = 4000; // elements of a formula
// A message has no use for macros of its own, which can make a short text a long one.
const macros =
  /\\(?:[a-z]*def|let|futurelet|(?:re)?newcommand|providecommand|DeclareMathOperator|newenvironment|global|long)(?![a-zA-Z])/;

/** draw returns null for what is not a formula, or one too expensive to draw. */
export function draw(tex: string, display: boolean): ComponentChild {
  if (macros.test(tex)) return null;
  try {
    const tree = temml.__renderToMathMLTree(tex, {
      displayMode: display,
      throwOnError: true,
      trust: false,
      strict: false,
      maxSize: [20, 400],
      maxExpand: 500,
      wrap: "none",
    });

    let left = most;
    const convert = (n: Node, depth: number): ComponentChild => {
      if (depth > deepest || left-- <= 0) throw new RangeError();
      if (typeof n.text === "string") return n.text;
      const children = n.children?.map((c) => convert(c, depth + 1)) ?? [];
      if (n.type === undefined) return children;
      const props: Record<string, unknown> = {};
      for (const [name, value] of Object.entries(n.attributes ?? {}))
        if (attributes.has(name) && harmless(String(value))) props[name] = String(value);
      const known = n.classes?.filter((c) => classes.test(c)).join(" ");
      if (known) props.class = known;
      const style = Object.entries(n.style ?? {}).filter(
        ([name, value]) => styles.has(name) && harmless(String(value)),
      );
      if (style.length > 0) props.style = Object.fromEntries(style);
      return h(elements.has(n.type) ? n.type : "mrow", props, children);
    };

    return convert(tree as Node, 0);
  } catch {
    return null; // not a formula, or nested too deeply
  }
}
