// Texts of the replay of a turn.
import { texts } from ".";

export const t = texts({
  "replay.chat": ["Open the chat", "打开聊天"],
  "replay.none": ["Open a replay from the line below an answer in a chat.", "在聊天中，从回答下方的一行打开回放。"],
  "replay.timeline": ["Timeline", "时间线"],
  "replay.timeline.label": ["Timeline of {n} steps in {total}. The table has the numbers.", "{total} 内 {n} 个步骤的时间线。数字见表格。"],
  "replay.mark": ["A model call is hollow until its first token. A dashed frame is a failure.", "模型调用在第一个词元之前为空心。虚线框表示失败。"],
  "replay.steps": ["Steps", "步骤"],
  "replay.cut": ["This turn has more steps than are shown.", "此轮的步骤多于显示的数量。"],
  "replay.nocalls": ["No model calls are recorded for this turn.", "此轮没有模型调用记录。"],
  "replay.empty": ["Nothing is recorded for this turn.", "此轮没有记录。"],
  "replay.total": ["Total", "总计"],
  "replay.model": ["Model", "模型"],
  "replay.tools": ["Tools", "工具"],
  "replay.people": ["Waiting for you", "等待你"],
  "replay.other": ["nanobot itself", "nanobot 自身"],
  "replay.tokens": ["Tokens", "词元"],
  "replay.cost": ["Cost", "费用"],
  "replay.col.at": ["At", "时刻"],
  "replay.col.what": ["What", "内容"],
  "replay.col.took": ["Took", "用时"],
  "replay.col.first": ["First token", "首个词元"],
  "replay.col.tokens": ["Tokens in → out", "词元 输入 → 输出"],
  "replay.waited": ["Waited for an answer: {answer}", "等待回答：{answer}"],
  "replay.edit": ["{path} +{added} −{deleted}", "{path} +{added} −{deleted}"],
  "replay.subagent": ["(subagent)", "（子代理）"],
});
