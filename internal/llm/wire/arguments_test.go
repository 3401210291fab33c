package wire_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

func TestParseArguments(t *testing.T) {
	t.Parallel()
	cut, shape := wire.ErrArgumentsCut, wire.ErrArgumentsShape
	for _, c := range []struct {
		name, in, want string
		err            error
	}{
		{"object", `{"p":1}`, `{"p":1}`, nil},
		{"object with spaces kept", " { \"p\" : 1 }\n", `{ "p" : 1 }`, nil},
		{"empty", "", `{}`, nil},
		{"blank", " \n", `{}`, nil},
		{"null", "null", `{}`, nil},
		{"python none", "None", `{}`, nil},
		{"encoded twice", `"{\"p\":1}"`, `{"p":1}`, nil},
		{"encoded three times", `"\"{\\\"p\\\":1}\""`, `{"p":1}`, nil},
		{"encoded empty", `""`, `{}`, nil},
		{"list of one object", `[{"p":1}]`, `{"p":1}`, nil},
		{"fence", "```json\n{\"p\":1}\n```", `{"p":1}`, nil},
		{"bare fence", "```\n{\"p\":1}```", `{"p":1}`, nil},
		{"fence without end", "```json\n{\"p\":1}", `{"p":1}`, nil},
		{"backticks inside", "{\"p\":\"```\\nx\\n```\",}", "{\"p\":\"```\\nx\\n```\"}", nil},
		{"trailing comma", `{"p":[1,2,],}`, `{"p":[1,2]}`, nil},
		{"single quotes", `{'p': 'say "hi"', 'q': 'it\'s'}`, `{"p":"say \"hi\"","q":"it's"}`, nil},
		{"python values", `{'a': True, 'b': False, 'c': None, 'd': -1.5e3}`, `{"a":true,"b":false,"c":null,"d":-1.5e3}`, nil},
		{"unquoted keys", `{path: "a", line_no: 3}`, `{"path":"a","line_no":3}`, nil},
		{"raw newline in string", "{\"p\":\"a\n\tb\"}", `{"p":"a\n\tb"}`, nil},
		{"escapes kept", `{"p":"\ud83d\ude00\\n",}`, `{"p":"\ud83d\ude00\\n"}`, nil},
		{"big number kept", `{"p":123456789012345678901234567890,}`, `{"p":123456789012345678901234567890}`, nil},

		{"cut in value", `{"p":`, "", cut},
		{"cut in string", `{"path":"a","content":"hel`, "", cut},
		{"cut after string", `{"p":"a"`, "", cut},
		{"cut after comma", `{"p":1,`, "", cut},
		{"cut in key", `{"p`, "", cut},
		{"cut in bare key", `{pa`, "", cut},
		{"cut after key", `{"p"`, "", cut},
		{"cut in word", `{"p":tr`, "", cut},
		{"cut in number", `{"p":-`, "", cut},
		{"cut in escape", `{"p":"\u12`, "", cut},
		{"cut at brace", `{`, "", cut},
		{"cut list", `[{"p":1}`, "", cut},
		{"cut inside encoded", `"{\"p\":1"`, "", cut},
		{"cut encoded", `"{\"p\":1`, "", cut},
		{"cut in fence", "```json\n{\"p\":\"x\n```", "", cut},

		{"list of scalars", `[1]`, "", shape},
		{"two objects", `[{"a":1},{"b":2}]`, "", shape},
		{"number", `12`, "", shape},
		{"true", `true`, "", shape},
		{"word", `hello`, "", shape},
		{"encoded word", `"hello"`, "", shape},
		{"garbage after", `{"p":1} and more`, "", shape},
		{"two documents", `{"p":1}{"p":2}`, "", shape},
		{"ambiguous quote", `{'p': 'it's'}`, "", shape},
		{"bare value", `{"p": hello}`, "", shape},
		{"two commas", `{"p":1,,"q":2}`, "", shape},
		{"missing comma", `{"p":1 "q":2}`, "", shape},
		{"leading zero", `{"p":012}`, "", shape},
		{"unknown escape", `{"p":"\d",}`, "", shape},
		{"nested encoding too deep", nest(`{"p":1}`, 6), "", shape},
		{"too deep", strings.Repeat(`{"a":`, 2000) + "x", "", shape},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := wire.ParseArguments(c.in)
			if string(got) != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Errorf("ParseArguments(%q) = %s, %v; want %s, %v", c.in, got, err, c.want, c.err)
			}
		})
	}
}

func nest(s string, n int) string {
	for range n {
		b, _ := json.Marshal(s)
		s = string(b)
	}
	return s
}

func TestReplayArguments(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		``:                              `{}`,
		`{"p":1}`:                       `{"p":1}`,
		`{'p': 1,}`:                     `{"p":1}`,
		`{"path":"a","content":"hel`:    `{"path":"a","content":"hel"}`,
		`{"a":[1,{"b":"x\`:              `{"a":[1,{"b":"x"}]}`,
		`{"a":1,"b`:                     `{"a":1,"b":null}`,
		`{"a":tr`:                       `{"a":null}`,
		`[1]`:                           `{}`,
		`nonsense`:                      `{}`,
		`{"a":1} trailing`:              `{}`,
		"```json\n{\"p\":\"x\\ny\"\n``": `{}`,
	} {
		if got := wire.ReplayArguments(in); got != want {
			t.Errorf("ReplayArguments(%q) = %s, want %s", in, got, want)
		}
	}
}

func FuzzParseArguments(f *testing.F) {
	for _, s := range []string{
		`{"p":1}`, `"{\"p\":1}"`, `[{"p":1}]`, "```json\n{'a':True,}\n```", `{"p":"hel`, `{a:[1,2,],}`, `{'p': 'it's'}`, `{"p":"\ud800"}`, "null", "\xff",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := wire.ParseArguments(s)
		trimmed := strings.TrimSpace(s)
		isObject := json.Valid([]byte(s)) && strings.HasPrefix(trimmed, "{")
		switch {
		case isObject && (err != nil || string(got) != trimmed):
			t.Errorf("valid object changed: %q, %v", got, err)
		case err == nil && (!json.Valid(got) || got[0] != '{'):
			t.Errorf("result is no object: %q", got)
		case err != nil && !errors.Is(err, wire.ErrArgumentsCut) && !errors.Is(err, wire.ErrArgumentsShape):
			t.Errorf("untyped error %v", err)
		}
		// A valid object that loses its end is cut, never completed.
		if isObject && len(trimmed) > 1 {
			if _, err := wire.ParseArguments(trimmed[:len(trimmed)-1]); !errors.Is(err, wire.ErrArgumentsCut) && json.Valid([]byte(trimmed)) {
				t.Errorf("%q without its last byte: %v, want cut", trimmed, err)
			}
		}
		if r := wire.ReplayArguments(s); !json.Valid([]byte(r)) || r[0] != '{' {
			t.Errorf("replay of %q is no object: %q", s, r)
		}
	})
}

func TestSizeOfArguments(t *testing.T) {
	t.Parallel()
	var s wire.Size
	if err := s.Add(strings.Repeat("x", 8<<20)); err != nil {
		t.Errorf("refused at the limit: %v", err)
	}
	if e, ok := errors.AsType[*llm.Error](s.Add("x")); !ok || e.Retryable() {
		t.Errorf("one byte more: %v; want an error that is not tried again", e)
	}
}
