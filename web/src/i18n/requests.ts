// Texts of sign-in requests.
import { texts } from ".";

export const t = texts({
  "request.title": ["A device wants to sign in", "有设备请求登录"],
  "request.who": ["{name}, from {address}", "{name}，来自 {address}"],
  "request.local": ["It runs on the gateway's own machine, but it is not proven to be yours: the agent can run programs there, too. Approve it only if you see these digits on your screen now.", "它运行在网关所在的机器上，但无法证明属于你：智能体也能在那里运行程序。只有此刻在你的屏幕上看到这些数字时才批准。"],
  "request.how": ["Approve it only if the same digits are on its screen. It can then do everything you can do here.", "只有当它的屏幕上显示相同的数字时才批准。批准后，它可以做你在这里能做的一切。"],
  "request.approve": ["Approve", "批准"],
  "request.deny": ["Deny", "拒绝"],
});
