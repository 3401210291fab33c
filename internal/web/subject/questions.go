package subject

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Questions are what people are asked and what they answered.
type Questions struct {
	Now Source
	// Explain says what would happen to a call. The text is why there can be no
	// such call.
	Explain func(ctx context.Context, tool string, arguments json.RawMessage, tainted bool) (v any, wrong string, err error)
	// Answers keeps what people answered.
	Answers *Answers
}

// Routes implements web.Subject.
func (q Questions) Routes() web.Routes {
	return web.Routes{
		Reads:   map[string]web.Read{"questions": q.open, "approvals/history": q.history},
		Actions: map[string]web.Action{"approval.answer": web.Changing(q.answer), "approval.explain": web.Changing(q.explain)},
	}
}

func (q Questions) open(ctx context.Context, _ *http.Request) (any, error) {
	now, err := q.Now(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]any{"questions": now.Agent.OpenQuestions()}, nil
}

func (q Questions) answer(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		QuestionID string `json:"question_id"`
		Option     string `json:"option"`
		Remark     string `json:"remark"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}

	now, err := q.Now(ctx)
	if err != nil {
		return nil, err
	}
	if !now.Agent.AnswerQuestion(bus.Answer{QuestionID: in.QuestionID, Option: in.Option, Remark: in.Remark}) {
		return nil, web.Refuse(http.StatusConflict, "the question is not open any more, or does not have this answer; nothing was done")
	}
	return map[string]any{}, nil
}

func (q Questions) explain(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
		Tainted   bool            `json:"tainted"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}

	v, wrong, err := q.Explain(ctx, in.Tool, in.Arguments, in.Tainted)
	if wrong != "" {
		return nil, web.Refuse(http.StatusUnprocessableEntity, "there is no such call: %s", wrong)
	}
	return v, err
}

// history returns a page of answers, the newest first; the cursor is the number of
// the last one.
func (q Questions) history(ctx context.Context, r *http.Request) (any, error) {
	limit, err := number(r, "limit", 50)
	if err != nil {
		return nil, err
	}

	before, err := number(r, "cursor", 0)
	if err != nil {
		return nil, err
	}

	k, _, err := q.Answers.load(ctx)
	if err != nil {
		return nil, err
	}

	first := k.Number - len(k.List) // the number before the oldest
	if before == 0 || before > k.Number {
		before = k.Number + 1
	}

	end := max(0, before-first-1)
	page := k.List[max(0, end-min(max(limit, 1), answersMost)):end]
	list := append([]Answered{}, page...)
	slices.Reverse(list)
	out := map[string]any{"answers": list, "cursor": nil}
	if from := before - len(page); from > first+1 {
		out["cursor"] = strconv.Itoa(from)
	}
	return out, nil
}

// Answered is a question that was closed.
type Answered struct {
	Key     string    `json:"key"`
	Channel string    `json:"channel"`
	Tool    string    `json:"tool,omitempty"`
	What    string    `json:"what"` // the command, the files, or the question
	Reason  string    `json:"reason,omitempty"`
	Option  string    `json:"option,omitempty"`
	Remark  string    `json:"remark,omitempty"`
	Expired bool      `json:"expired,omitempty"`
	At      time.Time `json:"at"`
}

// Bounds of the answers that are kept.
const (
	answersName = "answers.json"
	answersMost = 500
	answerText  = 600 // characters of one text
)

// Answers keeps the last questions and their answers, the oldest first. It is
// safe for concurrent use.
type Answers struct {
	Store store.Store

	mu sync.Mutex
}

// answerList is the document of answers. Number is that of its last answer.
type answerList struct {
	Number int        `json:"number"`
	List   []Answered `json:"answers"`
}

func (l *Answers) load(ctx context.Context) (k answerList, v store.Version, err error) {
	raw, v, err := l.Store.Doc(ctx, answersName)
	if err == nil && v != store.Missing {
		err = json.Unmarshal(raw, &k)
	}
	return k, v, err
}

// Add keeps an answer.
func (l *Answers) Add(ctx context.Context, a Answered) error {
	for _, s := range []*string{&a.What, &a.Reason, &a.Remark} {
		*s = text.Cut(*s, answerText)
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	k, v, err := l.load(ctx)
	if err != nil {
		return err
	}

	k.Number, k.List = k.Number+1, append(k.List, a)
	k.List = k.List[max(0, len(k.List)-answersMost):]
	raw, err := json.Marshal(k)
	if err == nil {
		_, err = l.Store.Put(ctx, answersName, raw, v, false)
	}
	return err
}
