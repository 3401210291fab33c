import { deepStrictEqual as same } from "node:assert";
import { test } from "node:test";
import { sentences, translate } from "../../src/i18n/said";

const s = sentences({
  "it is not running": "未运行",
  "it is not running: {1}": "未运行：{1}",
  "{1} cannot be read: {2}": "无法读取 {1}：{2}",
  "{1} MB free at {2}": "{2} 剩余 {1} MB",
  "must be at least {1}": "不得小于 {1}",
  "{1} (line {2}, column {3})": "{1}（第 {2} 行，第 {3} 列）",
  "did you mean {1}?": "是否想输入 {1}？",
  "": "",
});

test("sentences of the program in Chinese", () => {
  for (const [english, chinese] of [
    ["it is not running", "未运行"],
    ["it is not running: it is not running", "未运行：未运行"],
    ["12 MB free at /data", "/data 剩余 12 MB"],
    ["/a: b cannot be read: permission denied", "无法读取 /a: b：permission denied"],
    [
      "tools.x: must be at least 1 (line 3, column 4); did you mean y?",
      "tools.x：不得小于 1（第 3 行，第 4 列）；是否想输入 y？",
    ],
    ["open x: permission denied; try again", "open x: permission denied; try again"],
    ["must be at least $1 {2} $& constructor", "不得小于 $1 {2} $& constructor"],
    ["toString", "toString"],
    ["it is not running: ".repeat(300), "it is not running: ".repeat(300)],
  ])
    same(translate(s, english!), chinese);
});
