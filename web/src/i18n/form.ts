// Texts of forms that are made from a schema.
import { texts } from ".";

export const t = texts({
  "form.unset": ["Not set", "未设置"],
  "form.default": ["Default ({value})", "默认（{value}）"],
  "form.on": ["On", "开"],
  "form.off": ["Off", "关"],
  "form.lines": ["One per line.", "每行一个。"],
  "form.json": ["As JSON.", "JSON 格式。"],
  "form.json.wrong": ["This is not JSON; it is not used.", "这不是 JSON，不会被使用。"],
  "form.secret.kept": ["Stored. Leave empty to keep it.", "已保存。留空则保持不变。"],
  "form.name": ["Name", "名称"],
  "form.add": ["Add", "添加"],
  "form.remove": ["Remove {name}", "删除 {name}"],
});
