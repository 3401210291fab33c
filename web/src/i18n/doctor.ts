// Texts of the doctor.
import { texts } from ".";

export const t = texts({
  "doctor.intro": ["Checks the program, its settings and data, the model, chat platforms, MCP servers, the schedule and the protection of this machine. The first button makes one small call to the model in use.", "检查程序、设置和数据、模型、聊天平台、MCP 服务器、日程以及这台机器的防护。第一个按钮会对当前模型发起一次小的调用。"],
  "doctor.run": ["Run all checks", "运行所有检查"],
  "doctor.run.offline": ["Run without network requests", "不使用网络运行"],
  "doctor.running": ["Checking", "检查中"],
  "doctor.progress": ["{n} checks are done.", "已完成 {n} 项检查。"],
  "doctor.never": ["The checks have not run since the gateway started.", "网关启动以来还没有运行过检查。"],
  "doctor.summary": ["{broken} broken, {doubtful} to look at, {fine} fine.", "{broken} 项故障，{doubtful} 项需要留意，{fine} 项正常。"],
  "doctor.fix": ["Fix", "修复"],
  "doctor.fix.of": ["Fix: {what}", "修复：{what}"],
  "doctor.fix.text": ["This will be done:", "将执行："],
  "doctor.fixed": ["Fixed.", "已修复。"],
  "value.doctor.fail": ["Broken", "故障"],
  "value.doctor.warn": ["To look at", "需要留意"],
  "value.doctor.skip": ["Not checked", "未检查"],
  "value.doctor.ok": ["Fine", "正常"],
});
