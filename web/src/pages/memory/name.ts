// The names of memory files.

/** nameOf is what the actions call a file: USER, SOUL or MEMORY. */
export const nameOf = (path: string) => path.replace(/^.*\//, "").replace(/\.md$/i, "");
