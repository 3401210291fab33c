// What the reads about memory answer.

export type File = { path: string; bytes: number; cap: number; text: string; version: string };
export type Origin = { session?: string; sender?: string; time?: string };
export type Held = { id: string; target: string; text: string; sources?: Origin[]; time: string; order?: boolean; state?: string };
export type Change = { id: string; time: string; subject: string; body?: string };
export type Fact = { line: number; text: string; by_hand?: boolean; edited?: boolean; confirmed?: boolean; finding?: string; sources?: Origin[]; guessed?: boolean; time?: string };
export type Overview = { files: File[]; scopes: { name: string; bytes: number }[]; findings: number; history: { entries: number; unread: number }; last_dream?: Change | null };

/** nameOf is what the actions call a file: USER, SOUL or MEMORY. */
export const nameOf = (path: string) => path.replace(/^.*\//, "").replace(/\.md$/i, "");
