// Texts of logins that go step by step.
import { texts } from ".";

export const t = texts({
  "login.qr": ["QR code to scan", "要扫描的二维码"],
  "login.open": ["Open the sign-in page", "打开登录页面"],
  "login.code": ["Enter this code there", "在那里输入此代码"],
  "login.paste": ["Or paste the address at which the browser ended", "或粘贴浏览器最后停留的地址"],
  "login.waiting": ["Waiting for you. This dialog closes by itself.", "等待你操作。完成后对话框会自动关闭。"],
  "login.send": ["Send", "发送"],
});
