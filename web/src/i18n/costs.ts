// Texts about costs beside a chat.
import { texts } from ".";

export const t = texts({
  "costs.meter": ["{spent} of {limit}", "{spent} / {limit}"],
  "costs.meter.label": ["Costs today: {text}. Open the usage page", "今天的费用：{text}。打开用量页面"],
  "costs.meter.today": ["{spent} today", "今天 {spent}"],
  "costs.meter.near": ["{text}, nearly used up", "{text}，即将用完"],
  "costs.meter.reached": ["{text}, limit reached", "{text}，已达限额"],
  "costs.replay": ["Replay", "回放"],
  "costs.estimate": ["about {range}", "约 {range}"],
  "costs.estimate.left": ["about {range}, {left} left", "约 {range}，剩余 {left}"],
});
