package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// version stands in the first line of a file.
const version = 1

// line is any line of the file. The first key says which kind it is:
//
//	{"journal":1}
//	{"in":ID,"at":MS,"msg":INBOUND}
//	{"done":ID,"at":MS,"ids":[ID...],"outs":[OUTBOUND...]}
//	{"out":ID,"at":MS,"msg":OUTBOUND}
//	{"sent":ID,"part":N}
//	{"delivered":ID}
//	{"shown":[ID...],"at":MS,"route":ROUTE}
//
// Times are milliseconds since 1970. Each line ends with a checksum (see store.Seal)
// and a space, which sends versions that know no checksums the slower way of reading
// a line, on which they pass over it.
type line struct {
	Journal   int             `json:"journal"`
	In        string          `json:"in"`
	Done      string          `json:"done"`
	Out       string          `json:"out"`
	Sent      string          `json:"sent"`
	Delivered string          `json:"delivered"`
	At        int64           `json:"at"`
	Part      int             `json:"part"`
	IDs       []string        `json:"ids"`
	Msg       json.RawMessage `json:"msg"`
	Outs      json.RawMessage `json:"outs"`
	Shown     []string        `json:"shown"` // not nil, if it is such a line
	Route     json.RawMessage `json:"route"`
}

// encode writes v without a newline and without escapes for HTML.
func encode(b *bytes.Buffer, v any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode the message: %w", err)
	}
	b.Truncate(b.Len() - 1) // the newline of Encode
	return nil
}

// sealLine closes the line that began at an offset of b.
func sealLine(b *bytes.Buffer, begin int) {
	line := store.Seal(append(b.Bytes(), '}'), begin)
	b.Truncate(begin)
	b.Write(line[begin:])
	b.WriteString(" \n")
}

// parse reads a line, which is changed; ok is false if it is not as it was written.
// An empty line is one that says nothing.
func parse(raw []byte) (l line, ok bool) {
	body, sealed, ok := store.Unseal(bytes.TrimRight(raw, " "))
	if !ok {
		return l, false
	}

	if sealed {
		raw = append(body, '}')
	}

	if l, ok = scan(raw); ok {
		return l, true
	}

	l = line{}
	if len(bytes.TrimSpace(raw)) == 0 {
		return l, true
	}
	return l, json.Unmarshal(raw, &l) == nil
}

func start(b *bytes.Buffer, kind, id string, at time.Time) error {
	b.WriteString(`{"` + kind + `":`)
	if err := encode(b, id); err != nil {
		return err
	}
	if !at.IsZero() {
		b.WriteString(`,"at":`)
		b.Write(strconv.AppendInt(nil, at.UnixMilli(), 10))
	}
	return nil
}

func message(b *bytes.Buffer, kind, id string, at time.Time, msg any) error {
	begin := b.Len()
	if err := start(b, kind, id, at); err != nil {
		return err
	}

	b.WriteString(`,"msg":`)
	if err := encode(b, msg); err != nil {
		return err
	}

	sealLine(b, begin)
	return nil
}

func doneLine(b *bytes.Buffer, id string, at time.Time, outs []bus.Outbound) error {
	begin := b.Len()
	if err := start(b, "done", id, at); err != nil {
		return err
	}

	if len(outs) > 0 {
		ids := make([]string, len(outs))
		for i, o := range outs {
			ids[i] = o.ID
		}

		b.WriteString(`,"ids":`)
		if err := encode(b, ids); err != nil {
			return err
		}

		b.WriteString(`,"outs":`)
		if err := encode(b, outs); err != nil {
			return err
		}
	}

	sealLine(b, begin)
	return nil
}

func mark(b *bytes.Buffer, kind, id string, part int) error {
	begin := b.Len()
	if err := start(b, kind, id, time.Time{}); err != nil {
		return err
	}

	if part > 0 {
		b.WriteString(`,"part":`)
		b.Write(strconv.AppendInt(nil, int64(part), 10))
	}

	sealLine(b, begin)
	return nil
}

// snapshot returns a file with only what is left to do. The caller holds the lock.
func (j *Journal) snapshot() ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"journal\":%d", version)
	sealLine(&b, 0)

	for _, e := range bySeq(j.inbound, func(e *inEntry) uint64 { return e.seq }) {
		if !e.accepted {
			continue // its line is still to be written
		}
		if err := message(&b, "in", e.in.ID, e.at, e.in); err != nil {
			return nil, err
		}
	}

	for _, e := range bySeq(j.outs, func(e *outEntry) uint64 { return e.seq }) {
		if !e.accepted {
			continue
		}
		if err := message(&b, "out", e.out.ID, e.at, e.out); err != nil {
			return nil, err
		}

		if e.parts > 0 {
			if err := mark(&b, "sent", e.out.ID, e.parts); err != nil {
				return nil, err
			}
		}
	}

	if err := j.shown.snapshot(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// found is a message in the file that is not done with.
type found struct {
	seq   int
	at    time.Time
	raw   []byte // the message, or with ids several
	index int    // of the message in raw; -1 if raw is the message
	parts int
}

// open holds what a file leaves to do, by id, and what shows answers, by
// route.
type open struct {
	ins, outs map[string]*found
	shown     map[string]line
	damaged   map[string]*found // messages that came in, whose line is damaged
	delivered map[string]bool   // answers that no line has
}

// apply adds what line n says to what is open.
func (o *open) apply(n int, l line, s *seen) {
	at := time.UnixMilli(l.At)
	switch {
	case l.In != "":
		o.ins[l.In] = &found{seq: n, at: at, raw: l.Msg, index: -1}
		s.add(inKey(l.In), at)
	case l.Out != "":
		o.outs[l.Out] = &found{seq: n, at: at, raw: l.Msg, index: -1}
		s.add(outKey(l.Out), at)
	case l.Done != "":
		delete(o.ins, l.Done)
		delete(o.damaged, l.Done)
		s.add(inKey(l.Done), at)
		for i, id := range l.IDs {
			o.outs[id] = &found{seq: n, at: at, raw: l.Outs, index: i}
			s.add(outKey(id), at)
		}

	case l.Sent != "":
		if out := o.outs[l.Sent]; out != nil {
			out.parts = max(out.parts, l.Part)
		}
	case l.Delivered != "":
		if o.outs[l.Delivered] == nil {
			o.delivered[l.Delivered] = true
		}
		delete(o.outs, l.Delivered)

	case len(l.Shown) > 0:
		o.shown[string(l.Route)] = l
	case l.Shown != nil:
		delete(o.shown, string(l.Route))
	}
}

// applyDamaged applies line n, whose checksum fails, as far as that does no harm:
// what it says is wrong somewhere. A delivery is believed if its id is that of
// a message, which no flipped bit makes.
func (o *open) applyDamaged(n int, raw []byte) {
	var l line
	var in bus.Inbound
	if json.Unmarshal(raw, &l) != nil || l.In != "" && (json.Unmarshal(l.Msg, &in) != nil || in.ID == "") {
		l = remains(raw)
	}

	switch {
	case l.In != "":
		o.damaged[l.In] = &found{seq: n, at: time.UnixMilli(l.At), raw: l.Msg, index: -1}
	case l.Delivered != "":
		delete(o.outs, l.Delivered)
	}
}

// remains returns what can be read of the line of a message that is not even JSON:
// whose it is, so that they can be asked again.
func remains(raw []byte) (l line) {
	s := scanner{rest: raw, ok: true}
	s.lit(`{"in":`)
	id := s.str()
	_, behind, found := bytes.Cut(s.rest, []byte(`"route":`))
	var in bus.Inbound
	if !s.ok || !found || bytes.Contains(behind, []byte(`"event":"`)) || json.NewDecoder(bytes.NewReader(behind)).Decode(&in.Route) != nil {
		return l
	}

	in.ID = id
	if msg, err := json.Marshal(in); err == nil { //nolint:gosec // a key of a conversation is not a secret
		l.In, l.Msg = id, msg
	}
	return l
}

// dropDelivered forgets messages whose answer was delivered although the line with
// it is damaged.
func (o *open) dropDelivered(s *seen) {
	for id, in := range o.ins {
		if o.delivered[bus.FinalID(id)] {
			delete(o.ins, id)
			s.add(outKey(bus.FinalID(id)), in.at)
		}
	}
}

// replay finds what is left to do. Messages that are done with, nearly all of
// them, are passed over without being decoded. The data is changed.
func (j *Journal) replay(ctx context.Context, data []byte) error {
	o := open{map[string]*found{}, map[string]*found{}, map[string]line{}, map[string]*found{}, map[string]bool{}}
	var bad [][]byte
	n := 0
	for rest := data; len(rest) > 0; n++ {
		raw, more, _ := bytes.Cut(rest, []byte{'\n'})
		l, ok := parse(raw)
		if !ok {
			if first, next := store.SplitSealed(raw); first != nil {
				more = rest[min(next, len(rest)):]
				l, ok = parse(first)
			}
		}

		rest = more
		if !ok {
			bad = append(bad, raw)
			o.applyDamaged(n, raw)
			continue
		}

		if l.Journal > version {
			return fmt.Errorf("%s was written by a newer version", j.store.Where(nameLog))
		}
		o.apply(n, l, &j.seen)
	}

	o.dropDelivered(&j.seen)
	for _, f := range bySeq(o.ins, func(f *found) int { return f.seq }) {
		var in bus.Inbound
		if err := json.Unmarshal(f.raw, &in); err != nil || in.ID == "" {
			bad = append(bad, f.raw)
			continue
		}
		j.restoreIn(in, f)
	}

	for _, f := range bySeq(o.outs, func(f *found) int64 { return int64(f.seq)<<16 + int64(f.index+1) }) {
		out, err := f.outbound()
		if err != nil {
			bad = append(bad, f.raw)
			continue
		}
		j.restoreOut(out, f)
	}

	j.shown.restore(o.shown)
	for _, f := range bySeq(o.damaged, func(f *found) int { return f.seq }) {
		j.askAgain(f)
	}

	if len(bad) == 0 {
		return nil
	}

	j.opts.Log.ErrorContext(ctx, "the message journal holds lines that cannot be read", "lines", len(bad), "kept", j.store.Where(nameBad))
	if err := store.AppendLines(ctx, j.store, nameBad, append(bytes.Join(bad, []byte{'\n'}), '\n')); err != nil {
		return err
	}
	return j.rewrite()
}

// textDamaged is sent to a person whose message cannot be used.
const textDamaged = "A message of yours was damaged on this computer's disk before I could answer it. Please send it again."

// askAgain tells the sender of a message whose line is damaged that it was lost. The
// message itself is not used: a flipped bit can turn what it asks for into something else.
func (j *Journal) askAgain(f *found) {
	var in bus.Inbound
	if json.Unmarshal(f.raw, &in) != nil || in.ID == "" || in.Event != "" || in.Route.Channel == "" {
		return
	}
	j.restoreOut(bus.Outbound{
		ID: "damaged:" + in.ID, Kind: bus.Message, Route: in.Route, ReplyTo: in.Route.MessageID,
		Text: phrase.In(in.Language, textDamaged), Plain: true,
	}, f)
}

func (f *found) outbound() (out bus.Outbound, err error) {
	if f.index < 0 {
		err = json.Unmarshal(f.raw, &out)
	} else {
		var all []bus.Outbound
		if err = json.Unmarshal(f.raw, &all); err == nil && f.index < len(all) {
			out = all[f.index]
		}
	}

	if err == nil && out.ID == "" {
		err = errors.New("journal entry without an id")
	}
	return out, err
}

// scan reads a line as this program writes it; false means that it looks
// different, which a slower look may still understand.
func scan(raw []byte) (l line, ok bool) {
	s := scanner{rest: raw, ok: true}
	s.lit(`{"`)
	kind := s.until('"')
	s.lit(`:`)

	switch kind {
	case "in":
		l.In = s.str()
	case "out":
		l.Out = s.str()
	case "done":
		l.Done = s.str()
	case "sent":
		l.Sent = s.str()
		s.lit(`,"part":`)
		l.Part = int(s.num())
	case "delivered":
		l.Delivered = s.str()
	case "shown":
		l.Shown = s.list()
	default:
		return l, false
	}

	if kind == "in" || kind == "out" || kind == "done" || kind == "shown" {
		s.lit(`,"at":`)
		l.At = s.num()
	}

	switch {
	case kind == "in" || kind == "out":
		s.lit(`,"msg":`)
		l.Msg = s.tail()
	case kind == "shown":
		s.lit(`,"route":`)
		l.Route = s.tail()
	case kind == "done" && s.has(`,"ids":`):
		l.IDs = s.list()
		s.lit(`,"outs":`)
		l.Outs = s.tail()
	default:
		s.lit(`}`)
		s.ok = s.ok && len(s.rest) == 0
	}

	return l, s.ok
}

// scanner reads along a line; ok turns false for good when something else is there.
type scanner struct {
	rest []byte
	ok   bool
}

func (s *scanner) has(lit string) bool {
	if !s.ok || len(s.rest) < len(lit) || string(s.rest[:len(lit)]) != lit {
		return false
	}
	s.rest = s.rest[len(lit):]
	return true
}

func (s *scanner) lit(lit string) { s.ok = s.has(lit) }

func (s *scanner) until(c byte) string {
	i := bytes.IndexByte(s.rest, c)
	if !s.ok || i < 0 {
		s.ok = false
		return ""
	}
	v := string(s.rest[:i])
	s.rest = s.rest[i+1:]
	return v
}

// str reads a string without escapes.
func (s *scanner) str() string {
	s.lit(`"`)
	v := s.until('"')
	if bytes.IndexByte([]byte(v), '\\') >= 0 || v == "" {
		s.ok = false
	}
	return v
}

// list reads strings, also none.
func (s *scanner) list() []string {
	list := []string{}
	s.lit(`[`)
	if s.has(`]`) {
		return list
	}

	for more := true; more && s.ok; more = s.has(`,`) {
		list = append(list, s.str())
	}

	s.lit(`]`)
	return list
}

func (s *scanner) num() (n int64) {
	i := 0
	for ; i < len(s.rest) && i < 18 && s.rest[i] >= '0' && s.rest[i] <= '9'; i++ {
		n = n*10 + int64(s.rest[i]-'0')
	}
	s.rest = s.rest[i:]
	s.ok = s.ok && i > 0
	return n
}

// tail returns the rest of the line without the brace that closes it.
func (s *scanner) tail() []byte {
	n := len(s.rest) - 1
	if !s.ok || n < 1 || s.rest[n] != '}' {
		s.ok = false
		return nil
	}
	return s.rest[:n]
}
