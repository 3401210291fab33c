package schedule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// MS is a moment in milliseconds since 1970, or a length of time in
// milliseconds. The file holds null where it is 0; "" and fractions are read.
type MS int64

// msOf makes an MS of a moment.
func msOf(t time.Time) MS {
	if t.IsZero() {
		return 0
	}
	return MS(t.UnixMilli())
}

// Time returns the moment, zero when there is none.
func (m MS) Time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(m))
}

// MarshalJSON writes null for 0.
func (m MS) MarshalJSON() ([]byte, error) {
	if m == 0 {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, int64(m), 10), nil
}

// UnmarshalJSON reads what older versions wrote.
func (m *MS) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `"`)
	if s == "" || s == "null" {
		*m = 0
		return nil
	}

	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != f || f > 1<<53 || f < -1<<53 {
		return fmt.Errorf("%s is not a time in milliseconds", b)
	}

	*m = MS(f)
	return nil
}

// Opt is a text that the file holds as null when it is empty.
type Opt string

// MarshalJSON writes null for "".
func (o Opt) MarshalJSON() ([]byte, error) {
	if o == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(o))
}

// The kinds of Timing.
const (
	kindAt    = "at"
	kindEvery = "every"
	kindCron  = "cron"
)

// Timing says when a job runs.
type Timing struct {
	Kind    string `json:"kind"`
	AtMS    MS     `json:"atMs"`
	EveryMS MS     `json:"everyMs"`
	Expr    Opt    `json:"expr"`
	TZ      Opt    `json:"tz"` // of Expr; "" is the host's zone

	extra extra
}

// What happens to runs that were missed because nothing was running.
const (
	catchUpOnce = "once" // one run makes up for all of them
	catchUpSkip = "skip" // they are noted in the history
	catchUpTell = "tell" // the chat of the job is told
)

// The ways a run ends.
const (
	statusOK      = "ok"
	statusError   = "error"
	statusSkipped = "skipped"
	StatusMissed  = "missed"
)

// Job is one entry of jobs.json. Keys that are not known are kept.
type Job struct {
	ID             string  `json:"id"`
	Name           string  `json:"name"`
	Enabled        bool    `json:"enabled"`
	Schedule       Timing  `json:"schedule"`
	Payload        Payload `json:"payload"`
	State          State   `json:"state"`
	CreatedAtMS    MS      `json:"createdAtMs"`
	UpdatedAtMS    MS      `json:"updatedAtMs"`
	DeleteAfterRun bool    `json:"deleteAfterRun"`
	CatchUp        string  `json:"catchUp,omitempty"`  // "" is the configured policy
	TimeoutS       int     `json:"timeoutS,omitempty"` // 0 is the configured limit

	extra  extra
	broken json.RawMessage // the entry, when it could not be read
}

// The kinds of Payload.
const (
	payloadTurn   = "agent_turn"
	payloadSystem = "system_event"
)

// Payload says what a job does and where its result goes.
type Payload struct {
	Kind       string `json:"kind"`
	Message    string `json:"message"`
	Deliver    bool   `json:"deliver"` // false: only failures are told
	Channel    Opt    `json:"channel"`
	To         Opt    `json:"to"`
	ThreadID   string `json:"threadId,omitempty"`
	SessionKey string `json:"sessionKey,omitempty"` // as Python has it; the runs have one of their own
	Scope      string `json:"scope,omitempty"`      // whose memory the runs belong to
	Untrusted  bool   `json:"untrusted,omitempty"`  // the wish came from a turn that had seen content from outside

	OriginChannel string `json:"originChannel,omitempty"`
	OriginChatID  string `json:"originChatId,omitempty"`

	extra extra
}

// Route returns where the result goes.
func (p Payload) Route() bus.Route {
	if p.Channel == "" && p.OriginChannel != "" {
		return bus.Route{Channel: p.OriginChannel, ChatID: p.OriginChatID, ThreadID: p.ThreadID}
	}
	return bus.Route{Channel: string(p.Channel), ChatID: string(p.To), ThreadID: p.ThreadID}
}

// State holds what a job went through.
type State struct {
	NextRunAtMS MS    `json:"nextRunAtMs"`
	LastRunAtMS MS    `json:"lastRunAtMs"`
	LastStatus  Opt   `json:"lastStatus"`
	LastError   Opt   `json:"lastError"`
	RunHistory  []Run `json:"runHistory"`

	NextFor        string       `json:"nextFor,omitempty"`         // the timing NextRunAtMS was worked out of
	LastOccurrence MS           `json:"lastOccurrenceMs,omitzero"` // the last one that was taken
	Pending        *Pending     `json:"pending,omitempty"`
	ErrorsInRow    int          `json:"errorsInRow,omitempty"`
	RunRequested   MS           `json:"runRequestedMs,omitzero"` // by a process that does not run jobs
	Undelivered    *Undelivered `json:"undelivered,omitempty"`
	Notified       string       `json:"notified,omitempty"` // hash of what the heartbeat said last
	NotifiedAtMS   MS           `json:"notifiedAtMs,omitzero"`
	JudgeErrors    int          `json:"judgeErrors,omitempty"` // in a row
	Last           *Last        `json:"last,omitempty"`
	RefusalTold    bool         `json:"refusalTold,omitempty"` // the owner knows that calls are refused

	extra extra
}

// Run is one line of a job's history.
type Run struct {
	RunAtMS      MS      `json:"runAtMs"`
	Status       string  `json:"status"`
	DurationMS   MS      `json:"durationMs"`
	Error        Opt     `json:"error"`
	OccurrenceMS MS      `json:"occurrenceMs,omitzero"`
	Tokens       int     `json:"tokens,omitempty"`
	CostUSD      float64 `json:"costUsd,omitempty"`
	Note         string  `json:"note,omitempty"`   // where the result went, if not where it should have
	Silent       bool    `json:"silent,omitempty"` // there was nothing to deliver

	extra extra
}

// Pending is a run that was begun. It is on disk before the run is handed to
// the queue, so that a crash in between neither loses nor repeats it.
type Pending struct {
	OccurrenceMS MS   `json:"occurrenceMs"`
	BeganMS      MS   `json:"beganMs"`
	Submitted    bool `json:"submitted,omitempty"`
	LateMS       MS   `json:"lateMs,omitzero"`
	Manual       bool `json:"manual,omitempty"`
	Guest        bool `json:"guest,omitempty"` // begun by a guest, so it is in no queue
}

// Last is the result of the last run, for the next one to read.
type Last struct {
	AtMS   MS     `json:"atMs"`
	Status string `json:"status"`
	Chars  int    `json:"chars"`          // of the whole answer
	Text   string `json:"text,omitempty"` // its beginning; "" when words from outside were before the model
}

// lastChars is how much of an answer the next run reads.
const lastChars = 1000

// lastOf returns what the next run is told about this one.
func lastOf(at MS, res result) *Last {
	l := &Last{AtMS: at, Status: res.status, Chars: utf8.RuneCountInString(res.answer)}
	if res.clean {
		l.Text = text.Cut(res.answer, lastChars)
	}
	return l
}

// note tells the model about the last run. The answer is quoted: it is data.
func (l *Last) note(loc *time.Location) string {
	if l == nil {
		return ""
	}

	head := fmt.Sprintf("[The last run, %s, ended with: %s.", stamp(l.AtMS.Time(), loc), l.Status)
	switch {
	case l.Text != "":
		return head + " Its answer, as data:\n> " + strings.ReplaceAll(l.Text, "\n", "\n> ") + "]\n\n"
	case l.Chars > 0:
		return head + fmt.Sprintf(" Its answer (%d characters) is not shown, because words from outside were before the model; search_memory finds it.]\n\n", l.Chars)
	}
	return head + "]\n\n"
}

// Undelivered is a result that no channel takes at the moment.
type Undelivered struct {
	Text  string `json:"text"`
	AtMS  MS     `json:"atMs"`
	Cause string `json:"cause"`
}

// idPrefix begins the id of every inbound message of a job.
const idPrefix = "cron:"

// inboundID names one occurrence of a job, so that the queue takes it once.
func inboundID(job string, occurrence MS) string {
	return idPrefix + job + ":" + strconv.FormatInt(int64(occurrence), 10)
}

func parseInboundID(id string) (job string, occurrence MS, ok bool) {
	rest, ok := strings.CutPrefix(id, idPrefix)
	if !ok {
		return "", 0, false
	}

	i := strings.LastIndexByte(rest, ':')
	if i < 1 {
		return "", 0, false
	}

	n, err := strconv.ParseInt(rest[i+1:], 10, 64)
	return rest[:i], MS(n), err == nil
}

// Protected reports whether the job belongs to the program.
func (j *Job) Protected() bool { return j.Payload.Kind == payloadSystem }

// Broken says why an entry of the file cannot be used; "" if it can.
func (j *Job) Broken() string {
	if j.broken == nil {
		return ""
	}
	return string(j.State.LastError)
}

// Session returns the conversation the runs happen in: one of their own, so that
// what they see stays out of the chat.
func (j *Job) Session() string { return idPrefix + j.ID }

const historyLen = 20

// record adds to the history, or replaces the line of the same occurrence.
func (s *State) record(r Run) {
	if i := slices.IndexFunc(s.RunHistory, func(o Run) bool { return o.OccurrenceMS == r.OccurrenceMS && r.OccurrenceMS != 0 }); i >= 0 {
		s.RunHistory[i] = r
	} else {
		s.RunHistory = append(s.RunHistory, r)
	}
	if n := len(s.RunHistory) - historyLen; n > 0 {
		s.RunHistory = slices.Delete(s.RunHistory, 0, n)
	}
	s.LastStatus, s.LastError = Opt(r.Status), r.Error
}

// extra holds the keys of an object that we do not know.
type extra map[string]json.RawMessage

// readObject decodes an object whose keys are camelCase or snake_case and
// returns the members that v has no place for.
func readObject(data []byte, v any) (extra, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}

	t := reflect.TypeOf(v).Elem()
	known := map[string]json.RawMessage{}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			continue
		}

		for _, key := range []string{name, snake(name)} {
			raw, ok := all[key]
			if _, done := known[name]; ok && !done {
				known[name] = raw
			}
			delete(all, key)
		}
	}

	clean, err := json.Marshal(known)
	if err == nil {
		err = json.Unmarshal(clean, v)
	}
	return extra(all), err
}

func snake(camel string) string {
	var b strings.Builder
	for _, r := range camel {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// writeObject encodes v and puts the unknown members behind its own.
func writeObject(v any, more extra) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}

	out := bytes.TrimSuffix(bytes.TrimSpace(b.Bytes()), []byte{'}'})
	for _, k := range slices.Sorted(maps.Keys(more)) {
		name, err := json.Marshal(k)
		if err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), more[k]...)
	}

	return append(out, '}'), nil
}

// The plain forms have no methods, so that encoding them does not recurse.
type (
	plainJob     Job
	plainTiming  Timing
	plainPayload Payload
	plainState   State
	plainRun     Run
)

// MarshalJSON implements json.Marshaler.
func (j Job) MarshalJSON() ([]byte, error) {
	if j.broken != nil {
		return j.broken, nil
	}
	return writeObject(plainJob(j), j.extra)
}

// UnmarshalJSON implements json.Unmarshaler.
func (j *Job) UnmarshalJSON(b []byte) (err error) {
	j.extra, err = readObject(b, (*plainJob)(j))
	return err
}

// MarshalJSON implements json.Marshaler.
func (t Timing) MarshalJSON() ([]byte, error) { return writeObject(plainTiming(t), t.extra) }

// UnmarshalJSON implements json.Unmarshaler.
func (t *Timing) UnmarshalJSON(b []byte) (err error) {
	t.extra, err = readObject(b, (*plainTiming)(t))
	return err
}

// MarshalJSON implements json.Marshaler.
func (p Payload) MarshalJSON() ([]byte, error) {
	return writeObject(plainPayload(p), p.extra)
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Payload) UnmarshalJSON(b []byte) (err error) {
	p.extra, err = readObject(b, (*plainPayload)(p))
	return err
}

// MarshalJSON implements json.Marshaler.
func (s State) MarshalJSON() ([]byte, error) {
	if s.RunHistory == nil {
		s.RunHistory = []Run{}
	}
	return writeObject(plainState(s), s.extra)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *State) UnmarshalJSON(b []byte) (err error) {
	s.extra, err = readObject(b, (*plainState)(s))
	return err
}

// MarshalJSON implements json.Marshaler.
func (r Run) MarshalJSON() ([]byte, error) { return writeObject(plainRun(r), r.extra) }

// UnmarshalJSON implements json.Unmarshaler.
func (r *Run) UnmarshalJSON(b []byte) (err error) {
	r.extra, err = readObject(b, (*plainRun)(r))
	return err
}
