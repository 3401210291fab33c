// What lies above the page is rendered at the end of the body: the styles of the
// place that opened it do not reach it.
import { Component, render } from "preact";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

interface Props {
  children: ComponentChildren;
}

export class Portal extends Component<Props> {
  private readonly root = document.createElement("div");

  override componentDidMount() {
    document.body.append(this.root);
    this.show();
  }

  override componentDidUpdate() {
    this.show();
  }

  override componentWillUnmount() {
    render(null, this.root);
    this.root.remove();
  }

  private show() {
    render(<>{this.props.children}</>, this.root);
  }

  override render() {
    return null;
  }
}

let names = 0;

/** useName is an id for an element, which no other element of the page has. The ids
 *  of Preact are only different within one root. */
export const useName = () => useState(() => `n${++names}`)[0];
