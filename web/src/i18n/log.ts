// Texts of the log.
import { texts } from ".";

export const t = texts({
  "log.level": ["Level, at least", "最低级别"],
  "log.words": ["Contains", "包含"],
  "log.session": ["Conversation", "对话"],
  "log.live": ["Show new lines", "显示新的行"],
  "log.none": ["No line of the log fits. Choose a lower level, or clear the filters.", "日志中没有符合条件的行。请选择更低的级别，或清除筛选条件。"],
  "log.none.yet": ["None of the newest lines fits. Older ones may.", "最新的行都不符合条件，更早的可能符合。"],
  "log.older": ["Show older lines", "显示更早的行"],
  "value.log.debug": ["Debug", "调试"],
  "value.log.info": ["Info", "信息"],
  "value.log.warn": ["Warnings", "警告"],
  "value.log.error": ["Errors", "错误"],
});
