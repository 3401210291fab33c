package record

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Difference is one place where a replay is not as recorded.
type Difference struct {
	Request  int    `json:"request,omitempty"` // which request of the replay, from 1; 0 if none
	Where    string `json:"where"`
	Recorded string `json:"recorded"`
	Current  string `json:"current"`
}

// repeats reports whether two requests differ from their records in the same way.
func (d Difference) repeats(o Difference) bool {
	o.Request = d.Request
	return o == d && d.Where != "request"
}

func (d Difference) String() string {
	s := d.Where
	if d.Request > 0 {
		s = fmt.Sprintf("request %d: %s", d.Request, s)
	}
	return fmt.Sprintf("%s\n    recorded: %s\n    now:      %s", s, orNothing(d.Recorded), orNothing(d.Current))
}

func orNothing(s string) string {
	if s == "" {
		return "(nothing)"
	}
	return s
}

// most differences told of one part: the first ones explain the others.
const most = 5

// view is a request in the form in which two can be compared.
type view struct {
	system   string
	tools    map[string]any
	names    []string
	messages []any
	choice   string
}

// viewOf takes out secrets, the time and what the replacer knows.
func viewOf(req llm.Request, r *strings.Replacer) view {
	v := view{system: r.Replace(scrubber{}.text(req.System)), choice: req.ToolChoice, tools: map[string]any{}, messages: make([]any, len(req.Messages))}
	for _, d := range req.Tools {
		v.names = append(v.names, d.Name)
		v.tools[d.Name] = simplify(toolDef(d), r)
	}
	for i, m := range req.Messages {
		v.messages[i] = simplify(m, r)
	}
	return v
}

// simplify returns the JSON value with all texts in normal form.
func simplify(v any, r *strings.Replacer) any {
	tree, err := toTree(v)
	if err != nil {
		return err.Error()
	}
	return walk(scrubber{}.tree("", tree), r)
}

func walk(v any, r *strings.Replacer) any {
	switch t := v.(type) {
	case string:
		return timeless(r.Replace(t))
	case []any:
		for i := range t {
			t[i] = walk(t[i], r)
		}
	case map[string]any:
		delete(t, "_meta") // where a picture was is not what it shows
		for k := range t {
			t[k] = walk(t[k], r)
		}
	}
	return v
}

// timeless replaces the time in the block that the agent adds to messages.
func timeless(s string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, blockOpen)
		if i < 0 {
			return b.String() + s
		}

		before, after, found := strings.Cut(s[i:], timeLabel)
		if !found {
			return b.String() + s
		}

		b.WriteString(s[:i] + before + timeLabel + "<time>")
		_, s, _ = strings.Cut(after, "\n")
	}
}

// compare lists how a current request differs from a recorded one.
func (v view) compare(rec view) []Difference {
	var out []Difference
	if rec.system != v.system {
		a, b := excerpt(rec.system, v.system)
		out = append(out, Difference{Where: "system prompt" + atLine(rec.system, v.system), Recorded: a, Current: b})
	}
	if rec.choice != v.choice {
		out = append(out, Difference{Where: "tool choice", Recorded: rec.choice, Current: v.choice})
	}

	out = append(out, v.compareTools(rec)...)
	return append(out, v.compareMessages(rec)...)
}

func (v view) compareTools(rec view) []Difference {
	var out []Difference
	for _, name := range rec.names {
		if _, ok := v.tools[name]; !ok {
			out = append(out, Difference{Where: "tool " + name, Recorded: "offered", Current: "not offered"})
			continue
		}
		out = append(out, differences("tool "+name, rec.tools[name], v.tools[name])...)
	}

	for _, name := range v.names {
		if _, ok := rec.tools[name]; !ok {
			out = append(out, Difference{Where: "tool " + name, Recorded: "not offered", Current: "offered"})
		}
	}

	if len(out) == 0 && !slices.Equal(rec.names, v.names) {
		out = append(out, Difference{Where: "order of tools", Recorded: strings.Join(rec.names, " "), Current: strings.Join(v.names, " ")})
	}
	return out
}

func (v view) compareMessages(rec view) []Difference {
	var out []Difference
	for i := range min(len(rec.messages), len(v.messages)) {
		out = append(out, differences(fmt.Sprintf("message %d%s", i+1, roleOf(v.messages[i])), rec.messages[i], v.messages[i])...)
		if len(out) >= most {
			return out[:most]
		}
	}

	if a, b := len(rec.messages), len(v.messages); a != b {
		out = append(out, Difference{Where: "number of messages", Recorded: fmt.Sprint(a), Current: fmt.Sprint(b)})
	}
	return out
}

func roleOf(m any) string {
	if o, ok := m.(map[string]any); ok {
		return fmt.Sprintf(" (%v)", o["role"])
	}
	return ""
}

// differences finds where two JSON values part, a few places at most.
func differences(where string, rec, now any) []Difference {
	switch a := rec.(type) {
	case map[string]any:
		b, ok := now.(map[string]any)
		if !ok {
			break
		}

		var out []Difference
		keys := maps.Clone(a)
		maps.Copy(keys, b)
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			out = append(out, differences(where+", "+k, a[k], b[k])...)
		}
		return out[:min(len(out), most)]
	case []any:
		b, ok := now.([]any)
		if !ok {
			break
		}

		var out []Difference
		for i := range max(len(a), len(b)) {
			out = append(out, differences(fmt.Sprintf("%s %d", where, i+1), at(a, i), at(b, i))...)
		}
		return out[:min(len(out), most)]
	}

	x, y := plain(rec), plain(now)
	if x == y {
		return nil
	}

	x, y = excerpt(x, y)
	return []Difference{{Where: where, Recorded: x, Current: y}}
}

func at(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

func plain(v any) string {
	switch t := v.(type) {
	case nil:
		return ""
	case string:
		return t
	}

	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// excerpt shows two texts from shortly before the place where they part.
func excerpt(a, b string) (x, y string) {
	i := parts(a, b)
	if from := strings.LastIndexByte(a[:i], '\n') + 1; i-from <= 40 {
		i = from
	} else {
		i -= 40
	}

	cut := func(s string) string {
		s = short(strings.ToValidUTF8(s[i:], ""))
		if i > 0 && s != "" {
			s = "…" + s
		}
		return s
	}
	return cut(a), cut(b)
}

// parts returns the length of what two texts begin with in common.
func parts(a, b string) int {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	return i
}

func atLine(a, b string) string {
	return fmt.Sprintf(", line %d", strings.Count(a[:parts(a, b)], "\n")+1)
}

// short returns a text in one line of bearable length.
func short(s string) string {
	return text.Ellipsis(strings.Join(strings.Fields(s), " "), 160)
}
