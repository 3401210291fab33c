// A labelled control with its hint and what is wrong with it.
import type { ComponentChildren } from "preact";

export function Field({
  label,
  hint,
  wrong,
  children,
}: {
  label: string;
  hint?: ComponentChildren;
  wrong?: string;
  children: ComponentChildren;
}) {
  return (
    <label class="field">
      <span>{label}</span>
      {children}
      {hint && <small class="hint">{hint}</small>}
      {wrong && (
        <small class="wrong" role="alert">
          {wrong}
        </small>
      )}
    </label>
  );
}
