// The messages of a conversation: a list of which only a window is mounted. It
// follows the end while the person is there, and holds its position otherwise.
import { Component, createRef } from "preact";
import { t } from "../i18n";
import type { Item, Thread } from "../state/items";
import { readOlder } from "../state/store";
import { Icon } from "../ui/icon";
import { Heights, offsets, range, rowAt } from "../ui/window";
import type { Row } from "../ui/window";
import { ItemView } from "./item";

interface Props {
  id: string;
  chat: string;
  thread: Thread;
}

interface State {
  from: number;
  to: number;
  end: boolean; // the end is in view
  version: number;
}

const near = 48; // pixels from the end that still count as the end

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

export class ThreadView extends Component<Props, State> {
  override state: State = { from: 0, to: 0, end: true, version: 0 };
  private readonly box = createRef<HTMLDivElement>();
  private readonly heights: Heights;
  private rows: Row[] = [];
  private rowsOf: readonly Item[] | undefined;
  private tops: Float64Array = new Float64Array(1);
  private measured = -1;
  private view = { top: 0, height: 800 };
  private anchor: { id: string; delta: number } | undefined;
  private readonly ids = new WeakMap<Element, string>();
  private observer: ResizeObserver | undefined;

  constructor(props: Props) {
    super(props);
    let h = kept.get(props.id);
    if (!h) kept.set(props.id, (h = new Heights()));
    this.heights = h;
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
  }

  override componentWillUnmount() {
    this.observer?.disconnect();
  }

  override componentDidUpdate() {
    this.place();
    if (this.view.top < 600 && this.props.thread.more && this.props.thread.loaded) void readOlder(this.props.id);
  }

  // place scrolls to where the person was.
  private place() {
    const box = this.box.current!;
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
    const box = this.box.current!;
    const top = box.scrollTop;
    this.view = { top, height: box.clientHeight };
    const end = box.scrollHeight - top - box.clientHeight < near;
    const n = rowAt(this.tops, top);
    const row = this.rows[n];
    this.anchor = row && { id: row.id, delta: this.tops[n]! - top };
    const [from, to] = range(this.tops, top, this.view.height);
    if (end !== this.state.end || from !== this.state.from || to !== this.state.to) this.setState({ from, to, end });
  };

  private readonly observe = (el: HTMLElement | null) => {
    if (!el || !this.observer) return;
    this.ids.set(el, el.dataset.id!);
    this.observer.observe(el);
  };

  private layout() {
    const items = this.props.thread.items;
    if (items === this.rowsOf && this.measured === this.heights.version) return;
    if (items !== this.rowsOf) this.rows = items.map((i) => ({ id: i.id, estimate: estimate(i) }));
    this.rowsOf = items;
    this.measured = this.heights.version;
    this.tops = offsets(this.rows, this.heights);
  }

  private readonly toEnd = () => {
    this.setState({ end: true });
  };

  override render({ thread, chat }: Props, { end }: State) {
    this.layout();
    const n = this.rows.length;
    const top = end ? Math.max(0, this.tops[n]! - this.view.height) : this.view.top;
    const [from, to] = range(this.tops, top, this.view.height);
    this.state.from = from;
    this.state.to = to;
    return (
      <div class="thread-box">
        <div ref={this.box} class="thread" tabIndex={0} role="log" aria-live="off" aria-label={t("chat.messages")} onScroll={this.scrolled}>
          <div class="list">
            {thread.more && from === 0 && <p class="notice">{t("chat.older")}</p>}
            <div style={{ height: `${this.tops[from]}px` }} />
            {thread.items.slice(from, to).map((i) => (
              <div key={i.id} data-id={i.id} ref={this.observe} class={i.kind === "tool" || i.kind === "thought" || i.kind === "end" ? "item line" : "item"}>
                <ItemView item={i} chat={chat} />
              </div>
            ))}
            <div style={{ height: `${this.tops[n]! - this.tops[to]!}px` }} />
          </div>
        </div>
        {!end && (
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
