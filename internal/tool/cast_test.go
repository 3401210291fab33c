package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/tool"
)

type options struct {
	Path    string            `json:"path" desc:"a path" alias:"file_path"`
	Timeout int               `json:"timeout,omitempty" min:"1" max:"600"`
	Ratio   float64           `json:"ratio,omitempty"`
	All     bool              `json:"all,omitempty"`
	Mode    string            `json:"mode,omitempty" enum:"fast|slow"`
	Note    string            `json:"note,omitempty" min:"2" max:"4"`
	Tags    []string          `json:"tags,omitempty" max:"2"`
	Sizes   []int             `json:"sizes,omitempty"`
	Limit   *int              `json:"limit,omitempty"`
	Inner   *inner            `json:"inner,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

type inner struct {
	Depth int `json:"depth"`
}

func newSet(tb testing.TB, more ...tool.Tool) *tool.Set {
	tb.Helper()
	read := tool.Func(tool.Tool{Name: "read_file", Description: "reads"}, func(context.Context, tool.Call, options) (tool.Result, error) {
		return tool.Text("ok"), nil
	})
	s, err := tool.NewSet(append(more, read)...)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestCast(t *testing.T) {
	t.Parallel()
	set := newSet(t)
	deep := strings.Repeat(`[`, 10_000) + strings.Repeat(`]`, 10_000)
	for _, c := range []struct {
		name, in, want string // want starts with ! for an error that contains the rest
	}{
		{"99 empty list", `[]`, "!JSON object"},
		{"99 null", `null`, "!missing required path"},
		{"99 nothing", ``, "!missing required path"},
		{"99 cut off", `{`, "!cut off"},
		{"99 bare words", `{path:'x'}`, `{"path":"x"}`},
		{"99 trailing comma", `{"path":"x",}`, `{"path":"x"}`},
		{"99 single quotes", `{'path':'x'}`, `{"path":"x"}`},
		{"100 list", `["x"]`, "!JSON object"},
		{"100 string", `"x"`, "!JSON object"},
		{"100 number", `7`, "!JSON object"},
		{"101 wrapped text", `{"arguments":"{\"path\":\"x\"}"}`, `{"path":"x"}`},
		{"101 wrapped object", `{"arguments":{"path":"x"}}`, `{"path":"x"}`},
		{"101 wrapped nonsense", `{"arguments":7}`, "!missing required path; ignored unknown parameters: \"arguments\""},
		{"101 wrapped parameters", `{"parameters":{"path":"x"}}`, `{"path":"x"}`},
		{"101 wrapped with the name", `{"name":"read_file","parameters":{"path":"x"}}`, `{"path":"x"}`},
		{"102 integer text", `{"path":"x","timeout":"120"}`, `{"path":"x","timeout":120}`},
		{"102 integer text with space", `{"path":"x","timeout":" +120 "}`, `{"path":"x","timeout":120}`},
		{"102 whole float", `{"path":"x","timeout":120.0}`, `{"path":"x","timeout":120}`},
		{"102 exponent", `{"path":"x","timeout":1e2}`, `{"path":"x","timeout":100}`},
		{"102 fraction", `{"path":"x","timeout":1.5}`, "!timeout must be integer, got number"},
		{"102 bool", `{"path":"x","timeout":true}`, "!timeout must be integer, got boolean"},
		{"102 underscore", `{"path":"x","timeout":"1_0"}`, `{"path":"x","timeout":10}`},
		{"102 wrong underscores", `{"path":"x","timeout":"_1_"}`, "!timeout must be integer, got string"},
		{"102 below", `{"path":"x","timeout":-1}`, "!timeout must be >= 1"},
		{"102 above", `{"path":"x","timeout":601}`, "!timeout must be <= 600"},
		{"102 huge", `{"path":"x","timeout":1000000000000000000000000000000}`, "!timeout must be integer"},
		{"102 huge text", `{"path":"x","timeout":"1000000000000000000000000000000"}`, "!timeout must be integer"},
		{"102 not a number", `{"path":"x","ratio":"NaN"}`, "!ratio must be number"},
		{"102 infinite", `{"path":"x","ratio":"inf"}`, "!ratio must be number"},
		{"102 overflowing", `{"path":"x","ratio":1e999}`, "!ratio must be finite"},
		{"102 number text", `{"path":"x","ratio":"2.50"}`, `{"path":"x","ratio":2.5}`},
		{"103 yes", `{"path":"x","all":"yes"}`, `{"all":true,"path":"x"}`},
		{"103 False", `{"path":"x","all":" False "}`, `{"all":false,"path":"x"}`},
		{"103 one", `{"path":"x","all":1}`, `{"all":true,"path":"x"}`},
		{"103 zero", `{"path":"x","all":0}`, `{"all":false,"path":"x"}`},
		{"103 two", `{"path":"x","all":2}`, "!all must be boolean, got number"},
		{"103 maybe", `{"path":"x","all":"maybe"}`, "!all must be boolean, got string"},
		{"104 null for optional", `{"path":"x","all":null,"limit":null,"inner":null}`, `{"path":"x"}`},
		{"104 empty text for optional", `{"path":"x","timeout":"","ratio":" ","all":"","sizes":"","mode":""}`, `{"path":"x"}`},
		{"104 null for required", `{"path":null}`, "!path must be string, got null"},
		{"105 unknown key", `{"path":"x","pth":1}`, `{"path":"x"}`},
		{"105 unknown key in place of a required one", `{"pth":"x"}`, "!missing required path; ignored unknown parameters: \"pth\" (known: path, timeout"},
		{"105 alias", `{"file_path":"x"}`, `{"path":"x"}`},
		{"105 alias and real", `{"file_path":"y","path":"x"}`, `{"path":"x"}`},
		{"106 duplicate keys", `{"path":"a","path":"b"}`, `{"path":"b"}`},
		{"107 deep", `{"path":"x","tags":` + deep + `}`, "!"},
		{"107 65 levels", `{"path":` + strings.Repeat(`[`, 65) + strings.Repeat(`]`, 65) + `}`, "!nested deeper"},
		{"107 large", `{"path":"` + strings.Repeat("x", 5<<20) + `"}`, "!at most 1048576"},
		{"107 lone surrogate", `{"path":"\ud800"}`, `{"path":"` + "\ufffd" + `"}`},
		{"107 nul in a path", `{"path":"a\u0000b"}`, "!path must not contain a NUL byte"},
		{"string from number", `{"path":12.0}`, `{"path":"12.0"}`},
		{"string from bool", `{"path":true}`, `{"path":"true"}`},
		{"string from object", `{"path":{"b":1,"a":[2]}}`, `{"path":"{\"a\":[2],\"b\":1}"}`},
		{"list from text", `{"path":"x","tags":"[\"a\",\"b\"]"}`, `{"path":"x","tags":["a","b"]}`},
		{"object from text", `{"path":"x","inner":"{\"depth\":\"3\"}"}`, `{"inner":{"depth":3},"path":"x"}`},
		{"list items", `{"path":"x","sizes":["1",2.0]}`, `{"path":"x","sizes":[1,2]}`},
		{"bad list item", `{"path":"x","sizes":[1,"b"]}`, "!sizes[1] must be integer, got string"},
		{"too many items", `{"path":"x","tags":["a","b","c"]}`, "!tags must have at most 2 items"},
		{"map values", `{"path":"x","env":{"A":1}}`, `{"env":{"A":"1"},"path":"x"}`},
		{"nested missing", `{"path":"x","inner":{}}`, "!missing required inner.depth"},
		{"nested unknown", `{"path":"x","inner":{"depth":1,"x":2}}`, `{"inner":{"depth":1},"path":"x"}`},
		{"enum", `{"path":"x","mode":"medium"}`, `!mode must be one of "fast", "slow"`},
		{"too short", `{"path":"x","note":"é"}`, "!note must have at least 2 characters"},
		{"length in characters", `{"path":"x","note":"éééé"}`, `{"note":"éééé","path":"x"}`},
		{"too long", `{"path":"x","note":"ééééé"}`, "!note must have at most 4 characters"},
		{"all errors at once", `{"timeout":0,"mode":"x"}`, "!missing required path; mode must be one of"},
		{"markup is not escaped", `{"path":"<a&b>"}`, `{"path":"<a&b>"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, raw, bad := set.Prepare("read_file", c.in)
			if part, fails := strings.CutPrefix(c.want, "!"); fails {
				if bad == nil || bad.Code != tool.InvalidArgs || !strings.Contains(bad.Content.Text, part) {
					t.Fatalf("got %s, %+v; want an error with %q", clip(string(raw)), bad, part)
				}
				return
			}
			if bad != nil {
				t.Fatalf("refused: %s", clip(bad.Content.Text))
			}
			if string(raw) != c.want {
				t.Errorf("got %s, want %s", raw, c.want)
			}
		})
	}
}

func TestIgnoredParametersAreNamed(t *testing.T) {
	t.Parallel()
	set := newSet(t)
	tl, input, bad := set.Prepare("read_file", `{"path":"x","encoding":"utf-8","inner":{"depth":1,"x":2}}`)
	if bad != nil {
		t.Fatalf("refused: %s", bad.Content.Text)
	}
	res, err := tool.Execute(t.Context(), tl, tool.Call{Input: input}, slog.New(slog.DiscardHandler))
	if err != nil || !strings.HasPrefix(res.Remark, `ignored unknown parameters: "encoding", "inner.x" (known: path, `) {
		t.Errorf("remark %q, %v", res.Remark, err)
	}
}

func clip(s string) string { return s[:min(len(s), 300)] }

func TestCastForeignSchema(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{
		"u":{"type":["string","null"]}, "w":{"type":["string","integer"]}, "n":{"type":"integer","nullable":true},
		"c":{"const":"k"}, "a":{"anyOf":[{"type":"integer"},{"type":"string","minLength":3}]},
		"r":{"$ref":"#/$defs/size"}, "loop":{"$ref":"#/$defs/loop"}, "x":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1}},
		"$defs":{"size":{"type":"integer","maximum":9},"loop":{"$ref":"#/$defs/loop"}},
		"additionalProperties":{"type":"integer"},"required":["u"]}`
	mcp := tool.Tool{Name: "mcp_x", Schema: json.RawMessage(schema)}
	set := newSet(t, mcp)
	for _, c := range []struct{ in, want string }{
		{`{"u":null}`, `{"u":null}`},
		{`{"u":5}`, `{"u":"5"}`},
		{`{"u":"","w":5}`, `{"u":"","w":5}`},
		{`{"u":"","w":"5"}`, `{"u":"","w":"5"}`},
		{`{"u":"","w":1.5}`, "!w must be string or integer"},
		{`{"u":"","n":null}`, `{"n":null,"u":""}`},
		{`{"u":"","c":"k"}`, `{"c":"k","u":""}`},
		{`{"u":"","c":"j"}`, `!c must be "k"`},
		{`{"u":"","a":"abc"}`, `{"a":"abc","u":""}`},
		{`{"u":"","a":"ab"}`, "!a matches none"},
		{`{"u":"","r":"9"}`, `{"r":9,"u":""}`},
		{`{"u":"","r":10}`, "!r must be <= 9"},
		{`{"u":"","loop":[1]}`, `{"loop":[1],"u":""}`},
		{`{"u":"","x":1}`, "!x must be < 1"},
		{`{"u":"","more":"7"}`, `{"more":7,"u":""}`},
		{`{"u":"","more":"q"}`, "!more must be integer"},
	} {
		_, raw, bad := set.Prepare("mcp_x", c.in)
		part, fails := strings.CutPrefix(c.want, "!")
		switch {
		case fails && (bad == nil || !strings.Contains(bad.Content.Text, part)):
			t.Errorf("%s: got %s, %v; want an error with %q", c.in, raw, bad, part)
		case !fails && (bad != nil || string(raw) != c.want):
			t.Errorf("%s: got %s, %v; want %s", c.in, raw, bad, c.want)
		}
	}
}

func TestUnknownTool(t *testing.T) {
	t.Parallel()
	set := newSet(t, tool.Tool{Name: "mcp_x"}, tool.Tool{Name: "glob"})
	for _, c := range []struct{ name, hint string }{
		{"readFile", `Did you mean "read_file"?`},
		{"read_file ", `Did you mean "read_file"?`},
		{"READ-FILE", `Did you mean "read_file"?`},
		{"mcp__x", `Did you mean "mcp_x"?`},
		{strings.Repeat("x", 300), ""},
		{"read\nfile", `Did you mean "read_file"?`},
		{"", ""},
		{"nothing", ""},
	} {
		_, _, bad := set.Prepare(c.name, "{}")
		if bad == nil || bad.Code != tool.UnknownTool {
			t.Fatalf("%q: %+v", c.name, bad)
		}
		text := bad.Content.Text
		if !strings.Contains(text, "Available: glob, read_file, mcp_x.") || c.hint != "" && !strings.Contains(text, c.hint) || c.hint == "" && strings.Contains(text, "Did you mean") {
			t.Errorf("%q: %s", c.name, text)
		}
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	set := newSet(t, tool.Tool{Name: "mcp_b"}, tool.Tool{Name: "zz"}, tool.Tool{Name: "mcp_a"})
	if d := cmp.Diff([]string{"read_file", "zz", "mcp_a", "mcp_b"}, set.Names()); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
	for _, bad := range []string{"", "a b", "ü", strings.Repeat("x", 65), "a\nb"} {
		if _, err := tool.NewSet(tool.Tool{Name: bad}); err == nil {
			t.Errorf("name %q was accepted", bad)
		}
	}
	if _, err := set.With(tool.Tool{Name: "zz"}); err == nil {
		t.Error("two tools with one name were accepted")
	}
	if _, err := tool.NewSet(tool.Tool{Name: "x", Schema: json.RawMessage(`[]`)}); err == nil {
		t.Error("a schema that is no object was accepted")
	}
}

func TestExecuteRecovers(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	boom := tool.Tool{Name: "boom", Run: func(context.Context, tool.Call) (tool.Result, error) { panic("kaputt") }}
	res, err := tool.Execute(t.Context(), boom, tool.Call{}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil || !res.IsError || res.Code != tool.Internal || !res.MayHaveRun || !strings.Contains(res.Content.Text, "kaputt") {
		t.Errorf("Execute = %+v, %v", res, err)
	}
	if strings.Contains(res.Content.Text, "goroutine") || !strings.Contains(log.String(), "goroutine") {
		t.Error("the stack belongs into the log only")
	}
	cause := errors.New("gone")
	bad := tool.Tool{Name: "bad", Run: func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, cause }}
	if _, err := tool.Execute(t.Context(), bad, tool.Call{}, slog.New(slog.DiscardHandler)); !errors.Is(err, cause) {
		t.Errorf("Execute = %v, want it to wrap the cause", err)
	}
}

// Casting never panics; what it accepts decodes into the type, and casting the
// result again changes nothing.
func FuzzCast(f *testing.F) {
	for _, s := range []string{
		`{"path":"x","timeout":"1_0","ratio":1e3,"all":"yes","tags":["a"],"sizes":"[1]","inner":{"depth":1},"env":{"a":true}}`,
		`{"arguments":{"path":"x"}}`, `{'path':'x',}`, `{"path":"\ud800"}`, `{"path":null,"path":1}`, `{"limit":null,"path":{}}`, `[{"path":"x"}]`,
	} {
		f.Add(s)
	}
	set := newSet(f)
	f.Fuzz(func(t *testing.T, s string) {
		_, raw, bad := set.Prepare("read_file", s)
		if bad != nil {
			return
		}
		var o options
		if err := json.Unmarshal(raw, &o); err != nil {
			t.Fatalf("%q was cast to %s, which does not decode: %v", s, raw, err)
		}
		_, again, bad := set.Prepare("read_file", string(raw))
		if bad != nil || string(again) != string(raw) {
			t.Fatalf("%q: second cast of %s = %s, %v", s, raw, again, bad)
		}
		var m map[string]any
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !slices.Contains([]string{"path", "timeout", "ratio", "all", "mode", "note", "tags", "sizes", "limit", "inner", "env"}, k) {
				t.Fatalf("unknown key %q passed", k)
			}
		}
	})
}

// A schema that refers to itself twice per level would be a tree of 2^32 nodes.
func TestRecursiveSchema(t *testing.T) {
	t.Parallel()
	raw := json.RawMessage(`{"type":"object","properties":{"n":{"$ref":"#/$defs/node"}},"required":["n"],"$defs":{
		"node":{"type":"object","properties":{"l":{"$ref":"#/$defs/node"},"r":{"$ref":"#/$defs/node"},"v":{"type":"integer"}}},
		"loop":{"$ref":"#/$defs/loop"}}}`)
	set, err := tool.NewSet(tool.Tool{Name: "tree", Schema: raw, Run: func(_ context.Context, c tool.Call) (tool.Result, error) { return tool.Text(string(c.Input)), nil }})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, bad := set.Prepare("tree", `{"n":{"l":{"r":{"v":1}}}}`); bad != nil {
		t.Errorf("refused: %v", bad.Content)
	}
	if _, _, bad := set.Prepare("tree", `{"n":{"l":{"r":{"v":"x"}}}}`); bad == nil {
		t.Error("a wrong type deep inside was accepted")
	}
}

// What goes without saying is not sent with every request, but it is checked.
func TestSchemaIsShort(t *testing.T) {
	t.Parallel()
	type in struct {
		Name  string   `json:"name" min:"1"`
		Code  string   `json:"code,omitempty" min:"2"`
		Count int      `json:"count,omitempty" min:"0" max:"9"`
		From  int      `json:"from,omitempty" min:"5"`
		List  []string `json:"list,omitempty" min:"1"`
		Force bool     `json:"force,omitempty" hidden:"1"`
	}
	var got in
	s := newSet(t, tool.Func(tool.Tool{Name: "short", Description: "d"}, func(_ context.Context, _ tool.Call, v in) (tool.Result, error) {
		got = v
		return tool.Text("ok"), nil
	}))
	tl, _ := s.Get("short")
	want := `{"type":"object","properties":{"name":{"type":"string"},"code":{"type":"string","minLength":2},"count":{"type":"integer","maximum":9},` +
		`"from":{"type":"integer","minimum":5},"list":{"type":"array","items":{"type":"string"}}},"required":["name"]}`
	if d := cmp.Diff(want, string(tl.Schema)); d != "" {
		t.Errorf("schema (-want +got):\n%s", d)
	}
	for _, args := range []string{`{"name":""}`, `{"name":"x","count":-1}`, `{"name":"x","list":[]}`} {
		if _, _, bad := s.Prepare("short", args); bad == nil {
			t.Errorf("%s is accepted", args)
		}
	}
	tl, input, bad := s.Prepare("short", `{"name":"x","force":"true"}`)
	if bad != nil {
		t.Fatalf("a hidden parameter is refused: %s", bad.Content)
	}
	if _, err := tl.Run(t.Context(), tool.Call{Input: input}); err != nil || !got.Force {
		t.Errorf("a hidden parameter is lost: %+v, %v", got, err)
	}
}
