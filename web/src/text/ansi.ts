// Output of commands: colours become classes, everything else that a terminal
// would obey is dropped.

export interface Run {
  text: string;
  cls: string;
}

/** ansi splits output into runs with classes. */
export function ansi(text: string): Run[] {
  const out: Run[] = [];
  let fg = "";
  let bold = false;
  let faint = false;
  let underline = false;
  const put = (piece: string) => {
    if (piece === "") return;
    const cls = [fg, bold && "bold", faint && "faint", underline && "underline"].filter(Boolean).join(" ");
    const last = out[out.length - 1];
    if (last?.cls === cls) last.text += piece;
    else out.push({ text: piece, cls });
  };

  // eslint-disable-next-line no-control-regex
  const sequence =
    /\u001b\[([0-9;]*)m|\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]{0,4096}(?:\u0007|\u001b\\)|\u001b[@-Z\\-_]|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;
  let at = 0;
  for (let m = sequence.exec(text); m; m = sequence.exec(text)) {
    put(text.slice(at, m.index));
    at = m.index + m[0].length;
    if (m[1] === undefined) continue;
    const codes = m[1].split(";").map(Number);
    for (let i = 0; i < codes.length; i++) {
      const c = codes[i]!;
      if (c === 0) ((fg = ""), (bold = faint = underline = false));
      else if (c === 1) bold = true;
      else if (c === 2) faint = true;
      else if (c === 4) underline = true;
      else if (c === 22) bold = faint = false;
      else if (c === 24) underline = false;
      else if (c === 38 || c === 48)
        i += codes[i + 1] === 5 ? 2 : 4; // more colours than we have
      else if (c === 39) fg = "";
      else if (c >= 30 && c <= 37) fg = c === 30 || c === 37 ? "" : `fg-${c - 30}`;
      else if (c >= 90 && c <= 97) fg = c === 90 ? "fg-8" : c === 97 ? "" : `fg-${c - 90}`;
    }
  }

  put(text.slice(at));
  return lines(out);
}

/** lines lets a carriage return overwrite its line, as progress bars do. */
function lines(runs: Run[]): Run[] {
  for (const r of runs) {
    if (!r.text.includes("\r")) continue;
    r.text = r.text
      .replace(/\r\n/g, "\n")
      .split("\n")
      .map((l) => l.slice(l.lastIndexOf("\r", l.length - 2) + 1).replace(/\r$/, ""))
      .join("\n");
  }
  return runs.filter((r) => r.text !== "");
}
