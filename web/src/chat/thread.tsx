// The messages of a conversation: a list of which only a window is mounted. It
// follows the end while the person is there, and holds its position otherwise.
import { Component, createRef } from "preact";
import { t } from "../i18n";
import { t as tt } from "../i18n/tools";
import { grouped } from "../state/group";
import type { Item, Thread } from "../state/items";
import { chatHref } from "../state/route";
import { readNewer, readOlder } from "../state/store";
import { Icon } from "../ui/icon";
import { Heights, offsets, range, rowAt } from "../ui/window";
import type { Row } from "../ui/window";
import { Spent } from "./footer";
import { ItemView } from "./item";

interface Props {
  id: string;
  chat: string;
  thread: Thread;
  at?: number; // index of the message to show
}

interface State {
  from: number;
  to: number;
  end: boolean; // the end is in view
  version: number;
  print: boolean; // paper has no window: everything is mounted
}

const lead = 72; // pixels above a message that was looked for
const ahead = 600; // pixels from either end at which the next page is read
const near = 48; // pixels from the end that still count as the end

const lineKinds = new Set<Item["kind"]>(["tool", "group", "thought", "note", "end"]);

/** kept are the heights of every conversation that was on the screen. */
const kept = new Map<string, Heights>();

function estimate(i: Item): number {
  switch (i.kind) {
    case "text":
    case "user":
      return 44 + Math.ceil(i.text.length / 80) * 25;
    case "question":
      return 240;
    default:
      return 32;
  }
}

/** waiting are the calls that wait for the answer to a question. */
function waiting(items: readonly Item[]): Set<string> {
  const out = new Set<string>();
  for (const i of items)
    if (i.kind === "question" && i.state === "open" && i.detail?.call_id) out.add(i.detail.call_id);
  return out;
}

export class ThreadView extends Component<Props, State> {
  override state: State = { from: 0, to: 0, end: true, version: 0, print: false };
  private readonly box = createRef<HTMLDivElement>();
  private readonly heights: Heights;
  private rows: Row[] = [];
  private rowsOf: readonly Item[] | undefined;
  private tops: Float64Array = new Float64Array(1);
  private measured = -1;
  private view = { top: 0, height: 800 };
  private found: string | undefined;
  private moved = false;
  private anchor: { id: string; delta: number } | undefined;
  private readonly ids = new WeakMap<Element, string>();
  private observer: ResizeObserver | undefined;

  constructor(props: Props) {
    super(props);
    let h = kept.get(props.id);
    if (!h) kept.set(props.id, (h = new Heights()));
    this.heights = h;
    this.state.end = props.at === undefined;
  }

  override componentDidMount() {
    this.observer = new ResizeObserver((entries) => {
      let changed = false;
      for (const e of entries) {
        const id = this.ids.get(e.target);
        if (id !== undefined) changed = this.heights.set(id, e.borderBoxSize[0]?.blockSize ?? 0) || changed;
        else {
          this.view.height = e.contentRect.height || this.view.height;
          changed = true;
        }
      }

      if (changed) this.setState({ version: this.heights.version });
    });

    this.observer.observe(this.box.current!);
    for (const el of this.box.current!.querySelectorAll<HTMLElement>("[data-id]")) this.observe(el);
    this.place();
    addEventListener("beforeprint", this.printing);
    addEventListener("afterprint", this.printing);
  }

  private readonly printing = (e: globalThis.Event) => this.setState({ print: e.type === "beforeprint" });

  override componentWillUnmount() {
    removeEventListener("beforeprint", this.printing);
    removeEventListener("afterprint", this.printing);
    this.observer?.disconnect();
  }

  override componentDidUpdate() {
    this.place();
    this.readAround();
  }

  // readAround reads the pages beside what is in view, long before the person is there.
  private readAround() {
    const { id, thread } = this.props;
    if (thread.more && thread.loaded && this.view.top < ahead) void readOlder(id);
    if (thread.newer && this.view.top + this.view.height > this.tops[this.rows.length]! - ahead) void readNewer(id);
  }

  // find puts the wanted message near the top, once it is there.
  private find() {
    const { at, thread } = this.props;
    if (at === undefined || this.found !== undefined || thread.items.length === 0) return;
    const n = Math.max(
      0,
      grouped(thread.items).findIndex((i) => "index" in i && i.index !== undefined && i.index >= at),
    );
    this.found = this.rows[n]!.id;
    this.anchor = { id: this.found, delta: lead };
    this.view.top = Math.max(0, this.tops[n]! - lead);
    this.moved = true;
  }

  // place scrolls to where the person was.
  private place() {
    const box = this.box.current!;
    if (this.moved) {
      this.moved = false;
      box.scrollTop = this.view.top;
      return;
    }

    if (this.state.end) {
      box.scrollTop = this.tops[this.rows.length]! + 10_000; // the end, without asking for the layout
      return;
    }

    const a = this.anchor;
    if (!a) return;
    const n = this.rows.findIndex((r) => r.id === a.id);
    if (n < 0) return;
    const top = this.tops[n]! - a.delta;
    if (Math.abs(top - this.view.top) > 1) {
      this.view.top = top;
      box.scrollTop = top;
    }
  }

  private readonly scrolled = () => {
    const box = this.box.current;
    if (!box) return; // the list left the page in the frame in which it scrolled
    const top = box.scrollTop;
    this.view = { top, height: box.clientHeight };
    const end = this.props.at === undefined && box.scrollHeight - top - box.clientHeight < near;
    const n = rowAt(this.tops, top);
    const row = this.rows[n];
    this.anchor = row && { id: row.id, delta: this.tops[n]! - top };
    const [from, to] = range(this.tops, top, this.view.height);
    if (end !== this.state.end || from !== this.state.from || to !== this.state.to) this.setState({ from, to, end });
    else this.readAround(); // the window is the same, but the end came nearer
  };

  private readonly observe = (el: HTMLElement | null) => {
    if (!el || !this.observer) return;
    this.ids.set(el, el.dataset.id!);
    this.observer.observe(el);
  };

  private layout() {
    const items = grouped(this.props.thread.items);
    if (items === this.rowsOf && this.measured === this.heights.version) return;
    if (items !== this.rowsOf) this.rows = items.map((i) => ({ id: i.id, estimate: estimate(i) }));
    this.rowsOf = items;
    this.measured = this.heights.version;
    this.tops = offsets(this.rows, this.heights);
  }

  private readonly toEnd = () => {
    this.setState({ end: true });
  };

  override render({ thread, chat, id, at }: Props, { end, print }: State) {
    this.layout();
    this.find();
    const key = id.split("\n")[0]!;
    const n = this.rows.length;
    const top = end ? Math.max(0, this.tops[n]! - this.view.height) : this.view.top;
    const [from, to] = print ? [0, n] : range(this.tops, top, this.view.height);
    this.state.from = from;
    this.state.to = to;
    const asked = waiting(thread.items);

    return (
      <div class="thread-box">
        <div
          ref={this.box}
          class="thread"
          tabIndex={0}
          role="log"
          aria-live="off"
          aria-label={t("chat.messages")}
          onScroll={this.scrolled}
        >
          <div class="list">
            {thread.more && from === 0 && <p class="notice">{t("chat.older")}</p>}
            <div style={{ height: `${this.tops[from]}px` }} />
            {grouped(thread.items)
              .slice(from, to)
              .map((i) => (
                <div
                  key={i.id}
                  data-id={i.id}
                  ref={this.observe}
                  class={lineKinds.has(i.kind) ? "item line" : i.id === this.found ? "item found" : "item"}
                >
                  <ItemView item={i} chat={chat} id={key} waiting={asked.has(i.id)} />
                </div>
              ))}
            <div style={{ height: `${this.tops[n]! - this.tops[to]!}px` }} />
            {thread.running && thread.used?.turn === thread.running.turn && thread.used && (
              <p class="so-far">
                <span>{tt("footer.sofar")}</span>
                <Spent usage={thread.used.usage} />
              </p>
            )}
          </div>
        </div>
        {at !== undefined && (
          <div class="latest">
            <a class="button" href={chatHref(key)}>
              <Icon name="down" />
              {t("chat.latest")}
            </a>
          </div>
        )}
        {!end && at === undefined && (
          <div class="latest">
            <button type="button" class="button" onClick={this.toEnd}>
              <Icon name="down" />
              {t("chat.latest")}
            </button>
          </div>
        )}
      </div>
    );
  }
}
