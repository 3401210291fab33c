// Package record keeps what passes between the agent and a model, so that a
// turn can be run again without the model: Writer and Record write requests,
// answers and tool results to a file, Load reads it, and Player is a model that
// answers from it and says where today's requests differ. It hides the format
// of the file, the removal of secrets, and which differences mean nothing.
package record

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// format is the version of the file format that is written. Load refuses newer ones.
const format = 1

// fileType is the first thing in every recording, by which it is recognised.
const fileType = "nanobot-recording"

// Header is the first line of a recording: where and with what it was made.
type Header struct {
	Type    string    `json:"type"`
	Format  int       `json:"format"`
	Version string    `json:"nanobot"` // of the program that recorded
	Time    time.Time `json:"time"`
	OS      string    `json:"os,omitempty"`
	Arch    string    `json:"arch,omitempty"`
	// Workspace is the folder of the recorded agent; Files are those of its files
	// that are part of the prompt, by their slash-separated path.
	Workspace string            `json:"workspace,omitempty"`
	Files     map[string]string `json:"files,omitempty"`
	// Settings that shape a request, by their configuration path.
	Settings map[string]string `json:"settings,omitempty"`
}

// The lines after the header.
type (
	requestLine struct {
		Type        string        `json:"type"` // request
		N           int           `json:"n"`
		Model       string        `json:"model,omitempty"`
		System      *string       `json:"system,omitempty"` // nil: as in the request before
		Tools       *[]toolDef    `json:"tools,omitempty"`  // nil: as in the request before
		Keep        int           `json:"keep"`             // leading messages taken over from the request before
		Messages    []llm.Message `json:"messages"`
		ToolChoice  string        `json:"tool_choice,omitempty"`
		MaxTokens   int           `json:"max_tokens,omitempty"`
		Temperature *float64      `json:"temperature,omitempty"`
		Effort      string        `json:"effort,omitempty"`
		Session     string        `json:"session,omitempty"`
		Source      string        `json:"source,omitempty"`
		Turn        string        `json:"turn,omitempty"`
		At          time.Time     `json:"at"`
	}
	toolDef struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"schema,omitempty"`
	}
	answerLine struct {
		Type      string       `json:"type"` // answer
		N         int          `json:"n"`
		Events    []eventMark  `json:"events,omitempty"`
		Text      string       `json:"text,omitempty"`      // of all text deltas
		Reasoning string       `json:"reasoning,omitempty"` // of all reasoning deltas
		Message   *llm.Message `json:"message,omitempty"`
		Finish    llm.Finish   `json:"finish,omitempty"`
		Usage     *llm.Usage   `json:"usage,omitempty"`
		Error     *errorLine   `json:"error,omitempty"`
		Millis    int64        `json:"ms"`
	}
	// eventMark is a row of deltas of one kind, each told by how many bytes of
	// the answer's text it carried, or another event with a text of its own.
	eventMark struct {
		Kind string `json:"k"`
		Lens []int  `json:"n,omitempty"`
		Text string `json:"s,omitempty"`
	}
	errorLine struct {
		Kind         llm.Kind `json:"kind,omitempty"`
		Cancelled    bool     `json:"cancelled,omitempty"` // the caller gave up
		Provider     string   `json:"provider,omitempty"`
		Status       int      `json:"status,omitempty"`
		Code         string   `json:"code,omitempty"`
		ErrType      string   `json:"error_type,omitempty"`
		Message      string   `json:"message,omitempty"`
		RetryAfterMS int64    `json:"retry_after_ms,omitempty"`
		ShouldRetry  *bool    `json:"should_retry,omitempty"`
		Param        string   `json:"param,omitempty"`
		ContextLimit int      `json:"context_limit,omitempty"`
	}
	toolLine struct {
		Type       string          `json:"type"` // tool
		Turn       string          `json:"turn,omitempty"`
		Call       string          `json:"call"`
		Name       string          `json:"name"`
		Input      string          `json:"input"` // JSON text
		Content    json.RawMessage `json:"content"`
		IsError    bool            `json:"is_error,omitempty"`
		Code       tool.Code       `json:"code,omitempty"`
		EndTurn    bool            `json:"end_turn,omitempty"`
		Untrusted  bool            `json:"untrusted,omitempty"`
		Whole      bool            `json:"whole,omitempty"`
		MayHaveRun bool            `json:"may_have_run,omitempty"`
		Millis     int64           `json:"ms"`
	}
)

// Options of a Writer.
type Options struct {
	Header  Header            // Type, Format and, if zero, Time are filled in
	Secrets []httpsafe.Secret // values to remove wherever they appear, besides all that looks like one
	// Redact takes out what the running program takes out of texts itself, so
	// that both say the same in its place. May be nil.
	Redact func(string) string
	Now    func() time.Time // nil means time.Now
}

// Writer appends to one recording. It is safe for concurrent use. A failed
// write never disturbs the turn that is recorded: nothing more is written then,
// and Close tells.
type Writer struct {
	scrub scrubber
	now   func() time.Time

	mu     sync.Mutex
	f      *os.File
	err    error
	n      int // requests so far
	last   [][sha256.Size]byte
	system string
	tools  string
}

// Create starts a recording, readable by its owner only. An existing file is
// replaced only if it is empty or a recording itself.
func Create(path string, o Options) (*Writer, error) {
	if err := replaceable(path); err != nil {
		return nil, err
	}

	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start the recording: %w", err)
	}
	if err := f.Chmod(0o600); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, errors.Join(fmt.Errorf("protect the recording: %w", err), f.Close())
	}

	if o.Now == nil {
		o.Now = time.Now
	}

	w := &Writer{f: f, now: o.Now, scrub: newScrubber(o.Secrets)}
	w.scrub.redact = o.Redact
	h := o.Header
	h.Type, h.Format = fileType, format
	if h.Time.IsZero() {
		h.Time = w.now()
	}

	w.writeLine(h)
	if w.err != nil {
		return nil, w.Close()
	}
	return w, nil
}

// replaceable refuses to overwrite what its owner may want to keep.
func replaceable(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("start the recording: %w", err)
	}

	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("start the recording: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file; choose another name for the recording", path)
	}

	head := make([]byte, 256)
	n, _ := f.Read(head) // an unreadable head is not one of ours
	if n > 0 && !bytes.Contains(head[:n], []byte(`"type":"`+fileType+`"`)) {
		return fmt.Errorf("%s exists and is not a recording; choose another name", path)
	}
	return nil
}

// Close ends the recording and returns the first error there was.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.f == nil {
		return w.err
	}

	if err := w.f.Close(); err != nil && w.err == nil {
		w.err = fmt.Errorf("end the recording: %w", err)
	}

	w.f = nil
	return w.err
}

// writeLine writes one line. The caller holds mu, or w has no other users yet.
func (w *Writer) writeLine(v any) {
	if w.err != nil || w.f == nil {
		return
	}

	line, err := w.scrub.line(v)
	if err == nil {
		_, err = w.f.Write(line)
	}
	if err != nil {
		w.err = fmt.Errorf("write the recording: %w", err)
	}
}

// Record makes a model whose requests and answers are written down. It belongs
// around everything else (retries, fallbacks), so that a recording shows what
// the agent saw.
func Record(m llm.Model, w *Writer) llm.Model {
	return llm.ModelFunc(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
		return func(yield func(llm.Event, error) bool) {
			n, begun := w.request(req), w.now()
			var a answer
			defer func() { w.answer(n, &a, w.now().Sub(begun)) }()

			for ev, err := range m.Stream(ctx, req) {
				a.add(ev, err)
				if !yield(ev, err) {
					a.left = err == nil && ev.Kind != llm.Done
					return
				}
			}
		}
	})
}

// request writes a request and returns its number.
func (w *Writer) request(req llm.Request) int {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.n++
	line := requestLine{
		Type: "request", N: w.n, Model: req.Model, ToolChoice: req.ToolChoice, MaxTokens: req.MaxTokens, Temperature: req.Temperature,
		Effort: req.Effort, Session: req.SessionKey, Source: req.Source, Turn: req.TurnID, At: w.now(),
	}
	if w.n == 1 || req.System != w.system {
		line.System, w.system = &req.System, req.System
	}

	defs := make([]toolDef, len(req.Tools))
	for i, d := range req.Tools {
		defs[i] = toolDef(d)
	}

	if enc := encoded(defs); w.n == 1 || enc != w.tools {
		line.Tools, w.tools = &defs, enc
	}

	sums := make([][sha256.Size]byte, len(req.Messages))
	same := true
	for i, m := range req.Messages {
		sums[i] = sha256.Sum256(m.AppendFields(nil))
		if same = same && i < len(w.last) && w.last[i] == sums[i]; same {
			line.Keep = i + 1
		}
	}

	line.Messages, w.last = req.Messages[line.Keep:], sums
	w.writeLine(line)
	return w.n
}

func encoded(v any) string {
	b, _ := json.Marshal(v) // a value that cannot be written is reported by put
	return string(b)
}

// answer holds what came back for one request.
type answer struct {
	line  answerLine
	texts [2][]byte // of text and reasoning deltas
	left  bool      // the caller had enough before the end
}

func (a *answer) add(ev llm.Event, err error) {
	if err != nil {
		a.line.Error = describeError(err)
		return
	}
	switch ev.Kind {
	case llm.TextDelta:
		a.texts[0] = append(a.texts[0], ev.Text...)
		a.mark("text", len(ev.Text))
	case llm.ReasoningDelta:
		a.texts[1] = append(a.texts[1], ev.Text...)
		a.mark("reasoning", len(ev.Text))
	case llm.Waiting:
		a.line.Events = append(a.line.Events, eventMark{Kind: "waiting", Text: ev.Text})
	case llm.Restarted:
		a.line.Events = append(a.line.Events, eventMark{Kind: "restarted"})
	case llm.Done:
		a.line.Message = &ev.Response.Message
		a.line.Finish = ev.Response.Finish
		a.line.Usage = &ev.Response.Usage
	}
}

func (a *answer) mark(kind string, n int) {
	if last := len(a.line.Events) - 1; last >= 0 && a.line.Events[last].Kind == kind {
		a.line.Events[last].Lens = append(a.line.Events[last].Lens, n)
		return
	}
	a.line.Events = append(a.line.Events, eventMark{Kind: kind, Lens: []int{n}})
}

// answer writes what came back. A secret may lie across two deltas, so texts
// are cleaned as a whole; if one changed, its deltas become a single one.
func (w *Writer) answer(n int, a *answer, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()

	a.line.Type = "answer"
	a.line.N = n
	a.line.Millis = took.Milliseconds()
	if a.left {
		a.line.Error = &errorLine{Cancelled: true}
	}

	for i, kind := range []string{"text", "reasoning"} {
		whole := string(bytes.ToValidUTF8(a.texts[i], []byte("\uFFFD")))
		clean := w.scrub.text(whole)
		if clean != string(a.texts[i]) {
			a.line.Events = joined(a.line.Events, kind, len(clean))
		}

		if i == 0 {
			a.line.Text = clean
		} else {
			a.line.Reasoning = clean
		}
	}

	w.writeLine(a.line)
}

// joined replaces all deltas of a kind by one, where the first was.
func joined(events []eventMark, kind string, n int) []eventMark {
	var out []eventMark
	first := true
	for _, e := range events {
		switch {
		case e.Kind != kind:
			out = append(out, e)
		case first:
			out = append(out, eventMark{Kind: kind, Lens: []int{n}})
			first = false
		}
	}

	return out
}

// Tool writes the result of a tool call; it fits the AfterTool hook of a run.
func (w *Writer) Tool(_ context.Context, c tool.Call, r tool.Result, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeLine(toolLine{
		Type: "tool", Turn: c.TurnID, Call: c.ID, Name: c.Name, Input: string(c.Input), Content: r.Content.AppendJSON(nil, true),
		IsError: r.IsError, Code: r.Code, EndTurn: r.EndTurn, Untrusted: r.Untrusted, Whole: r.Whole, MayHaveRun: r.MayHaveRun,
		Millis: took.Milliseconds(),
	})
}

func describeError(err error) *errorLine {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		if _, ours := errors.AsType[*llm.Error](err); !ours {
			return &errorLine{Cancelled: true, Message: err.Error()}
		}
	}

	e := llm.AsError(err)
	l := &errorLine{
		Kind: e.Kind, Provider: e.Provider, Status: e.Status, Code: e.Code, ErrType: e.Type, Message: e.Message,
		RetryAfterMS: e.RetryAfter.Milliseconds(), ShouldRetry: e.ShouldRetry, Param: e.Param, ContextLimit: e.ContextLimit,
	}
	if l.Message == "" && e.Err != nil {
		l.Message = e.Err.Error()
	}
	return l
}

func (l *errorLine) err() error {
	if l.Cancelled {
		return context.Canceled
	}
	return &llm.Error{
		Kind: l.Kind, Provider: l.Provider, Status: l.Status, Code: l.Code, Type: l.ErrType, Message: l.Message,
		RetryAfter: time.Duration(l.RetryAfterMS) * time.Millisecond, ShouldRetry: l.ShouldRetry, Param: l.Param, ContextLimit: l.ContextLimit,
	}
}
