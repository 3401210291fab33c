// Texts that are hard to show: what is said, and how many elements it may become.
// Add one per case.
const nested = Array.from({ length: 200 }, (_, i) => "  ".repeat(i) + "- level " + i).join("\n");
const columns = ["|" + "h|".repeat(1000), "|" + "-|".repeat(1000), "|" + "c|".repeat(1000)].join("\n");

export const inputs = {
  "200 nested lists": [nested, 2000],
  "a table of 1,000 columns": [columns, 6000],
  "a line of 1 MB": ["x".repeat(1 << 20), 1000],
  "a word of 100 KB between stars": ["**" + "x".repeat(100_000) + "**", 1000],
  "50,000 brackets": ["[".repeat(50_000), 1000],
  "25,000 pairs of brackets": ["[".repeat(25_000) + "]".repeat(25_000), 1000],
  "20,000 stars": ["*a ".repeat(20_000), 3000],
  "10,000 links": ["[a](http://x.example) ".repeat(10_000), 30_000],
  "5,000 quotes in each other": [">".repeat(5000) + " deep", 3000],
  "20,000 backticks": ["`".repeat(20_000) + "a", 1000],
  "10,000 pipes": ["|a".repeat(10_000) + "\n|-", 3000],
  "5,000 headings": ["# h\n".repeat(5000), 12_000],
  "an unclosed fence": ["```js\n" + "let x = 1;\n".repeat(2000), 30_000],
  "an unclosed fence of an unknown language": ["```" + "z".repeat(5000) + "\ncode", 1000],
  "right-to-left marks": ["\u202e\u2067abc\u2069 שלום \u200f مرحبا", 1000],
  "joined emoji": ["👩‍👩‍👧‍👦".repeat(2000), 1000],
  "marks on one letter": ["a" + "\u0301".repeat(20_000), 1000],
  "200 KB with code": [
    Array.from(
      { length: 200 },
      (_, i) => `Text ${i}.\n\n\`\`\`go\nfunc f${i}() { return "${"x".repeat(900)}" }\n\`\`\`\n`,
    ).join("\n"),
    30_000,
  ],
};
