// The states of something that is read: loading, failed, empty, there.
import type { ComponentChildren } from "preact";
import { failureText, t } from "../i18n";
import type { Reading } from "../state/read";

export function Read<T>({ of, children }: { of: Reading<T>; children(data: T): ComponentChildren }) {
  return (
    <>
      {of.failure && (
        <p class="wrong" role="alert">
          {failureText(of.failure)}{" "}
          <button type="button" class="button" onClick={of.reload}>
            {t("read.again")}
          </button>
        </p>
      )}
      {of.data === undefined && !of.failure && (
        <p class="hint" role="status">
          {t("app.loading")}
        </p>
      )}
      {of.data !== undefined && children(of.data)}
    </>
  );
}
