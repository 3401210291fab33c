package demo

import (
	"strings"
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

// maxSteps bounds how much one message can ask for.
const maxSteps = 8

// parse turns a text into the steps it asks for, nil if it matches nothing.
func parse(text string) []step {
	if text == "" {
		return nil
	}
	if parts := splitThen(text); len(parts) > 1 && len(parts) <= maxSteps {
		var steps []step
		for _, p := range parts {
			s, ok := parseOne(p)
			if !ok || s.act == actHelp {
				steps = nil
				break
			}
			steps = append(steps, s)
		}
		if steps != nil {
			return steps
		}
	}
	if s, ok := parseOne(text); ok {
		return []step{s}
	}
	return nil
}

// splitThen cuts at "then" and "然后" outside of quotes.
func splitThen(s string) []string {
	var parts []string
	start := 0
	for i := 0; i < len(s); {
		if n := quotedLen(s, i); n > 0 {
			i += n
			continue
		}
		n := thenLen(s, i)
		if n == 0 {
			_, size := utf8.DecodeRuneInString(s[i:])
			i += size
			continue
		}
		parts = append(parts, s[start:i])
		i += n
		start = i
	}
	parts = append(parts, s[start:])
	for i := range parts {
		p := strings.TrimFunc(parts[i], isJoint)
		parts[i] = strings.TrimSpace(strings.TrimSuffix(strings.TrimSuffix(p, " and"), "，"))
		parts[i] = strings.TrimRightFunc(parts[i], isJoint)
	}
	return parts
}

func isJoint(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(",;，；、", r) }

func thenLen(s string, i int) int {
	if strings.HasPrefix(s[i:], "然后") {
		return len("然后")
	}
	const word = "then"
	if len(s)-i <= len(word) || !strings.EqualFold(s[i:i+len(word)], word) || i == 0 {
		return 0
	}
	before, after := s[i-1], s[i+len(word)]
	if strings.IndexByte(" ,;\n", before) < 0 || strings.IndexByte(" ,:\n", after) < 0 {
		return 0
	}
	return len(word)
}

// closer is the quote that ends a quotation begun with r, 0 if r is not a
// quote.
func closer(r rune) rune {
	switch r {
	case '`', '"', '\'':
		return r
	case '“':
		return '”'
	case '‘':
		return '’'
	case '「':
		return '」'
	case '『':
		return '』'
	}
	return 0
}

// quotedLen is the length of the quotation that starts at s[i], 0 if none does.
// An apostrophe inside a word opens nothing.
func quotedLen(s string, i int) int {
	open, n := utf8.DecodeRuneInString(s[i:])
	end := closer(open)
	if end == 0 {
		return 0
	}
	if open == '\'' && i > 0 {
		if before, _ := utf8.DecodeLastRuneInString(s[:i]); before < utf8.RuneSelf && (unicode.IsLetter(before) || unicode.IsDigit(before)) {
			return 0
		}
	}
	for j := i + n; ; {
		k := strings.IndexRune(s[j:], end)
		if k < 0 {
			return 0
		}
		j += k + utf8.RuneLen(end)
		if next, _ := utf8.DecodeRuneInString(s[j:]); end == '\'' && next < utf8.RuneSelf && (unicode.IsLetter(next) || unicode.IsDigit(next)) {
			continue // an apostrophe inside the quotation
		}
		return j - i
	}
}

// quoted splits a text that starts with a quotation into its inside and the rest.
func quoted(s string) (inside, rest string, ok bool) {
	n := quotedLen(s, 0)
	if n == 0 {
		return "", s, false
	}
	_, open := utf8.DecodeRuneInString(s)
	_, end := utf8.DecodeLastRuneInString(s[:n])
	return s[open : n-end], strings.TrimSpace(s[n:]), true
}

// parseOne recognises a single phrase.
func parseOne(s string) (step, bool) {
	s = strings.TrimSpace(s)
	for _, polite := range []string{"please", "can you", "could you", "请你", "请", "帮我", "麻烦你", "麻烦", "先"} {
		if rest, ok := cutVerb(s, polite); ok {
			s = rest
		}
	}
	if isHelp(s) {
		return step{act: actHelp}, true
	}
	for _, try := range []func(string) (step, bool){parseNote, parseWrite, parseRun, parseSearch, parseList, parseRead} {
		if st, ok := try(s); ok {
			return st, true
		}
	}
	return step{}, false
}

// cutVerb removes a leading phrase. A phrase in Latin letters must end at a
// word boundary; letter case does not matter.
func cutVerb(s, verb string) (string, bool) {
	if len(s) < len(verb) || !strings.EqualFold(s[:len(verb)], verb) {
		return s, false
	}
	rest := s[len(verb):]
	if verb[len(verb)-1] < utf8.RuneSelf && rest != "" {
		if r, _ := utf8.DecodeRuneInString(rest); r == '_' || r == '-' || (r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r))) {
			return s, false
		}
	}
	return strings.TrimSpace(rest), true
}

func cutAny(s string, verbs ...string) (string, bool) {
	for _, v := range verbs {
		if rest, ok := cutVerb(s, v); ok {
			return rest, true
		}
	}
	return s, false
}

// trimEnd removes the punctuation that ends a sentence.
func trimEnd(s string) string {
	return strings.TrimRightFunc(s, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(".?!。？！", r) })
}

func isHelp(s string) bool {
	switch strings.ToLower(trimEnd(s)) {
	case "what can you do", "what do you do", "what can i do", "help", "help me", "who are you", "what are you",
		"你能做什么", "你会做什么", "你可以做什么", "你能干什么", "你会什么", "帮助", "你是谁", "你是什么":
		return true
	}
	return false
}

func parseNote(s string) (step, bool) {
	rest, ok := cutAny(s, "remember that", "remember", "note that", "note down", "记住", "记下来", "记下", "备忘")
	if !ok {
		if rest, ok = cutVerb(s, "note"); !ok || !strings.HasPrefix(rest, ":") && !strings.HasPrefix(rest, "：") {
			return step{}, false
		}
	}
	rest = strings.TrimLeftFunc(rest, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(":：,，", r) })
	if inside, after, isQuoted := quoted(rest); isQuoted && trimEnd(after) == "" {
		rest = inside
	}
	rest = strings.Join(strings.Fields(rest), " ")
	return step{act: actNote, text: rest}, rest != ""
}

func parseWrite(s string) (step, bool) {
	if rest, ok := cutAny(s, "write", "save"); ok {
		return writeTo(rest, " to ", " into ", " in ", " as ")
	}
	if rest, ok := cutAny(s, "把", "将"); ok {
		return writeTo(rest, "写入", "写到", "写进", "保存到", "存到", "存入")
	}
	return step{}, false
}

// writeTo reads `text WORD path`. Text without quotes needs a path that looks
// like one, or "write a letter to Ann" would make a file.
func writeTo(s string, joins ...string) (step, bool) {
	if text, rest, ok := quoted(s); ok {
		for _, j := range joins {
			if p, found := cutVerb(rest, strings.TrimSpace(j)); found {
				path, ok := pathOf(p)
				return step{act: actWrite, path: path, text: text}, ok
			}
		}
		return step{}, false
	}
	for _, j := range joins {
		i := strings.LastIndex(s, j)
		if i <= 0 {
			continue
		}
		path, ok := pathOf(s[i+len(j):])
		if text := strings.TrimSpace(s[:i]); ok && text != "" && strings.ContainsAny(path, "./\\") {
			return step{act: actWrite, path: path, text: text}, true
		}
	}
	return step{}, false
}

// parseRun wants quotes, backticks or a colon around the command: free text
// must never become a shell command by accident.
func parseRun(s string) (step, bool) {
	rest, ok := cutAny(s, "run", "execute", "运行", "执行")
	if !ok {
		return step{}, false
	}
	rest, _ = cutAny(rest, "the command", "command", "命令")
	for _, colon := range []string{":", "："} {
		if cmd, found := strings.CutPrefix(rest, colon); found {
			rest = strings.TrimSpace(cmd)
			if inside, after, isQuoted := quoted(rest); isQuoted && after == "" {
				rest = inside
			}
			return step{act: actRun, text: rest}, rest != ""
		}
	}
	cmd, after, isQuoted := quoted(rest)
	cmd = strings.TrimSpace(cmd)
	return step{act: actRun, text: cmd}, isQuoted && cmd != "" && trimEnd(after) == ""
}

func parseSearch(s string) (step, bool) {
	if rest, ok := cutVerb(s, "在"); ok {
		for _, verb := range []string{"搜索", "查找", "搜一下", "找"} {
			dir, what, found := strings.Cut(rest, verb)
			if !found {
				continue
			}
			st, _ := parseSearch("搜索 " + what)
			path, ok := pathOf(trimAny(dir, "里面", "里", "中", "下", "目录", "文件夹"))
			st.path = path
			return st, ok && st.text != ""
		}
		return step{}, false
	}
	rest, ok := cutAny(s, "search for", "search", "find", "grep", "搜索", "查找", "搜一下")
	if !ok {
		return step{}, false
	}
	rest, _ = cutAny(rest, "files named", "files", "file", "文件")
	if what, after, isQuoted := quoted(rest); isQuoted {
		path := "."
		if dir, found := cutVerb(after, "in"); found {
			if path, ok = pathOf(dir); !ok {
				return step{}, false
			}
		} else if trimEnd(after) != "" {
			return step{}, false
		}
		return step{act: actSearch, path: path, text: what}, what != ""
	}
	what, path := trimEnd(rest), "."
	if i := strings.LastIndex(what, " in "); i > 0 {
		if dir, ok := pathOf(what[i+len(" in "):]); ok {
			what, path = strings.TrimSpace(what[:i]), dir
		}
	}
	// "find" begins many sentences that do not ask for a search.
	_, vague := cutVerb(s, "find")
	return step{act: actSearch, path: path, text: what}, what != "" && (!vague || !strings.Contains(what, " "))
}

func parseList(s string) (step, bool) {
	if rest, ok := cutAny(s, "列出", "显示"); ok {
		rest = trimEnd(rest)
		for _, word := range []string{"所有", "当前", "这里", "全部"} {
			rest = strings.TrimSpace(strings.TrimPrefix(rest, word))
		}
		dir, had := rest, false
		for _, suffix := range []string{"文件夹", "文件", "目录", "内容", "的", "里面", "里", "中", "下"} {
			if d, cut := strings.CutSuffix(dir, suffix); cut {
				dir, had = strings.TrimSpace(d), true
			}
		}
		if !had {
			return step{}, false
		}
		return listIn(trimAny(dir, "目录", "文件夹"))
	}
	switch strings.ToLower(trimEnd(s)) {
	case "有哪些文件", "这里有哪些文件", "查看文件列表", "文件列表", "what files are here", "what files are there", "which files are here", "ls":
		return step{act: actList, path: "."}, true
	}
	rest, ok := cutAny(s, "list", "show")
	if !ok {
		return step{}, false
	}
	for _, word := range []string{"me", "all", "the"} {
		rest, _ = cutVerb(rest, word)
	}
	if rest, ok = cutAny(rest, "files", "directory", "folder"); !ok {
		return step{}, false
	}
	rest, _ = cutAny(rest, "in the directory", "in the folder", "in", "of")
	return listIn(rest)
}

func listIn(dir string) (step, bool) {
	path, ok := pathOf(dir)
	switch strings.ToLower(trimEnd(dir)) {
	case "here", "this directory", "this folder", "the workspace", "工作区":
		path, ok = ".", true
	case "":
		if path == "" {
			path, ok = ".", true
		}
	}
	return step{act: actList, path: path}, ok
}

func parseRead(s string) (step, bool) {
	rest, ok := cutAny(s, "read", "open", "cat", "show")
	if !ok {
		if rest, ok = cutAny(s, "读取", "读一下", "读", "打开", "查看", "显示"); !ok {
			return step{}, false
		}
		rest = trimAny(trimEnd(rest), "的内容", "文件")
	}
	rest, _ = cutAny(rest, "the file", "file", "文件")
	switch strings.ToLower(trimEnd(rest)) {
	case "me", "it", "this", "that", "more", "on":
		return step{}, false
	}
	path, ok := pathOf(rest)
	return step{act: actRead, path: path}, ok
}

func trimAny(s string, suffixes ...string) string {
	s = strings.TrimSpace(s)
	for _, suffix := range suffixes {
		s = strings.TrimSpace(strings.TrimSuffix(s, suffix))
	}
	return s
}

// pathOf reads a file name: quoted, or one word without white space.
func pathOf(s string) (string, bool) {
	s = strings.TrimSpace(s)
	if inside, after, ok := quoted(s); ok {
		return inside, inside != "" && trimEnd(after) == ""
	}
	if s != "." && s != ".." && !strings.HasSuffix(s, "/.") && !strings.HasSuffix(s, "/..") {
		s = trimEnd(s)
	}
	return s, s != "" && !strings.ContainsFunc(s, unicode.IsSpace)
}
