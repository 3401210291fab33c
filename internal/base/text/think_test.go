package text_test

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

func thinkCases() []struct{ name, in, visible, reasoning string } {
	return []struct{ name, in, visible, reasoning string }{
		{"plain", "hello", "hello", ""},
		{"empty", "", "", ""},
		{"blanks are trimmed", "  a b \n", "a b", ""},
		{"only blanks", " \n\t", "", ""},
		{"block at start", "<think>why</think>\n\nanswer", "answer", "why"},
		{"thinking", "<thinking>why</thinking>answer", "answer", "why"},
		{"thought", "<thought>\nwhy\n</thought>answer", "answer", "why"},
		{"any case", "<ThInK>why</tHINK>answer", "answer", "why"},
		{"blanks before the bracket", "<think >why</think\n>answer", "answer", "why"},
		{"two blocks at start", "<think>a</think> <thought>b</thought> c", "c", "a\n\nb"},
		{"empty block", "<think></think>answer", "answer", ""},
		{"unclosed at start", " \n<think>all of it", "", "all of it"},
		{"unclosed after block", "<think>a</think><think>b", "", "a\n\nb"},
		{"closed mid-text", "Hello <think>secret</think>world", "Hello world", "secret"},
		{"closed mid-text on its own line", "one\n<think>\nsecret\n</think>\ntwo", "one\n\ntwo", "secret"},
		{"at the end", "answer\n<think>secret</think>\n", "answer", "secret"},
		{"mentioned", "the <think> tag is plain", "the <think> tag is plain", ""},
		{"mentioned twice", "a <think> b <think> c", "a <think> b <think> c", ""},
		{"mention before a closed block of another name", "a <think> b <thought>c</thought> d", "a <think> b  d", "c"},
		{"several mentions", "a <think> <thought> <thinking> b", "a <think> <thought> <thinking> b", ""},
		{"names must match", "<think>a</thinking>b</think>c", "c", "a</thinking>b"},
		{"first closing tag ends", "<think>a<think>b</think>c", "c", "a<think>b"},
		{"orphan closing at start", "</think>\n</thought> answer", "answer", ""},
		{"orphan closing at end", "answer</think> \n</thinking>\n", "answer", ""},
		{"orphan closing mid-text", "a</think> b", "a</think> b", ""},
		{"empty tag at start", "<think/><thinking />answer", "answer", ""},
		{"empty tag at end", "answer<thought/>\n", "answer", ""},
		{"empty tag mid-text", "a <think/> b", "a <think/> b", ""},
		{"channel at start", "<|channel|>answer", "answer", ""},
		{"other channel at start", " <channel|> answer", "answer", ""},
		{"channel mid-text", "a <|channel|> b <channel|>", "a <|channel|> b <channel|>", ""},
		{"broken before CJK", "<think广场", "广场", ""},
		{"broken before CJK mid-text", "好<thinking广场", "好广场", ""},
		{"broken at start", "<think, well", ", well", ""},
		{"broken mid-text is a mention", "use <think, please", "use <think, please", ""},
		{"another tag", "<thinker>x</thinker>", "<thinker>x</thinker>", ""},
		{"namespaced", "a <think:x> b", "a <think:x> b", ""},
		{"attributes are another tag", "x <think a=1> y", "x <think a=1> y", ""},
		{"cut off opening", "answer <thin", "answer", ""},
		{"cut off name", "answer <think", "answer", ""},
		{"cut off closing", "answer</thou", "answer", ""},
		{"cut off closing in block", "<think>why</thi", "", "why"},
		{"less than at end", "a <", "a <", ""},
		{"table head at end", "a <th", "a <th", ""},
		{"less than", "if a < b && c<d", "if a < b && c<d", ""},
		{"less than in block", "<think>a < b</think>c", "c", "a < b"},
		{"inline code", "write `<think>x</think>` so", "write `<think>x</think>` so", ""},
		{"inline code first", "`<think>` opens", "`<think>` opens", ""},
		{"double ticks", "``a ` <think>`` <think>s</think>b", "``a ` <think>`` b", "s"},
		{"tick ends with line", "it`s\n<think>s</think>b", "it`s\nb", "s"},
		{"fence", "```xml\n<think>x</think>\n```\n<think>s</think>b", "```xml\n<think>x</think>\n```\nb", "s"},
		{"tilde fence", "~~~\n<think>x</think>\n```\n~~~\n<think>s</think>b", "~~~\n<think>x</think>\n```\n~~~\nb", "s"},
		{"fence in a list", "- ```\n  <think>x</think>\n  ```\n<think>s</think>b", "- ```\n  <think>x</think>\n  ```\nb", "s"},
		{"fence closed by longer one", "```\n<think>\n````\n<think>s</think>b", "```\n<think>\n````\nb", "s"},
		{"fence not closed by text", "```\n``` no\n<think>x</think>", "```\n``` no\n<think>x</think>", ""},
		{"fence not closed mid-line", "```\nx ```\n<think>x</think>", "```\nx ```\n<think>x</think>", ""},
		{"too many blanks before the bracket", "a <think         >x</think> b", "a <think         >x</think> b", ""},
		{"span of three ticks", "```a <think>``` <think>s</think>b", "```a <think>``` b", "s"},
		{"fence after block", "<think>s</think>```\n<think>\n```", "```\n<think>\n```", "s"},
		{"code in block does not matter", "<think>```</think>a <think>s</think>b", "a b", "```\n\ns"},
		{"inner blanks stay", "a  \n\n  b", "a  \n\n  b", ""},
		{"invalid bytes", "\xff<think>\xfe</think>\xfd", "\xff\xfd", "\xfe"},
		{"many brackets", "<<<think>x</think>>>", "<<>>", "x"},
	}
}

func TestSplitThink(t *testing.T) {
	t.Parallel()
	for _, c := range thinkCases() {
		visible, reasoning := text.SplitThink(c.in)
		if visible != c.visible || reasoning != c.reasoning {
			t.Errorf("%s: SplitThink(%q) = %q, %q, want %q, %q", c.name, c.in, visible, reasoning, c.visible, c.reasoning)
		}
		if got := text.StripThink(c.in); got != c.visible {
			t.Errorf("%s: StripThink(%q) = %q, want %q", c.name, c.in, got, c.visible)
		}
	}
}

// feed runs a text through one filter in the given pieces.
func feed(f *text.Think, pieces ...string) (visible, reasoning string) {
	var v, r strings.Builder
	for _, p := range pieces {
		a, b := f.Feed(p)
		v.WriteString(a)
		r.WriteString(b)
	}
	a, b := f.Close()
	return v.String() + a, r.String() + b
}

func TestThinkChunking(t *testing.T) {
	t.Parallel()
	var f text.Think // reused: Close must leave nothing behind
	for _, c := range thinkCases() {
		check := func(pieces ...string) {
			if visible, reasoning := feed(&f, pieces...); visible != c.visible || reasoning != c.reasoning {
				t.Errorf("%s: %q gives %q, %q, want %q, %q", c.name, pieces, visible, reasoning, c.visible, c.reasoning)
			}
		}
		check(strings.Split(c.in, "")...)
		for i := range len(c.in) + 1 {
			for j := i; j <= len(c.in); j++ {
				check(c.in[:i], c.in[i:j], c.in[j:])
			}
		}
	}
}

// All ways of cutting short texts that are made of the interesting pieces.
func TestThinkEveryChunking(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"a<think></think>", "</think>a<thin", "`<think>`<"} {
		wantVisible, wantReasoning := text.SplitThink(in)
		for mask := range 1 << (len(in) - 1) {
			var f text.Think
			var pieces []string
			from := 0
			for i := 1; i < len(in); i++ {
				if mask>>(i-1)&1 == 1 {
					pieces = append(pieces, in[from:i])
					from = i
				}
			}
			pieces = append(pieces, in[from:])
			if v, r := feed(&f, pieces...); v != wantVisible || r != wantReasoning {
				t.Fatalf("%q gives %q, %q, want %q, %q", pieces, v, r, wantVisible, wantReasoning)
			}
		}
	}
}

func TestThinkIsPrompt(t *testing.T) {
	t.Parallel()
	var f text.Think
	for _, step := range []struct{ in, visible, reasoning string }{
		{"<think>I wo", "", "I wo"},
		{"nder </thi", "", "nder"},
		{"s</think> So", "So", " </this"},
		{" it is 1 <", " it is 1", ""},
		{"2.", " <2.", ""},
	} {
		if v, r := f.Feed(step.in); v != step.visible || r != step.reasoning {
			t.Errorf("Feed(%q) = %q, %q, want %q, %q", step.in, v, r, step.visible, step.reasoning)
		}
	}
}

// Texts for which a filter that looks at everything again for each piece or
// each tag would need very long.
func TestThinkIsLinear(t *testing.T) {
	t.Parallel()
	mentions := strings.Repeat("a<think>", 20_000)
	if got := text.StripThink(mentions); got != mentions {
		t.Error("mentions were changed")
	}
	long := strings.Repeat("b<", 20_000)
	if v, r := feed(new(text.Think), append(append([]string{"a<think>"}, strings.Split(long, "")...), "</think>")...); v != "a" || r != long {
		t.Errorf("long block gives %d visible and %d reasoning bytes, want 1 and %d", len(v), len(r), len(long))
	}
}

func FuzzThink(f *testing.F) {
	for _, c := range thinkCases() {
		f.Add(c.in, uint64(0x5555))
		f.Add(c.in+c.in, ^uint64(0))
	}
	f.Fuzz(func(t *testing.T, in string, cuts uint64) {
		visible, reasoning := text.SplitThink(in)
		if len(visible) > len(in) {
			t.Errorf("visible part of %q grew to %q", in, visible)
		}
		if !strings.Contains(in, "<") && visible != strings.Trim(in, " \t\r\n\v\f") {
			t.Errorf("text without tags changed: %q -> %q", in, visible)
		}
		var filter text.Think
		var pieces []string
		from := 0
		for i := range len(in) {
			if cuts>>(i%64)&1 == 1 {
				pieces = append(pieces, in[from:i])
				from = i
			}
		}
		pieces = append(pieces, in[from:])
		if v, r := feed(&filter, pieces...); v != visible || r != reasoning {
			t.Errorf("%q gives %q, %q, want %q, %q", pieces, v, r, visible, reasoning)
		}
	})
}

func BenchmarkThink(b *testing.B) {
	delta := strings.Repeat("Some words, `code` and a line.\n", 4)
	b.SetBytes(int64(len(delta)))
	b.ReportAllocs()
	var f text.Think
	f.Feed("<think>x</think>")
	for b.Loop() {
		f.Feed(delta)
	}
}
