// Approximate matches, for lists that people filter by typing.

/** fuzzy rates how well a text fits: all words must be in it, letters in order.
 *  Higher is better, 0 is no match. */
export function fuzzy(query: string, text: string): number {
  const hay = text.toLowerCase();
  let sum = 1;
  for (const word of query.toLowerCase().split(/\s+/)) {
    if (word === "") continue;
    const rate = one(word, hay);
    if (rate === 0) return 0;
    sum += rate;
  }
  return sum - Math.min(hay.length, 200) / 1000; // of two, the shorter one
}

const starts = (hay: string, at: number) => at === 0 || /[\s/._:-]/.test(hay[at - 1]!);

function one(word: string, hay: string): number {
  const whole = hay.indexOf(word);
  if (whole >= 0) {
    for (let at = whole; at >= 0; at = hay.indexOf(word, at + 1)) if (starts(hay, at)) return 20 + word.length;
    return 10 + word.length;
  }

  // Letters in order, from the beginning of a word.
  for (let from = hay.indexOf(word[0]!); from >= 0; from = hay.indexOf(word[0]!, from + 1)) {
    if (!starts(hay, from)) continue;
    let at = from;
    let rate = 1;
    for (const c of word.slice(1)) {
      const next = hay.indexOf(c, at + 1);
      if (next < 0) return 0;
      if (next === at + 1 || starts(hay, next)) rate++;
      at = next;
    }
    return rate;
  }

  return 0;
}
