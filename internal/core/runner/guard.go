package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// When repeated steps are noticed: the model is warned, then the calls are
// refused, then the turn ends. Steps count as repeated wherever they are among
// the last ones, so that A-B-A-B is noticed, too.
const (
	loopSteps  = 10
	loopWarn   = 3
	loopRefuse = 5
	loopEnd    = 4 // refusals
)

// step is the calls of one iteration and what came of them.
type step struct{ calls, results string }

// loopGuard counts how often the same calls had the same results lately.
type loopGuard struct {
	steps   []step
	count   int // of the newest step, itself included
	refused int // steps in a row
}

// next is called with the calls about to run and reports whether they are
// refused.
func (g *loopGuard) next(calls string) (refuse bool) {
	s := step{calls: calls}
	g.count = 1
	for _, old := range slices.Backward(g.steps) {
		if old.calls != calls {
			continue
		}

		if s.results == "" {
			s.results = old.results
		}

		if old.results != s.results {
			break // something moved
		}
		g.count++
	}

	g.steps = append(g.steps[max(len(g.steps)-loopSteps+2, 0):], s)
	return g.count >= loopRefuse
}

// ran notes the results of calls that really ran; a different result starts
// the count again, because something moved.
func (g *loopGuard) ran(results string) {
	s := &g.steps[len(g.steps)-1]
	if s.results != "" && s.results != results {
		g.count = 1
	}
	s.results, g.refused = results, 0
}

func signature(calls []llm.ToolCall) string {
	h := sha256.New()
	for _, c := range calls {
		h.Write([]byte(c.Name))
		h.Write([]byte{0})
		h.Write(canonical(c.Arguments))
		h.Write([]byte{1})
	}
	return string(h.Sum(nil))
}

// canonical makes argument texts that mean the same compare equal.
func canonical(args string) []byte {
	var v any
	if json.Unmarshal([]byte(args), &v) != nil {
		return []byte(args)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return []byte(args)
	}
	return b
}

func resultSignature(msgs []llm.Message) string {
	h := sha256.New()
	for _, m := range msgs {
		said, _ := Unfence(m.Content) // the fence of each call has an id of its own
		h.Write([]byte(said))
		h.Write([]byte{0})
	}
	return string(h.Sum(nil))
}

// uniqueID derives a fresh call id from one that was reused or empty.
func uniqueID(id string, n int) string {
	sum := sha256.Sum256([]byte(id + ":" + strconv.Itoa(n)))
	return "call_" + hex.EncodeToString(sum[:6])
}

// lookupKey names an external lookup, so that the third identical one can be refused.
func lookupKey(name string, input json.RawMessage) string {
	var in struct {
		URL   string `json:"url"`
		Query string `json:"query"`
	}
	if (name != "web_fetch" && name != "web_search") || json.Unmarshal(input, &in) != nil {
		return ""
	}
	return name + ":" + strings.ToLower(strings.TrimSpace(in.URL+in.Query))
}

// targetKey names what a refused call wanted to touch.
func targetKey(input json.RawMessage) string {
	var in map[string]any
	if json.Unmarshal(input, &in) != nil {
		return ""
	}

	for _, k := range []string{"path", "file_path", "target", "source", "destination", "working_dir"} {
		if s, ok := in[k].(string); ok && s != "" {
			return strings.TrimRight(s, "/\\")
		}
	}

	if cmd, ok := in["command"].(string); ok {
		for w := range strings.FieldsSeq(cmd) {
			if strings.HasPrefix(w, "/") || strings.HasPrefix(w, "~") {
				return w
			}
		}
		return cmd
	}

	return ""
}
