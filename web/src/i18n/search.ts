// Texts of the search.
import { texts } from ".";

export const t = texts({
  "search.words": ["Words to find", "要查找的文字"],
  "search.session": ["Conversation", "对话"],
  "search.session.all": ["All", "全部"],
  "search.from": ["From", "从"],
  "search.to": ["To", "到"],
  "search.start": ["Type words to find messages in all conversations, and what is in memory.", "输入文字，查找所有对话中的消息和记忆中的内容。"],
  "search.none": ["Nothing found", "没有找到"],
  "search.none.hint": ["Try fewer words, or search without a conversation and dates.", "试试更少的文字，或不限对话和日期。"],
  "search.total": ["Found: {n}", "找到 {n} 处"],
  "search.atleast": ["Found: {n} or more", "找到 {n} 处或更多"],
  "search.behind": ["The index is still being built; newer messages may be missing.", "索引仍在建立，较新的消息可能缺失。"],
  "search.more": ["More", "更多"],
  "search.tool": ["Tool result", "工具结果"],
  "search.summary": ["Summary of chats", "聊天摘要"],
  "search.archive": ["in the archive", "在归档中"],
});
