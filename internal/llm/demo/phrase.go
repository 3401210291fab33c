package demo

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

type action int

const (
	actHelp action = iota + 1
	actList
	actRead
	actWrite
	actSearch
	actRun
	actNote
)

// step is one thing the user asked for.
type step struct {
	act  action
	path string
	text string // what to write, search, run or note
}

// rule is one way to ask for an action: how a sentence begins, and the pattern
// of what follows. Of several beginnings the first that fits counts.
type rule struct {
	act    action
	begins []string
	rest   string
}

// rules returns all phrases, the first that fits counts. docs/reference/demo.md
// promises some of them.
//
// A pattern is a regular expression in which a word in braces stands for a part
// of wordings. Commands need quotes or a colon, and a file that is written without
// quotes around its text needs a name that looks like one: a sentence must not
// become a command or a file by accident.
func rules() []rule {
	run := []string{"run", "execute", "运行", "执行"}
	return []rule{
		{actHelp, []string{"what can you do", "what do you do", "what can i do", "help me", "help", "who are you", "what are you"}, ``},
		{actHelp, []string{"你能做什么", "你会做什么", "你可以做什么", "你能干什么", "你会什么", "帮助", "你是谁", "你是什么"}, ``},

		{actNote, []string{"remember that", "remember", "note that", "note down", "记住", "记下来", "记下", "备忘"}, `{note}`},
		{actNote, []string{"note"}, `[:：]{note}`},

		{actWrite, []string{"write", "save"}, `{quote}\s*(to|into|in|as)\b\s*{path}`},
		{actWrite, []string{"write", "save"}, `{text} (to|into|in|as) {file}`},
		{actWrite, []string{"把", "将"}, `{quote}\s*(写入|写到|写进|保存到|存到|存入)\s*{path}`},
		{actWrite, []string{"把", "将"}, `{words}(写入|写到|写进|保存到|存到|存入)\s*{file}`},

		{actRun, run, `{command}\s*[:：]\s*({quote}$|{text}$)`},
		{actRun, run, `{command}\s*{quote}`},

		{actSearch, []string{"在"}, `{path}\s*(里面|里|中|下|目录|文件夹)*\s*(搜索|查找|搜一下|找)\s*(文件)?\s*({quote}|{words})`},
		{actSearch, []string{"search for", "search", "find", "grep", "搜索", "查找", "搜一下"}, `{files}{quote}(\s*in\b\s*{path})?`},
		{actSearch, []string{"find"}, `{files}{word}( in {path})?`}, // "find" begins many other sentences
		{actSearch, []string{"search for", "search", "grep", "搜索", "查找", "搜一下"}, `{files}{words}( in {path})?`},

		{actList, []string{"列出", "显示"}, `(所有|当前|这里|全部)*\s*({path})??(\s*(文件夹|文件|目录|内容|的|里面|里|中|下))+`},
		{actList, []string{"有哪些文件", "这里有哪些文件", "查看文件列表", "文件列表"}, ``},
		{actList, []string{"what files are here", "what files are there", "which files are here", "ls"}, ``},
		{actList, []string{"list", "show"}, `(me\b\s*)?(all\b\s*)?(the\b\s*)?(files|directory|folder)\b\s*(in the directory\b|in the folder\b|in\b|of\b)?\s*({here}|{path})?`},

		{actRead, []string{"read", "open", "cat", "show"}, `((the )?file\b|文件)?\s*{path}`},
		{actRead, []string{"读取", "读一下", "读", "打开", "查看", "显示"}, `((the )?file\b|文件)?\s*{path}\s*(的内容)?\s*(文件)?`},
	}
}

const (
	quotation = "`[^`]*`" + `|"[^"]*"|'(?:[^']|'[A-Za-z0-9])*'|“[^”]*”|‘[^’]*’|「[^」]*」|『[^』]*』`
	endMarks  = `[\s.?!。？！]*` // what ends a sentence
	name      = `\.*[^\s.?!。？！'"“‘「『` + "`" + `]\S*?`
)

// wordings returns the parts of patterns in braces.
func wordings() *strings.Replacer {
	return strings.NewReplacer(
		`{quote}`, `(?P<quote>`+quotation+`)`,
		`{text}`, `(?P<text>.+)`,
		`{words}`, `(?P<text>.+?)`,
		`{word}`, `(?P<text>\S+?)`,
		`{note}`, `[\s:：,，]*((?P<quote>`+quotation+`)`+endMarks+`$|(?P<text>[^\s:：,，].*)$)`,
		`{path}`, `(?P<path>`+quotation+`|(?:\S*/)?\.\.?|`+name+`)`,
		`{file}`, `(?P<path>`+quotation+`|\S*[./\\]\S*[^\s.?!。？！])`,
		`{here}`, `(?:here|this directory|this folder|the workspace|工作区)`,
		`{files}`, `(?:files named\b|files?\b|文件)?\s*`,
		`{command}`, `(?:(?:the )?command\b|命令)?`,
	)
}

// grammar is what the rules are when they are first needed.
type grammar struct {
	rules    []rule
	rest     []*regexp.Regexp // of each rule
	quoted   *regexp.Regexp   // a whole quotation
	sequence *regexp.Regexp   // what stands between two phrases, and what hides it
}

var theGrammar = sync.OnceValue(func() *grammar {
	g := &grammar{
		rules:  rules(),
		quoted: regexp.MustCompile(`(?s)^(?:` + quotation + `)$`),
		// An apostrophe inside a word opens no quotation.
		sequence: regexp.MustCompile(`(?is)\w'|` + quotation + `|(?P<then>[\s,;，；、]*(?:\sand)?(?:[\s,;]then[\s,]|然后)[\s,;，；、]*)`),
	}

	parts := wordings()
	for _, r := range g.rules {
		g.rest = append(g.rest, regexp.MustCompile(`(?is)^(?:`+parts.Replace(r.rest)+`)`+endMarks+`$`))
	}
	return g
})

// maxSteps bounds how much one message can ask for.
const maxSteps = 8

// parse turns a text into the steps it asks for, nil if it matches nothing.
func parse(text string) []step {
	g := theGrammar()
	if steps := g.steps(g.split(text)); steps != nil {
		return steps
	}
	if s, ok := g.step(text); ok {
		return []step{s}
	}
	return nil
}

// steps reads several phrases, nil unless all of them are understood.
func (g *grammar) steps(phrases []string) (steps []step) {
	if len(phrases) < 2 || len(phrases) > maxSteps {
		return nil
	}

	for _, p := range phrases {
		s, ok := g.step(p)
		if !ok || s.act == actHelp {
			return nil
		}
		steps = append(steps, s)
	}

	return steps
}

// split cuts at "then" and "然后" outside of quotes.
func (g *grammar) split(s string) (parts []string) {
	start := 0
	for _, at := range g.sequence.FindAllStringSubmatchIndex(s, -1) {
		if at[2] >= 0 { // the group "then"
			parts = append(parts, s[start:at[0]])
			start = at[1]
		}
	}
	return append(parts, s[start:])
}

// step recognises a single phrase.
func (g *grammar) step(s string) (step, bool) {
	s = strings.TrimSpace(s)
	for _, polite := range []string{"please", "can you", "could you", "请你", "请", "帮我", "麻烦你", "麻烦", "先"} {
		s, _ = cutVerb(s, polite)
	}

	for i, r := range g.rules {
		rest, ok := cutAny(s, r.begins)
		if !ok {
			continue
		}

		if found := g.rest[i].FindStringSubmatch(rest); found != nil {
			if st, ok := g.fill(r.act, g.rest[i], found); ok {
				return st, true
			}
		}
	}

	return step{}, false
}

// fill makes a step of what a pattern found. It refuses one whose path or text
// is empty or a word that is neither.
func (g *grammar) fill(act action, pattern *regexp.Regexp, found []string) (step, bool) {
	st := step{act: act}
	for i, name := range pattern.SubexpNames() {
		if found[i] == "" {
			continue
		}
		switch name {
		case "path":
			st.path = g.unquote(found[i])
		case "quote":
			st.text = g.unquote(found[i])
		case "text":
			st.text = strings.TrimSpace(found[i])
		}
	}

	switch act {
	case actHelp:
		return st, true
	case actList:
		if st.path == "" {
			st.path = "."
		}
		return st, true

	case actRead:
		return st, st.path != "" && !slices.Contains([]string{"me", "it", "this", "that", "more", "on", "file", "文件"}, strings.ToLower(st.path))
	case actWrite:
		return st, st.path != ""
	case actSearch:
		if st.path == "" {
			st.path = "."
		}
	case actRun:
		st.text = strings.TrimSpace(st.text)
	case actNote:
		st.text = strings.Join(strings.Fields(st.text), " ")
	}

	return st, st.text != ""
}

// unquote returns what a quotation quotes, and any other text as it is.
func (g *grammar) unquote(s string) string {
	if !g.quoted.MatchString(s) {
		return s
	}
	_, first := utf8.DecodeRuneInString(s)
	_, last := utf8.DecodeLastRuneInString(s)
	return s[first : len(s)-last]
}

// cutVerb removes a leading phrase. A phrase in Latin letters must end at a
// word boundary; letter case does not matter.
func cutVerb(s, verb string) (string, bool) {
	if len(s) < len(verb) || !strings.EqualFold(s[:len(verb)], verb) {
		return s, false
	}

	rest := s[len(verb):]
	if verb[len(verb)-1] < utf8.RuneSelf && rest != "" {
		r, _ := utf8.DecodeRuneInString(rest)
		if r == '_' || r == '-' || r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return s, false
		}
	}
	return strings.TrimSpace(rest), true
}

func cutAny(s string, verbs []string) (string, bool) {
	for _, v := range verbs {
		if rest, ok := cutVerb(s, v); ok {
			return rest, true
		}
	}
	return s, false
}
