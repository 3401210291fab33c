package phrase_test

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
)

// Sentences are found in a text that was finished in English. Names, and sentences that
// are not known, stay.
func TestRecognize(t *testing.T) {
	t.Parallel()
	for english, want := range map[string]string{
		"": "",
		"config has settings that cannot be used: /a b/config.json\n" +
			"  agents.defaults.maxTokens: must be a whole number (line 2, column 52)\n" +
			"  agents.defaults.temprature: unknown key, ignored (line 2, column 60); did you mean temperature?\n" +
			"\n    2 |   \"agents\": *\n      |             ^": "配置中有无法使用的设置：/a b/config.json\n" +
			"  agents.defaults.maxTokens：必须是整数（第 2 行，第 52 列）\n" +
			"  agents.defaults.temprature：未知的键，已忽略（第 2 行，第 60 列）；您是指 temperature 吗？\n" +
			"\n    2 |   \"agents\": *\n      |             ^",
		"providers.openai.apiKey: environment variable NOPE is not set (line 1, column 83)": "providers.openai.apiKey：环境变量 NOPE 未设置（第 1 行，第 83 列）",
		"this text holds a character JSON does not allow (line 3, column 1); write \\\\ for a backslash " +
			"and \\n for a line break, and look for a missing \"": "该文本含有 JSON 不允许的字符（第 3 行，第 1 列）；反斜杠请写 \\\\，换行请写 \\n，并检查是否缺少 \"",
		"process 12 answers on 127.0.0.1:18790": "进程 12 在 127.0.0.1:18790 上应答",
		"config file cannot be read: /nope/x.json\n  there is no such file\nCreate it with: nanobot " +
			"onboard -c /nope/x.json": "无法读取配置文件：/nope/x.json\n  没有这个文件\n创建命令：nanobot onboard -c /nope/x.json",
		"/nope/x.json cannot be read: permission denied": "无法读取 /nope/x.json：权限不足",
		"mkdir /x: permission denied":                    "mkdir /x：权限不足",
		"openai/x at openai: openai cannot be reached. Check the network, the proxy and the base URL.": "openai/x at openai：无法连接 openai。请检查网络、代理和接口地址。",
		"The model server limits the rate; trying again in 2 s (attempt 3 of 4).":                      "模型服务器限制了请求速率；2 秒后重试（第 3 次，共 4 次）。",
		"today's budget of $0.10 does not allow another model call: $0.09 spent, and this one may cost " +
			"$0.02 or more. It starts afresh at Mon 2 Jan 15:04, in 3 h 1 min. To raise it: nanobot config " +
			"set agents.defaults.budget.dailyUsd 0.2 (0 is no limit)": "今天的额度 $0.10 不允许再次调用模型：已用 $0.09，而这次可能花费 $0.02 或更多。额度将于 Mon 2 Jan 15:04 重新开始（3 小时 1 分钟后）。" +
			"提高额度：nanobot config set agents.defaults.budget.dailyUsd 0.2（0 表示没有上限）",
		"80 % of today's budget is used: $0.80 of $1.00. At the limit calls are stopped; raise it with: " +
			"nanobot config set agents.defaults.budget.dailyUsd 2": "已用去今天的额度的 80 %：$0.80 / $1.00。达到上限时将停止调用；提高额度：nanobot config set agents.defaults.budget.dailyUsd " +
			"2",
		"101 % of this month's budget is used: 1.2M tokens of 1.1M tokens. Work goes on, because " +
			"agents.defaults.budget.onExceed allows it. See: nanobot usage": "已用去本月的额度的 101 %：1.2M tokens / 1.1M tokens。因为 agents.defaults.budget.onExceed 允许，工作会继续。" +
			"详情：nanobot usage",
		"running: stop":                                "running: stop",
		"something new: happened (line three)":         "something new: happened (line three)",
		"a: no such file or directory; what is this b": "a：没有该文件或文件夹；what is this b",
	} {
		if got := phrase.Recognize(phrase.Chinese, english); got != want {
			t.Errorf("Recognize(%q)\n got %q\nwant %q", english, got, want)
		}
		if got := phrase.Recognize(phrase.English, english); got != english {
			t.Errorf("English became %q", got)
		}
	}
}
