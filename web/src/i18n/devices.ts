// Texts of the devices.
import { texts } from ".";

export const t = texts({
  "devices.list": ["Signed-in devices", "已登录的设备"],
  "devices.list.hint": ["Each of these browsers can do everything you can do here.", "其中每个浏览器都能做你在这里能做的一切。"],
  "devices.none": ["No browser is signed in by itself; a proxy vouches for you.", "没有浏览器单独登录；由代理为你担保。"],
  "devices.here": ["this device", "本设备"],
  "devices.seen": ["last used", "上次使用"],
  "devices.created": ["signed in", "登录于"],
  "devices.revoke": ["Sign out", "退出登录"],
  "devices.revoke.of": ["Sign out {name}", "让 {name} 退出登录"],
  "devices.revoke.text": ["It is signed out within a second. To use it again, it must sign in anew.", "它会在一秒内退出登录。再次使用需要重新登录。"],
  "devices.revoke.here": ["This is the browser you are using. To use it again, you need a link or a code of nanobot web, or another signed-in device.", "这是你正在使用的浏览器。再次使用需要 nanobot web 的链接或代码，或另一台已登录的设备。"],
  "devices.revoked": ["{name} is signed out.", "{name} 已退出登录。"],
  "devices.add": ["Add a phone or another computer", "添加手机或另一台电脑"],
  "devices.add.hint": ["Scan the code with the camera. Or open this page there and choose Ask another device.", "用相机扫描二维码，或者在那台设备上打开此页面并选择“请另一台设备批准”。"],
  "devices.add.make": ["Show a QR code", "显示二维码"],
  "devices.add.again": ["Show another one", "换一个"],
  "devices.add.once": ["It signs in one device, once, within {minutes} minutes. Show it to no one else.", "它只能在 {minutes} 分钟内让一台设备登录一次。不要给别人看。"],
  "devices.add.alt": ["QR code with a sign-in link", "含登录链接的二维码"],
  "devices.add.show": ["Show the link", "显示链接"],
});
