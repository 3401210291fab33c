// What the checks of the doctor look at. A test compares the keys with the checks
// that the program has; the finding itself comes from the program.
import { texts } from ".";
import { visible } from "../text/links";

const all = {
  "finding.api.key": ["Key of the API", "API 密钥"],
  "finding.approval.fallback": ["Approvals without an answer", "无人回答的审批"],
  "finding.approval.mode": ["Approval of risky calls", "风险调用的审批"],
  "finding.approval.rules": ["Rules of approvals", "审批规则"],
  "finding.channels": ["Chat platforms", "聊天平台"],
  "finding.channels.open": ["Who may write", "谁可以发消息"],
  "finding.clock": ["Clock", "时钟"],
  "finding.clock.zone": ["Time zone", "时区"],
  "finding.config": ["Configuration file", "配置文件"],
  "finding.config.settings": ["Settings", "设置"],
  "finding.config.warning": ["A setting to look at", "需要留意的设置"],
  "finding.crash": ["Crashes", "崩溃"],
  "finding.data": ["Data folder", "数据文件夹"],
  "finding.data.other": ["Other files in the data folder", "数据文件夹中的其他文件"],
  "finding.disk": ["Disk space", "磁盘空间"],
  "finding.exec.binds": ["Folders that commands may write to", "命令可写入的文件夹"],
  "finding.exec.env": ["Variables that commands see", "命令可见的环境变量"],
  "finding.exec.processes": ["Processes that commands see", "命令可见的进程"],
  "finding.exec.sandbox": ["Sandbox of commands", "命令沙箱"],
  "finding.exec.seccomp": ["System calls of commands", "命令的系统调用"],
  "finding.files.modes": ["Who can read nanobot's files", "谁能读取 nanobot 的文件"],
  "finding.files.protect": ["Protected files", "受保护的文件"],
  "finding.files.restrict": ["Files that tools may use", "工具可使用的文件"],
  "finding.files.workspace": ["Place of the workspace", "工作区的位置"],
  "finding.gateway": ["Gateway", "网关"],
  "finding.journal": ["Queue of messages", "消息队列"],
  "finding.links": ["Links to nanobot's own files", "指向 nanobot 自身文件的链接"],
  "finding.mcp": ["MCP servers", "MCP 服务器"],
  "finding.memory.import": ["History of another program", "其他程序的历史"],
  "finding.model": ["Model", "模型"],
  "finding.origin": ["Record of files from outside", "外来文件记录"],
  "finding.port": ["Port", "端口"],
  "finding.program": ["Program", "程序"],
  "finding.program.user": ["User of the program", "运行程序的用户"],
  "finding.sandbox": ["Sandbox", "沙箱"],
  "finding.schedule": ["Schedule", "日程"],
  "finding.schedule.old": ["Jobs of an older version", "旧版本的任务"],
  "finding.schedule.workspace": ["Jobs in the workspace", "工作区中的任务"],
  "finding.secrets.weak": ["Weak secrets", "弱密钥"],
  "finding.security": ["Protection of this machine", "这台机器的防护"],
  "finding.service": ["System service", "系统服务"],
  "finding.sessions": ["Conversations", "对话"],
  "finding.sessions.import": ["Conversations of another program", "其他程序的对话"],
  "finding.sessions.keys": ["Keys in conversations", "对话中的密钥"],
  "finding.skills": ["Skills", "技能"],
  "finding.undo": ["Log of file changes", "文件变更日志"],
  "finding.web.private": ["Private networks", "私有网络"],
  "finding.web.reader": ["Reader of web pages", "网页阅读服务"],
  "finding.webui.reach": ["Who can reach the web interface", "谁能访问网页界面"],
  "finding.workspace": ["Workspace", "工作区"],
  "finding.workspaces": ["List of workspaces", "工作区列表"],
  // With a name behind them.
  "finding.channel.": ["Chat platform {name}", "聊天平台 {name}"],
  "finding.mcp.": ["MCP server {name}", "MCP 服务器 {name}"],
  "finding.provider.": ["Provider {name}", "服务商 {name}"],
  "finding.proxy.": ["Proxy {name}", "代理 {name}"],
  "finding.schedule.": ["Job {name}", "任务 {name}"],
  "finding.skill.": ["Skill {name}", "技能 {name}"],
} as const;

const t = texts(all);
const known = (key: string): key is keyof typeof all => Object.hasOwn(all, key);

/** findingTitle says what a finding is about; one of a newer gateway has its id. */
export function findingTitle(id: string): string {
  const key = "finding." + id.replace(/^security\./, "");
  if (known(key)) return t(key);
  const dot = key.indexOf(".", 8);
  const group = key.slice(0, dot + 1);
  return dot > 0 && known(group) ? t(group, { name: visible(key.slice(dot + 1)) }) : visible(id);
}
