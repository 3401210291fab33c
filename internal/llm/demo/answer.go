package demo

import (
	"fmt"
	"slices"
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
	if t.page {
		return t.localize(
			`I am the built-in demo model, not an AI; I know only a few phrasings (ask "what can you do?"). `+
				"To add a real model, open [Set up a model](#/setup): a key of a provider, a sign-in, or a server on your own machine. Then ask again.",
			"我是内置的演示模型，不是 AI，只听得懂几种固定说法（问“你能做什么？”可以看到）。要接入真正的模型，请打开[设置模型](#/setup)：服务商的密钥、登录，或本机的服务器。然后再问我一次。")
	}

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

// suggestion is a phrase that works in any folder, an empty one too.
type suggestion struct {
	english, chinese string
	tools            []string // that it needs
}

func suggestions() []suggestion {
	return []suggestion{
		{"list files", "列出文件", []string{"list_dir"}},
		{`write "hello" to hello.txt, then read hello.txt`, "把“你好”写入 hello.txt，然后读取 hello.txt", []string{"write_file", "read_file"}},
		{"search for hello", "搜索 hello", []string{"grep"}},
		{`run "date"`, "运行“date”", []string{"exec"}},
		{"remember that the door code is 1234", "记住门禁密码是 1234", []string{"write_file"}},
	}
}

// abilities answers "what can you do?": what works here, with the tools that
// are offered.
func (t *turn) abilities() string {
	var b strings.Builder
	b.WriteString(t.localize(
		"I am the built-in demo model, not an AI, but the tools I call are real. Try:\n\n",
		"我是内置的演示模型，不是 AI，但我调用的工具是真的。可以试试：\n\n"))
	for _, s := range suggestions() {
		if !slices.ContainsFunc(s.tools, func(name string) bool { return !t.offered(name) }) {
			b.WriteString("- " + t.localize(s.english, s.chinese) + "\n")
		}
	}

	if t.page {
		b.WriteString(t.localize(
			"\nJoin two with \"then\". For a real model open [Set up a model](#/setup).",
			"\n用“然后”可以连着做两件事。要用真正的模型，请打开[设置模型](#/setup)。"))
		return b.String()
	}

	b.WriteString(t.localize(
		"\nJoin two with \"then\". For a real model set a key such as ANTHROPIC_API_KEY, start a local server such as Ollama, or run: nanobot onboard",
		"\n用“然后”可以连着做两件事。要用真正的模型：设置密钥（如 ANTHROPIC_API_KEY）、启动本机模型（如 Ollama），或运行：nanobot onboard"))
	return b.String()
}

// summary describes the finished steps in plain words with their real results.
// asked is how many steps the user wanted.
func (t *turn) summary(done []report, asked int) string {
	var parts []string
	for _, r := range done {
		parts = append(parts, t.describe(r))
	}
	if left := asked - len(done); left > 0 {
		parts = append(parts, fmt.Sprintf(t.localize("I stopped here; %d more not done.", "到此为止，还有 %d 步没做。"), left))
	}
	parts = append(parts, t.localize("("+notAI+")", "（"+notAIzh+"）"))
	return strings.Join(parts, "\n\n")
}

func (t *turn) describe(r report) string {
	st := r.step
	if r.missing != "" {
		return fmt.Sprintf(t.localize("I cannot do that here: the tool %s is not available.", "这里做不到：没有工具 %s。"), r.missing)
	}

	said := plainResult(st.act, r.outcome.text)
	if r.outcome.failed {
		return t.localize("That did not work: ", "没有成功：") + plainError(said)
	}

	result := "\n\n" + quote(said)
	if said == "" {
		result = "\n\n" + t.localize("(nothing)", "（没有内容）")
	}

	switch st.act {
	case actList:
		if st.path == "." {
			return t.localize("In this folder there is:", "当前文件夹里有：") + result
		}
		return fmt.Sprintf(t.localize("In %s there is:", "%s 里有："), st.path) + result

	case actRead:
		return fmt.Sprintf(t.localize("%s says:", "%s 的内容："), st.path) + result
	case actWrite:
		return fmt.Sprintf(t.localize("Written to %s:", "已写入 %s："), st.path) + result
	case actSearch:
		return fmt.Sprintf(t.localize("Searching for %q gave:", "搜索“%s”的结果："), st.text) + result
	case actRun:
		return fmt.Sprintf(t.localize("The command `%s` gave:", "命令 `%s` 的输出："), st.text) + result
	case actNote:
		return fmt.Sprintf(t.localize("Noted: %s", "记下了：%s"), st.text) + result
	default:
		return strings.TrimSpace(result)
	}
}

// plainResult returns the result of a tool without what only a model can use: notes
// in brackets, numbers of lines, labels.
func plainResult(act action, s string) string {
	if i := strings.LastIndex(s, "Exit code: "); act == actRun && i >= 0 {
		code, _, _ := strings.Cut(s[i:], "\n")
		s = s[:i] + strings.TrimSuffix(code, "Exit code: 0")
	}

	lines := strings.Split(strings.TrimSpace(s), "\n")
	for last := len(lines) - 1; last >= 0 && aside(act, lines[last]); last-- {
		lines = lines[:last]
	}

	for i, l := range lines {
		switch act {
		case actRead, actSearch:
			lines[i] = unnumbered(l)
		case actRun:
			lines[i] = strings.TrimPrefix(l, "STDERR:")
		}
	}

	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// aside reports whether a line at the end of a result is not part of it.
func aside(act action, l string) bool {
	if act == actRun {
		return false
	}
	return l == "" || strings.HasPrefix(l, "[") && strings.HasSuffix(l, "]") ||
		act == actRead && strings.HasPrefix(l, "(") // how to read on
}

// unnumbered returns a line without the number that read_file and grep put before
// it.
func unnumbered(l string) string {
	rest := strings.TrimLeft(strings.TrimPrefix(l, ">"), " ")
	number, text, ok := strings.Cut(rest, "| ")
	if !ok {
		number, ok = strings.CutSuffix(rest, "|")
	}
	if ok && number != "" && strings.Trim(number, "0123456789") == "" {
		return text
	}
	return l
}

// plainError returns the first sentence of an error; what follows tells a model what
// to do.
func plainError(s string) string {
	s, _, _ = strings.Cut(strings.TrimPrefix(s, "Error: "), "\n")
	s, _, _ = strings.Cut(s, "; ")
	if first, _, ok := strings.Cut(s, ". "); ok {
		s = first
	}
	return strings.TrimSuffix(s, ".") + "."
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
