// Texts of the dialogs of a conversation.
import { texts } from ".";

export const t = texts({
  "archive.title": ["Archived conversations", "已归档的对话"],
  "archive.empty": ["The archive is empty. Archive a conversation from its menu in the list.", "归档为空。可在列表中对话的菜单里归档它。"],
  "archive.restore": ["Restore", "恢复"],
  "archive.erase": ["Delete", "删除"],
  "archive.erase.title": ["Delete “{title}” for good?", "彻底删除“{title}”？"],
  "archive.erase.text": ["It is erased, and search does not find it any more. This cannot be undone.", "它会被彻底删除，搜索也不会再找到它。此操作无法撤销。"],
  "archive.next": ["Older", "更早"],
  "archive.close": ["Close", "关闭"],
  "options.title": ["This conversation", "此对话"],
  "options.model": ["Model", "模型"],
  "options.model.usual": ["As in the settings ({name})", "按设置（{name}）"],
  "options.model.other": ["Another model", "其他模型"],
  "options.model.name": ["Name of the model, such as anthropic/claude-sonnet-4-5", "模型名称，例如 anthropic/claude-sonnet-4-5"],
  "options.folder": ["Folder", "文件夹"],
  "options.folder.path": ["Works in", "工作目录"],
  "options.folder.hint": ["The change applies from the next turn on.", "更改从下一轮开始生效。"],
  "options.access": ["Access", "访问权限"],
  "options.access.restricted": ["Only this folder", "仅此文件夹"],
  "options.access.full": ["As in the settings", "按设置"],
  "options.cancel": ["Cancel", "取消"],
  "options.save": ["Save", "保存"],
  "options.offline": ["Not connected: try again when the connection is back.", "未连接：恢复连接后请重试。"],
});
