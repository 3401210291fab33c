package llmtest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/anthropic"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/llm/openai"
	"github.com/nanobot-go/nanobot/internal/llm/responses"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// better lists the cases in which our drivers read on purpose what an SDK
// does not, and why.
func better() map[string]string {
	const joined, index, typed = "joins two calls of one index", "wants indexes without gaps", "wants the type of a call"
	return map[string]string{
		"32a-strm-one-index":              joined,
		"32b-strm-one-index-no-ids":       typed,
		"32c-strm-one-index-two-names":    typed,
		"32d-strm-one-index-no-arguments": joined,
		"33-strm-sparse":                  index,
		"34a-strm-no-index":               index,
		"34b-strm-no-index-two-calls":     index,
		"35a-strm-object-arguments":       "wants arguments as text",
		"35b-strm-two-objects":            typed,
		"37-strm-function-call":           "keeps the legacy form apart",
		"46c-strm-end-mark-only":          "wants a finish reason",
		"50-strm-stop-with-calls":         "keeps the reason stop beside calls",
		"52a-strm-json-reply":             "takes only a stream for one",
	}
}

// understood is an answer in terms that an SDK and a driver share.
type understood struct {
	Name  string
	Error string
	Text  string
	// Thinking is compared only where the SDK knows it.
	Thinking string
	Finish   string
	Calls    []understoodCall
	Usage    []int
}

type understoodCall struct {
	ID, Name string
	Args     any
}

// TestOfficialSDKs: the vendors' own SDKs and our drivers understand the
// streaming cases in the same way.
func TestOfficialSDKs(t *testing.T) {
	t.Parallel()
	dir := llmtest.NodeFolder(t, "../../../test/sdk", "compare.mjs")
	type job struct {
		Name  string `json:"name"`
		Wire  string `json:"wire"`
		URL   string `json:"url"`
		Model string `json:"model"`
	}
	var jobs []job
	ours := map[string]understood{}
	for _, wire := range []string{"strm", "msgs", "resp"} {
		for _, c := range llmtest.Cases(t, wire) {
			step := c.Steps[0]
			if len(step.Answers) != 1 || step.Want.Error != nil || len(c.Setup.Through) > 0 || c.Setup.Chat || step.Request.Messages != nil {
				continue
			}
			head, _, _ := strings.Cut("\n"+step.Answers[0], "\n\n")
			if strings.Contains(head, "every") || strings.Contains(head, "abort") || strings.Contains(head, "hold") {
				continue
			}
			model := step.Request.Model
			if model == "" {
				model = "test-model"
			}
			jobs = append(jobs, job{c.Name, wire, c.Serve(t).URL, model})
			ours[c.Name] = ask(t, c, model)
		}
	}
	if len(jobs) < 30 {
		t.Fatalf("only %d cases", len(jobs))
	}
	input, err := json.Marshal(jobs)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "compare.mjs")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 16<<20)
	n := 0
	for ; lines.Scan(); n++ {
		var theirs understood
		if err := json.Unmarshal(lines.Bytes(), &theirs); err != nil {
			t.Fatal(err)
		}
		compare(t, ours[theirs.Name], theirs)
	}
	if n != len(jobs) {
		t.Errorf("%d of %d cases were answered", n, len(jobs))
	}
}

func compare(t *testing.T, ours, theirs understood) {
	t.Helper()
	if theirs.Thinking == "" {
		ours.Thinking = ""
	}
	if theirs.Usage == nil {
		ours.Usage = nil
	}
	d := cmp.Diff(theirs, ours)
	switch why, listed := better()[theirs.Name]; {
	case d == "" && listed:
		t.Errorf("%s: no longer differs (%s)", theirs.Name, why)
	case d != "" && !listed:
		t.Errorf("%s: (-SDK +ours) %.2000s", theirs.Name, d)
	}
}

// ask plays a case to our own driver.
func ask(t *testing.T, c llmtest.Case, model string) understood {
	t.Helper()
	s := c.Serve(t)
	key := httpsafe.NewSecret(llmtest.Key)
	client, err := httpsafe.Client(httpsafe.Options{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	var m llm.Model
	switch c.Wire {
	case "msgs":
		m, err = anthropic.New(anthropic.Options{BaseURL: s.URL, Key: key, Client: client})
	case "resp":
		m, err = responses.New(responses.Options{BaseURL: s.URL, Key: key, Client: client})
	default:
		m, err = openai.New(openai.Options{BaseURL: s.URL, Key: key, Client: client})
	}
	if err != nil {
		t.Fatal(err)
	}
	schema := json.RawMessage(`{"type":"object","properties":{"p":{}}}`)
	r, err := llm.Collect(t.Context(), m, llm.Request{
		Model: model, MaxTokens: 2000, Messages: []llm.Message{{Role: llm.User, Content: llm.Text("hi")}},
		Tools: []llm.ToolDef{{Name: "f", Schema: schema}, {Name: "g", Schema: schema}},
	})
	if err != nil {
		return understood{Name: c.Name, Error: err.Error()}
	}
	u := understood{Name: c.Name, Text: r.Message.Content.Text, Thinking: r.Message.Reasoning, Finish: string(r.Finish), Usage: []int{r.Usage.Prompt, r.Usage.Completion}, Calls: []understoodCall{}}
	for _, call := range r.Message.ToolCalls {
		var args any
		raw, _ := wire.ParseArguments(call.Arguments)
		_ = json.Unmarshal(raw, &args)
		u.Calls = append(u.Calls, understoodCall{call.ID, call.Name, args})
	}
	return u
}
