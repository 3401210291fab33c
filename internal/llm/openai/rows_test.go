package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

func request(tools ...string) llm.Request {
	req := llm.Request{Model: "m", MaxTokens: 100, Messages: []llm.Message{{Role: llm.User, Content: llm.Text("hi")}}}
	for _, name := range tools {
		req.Tools = append(req.Tools, llm.ToolDef{Name: name, Schema: json.RawMessage(`{"type":"object"}`)})
	}
	return req
}

// message wraps a message as a reply that is not streamed.
func message(finish, msg string) string {
	return fmt.Sprintf(`{"choices":[{"index":0,"finish_reason":%q,"message":%s}]}`, finish, msg)
}

func piece(delta string) string {
	return `{"choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}`
}

// end is the last piece of an answer.
func end(finish string) string { //nolint:unparam // says what it is where it is used
	return fmt.Sprintf(`{"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, finish)
}

// outcome is what a row expects. Calls are "name arguments".
type outcome struct {
	text, reasoning string
	calls           []string
	finish          llm.Finish
	kind            llm.Kind
}

// row is an answer and what becomes of it.
type row struct {
	name   string
	answer llmtest.Answer
	want   outcome
}

func (r row) run(t *testing.T) {
	t.Helper()
	w := llmtest.Watch(t.Context(), t, model(t, llmtest.NewServer(t, r.answer)), request("f", "g"))
	if r.want.kind != "" {
		if e, ok := errors.AsType[*llm.Error](w.Err); !ok || e.Kind != r.want.kind {
			t.Errorf("error = %v, want kind %s", w.Err, r.want.kind)
		}
		return
	}
	compare(t, w, r.want)
}

func compare(t *testing.T, w llmtest.Watched, want outcome) {
	t.Helper()
	if w.Err != nil {
		t.Fatal(w.Err)
	}
	msg := w.Response.Message
	got := outcome{text: w.Text, reasoning: msg.Reasoning, finish: w.Response.Finish}
	for _, c := range msg.ToolCalls {
		got.calls = append(got.calls, c.Name+" "+c.Arguments)
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(outcome{})); d != "" {
		t.Errorf("answer differs (-want +got): %s", d)
	}
}

func reply(body string) llmtest.Answer { return llmtest.Answer{Body: body} }

func stream(events ...string) llmtest.Answer { return llmtest.Answer{Events: events} }

// oddRows are what the numbered cases leave out; those are files of llmtest.
func oddRows() []row {
	stop, tools := llm.FinishStop, llm.FinishToolCalls
	return []row{
		{name: "undecodable events", answer: stream(`{oops`, `{"choices":`, piece(`{"content":"a"}`), end("stop")), want: outcome{text: "a", finish: stop}},
		{name: "only undecodable events", answer: stream(`{`, `{`, `{`, `{`, `{`), want: outcome{kind: llm.ServerError}},
		{
			name: "unexpected types", answer: stream(`{"id":7,"created":"x","choices":[{"index":"0","delta":{"content":"a","role":1,"tool_calls":"none"},"finish_reason":7}]}`, end("stop")),
			want: outcome{text: "a", finish: stop},
		},
		{name: "other candidates", answer: stream(`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`, end("stop")), want: outcome{text: "a", finish: stop}},
		{
			name: "all tokens thought away", answer: stream(piece(`{"reasoning":"long"}`), end("stop"), `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":100}}`),
			want: outcome{reasoning: "long", finish: llm.FinishLength},
		},
		{
			name: "call as text in pieces", answer: stream(piece(`{"content":"Let me see. <tool"}`), piece(`{"content":"_call>{\"name\":\"f\","}`), piece(`{"content":"\"arguments\":{\"p\":1}}</tool_call>"}`), end("stop")),
			want: outcome{text: "Let me see. ", calls: []string{`f {"p":1}`}, finish: tools},
		},
		{name: "empty stream", answer: stream("[DONE]"), want: outcome{kind: llm.Empty}},
	}
}

func TestRows(t *testing.T) {
	t.Parallel()
	for _, r := range oddRows() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.run(t)
		})
	}
}

// The context ends before the headers arrive.
func TestCancelBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := llmtest.NewServer(t, llmtest.Answer{Handler: func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}})
	w := llmtest.Watch(ctx, t, model(t, s), request())
	if !errors.Is(w.Err, context.Canceled) {
		t.Errorf("error = %v, want the context's", w.Err)
	}
	s.AwaitGone(1)
}
