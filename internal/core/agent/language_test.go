package agent_test

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// What the agent itself says is in the language of whoever wrote; what the
// model says is its own business.
func TestChinese(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t, llmtest.Reply("hello"), llmtest.Step{Err: &llm.Error{Kind: llm.Auth, Provider: "acme", Message: "bad key"}}))
	h.start()
	for _, tt := range []struct{ text, want string }{
		{"/help", "列出命令"},
		{"/hepl", "您是指 /help 吗"},
		{"/status", "模型："},
		{"/new now", "/new 不需要参数。"},
		{"hi", "hello"},
		{"again", "acme 拒绝了 API 密钥"},
		{"/stop", "没有正在运行的任务。"},
	} {
		msg := in("zh", tt.text)
		msg.Language = "zh"
		if got := h.ask(msg); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q does not hold %q", tt.text, got, tt.want)
		}
	}
	msg := in("zh", "/stop")
	msg.Language = "zh"
	outs, err := h.collect(msg)
	if err != nil || len(outs) == 0 || outs[len(outs)-1].Language != "zh" {
		t.Errorf("the channel does not learn the language: %+v, %v", outs, err)
	}
	if got := h.ask(in("en", "/stop")); got != "Nothing is running." {
		t.Errorf("another chat: %q", got)
	}
}
