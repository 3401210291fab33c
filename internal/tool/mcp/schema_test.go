package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/tool"
)

func decoded(t *testing.T, s string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return v
}

func TestNormalise(t *testing.T) {
	t.Parallel()
	const open = `{"type":"object","properties":{},"required":[]}`
	for _, c := range []struct{ name, in, want string }{
		{"nothing", `null`, open},
		{"no object", `[1]`, open},
		{"true", `true`, open},
		{"empty", `{}`, open},
		{"array at the root", `{"type":"array","items":{"type":"string"}}`, open},
		{"string at the root", `{"type":"string"}`, open},
		{"no type", `{"properties":{"a":{"type":"string"}}}`, `{"type":"object","properties":{"a":{"type":"string"}},"required":[]}`},
		{"object or null", `{"type":["object","null"],"properties":{}}`, open},
		{
			"nullable type", `{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"type":["null","integer"]},"c":{"type":["string","integer","null"]}}}`,
			`{"type":"object","properties":{"a":{"type":"string","nullable":true},"b":{"type":"integer","nullable":true},"c":{"type":["string","integer","null"]}},"required":[]}`,
		},
		{
			"optional branch", `{"type":"object","properties":{"a":{"anyOf":[{"type":"string","description":"x"},{"type":"null"}],"default":null},"b":{"oneOf":[{"type":"string"},{"type":"integer"}]}}}`,
			`{"type":"object","properties":{"a":{"type":"string","description":"x","nullable":true,"default":null},"b":{"oneOf":[{"type":"string"},{"type":"integer"}]}},"required":[]}`,
		},
		{
			"identifiers go", `{"$schema":"http://json-schema.org/draft-07/schema#","$id":"x","$comment":"c","type":"object","properties":{"id":{"type":"string","$id":"y"}},"required":["id"]}`,
			`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`,
		},
		{
			"local reference", `{"type":"object","properties":{"a":{"$ref":"#/$defs/T"}},"$defs":{"T":{"type":"string"},"unused":{"type":"null"}}}`,
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/T"}},"required":[],"$defs":{"T":{"type":"string"}}}`,
		},
		{
			"reference elsewhere is hoisted", `{"type":"object","properties":{"a":{"$ref":"#/definitions/T"}},"definitions":{"T":{"type":"string"}}}`,
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/ref_eae73fc1b178"}},"required":[],"$defs":{"ref_eae73fc1b178":{"type":"string"}}}`,
		},
		{"remote reference", `{"type":"object","properties":{"a":{"$ref":"https://evil/x.json","description":"d"}}}`, `{"type":"object","properties":{"a":{"description":"d"}},"required":[]}`},
		{"dangling reference", `{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}`, `{"type":"object","properties":{"a":{}},"required":[]}`},
		{"reference at the root", `{"$ref":"#/$defs/T","$defs":{"T":{"type":"object","properties":{"a":{"type":"string"}}}}}`, `{"type":"object","properties":{"a":{"type":"string"}},"required":[]}`},
		{"root that refers to itself", `{"$ref":"#"}`, open},
		{
			"choice at the root", `{"anyOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"object","properties":{"b":{"type":"string"}}}]}`,
			`{"type":"object","properties":{"input":{"type":"object","properties":{},"required":[],"anyOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":[]},{"type":"object","properties":{"b":{"type":"string"}},"required":[]}]}},"required":["input"]}`,
		},
		{
			"lists without items, boolean schemas", `{"type":"object","properties":{"a":{"type":"array"},"b":true,"c":{"type":"array","items":[{"type":"string"}]}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{}},"b":{},"c":{"type":"array","items":{}}},"required":[]}`,
		},
		{"hidden text", `{"type":"object","properties":{"a":{"type":"string","description":"x\u200b\u202ey"}}}`, `{"type":"object","properties":{"a":{"type":"string","description":"xy"}},"required":[]}`},
		{"wrong kinds", `{"type":7,"properties":[],"required":"a","anyOf":{}}`, open},
	} {
		p := normalise(decoded(t, c.in))
		if d := cmp.Diff(decoded(t, c.want), decoded(t, string(p.schema))); d != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, d)
		}
	}
}

func TestNormaliseRecursion(t *testing.T) {
	t.Parallel()
	p := normalise(decoded(t, `{"type":"object","properties":{"tree":{"$ref":"#/$defs/node"}},
		"$defs":{"node":{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/node"}}}}}}`))
	if !strings.Contains(string(p.schema), `"items":{"$ref":"#/$defs/node"}`) || len(p.notes) > 0 {
		t.Errorf("a tree: %s %v", p.schema, p.notes)
	}
	// Row 111: references that multiply with every level would take for ever
	// when they are followed.
	hostile := map[string]string{
		"two loops": `{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"properties":{"x":{"$ref":"#/$defs/n"},"y":{"$ref":"#/$defs/n"},"z":{"$ref":"#/$defs/n"}}}}}`,
		"self":      `{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"$ref":"#/$defs/n"}}}`,
		"root":      `{"type":"object","properties":{"a":{"$ref":"#"},"b":{"$ref":"#"},"c":{"items":{"$ref":"#/properties/c"}}}}`,
	}
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, `"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	hostile["laughs"] = `{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{` + b.String() + `"d40":{"type":"string"}}}`
	for name, in := range hostile {
		began := time.Now()
		p := normalise(decoded(t, in))
		set, err := tool.NewSet(tool.Tool{Name: "mcp_x", Schema: p.schema})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, _, _ = set.Prepare("mcp_x", `{"a":{"x":{"y":{"z":{}}}}}`)
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

func TestNormaliseLimits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 20_000)
	p := normalise(map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "string", "description": long}}})
	if len(p.schema) > 6000 {
		t.Errorf("a long description: %d bytes", len(p.schema))
	}
	props := map[string]any{}
	for i := range 2000 {
		props[fmt.Sprint("p", i)] = map[string]any{"type": "string", "description": strings.Repeat("x", 100)}
	}
	p = normalise(map[string]any{"type": "object", "properties": props})
	if len(p.schema) > maxSchemaBytes || !strings.Contains(string(p.schema), "p1999") || len(p.notes) != 1 {
		t.Errorf("many properties: %d bytes, %v", len(p.schema), p.notes)
	}
	var deep any = map[string]any{"type": "string"}
	for range 900 {
		deep = map[string]any{"type": "object", "properties": map[string]any{"a": deep}}
	}
	if p = normalise(deep); len(p.schema) > 100 || len(p.notes) != 1 {
		t.Errorf("deep: %d bytes, %v", len(p.schema), p.notes)
	}
}

// Whatever a server sends as the schema of a tool becomes a small one that
// arguments are checked against in a moment. The library for JSON Schema ends
// the process at the first two and takes seconds for the others (decision 46).
func TestHostileSchemas(t *testing.T) {
	t.Parallel()
	object := func(inner string) string { return `{"type":"object","properties":{"a":` + inner + `}}` }
	for name, in := range map[string]string{
		"reference to the root":   `{"$ref":"#"}`,
		"references in a circle":  `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`,
		"choice of itself":        `{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}`,
		"condition on itself":     object(`{"not":{"$ref":"#/properties/a"},"allOf":[{"$ref":"#/properties/a"}]}`),
		"nested":                  strings.Repeat(`{"properties":{"a":`, 4000) + `{}` + strings.Repeat(`}}`, 4000),
		"10 MB of choices":        object(`{"enum":[` + strings.Repeat(`"xxxxxxxxxx",`, 800_000) + `1]}`),
		"10 MB of text":           object(`{"description":"` + strings.Repeat("x", 10<<20) + `"}`),
		"huge pattern":            object(`{"type":"string","pattern":"` + strings.Repeat("(a|b|[c-z]{1,900})", 100_000) + `"}`),
		"pattern that backtracks": object(`{"type":"string","pattern":"^(a+)+$"}`),
		"wrong types everywhere":  `{"type":5,"properties":[],"required":"a","items":7,"$defs":0,"enum":{},"minimum":"x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			value := decoded(t, in)
			p := normalise(value)
			if len(p.schema) > maxSchemaBytes {
				t.Errorf("%d bytes", len(p.schema))
			}
			set, err := tool.NewSet(tool.Tool{Name: "mcp_x", Schema: p.schema})
			if err != nil {
				t.Fatal(err)
			}
			for _, args := range []string{`{}`, `{"a":"` + strings.Repeat("a", 1000) + `b"}`, `{"a":{"a":{"a":[1]}},"input":{"a":{}}}`} {
				_, _, _ = set.Prepare("mcp_x", args) // it may refuse them
			}
		})
	}
}

func TestArgumentsGoBack(t *testing.T) {
	t.Parallel()
	p := normalise(decoded(t, `{"type":"object","required":["@type","ok"],"properties":{
		"@type":{"type":"string"},"ok":{"type":"integer"},"größe":{"type":"object","properties":{"b c":{"type":"integer"}},"required":["b c"]},"":{"type":"string"}}}`))
	set, err := tool.NewSet(tool.Tool{Name: "mcp_x", Schema: p.schema})
	if err != nil {
		t.Fatal(err)
	}
	offered := map[string]string{}
	for short, own := range p.renamed {
		offered[own] = short
	}
	if len(offered) != 4 {
		t.Fatalf("renamed = %v", p.renamed)
	}
	args := fmt.Sprintf(`{%q:"t","ok":12345678901234567,%q:{%q:3}}`, offered["@type"], offered["größe"], offered["b c"])
	_, input, bad := set.Prepare("mcp_x", args)
	if bad != nil {
		t.Fatal(bad.Content.String())
	}
	got, err := p.arguments(input)
	if err != nil || string(got) != `{"@type":"t","größe":{"b c":3},"ok":12345678901234567}` {
		t.Errorf("arguments = %s, %v", got, err)
	}
	w := normalise(decoded(t, `{"type":"object","oneOf":[{"properties":{"a":{"type":"string"}}}]}`))
	if got, err := w.arguments([]byte(`{"input":{"a":"x"}}`)); err != nil || string(got) != `{"a":"x"}` {
		t.Errorf("wrapped arguments = %s, %v", got, err)
	}
}

func FuzzSchema(f *testing.F) {
	for _, s := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#"}}}`, `{"$ref":"#/a/b","a":{"b":{"type":["object","null"]}}}`, `{"anyOf":[{"type":"null"},{"$ref":"#/anyOf/1"}]}`,
		`{"properties":{"a b":{"type":"array","items":[{}]},"c":false},"required":["a b",1,null]}`, `{"allOf":[{}],"$defs":{"x":{"$ref":"#/$defs/x"}}}`,
		`{"type":"object","properties":{"$ref":{"type":"string"}},"default":{"$ref":"#/$defs/q"}}`, `[[]]`, `{"properties":{"p":{"$ref":"#/%24defs/a~1b"}},"$defs":{"a/b":{"enum":[1,{"a":2}]}}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var v any
		if json.Unmarshal([]byte(in), &v) != nil {
			return
		}
		p := normalise(v)
		if len(p.schema) > maxSchemaBytes {
			t.Fatalf("%d bytes", len(p.schema))
		}
		var out map[string]any
		if err := json.Unmarshal(p.schema, &out); err != nil || out["type"] != "object" {
			t.Fatalf("%s: %v", p.schema, err)
		}
		if combined(out) {
			t.Fatalf("a choice at the root: %s", p.schema)
		}
		if _, err := tool.NewSet(tool.Tool{Name: "mcp_x", Schema: p.schema}); err != nil {
			t.Fatal(err)
		}
		var again any
		_ = json.Unmarshal([]byte(in), &again)
		if q := normalise(again); string(q.schema) != string(p.schema) {
			t.Fatalf("not stable:\n%s\n%s", p.schema, q.schema)
		}
		checkProperties(t, out)
	})
}

// checkProperties looks for names providers refuse and references that leave.
func checkProperties(t *testing.T, v any) {
	t.Helper()
	m, ok := v.(map[string]any)
	if !ok {
		return
	}
	if ref, ok := m["$ref"].(string); ok && !strings.HasPrefix(ref, "#/$defs/") {
		t.Fatalf("reference %q", ref)
	}
	props, _ := m["properties"].(map[string]any)
	for name, sub := range props {
		if !plainProperty(name) {
			t.Fatalf("property %q", name)
		}
		checkProperties(t, sub)
	}
	checkProperties(t, m["items"])
	defs, _ := m["$defs"].(map[string]any)
	for _, sub := range defs {
		checkProperties(t, sub)
	}
}
