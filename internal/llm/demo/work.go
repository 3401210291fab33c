package demo

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// turn is one request, understood.
type turn struct {
	model    *model
	req      llm.Request
	zh       bool
	page     bool // the person is at the web page
	outcomes []outcome
}

// localize returns the text in the user's language.
func (t *turn) localize(en, zh string) string {
	if t.zh {
		return zh
	}
	return en
}

// report is the end of one step: what it did and what came back.
type report struct {
	step    step
	outcome outcome
	missing string // the tool that was not offered, "" if the step ran
}

// work replays the steps against the outcomes so far. The first call without
// an outcome is made; when nothing is left to do, the results are told. A
// failed step ends the sequence, because the next one may depend on it.
func (t *turn) work(steps []step) reply {
	var done []report
	next := 0
	for _, st := range steps {
		r := report{step: st}
		for made := []outcome(nil); ; made = append(made, t.outcomes[next-1]) {
			name, args := t.callFor(st, made)
			if name == "" {
				break
			}
			if !t.offered(name) {
				r.missing = name
				break
			}
			if next == len(t.outcomes) {
				return t.call(name, args)
			}

			r.outcome = t.outcomes[next]
			next++
		}

		done = append(done, r)
		if r.missing != "" || r.outcome.failed {
			break
		}
	}

	return reply{thought: t.localize("I have the result, so I report it.", "结果已经拿到，我来汇报。"), text: t.summary(done, len(steps))}
}

// argument is a named parameter of a call, in the order it is written.
type argument struct {
	name  string
	value any
}

// callFor returns the call a step needs after the outcomes it already has; an empty
// name means the step is complete.
func (t *turn) callFor(st step, made []outcome) (string, []argument) {
	if st.act == actNote {
		return t.noteCall(st, made)
	}
	if len(made) > 0 {
		return "", nil
	}

	switch st.act {
	case actList:
		return "list_dir", []argument{{"path", st.path}}
	case actRead:
		return "read_file", []argument{{"path", st.path}}
	case actWrite:
		return "write_file", []argument{{"path", st.path}, {"content", st.text + "\n"}}
	case actRun:
		return "exec", []argument{{"command", st.text}}
	case actSearch:
		if strings.Contains(st.text, "*") && t.offered("glob") {
			return "glob", []argument{{"pattern", st.text}, {"path", st.path}}
		}
		return "grep", []argument{
			{"pattern", st.text}, {"path", st.path}, {"fixed_strings", true}, {"output_mode", "content"}, {"head_limit", 20},
		}

	default:
		return "", nil
	}
}

// notesHead is the first line of a notes file and the blank line after it.
// Notes are single lines, so this text occurs only once in a file made here.
const notesHead = "# Notes\n\n"

// noteCall adds a note without a chance of losing older ones: it looks for the
// notes file, then inserts under its heading, or creates it by an edit that
// refuses to touch a file that is already there. Without edit_file each note
// gets a file of its own.
func (t *turn) noteCall(st step, made []outcome) (string, []argument) {
	line := "- " + st.text + "\n"
	if !t.offered("edit_file") {
		if len(made) > 0 {
			return "", nil
		}
		return "write_file", []argument{{"path", t.singleNote(st.text)}, {"content", notesHead + line}}
	}

	switch {
	case len(made) == 0 && t.offered("read_file"):
		return "read_file", []argument{{"path", t.model.notes}}
	case len(made) == 0, len(made) == 1 && t.offered("read_file"):
		old := notesHead
		if len(made) == 0 || made[0].failed {
			old = ""
		}
		return "edit_file", []argument{{"path", t.model.notes}, {"old_text", old}, {"new_text", notesHead + line}}

	case len(made) == 2 && made[1].failed && !made[0].failed:
		// The file is there and is not ours: a project has one of the same name.
		return "edit_file", []argument{{"path", t.singleNote(st.text)}, {"old_text", ""}, {"new_text", notesHead + line}}
	default:
		return "", nil
	}
}

// singleNote returns the file of one note, where the usual file cannot be used.
func (t *turn) singleNote(note string) string {
	h := fnv.New32a()
	h.Write([]byte(note))
	ext := ""
	base := t.model.notes
	if i := strings.LastIndexByte(base, '.'); i > strings.LastIndexByte(base, '/') {
		base, ext = base[:i], base[i:]
	}
	return fmt.Sprintf("%s-%08x%s", base, h.Sum32(), ext)
}

// offered reports whether a tool may be called.
func (t *turn) offered(name string) bool {
	return t.req.ToolChoice != "none" && slices.ContainsFunc(t.req.Tools, func(d llm.ToolDef) bool { return d.Name == name })
}

// call makes the reply that calls one tool. Parameters its schema does not
// name are left out.
func (t *turn) call(name string, args []argument) reply {
	i := slices.IndexFunc(t.req.Tools, func(d llm.ToolDef) bool { return d.Name == name })
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(t.req.Tools[i].Schema, &schema) // without a schema everything is sent
	b := []byte{'{'}
	for _, a := range args {
		if _, known := schema.Properties[a.name]; !known && schema.Properties != nil {
			continue
		}

		if len(b) > 1 {
			b = append(b, ',')
		}

		b = append(text.AppendJSON(b, a.name), ':')
		switch v := a.value.(type) {
		case string:
			b = text.AppendJSON(b, v)
		case bool:
			b = strconv.AppendBool(b, v)
		case int:
			b = strconv.AppendInt(b, int64(v), 10)
		}
	}

	return t.callRaw(name, string(append(b, '}')))
}

func (t *turn) callRaw(name, args string) reply {
	return reply{
		thought: fmt.Sprintf(t.localize("This needs the tool %s.", "这需要用工具 %s。"), name),
		calls:   []llm.ToolCall{{ID: callID(t.req, name, args), Name: name, Arguments: args}},
	}
}

// knob answers the texts for tests and benchmarks; see the package comment.
func (t *turn) knob(text string) reply {
	f := strings.Fields(text)
	if len(f) == 0 {
		return reply{text: t.introduction()}
	}

	n := 0
	if len(f) > 1 {
		n, _ = strconv.Atoi(f[1])
		n = max(0, min(n, 1_000_000))
	}

	switch f[0] {
	case "repeat":
		return reply{thought: "I count words.", text: wordsUpTo(n)}
	case "think":
		return reply{thought: wordsUpTo(n), text: "I thought about it. (" + notAI + ")"}
	case "tools":
		if len(t.outcomes) < n && t.offered("list_dir") {
			// Each call differs, because repeating one call is what loop guards stop.
			return t.call("list_dir", []argument{{"path", "."}, {"max_entries", 100 + len(t.outcomes)}})
		}
		return reply{text: fmt.Sprintf("Made %d tool calls. (%s)", len(t.outcomes), notAI)}

	case "call":
		return t.knobCall(text)
	case "error":
		return reply{err: knobError(f[1:])}
	case "empty":
		return reply{}
	case "truncate":
		return reply{text: "This answer breaks ", err: &llm.Error{Kind: llm.StreamTruncated, Provider: provider, Message: "the stream ended early, as asked"}}
	case "wait":
		return reply{wait: true}
	default:
		return reply{text: t.introduction()}
	}
}

func (t *turn) knobCall(text string) reply {
	_, rest, _ := strings.Cut(text, " ")
	name, args, _ := strings.Cut(strings.TrimSpace(rest), " ")
	switch {
	case !t.offered(name):
		return reply{text: fmt.Sprintf("There is no tool %q. (%s)", name, notAI)}
	case len(t.outcomes) == 0:
		return t.callRaw(name, strings.TrimSpace(args))
	default:
		return reply{text: fmt.Sprintf("%s answered:\n\n%s\n\n(%s)", name, quote(t.outcomes[len(t.outcomes)-1].text), notAI)}
	}
}

func wordsUpTo(n int) string {
	b := make([]byte, 0, n*8)
	for i := range n {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, "word"...)
		b = strconv.AppendInt(b, int64(i+1), 10)
	}
	return string(b)
}

func knobError(f []string) error {
	e := &llm.Error{Kind: llm.ServerError, Provider: provider, Message: "the demo model fails as asked"}
	if len(f) > 0 {
		k := llm.Kind(f[0])
		if !slices.Contains(llm.Kinds(), k) {
			e.Kind, e.Message = llm.InvalidRequest, fmt.Sprintf("there is no kind of error %q", f[0])
			return e
		}
		e.Kind = k
	}

	if len(f) > 1 {
		if s, err := strconv.Atoi(f[1]); err == nil && s > 0 {
			e.RetryAfter = time.Duration(s) * time.Second
		}
	}
	return e
}
