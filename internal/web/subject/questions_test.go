package subject_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

// newQuestions is a desk with the question of a worker.
func newQuestions(t *testing.T, answers *subject.Answers) *home {
	t.Helper()
	return newSubject(t, subject.Questions{
		Now: func(context.Context) (*subject.Program, error) { return &subject.Program{Agent: worker{}}, nil },
		Explain: func(_ context.Context, tool string, arguments json.RawMessage, tainted bool) (any, string, error) {
			if tool != "exec" {
				return nil, "there is no tool " + tool, nil
			}
			return map[string]any{"action": "ask", "arguments": arguments, "tainted": tainted}, "", nil
		},
		Answers: answers,
	})
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	h := newQuestions(t, &subject.Answers{Store: disk.Open(t.TempDir(), nil)})
	if open := read[map[string][]string](t, h, "questions")["questions"]; len(open) != 1 || open[0] != "q1" {
		t.Errorf("open questions = %v", open)
	}
	acts[map[string]any](t, h, "approval.answer", `{"question_id":"q1","option":"yes","remark":"go on"}`)
	h.refuses(t, "approval.answer", `{"question_id":"q1","option":"maybe"}`, 409, "not open")
	h.refuses(t, "approval.answer", `{"id":"q1"}`, 400, "unknown field")

	got := acts[map[string]any](t, h, "approval.explain", `{"tool":"exec","arguments":{"command":"ls"},"tainted":true}`)
	if got["action"] != "ask" || got["tainted"] != true || fmt.Sprint(got["arguments"]) != "map[command:ls]" {
		t.Errorf("explained: %v", got)
	}
	h.refuses(t, "approval.explain", `{"tool":"none"}`, 422, "there is no tool none")
}

// The record of answers has an end, and is read in pages from the newest on.
func TestAnswers(t *testing.T) {
	t.Parallel()
	kept := disk.Open(t.TempDir(), nil)
	answers := &subject.Answers{Store: kept}
	h := newQuestions(t, answers)
	type page struct {
		Answers []subject.Answered
		Cursor  string
	}
	if none := read[page](t, h, "approvals/history"); len(none.Answers) != 0 || none.Cursor != "" {
		t.Errorf("before the first answer: %+v", none)
	}
	var full []subject.Answered
	for i := range 500 {
		full = append(full, subject.Answered{What: fmt.Sprint(i)})
	}
	data, err := json.Marshal(map[string]any{"number": len(full), "answers": full})
	must(t, err)
	_, err = kept.Put(t.Context(), "answers.json", data, store.Any, false)
	must(t, err)
	for _, what := range []string{"500", "501"} {
		must(t, answers.Add(t.Context(), subject.Answered{What: what, Remark: strings.Repeat("x", 700)}))
	}

	newest := read[page](t, h, "approvals/history?limit=2")
	if len(newest.Answers) != 2 || newest.Answers[0].What != "501" || newest.Answers[1].What != "500" || len([]rune(newest.Answers[0].Remark)) > 600 {
		t.Fatalf("newest = %+v", newest)
	}
	rest := read[page](t, h, "approvals/history?limit=1000&cursor="+newest.Cursor)
	if n := len(rest.Answers); n != 498 || rest.Answers[0].What != "499" || rest.Answers[n-1].What != "2" || rest.Cursor != "" {
		t.Errorf("%d older answers, cursor %q", n, rest.Cursor)
	}
	h.refused(t, "approvals/history?cursor=x", 400, "not_a_number")
}
