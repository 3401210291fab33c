// Snippets of a search: the words that were found stand between two characters.

export type Piece = { text: string; hit: boolean };

export function pieces(snippet: string): Piece[] {
  const out: Piece[] = [];
  let hit = false;
  for (const text of snippet.split(/([\u0002\u0003])/)) {
    if (text === "\u0002") hit = true;
    else if (text === "\u0003") hit = false;
    else if (text !== "") out.push({ text, hit });
  }
  return out;
}
