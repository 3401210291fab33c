// A long list that mounts more of its rows when the person gets near their end.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

const step = 100;

export function Growing<R>({ rows, children }: { rows: readonly R[]; children(row: R, n: number): ComponentChildren }) {
  const [most, setMost] = useState(step);
  const end = useRef<HTMLLIElement>(null);
  const more = most < rows.length;
  useEffect(() => {
    if (!more || !end.current) return;
    const near = new IntersectionObserver((seen) => seen.some((e) => e.isIntersecting) && setMost((n) => n + step), {
      root: end.current.closest(".page"),
      rootMargin: "1000px",
    });
    near.observe(end.current);
    return () => near.disconnect();
  }, [more, most]);

  return (
    <>
      {rows.slice(0, most).map(children)}
      {more && <li ref={end} class="more" aria-hidden="true" />}
    </>
  );
}
