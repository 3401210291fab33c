package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// errNotRecording means that a file is something else than a recording.
var errNotRecording = errors.New("not a nanobot recording")

// Recording is the content of a file.
type Recording struct {
	Header    Header
	Exchanges []Exchange // in the order in which the requests were made
	Tools     []ToolRun  // in the order in which they ended
	// Torn says that the end of the file is missing, as after a crash; what is
	// there can be used.
	Torn bool
}

// Exchange is one request and what came back.
type Exchange struct {
	Request  llm.Request
	At       time.Time
	Answered bool // false when the recording ends before the answer
	Took     time.Duration
	answer   answerLine
}

// response returns the answer of an exchange, nil if there was none.
func (e Exchange) response() *llm.Response {
	if e.answer.Message == nil {
		return nil
	}
	r := &llm.Response{Message: *e.answer.Message, Finish: e.answer.Finish}
	if e.answer.Usage != nil {
		r.Usage = *e.answer.Usage
	}
	return r
}

// Err returns how an exchange failed, nil if it did not.
func (e Exchange) Err() error {
	if e.answer.Error == nil {
		return nil
	}
	return e.answer.Error.err()
}

// ToolRun is one tool call and its result.
type ToolRun struct {
	Turn, CallID, Name string
	Input              string // JSON text
	Result             tool.Result
	Took               time.Duration
}

// Load reads a recording. A file of something else, of a newer format or with
// damage in the middle is refused; a missing end is not.
func Load(path string) (*Recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the recording: %w", err)
	}

	defer f.Close() //nolint:errcheck // read only
	r, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func read(f io.Reader) (*Recording, error) {
	r := &Recording{}
	n := 0
	for line, err := range diskio.Lines(f, 0) {
		if err != nil {
			return nil, fmt.Errorf("read the recording: %w", err)
		}

		n++
		if n == 1 {
			if err := r.header(line.Bytes); err != nil {
				return nil, err
			}
			continue
		}

		err = r.addLine(line.Bytes)
		if err != nil && !line.Whole {
			r.Torn = true
			break
		}
		if err != nil {
			return nil, fmt.Errorf("line %d is damaged: %w", n, err)
		}
	}

	if n == 0 {
		return nil, fmt.Errorf("%w: the file is empty", errNotRecording)
	}
	return r, nil
}

func (r *Recording) header(line []byte) error {
	if json.Unmarshal(line, &r.Header) != nil || r.Header.Type != fileType {
		return fmt.Errorf("%w: make one with nanobot agent --record FILE", errNotRecording)
	}
	if r.Header.Format > format {
		return fmt.Errorf("the recording was made by nanobot %s in format %d; this version reads up to format %d, so a newer nanobot is needed",
			r.Header.Version, r.Header.Format, format)
	}
	if r.Header.Format < 1 {
		return fmt.Errorf("%w: it has no format number", errNotRecording)
	}
	return nil
}

// addLine adds one line. Kinds of lines that are not known are left out.
func (r *Recording) addLine(line []byte) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}

	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(line, &kind); err != nil {
		return err
	}

	switch kind.Type {
	case "request":
		return r.addRequest(line)
	case "answer":
		return r.addAnswer(line)
	case "tool":
		return r.addTool(line)
	case "":
		return errors.New("a line of the recording without a type")
	}

	return nil
}

func (r *Recording) addRequest(line []byte) error {
	var l requestLine
	if err := json.Unmarshal(line, &l); err != nil {
		return err
	}
	if l.N != len(r.Exchanges)+1 {
		return fmt.Errorf("request %d where request %d was expected", l.N, len(r.Exchanges)+1)
	}

	var prev llm.Request
	if l.N > 1 {
		prev = r.Exchanges[l.N-2].Request
	}

	if l.Keep < 0 || l.Keep > len(prev.Messages) {
		return fmt.Errorf("it repeats %d messages of a request that had %d", l.Keep, len(prev.Messages))
	}

	req := llm.Request{
		Model: l.Model, System: prev.System, Tools: prev.Tools, ToolChoice: l.ToolChoice, MaxTokens: l.MaxTokens, Temperature: l.Temperature,
		Effort: l.Effort, SessionKey: l.Session, Source: l.Source, TurnID: l.Turn,
		Messages: append(prev.Messages[:l.Keep:l.Keep], l.Messages...),
	}
	if l.System != nil {
		req.System = *l.System
	}

	if l.Tools != nil {
		req.Tools = make([]llm.ToolDef, len(*l.Tools))
		for i, d := range *l.Tools {
			req.Tools[i] = llm.ToolDef(d)
		}
	}

	r.Exchanges = append(r.Exchanges, Exchange{Request: req, At: l.At})
	return nil
}

func (r *Recording) addAnswer(line []byte) error {
	var l answerLine
	if err := json.Unmarshal(line, &l); err != nil {
		return err
	}
	if l.N < 1 || l.N > len(r.Exchanges) || r.Exchanges[l.N-1].Answered {
		return fmt.Errorf("an answer to request %d, which is not waiting for one", l.N)
	}

	text, reasoning := 0, 0
	for _, e := range l.Events {
		for _, n := range e.Lens {
			if n < 0 {
				return errors.New("an event of negative length")
			}
			switch e.Kind {
			case "text":
				text += n
			case "reasoning":
				reasoning += n
			}
		}
	}

	if text != len(l.Text) || reasoning != len(l.Reasoning) {
		return errors.New("its events do not add up to its text")
	}

	x := &r.Exchanges[l.N-1]
	x.answer = l
	x.Took = time.Duration(l.Millis) * time.Millisecond
	x.Answered = l.Message != nil || l.Error != nil
	return nil
}

func (r *Recording) addTool(line []byte) error {
	var l toolLine
	if err := json.Unmarshal(line, &l); err != nil {
		return err
	}

	var c llm.Content
	if err := json.Unmarshal(l.Content, &c); err != nil {
		return err
	}

	r.Tools = append(r.Tools, ToolRun{
		Turn: l.Turn, CallID: l.Call, Name: l.Name, Input: l.Input, Took: time.Duration(l.Millis) * time.Millisecond,
		Result: tool.Result{
			Content: c, IsError: l.IsError, Code: l.Code, EndTurn: l.EndTurn, Untrusted: l.Untrusted, Whole: l.Whole, MayHaveRun: l.MayHaveRun,
		},
	})
	return nil
}

// Turn is one message to the agent, recovered from the first request it led to.
type Turn struct {
	Session string
	Channel string
	ChatID  string
	Text    string
	Images  []llm.Block   // pictures that came with the message
	History []llm.Message // what the model saw before it
	At      time.Time
}

// Turns lists the turns of the recording, in the order in which they began.
func (r *Recording) Turns() []Turn {
	var turns []Turn
	seen := map[string]bool{}
	for _, x := range r.Exchanges {
		id, msgs := x.Request.TurnID, x.Request.Messages
		if n := len(msgs); !seen[id] && n > 0 && msgs[n-1].Role == llm.User {
			turns = append(turns, turnOf(x))
		}
		seen[id] = true
	}

	return turns
}

// The block that the agent adds to a user's message.
const (
	blockOpen = "[Runtime Context"
	timeLabel = "Current Time: "
)

func turnOf(x Exchange) Turn {
	msgs := x.Request.Messages
	last := msgs[len(msgs)-1]
	t := Turn{Session: x.Request.SessionKey, At: x.At, History: msgs[:len(msgs)-1]}
	t.Text = last.Content.Text

	for _, b := range last.Content.Blocks {
		switch b.Type {
		case "text":
			t.Text = b.Text
		case "image_url":
			t.Images = append(t.Images, b)
		}
	}

	if i := strings.LastIndex(t.Text, blockOpen); i >= 0 {
		for line := range strings.SplitSeq(t.Text[i:], "\n") {
			if v, ok := strings.CutPrefix(line, "Channel: "); ok && t.Channel == "" {
				t.Channel = v
			}
			if v, ok := strings.CutPrefix(line, "Chat ID: "); ok && t.ChatID == "" {
				t.ChatID = v
			}
		}
		t.Text = strings.TrimSpace(t.Text[:i])
	}

	return t
}
