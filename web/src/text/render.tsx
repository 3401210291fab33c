// Tokens become elements. No HTML is made: what a message contains is text.
import type { Token, Tokens } from "marked";
import type { ComponentChild } from "preact";
import { t as say } from "../i18n";
import type { Block } from "./blocks";
import { Code } from "./code";
import { MathView } from "./formula";
import type { Formula } from "./formula";
import { decode, mediaSrc, ownHref, safeHref } from "./links";
import { Picture, picturePath } from "./picture";

export function renderBlock(b: Block, key: number): ComponentChild {
  switch (b.type) {
    case "code":
      return <Code key={key} lang={b.lang} text={b.text} closed={b.closed} />;
    case "plain":
      return (
        <p key={key} class="plain">
          {b.text}
        </p>
      );
    case "tokens":
      return <BlockTokens key={key} tokens={b.tokens} />;
  }
}

function BlockTokens({ tokens }: { tokens: Token[] }) {
  return <>{tokens.map(blockToken)}</>;
}

function blockToken(token: Token, key: number): ComponentChild {
  const t = token as Tokens.Generic;
  switch (t.type) {
    case "space":
      return null;
    case "heading": {
      const Tag = `h${Math.min(6, (t.depth as number) + 1)}` as "h2";
      return <Tag key={key}>{inline(t.tokens)}</Tag>;
    }
    case "paragraph":
      return <p key={key}>{inline(t.tokens)}</p>;
    case "text":
      return <span key={key}>{t.tokens ? inline(t.tokens) : decode(t.text)}</span>;
    case "blockquote":
      return <blockquote key={key}>{t.tokens?.map(blockToken)}</blockquote>;
    case "list":
      return list(t as unknown as Tokens.List, key);
    case "table":
      return table(t as unknown as Tokens.Table, key);
    case "code":
      return <Code key={key} lang={t.lang ?? ""} text={t.text} closed />;
    case "math":
      return <MathView key={key} of={token as unknown as Formula} />;
    case "hr":
      return <hr key={key} />;
    default: // HTML, definitions, and what is newer than this page
      return (
        <p key={key} class="plain">
          {t.raw.replace(/\n+$/, "")}
        </p>
      );
  }
}

function list(t: Tokens.List, key: number): ComponentChild {
  const items = t.items.map((item, n) => (
    <li key={n} class={item.task ? "task" : undefined}>
      {item.task && (
        <input
          type="checkbox"
          checked={item.checked}
          disabled
          aria-label={item.checked ? say("chat.task.done") : say("chat.task.open")}
        />
      )}
      {item.tokens.filter((c) => c.type !== "checkbox").map(blockToken)}
    </li>
  ));

  if (!t.ordered) return <ul key={key}>{items}</ul>;
  return (
    <ol key={key} start={typeof t.start === "number" && t.start !== 1 ? t.start : undefined}>
      {items}
    </ol>
  );
}

function table(t: Tokens.Table, key: number): ComponentChild {
  const side = (n: number) => (t.align[n] === "right" ? "a-right" : t.align[n] === "center" ? "a-center" : undefined);
  return (
    <div key={key} class="table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {t.header.map((c, n) => (
              <th key={n} scope="col" class={side(n)}>
                {inline(c.tokens)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {t.rows.map((row, r) => (
            <tr key={r}>
              {row.map((c, n) => (
                <td key={n} class={side(n)}>
                  {inline(c.tokens)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inline(tokens: Token[] | undefined): ComponentChild {
  return tokens?.map(inlineToken);
}

function inlineToken(token: Token, key: number): ComponentChild {
  const t = token as Tokens.Generic;
  switch (t.type) {
    case "strong":
      return <strong key={key}>{inline(t.tokens)}</strong>;
    case "em":
      return <em key={key}>{inline(t.tokens)}</em>;
    case "del":
      return <del key={key}>{inline(t.tokens)}</del>;
    case "codespan":
      return <code key={key}>{t.text}</code>;
    case "math":
      return <MathView key={key} of={token as unknown as Formula} />;
    case "br":
      return <br key={key} />;
    case "link":
      return anchor(t.href, inline(t.tokens), t.raw, key);
    case "image":
      return image(t.href, decode(t.text || ""), t.raw, key);
    case "escape":
      return decode(t.text);
    case "text":
      return t.tokens ? inline(t.tokens) : decode(t.text);
    default:
      return t.raw;
  }
}

function anchor(href: string, label: ComponentChild, raw: string, key: number): ComponentChild {
  const safe = safeHref(href);
  if (safe === undefined) return raw;
  if (safe.startsWith("#"))
    return (
      <a key={key} href={safe}>
        {label}
      </a>
    );

  return (
    <a key={key} href={ownHref(safe) ? mediaSrc(safe) : safe} target="_blank" rel="noopener noreferrer nofollow">
      {label}
    </a>
  );
}

// An image of ours is shown. One from elsewhere would tell its server that the
// message was read, so it is a link.
function image(href: string, alt: string, raw: string, key: number): ComponentChild {
  if (ownHref(href) && !href.startsWith("#")) return <img key={key} src={mediaSrc(href)} alt={alt} loading="lazy" />;
  const path = picturePath(href);
  if (path !== undefined) return <Picture key={key} path={path} name={alt || path} />;
  return anchor(href, alt || href, raw, key);
}
