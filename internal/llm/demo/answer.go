package demo

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// The announcement every answer carries.
const (
	notAI   = "demo model, not an AI"
	notAIzh = "演示模型，不是 AI"
)

// Limits of what an answer quotes of a result.
const (
	quoteLines = 20
	quoteRunes = 1200
)

// introduction answers everything the model does not understand: how to get a
// real model, and what works right now.
func (t *turn) introduction() string {
	if t.zh {
		return `我是内置的演示模型，不是 AI，只听得懂几种固定说法（问“你能做什么？”可以看到）。接入真正的模型：

- 用密钥：export ANTHROPIC_API_KEY=... （或 OPENAI_API_KEY、OPENROUTER_API_KEY、DEEPSEEK_API_KEY）
- 用本机模型：启动 Ollama、LM Studio、llama.cpp 或 vLLM，会自动找到
- 一步步设置：nanobot onboard

然后再问我一次。`
	}
	return `I am the built-in demo model, not an AI; I know only a few phrasings (ask "what can you do?"). To add a real model:

- with a key: export ANTHROPIC_API_KEY=... (or OPENAI_API_KEY, OPENROUTER_API_KEY, DEEPSEEK_API_KEY)
- on this machine: start Ollama, LM Studio, llama.cpp or vLLM; it is found by itself
- step by step: nanobot onboard

Then ask again.`
}

// abilities answers "what can you do?": the phrases whose tools are offered.
func (t *turn) abilities() string {
	var b strings.Builder
	b.WriteString(t.say(
		"I am the built-in demo model, not an AI, but the tools I call are real. Try:\n\n",
		"我是内置的演示模型，不是 AI，但我调用的工具是真的。可以试试：\n\n"))
	for _, p := range Phrases() {
		if p.Tool == "" || !t.offered(p.Tool) {
			continue
		}
		b.WriteString("- " + t.say(p.English, p.Chinese) + "\n")
	}
	b.WriteString(t.say(
		"\nJoin two with \"then\". For a real model set a key such as ANTHROPIC_API_KEY, start a local server such as Ollama, or run: nanobot onboard",
		"\n用“然后”可以连着做两件事。要用真正的模型：设置密钥（如 ANTHROPIC_API_KEY）、启动本机模型（如 Ollama），或运行：nanobot onboard"))
	return b.String()
}

// tell reports the finished steps in plain words with their real results.
// asked is how many steps the user wanted.
func (t *turn) tell(done []report, asked int) string {
	var parts []string
	for _, r := range done {
		parts = append(parts, t.tellOne(r))
	}
	if left := asked - len(done); left > 0 {
		parts = append(parts, fmt.Sprintf(t.say("I stopped here; %d more not done.", "到此为止，还有 %d 步没做。"), left))
	}
	parts = append(parts, t.say("("+notAI+")", "（"+notAIzh+"）"))
	return strings.Join(parts, "\n\n")
}

func (t *turn) tellOne(r report) string {
	st := r.step
	if r.missing != "" {
		return fmt.Sprintf(t.say("I cannot do that here: the tool %s is not available.", "这里做不到：没有工具 %s。"), r.missing)
	}
	result := "\n\n" + quote(r.outcome.text)
	if r.outcome.failed {
		return t.say("That did not work:", "没有成功：") + result
	}
	switch st.act {
	case actList:
		return fmt.Sprintf(t.say("In %s there is:", "%s 里有："), st.path) + result
	case actRead:
		return fmt.Sprintf(t.say("%s says:", "%s 的内容："), st.path) + result
	case actWrite:
		return fmt.Sprintf(t.say("Written to %s:", "已写入 %s："), st.path) + result
	case actSearch:
		return fmt.Sprintf(t.say("Searching for %q gave:", "搜索“%s”的结果："), st.text) + result
	case actRun:
		return fmt.Sprintf(t.say("The command `%s` gave:", "命令 `%s` 的输出："), st.text) + result
	case actNote:
		return fmt.Sprintf(t.say("Noted: %s", "记下了：%s"), st.text) + result
	default:
		return strings.TrimSpace(result)
	}
}

// quote shortens a result and puts it in a code block whose fence is longer
// than any inside it.
func quote(s string) string {
	s = strings.TrimRight(s, "\n")
	cut := false
	if lines := strings.SplitN(s, "\n", quoteLines+1); len(lines) > quoteLines {
		s, cut = strings.Join(lines[:quoteLines], "\n"), true
	}
	if utf8.RuneCountInString(s) > quoteRunes {
		s, cut = string([]rune(s)[:quoteRunes]), true
	}
	if cut {
		s += "\n…"
	}
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "\n" + s + "\n" + fence
}
