package skill

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

type (
	dict = map[string]any
	seq  = []any
)

func TestParseYAML(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in string
		want     dict
		notes    int
	}{
		{"empty", "", nil, 0},
		{"only comments", "# a\n\n  # b", nil, 0},
		{"plain", "name: x\ndescription:  two words  # comment", dict{"name": "x", "description": "two words"}, 0},
		{"colon in plain text", "description: Use when: asked, see http://x/#y", dict{"description": "Use when: asked, see http://x/#y"}, 0},
		{"null", "a:\nb: ~\nc: null", dict{"a": nil, "b": nil, "c": nil}, 0},
		{"continued", "description: one\n  two\n\n  three\nname: x", dict{"description": "one two\nthree", "name": "x"}, 0},
		{"continued below", "description:\n  one two\n  three\nname: x", dict{"description": "one two three", "name": "x"}, 0},
		{"double quotes", `a: "x\n\"y\" \u4f60\ud83d\ude42 # no"`, dict{"a": "x\n\"y\" 你🙂 # no"}, 0},
		{"single quotes", "a: 'it''s \\n: x' # yes", dict{"a": `it's \n: x`}, 0},
		{"quotes over lines", "a: \"one\n  two\"\nb: c", dict{"a": "one two", "b": "c"}, 0},
		{"unfinished quote", "a: \"one\nb: c", dict{"a": `"one`, "b": "c"}, 1},
		{"quoted with a tail", "a: \"one\" two", dict{"a": `"one" two`}, 1},
		{"literal block", "a: |\n  one\n    two\n\n  three\nb: c", dict{"a": "one\n  two\n\nthree", "b": "c"}, 0},
		{"folded block", "a: >-\n  one\n  two\n\n  three\nb: c", dict{"a": "one two\nthree", "b": "c"}, 0},
		{"empty block", "a: |\nb: c", dict{"a": "", "b": "c"}, 0},
		{"greater than is text", "a: > 5 things", dict{"a": "> 5 things"}, 0},
		{"nested", "a:\n  b:\n    c: d\n  e: f\ng: h", dict{"a": dict{"b": dict{"c": "d"}, "e": "f"}, "g": "h"}, 0},
		{"list", "a:\n  - x\n  - 'y'\n  -\n  - z: 1\n    w: 2\n  - - p\n    - q", dict{"a": seq{"x", "y", nil, dict{"z": "1", "w": "2"}, seq{"p", "q"}}}, 0},
		{"list at the key's indentation", "a:\n- x\n- y\nb: c", dict{"a": seq{"x", "y"}, "b": "c"}, 0},
		{"flow", "a: [x, 'y, z', {b: c}]", dict{"a": seq{"x", "y, z", dict{"b": "c"}}}, 0},
		{"list of flows", "a:\n  - {b: c}\n  - [d: e]", dict{"a": seq{dict{"b": "c"}, seq{dict{"d": "e"}}}}, 0},
		{"list of odd items", "a:\n  - b: c: d\n  - \"e\" f\n  - g\nh: i: j", dict{"a": seq{dict{"b": "c: d"}, `"e" f`, "g"}, "h": "i: j"}, 1},
		{"json", `m: {"nanobot":{"always":true,"n":1.5,"x":null,"l":["a","b"]}}`, dict{"m": dict{"nanobot": dict{"always": "true", "n": "1.5", "x": nil, "l": seq{"a", "b"}}}}, 0},
		{"json over lines", "m:\n  {\n    \"a\":\n      { \"b\": [\"c\", ], }, # tail\n  }\nn: x", dict{"m": dict{"a": dict{"b": seq{"c"}}}, "n": "x"}, 0},
		{"json from the key's line", "m: {\n\"a\": 1\n}\nn: x", dict{"m": dict{"a": "1"}, "n": "x"}, 0},
		{"brackets are text", "a: [WIP] do it\nb: c", dict{"a": "[WIP] do it", "b": "c"}, 1},
		{"unfinished flow", "a: {b: c\nd: e", dict{"a": "{b: c", "d": "e"}, 1},
		{"quoted keys", "\"a b\": c\n'd': e", dict{"a b": "c", "d": "e"}, 0},
		{"junk lines", "what\na: b\n- item\n ]\nc: d", dict{"a": "b", "c": "d"}, 3},
		{"twice", "a: b\na: c", dict{"a": "c"}, 1},
		{"a list is no map", "- a\n- b", nil, 1},
		{"tabs", "a:\n\tb: c", dict{"a": dict{"b": "c"}}, 0},
		{"special characters at the start", "a: @x\nb: `c` d\ne: %5\nf: *bold* text\ng: - x", dict{"a": "@x", "b": "`c` d", "e": "%5", "f": "*bold* text", "g": "- x"}, 0},
		{"anchors and tags are text", "a: &x [1]\nb: *x\nc: !y z", dict{"a": "&x [1]", "b": "*x", "c": "!y z"}, 0},
		{"odd below a value", "a: {b: c}\n  d: e\nf: 'g'\n   h", dict{"a": dict{"b": "c"}, "f": "g"}, 2},
		{"odd in the depth", "a:\n  b: c: d\n  e: [f\n  g:\n  - h\ni: j", dict{"a": dict{"b": "c: d", "e": "[f", "g": seq{"h"}}, "i": "j"}, 1},
		{"control characters", "a: b\x00\u2028c\nd: e", dict{"a": "bc", "d": "e"}, 0},
		{"too deep", "a: " + strings.Repeat("[", 50) + strings.Repeat("]", 50), dict{"a": strings.Repeat("[", 50) + strings.Repeat("]", 50)}, 1},
	} {
		got, notes := parseYAML(c.in)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: parseYAML(%q) (-want +got):\n%s", c.name, c.in, diff)
		}
		if len(notes) != c.notes {
			t.Errorf("%s: notes %q, want %d", c.name, notes, c.notes)
		}
	}
}

// Notes and keys name the line of the file, whether the library read it or not.
func TestYAMLLines(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		in   string
		line int // of the only note
		key  int // of x
	}{
		{"a: b\n\nx: c\na: d", 5, 4},
		{"# c\nx: y: z\n\nb: \"c\" d\n", 5, 3},
		{"a:\n  b: c: d\n  e: f\n  e: g\nx: 1", 5, 6},
		{"x: |\n  a\n\n  b\nc: [d", 6, 2},
	} {
		_, p := readYAML(c.in)
		if len(p.notes) != 1 || p.notes[0].line != c.line || p.keys["x"] != c.key {
			t.Errorf("%q: notes %v, keys %v, want line %d and %d", c.in, p.notes, p.keys, c.line, c.key)
		}
	}
}

// Front matter that is made to cost time or memory costs little. What is
// allocated stands for both.
func TestHostileYAML(t *testing.T) { // not parallel: it counts what is allocated
	var bomb strings.Builder
	bomb.WriteString("a: &a [x,x,x,x,x,x,x,x,x]\n")
	for c := 'b'; c < 'j'; c++ {
		fmt.Fprintf(&bomb, "%c: &%c [%s*%c]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 8), c-1)
	}
	fill := func(s string) string { return strings.Repeat(s, maxFront/len(s)) }
	for name, in := range map[string]string{
		"aliases":       bomb.String(),
		"itself":        "a: &a [*a]",
		"open brackets": "a: " + fill("["),
		"open maps":     "a: " + fill("{a: "),
		"dashes":        fill("- "),
		"keys":          fill("a: "),
		"odd entries":   fill("a: b: c\n"),
		"open quotes":   fill("a: \"\n"),
		"steps":         steps(150),
		"merge keys":    fill("<<: {a: b}\n"),
		"questions":     fill("? "),
		"tags":          fill("!a "),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		parseYAML(in)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
			t.Errorf("%s: %d KB allocated for %d bytes", name, n>>10, len(in))
		}
	}
}

// steps is a map in a map and so on, none of them valid YAML.
func steps(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%sa: b: c\n%sa:\n", strings.Repeat(" ", i), strings.Repeat(" ", i))
	}
	return b.String()[:min(b.Len(), maxFront)]
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in string
		want     Skill
	}{
		{
			"all fields", "---\nname: x\ndescription: D\nhomepage: https://h\nalways: yes\nmetadata:\n  nanobot:\n    emoji: 🐈\n    os: [linux, macOS, win32]\n    requires:\n      bins: [a, b, a]\n      env: [E]\n    install:\n      - id: brew\n---\n\nbody\n",
			Skill{Name: "x", Description: "D", Homepage: "https://h", Always: true, Emoji: "🐈", OS: []string{"linux", "darwin", "windows"}, Bins: []string{"a", "b"}, Env: []string{"E"}, Body: "body"},
		},
		{"CRLF and BOM", "\uFEFF---\r\ndescription: D\r\n---\r\nbody", Skill{Name: "x", Description: "D"}},
		{"ours before the other", `---
description: D
metadata: {"openclaw":{"emoji":"o"},"nanobot":{"emoji":"n","always":true}}
---
b`, Skill{Name: "x", Description: "D", Emoji: "n", Always: true, Body: "b"}},
		{"JSON in a string", "---\ndescription: D\nmetadata: '{\"openclaw\":{\"requires\":{\"bins\":[\"a\"]}}}'\n---\nb", Skill{Name: "x", Description: "D", Bins: []string{"a"}}},
		{
			"wrong shapes", "---\ndescription: [a]\nalways: [true]\nmetadata: {nanobot: {requires: null, os: {a: b}, emoji: [x]}}\n---\nb",
			Skill{Name: "x", Description: "x", Notes: []string{"no description"}},
		},
		{
			"requires of wrong shape", "---\ndescription: D\nmetadata: {nanobot: {requires: [a]}}\n---\nb",
			Skill{Name: "x", Description: "D", Notes: []string{"metadata: requires is not a map"}},
		},
		{"another name", "---\nname: y\ndescription: D\n---\nb", Skill{Name: "x", Description: "D", Notes: []string{`name is "y", but the directory's name "x" counts`}}},
		{"unclosed front matter", "---\ndescription: D\nbody", Skill{Name: "x", Description: "x", Notes: []string{"no front matter between --- lines at the start", "no description"}}},
		{"description is one line", "---\ndescription: |\n  a\n\n  b\u202E\x00\tc\n---\n", Skill{Name: "x", Description: "a b c"}},
	} {
		if diff := cmp.Diff(c.want, parse("x", c.in)); diff != "" {
			t.Errorf("%s: parse (-want +got):\n%s", c.name, diff)
		}
	}
	if got := parse("x", "---\ndescription: D\n"+strings.Repeat("# filler\n", maxFront/8)+"---\n"); got.Description != "x" {
		t.Errorf("front matter of more than %d bytes was read: %q", maxFront, got.Description)
	}
	long := parse("x", "---\ndescription: "+strings.Repeat("好", 2000)+"\n---\n")
	if got := utf8.RuneCountInString(long.Description); got != maxDescription {
		t.Errorf("long description has %d code points, want %d", got, maxDescription)
	}
}

// Any bytes give a skill whose texts can stand in a prompt.
func FuzzSkill(f *testing.F) {
	for _, seed := range []string{
		"---\nname: a\ndescription: b\nmetadata: {\"nanobot\":{\"requires\":{\"bins\":[\"a\"]}}}\n---\nbody",
		"---\na: |\n  b\n c: >\n  - d\n- e: 'f\n---", "---\n\"a\": [{x: y}, \"\\u12\n...\n", "---\n- - - a:\n  b: {\n---\n", "\xff\xfe---\n", "---\r\n\t- a\r\n---\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		lib := Open(Options{Builtin: fstest.MapFS{"skills/x/SKILL.md": {Data: data}}, LookPath: func(s string) (string, error) { return s, nil }})
		s, ok := lib.Load("x")
		if !ok {
			t.Fatal("the skill is gone")
		}
		summary, active := lib.Summary(), lib.Active()
		for _, text := range []string{summary, active, s.Body, s.Description, strings.Join(s.Notes, "")} {
			if !utf8.ValidString(text) {
				t.Errorf("%q is not valid UTF-8", text)
			}
		}
		if lines := strings.Count(summary, "\n"); s.Available() && !s.Always && lines != 1 || strings.ContainsFunc(s.Description, unicode.IsControl) || s.Description == "" {
			t.Errorf("summary %q", summary)
		}
		if len(s.Body) > maxBody+100 || len(s.Notes) > maxNotes+3 {
			t.Errorf("body of %d bytes, %d notes", len(s.Body), len(s.Notes))
		}
		if problems, err := ValidateBuiltin(fstest.MapFS{"skills/x/SKILL.md": {Data: data}}, "x"); err != nil {
			t.Errorf("validate: %v, %v", problems, err)
		}
		if summary != lib.Summary() || active != lib.Active() {
			t.Error("the second answer differs")
		}
	})
}
