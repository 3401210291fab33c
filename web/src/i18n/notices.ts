// Texts of notifications.
import { texts } from ".";

export const t = texts({
  "notices.title": ["Notifications on this device", "本设备的通知"],
  "notices.what": ["nanobot can tell this device that it waits for your answer, also when the page is closed. The message goes through the push service of your browser's maker, encrypted. It says that something waits, and nothing else: no text, no name, no command.", "nanobot 可以告诉本设备它在等待你的回答，页面关闭时也可以。消息经过浏览器厂商的推送服务，已加密。它只说明有事在等待：没有文字、名称或命令。"],
  "notices.enable": ["Enable notifications", "启用通知"],
  "notices.disable": ["Disable notifications", "停用通知"],
  "notices.test": ["Send a test", "发送测试"],
  "notices.tested": ["The push service took the test message.", "推送服务已接收测试消息。"],
  "notices.untested": ["No push service took the test message. The log says why.", "没有推送服务接收测试消息。原因见日志。"],
  "notices.failed": ["The browser refused: {why}", "浏览器拒绝：{why}"],
  "value.notices.on": ["Notifications are on.", "通知已启用。"],
  "value.notices.insecure": ["Browsers allow notifications only over HTTPS, or on the gateway's own machine.", "浏览器只允许通过 HTTPS 或在网关所在的机器上使用通知。"],
  "value.notices.unsupported": ["This browser has no notifications for this page. On an iPhone or iPad, add the page to the home screen first.", "此浏览器对本页面没有通知功能。在 iPhone 或 iPad 上，请先把页面添加到主屏幕。"],
  "value.notices.disabled": ["Notifications are disabled in the settings: gateway.webui.push", "通知已在设置中停用：gateway.webui.push"],
  "value.notices.denied": ["This browser does not allow notifications of this page. Change that in its settings for the page.", "此浏览器不允许本页面的通知。请在浏览器的网站设置中更改。"],
});
