package ledger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Query selects calls of the log and says how to group them.
type Query struct {
	By    string    // one of Groups
	Since time.Time // zero: from the first call on
	Until time.Time // exclusive; zero: up to now
	// Source, Session and Turn keep only such calls, unless they are "".
	Source, Session, Turn string
}

// Groups lists what calls can be grouped by.
func Groups() []string { return []string{"day", "month", "model", "provider", "session", "source"} }

// Group is the sum of some calls.
type Group struct {
	Name  string    `json:"name"`
	Calls int       `json:"calls"`
	Usage llm.Usage `json:"usage"` // without Cost
	// USD is the cost as far as it is known; the counts say how far that is.
	USD          float64 `json:"usd"`
	Failed       int     `json:"failed,omitempty"`
	Unknown      int     `json:"unknownPrice,omitempty"` // calls whose price is unknown
	Subscription int     `json:"subscription,omitempty"` // calls under a flat fee
	Free         int     `json:"free,omitempty"`         // calls of models on this machine
	priced       int
}

// tally adds a call to a group.
func tally(g *Group, e *Entry) {
	g.Calls++
	u := e.usage()
	g.Usage = g.Usage.Add(u)
	g.USD += e.USD
	if e.Outcome != OutcomeOK {
		g.Failed++
	}

	switch {
	case u.Prompt+u.Completion == 0 && e.USD == 0: // nothing to be paid for
	case e.Billing == Priced || e.Billing == Reported:
		g.priced++
	case e.Billing == Free:
		g.Free++
	case e.Billing == Subscription:
		g.Subscription++
	default:
		g.Unknown++
	}
}

// cachedShare is the part of the prompts that came out of the vendor's cache,
// from 0 to 1.
func (g Group) cachedShare() float64 {
	if g.Usage.Prompt == 0 {
		return 0
	}
	return min(1, float64(g.Usage.Cached)/float64(g.Usage.Prompt))
}

// cost writes the cost for people. What is not known is never shown as zero.
func (g Group) cost(ctx context.Context) string {
	var parts []string
	if g.priced > 0 || g.USD > 0 {
		parts = append(parts, Dollars(g.USD))
	}
	if g.Unknown > 0 {
		parts = append(parts, phrase.Of(ctx, "unknown"))
	}
	if g.Subscription > 0 {
		parts = append(parts, phrase.Of(ctx, "subscription"))
	}

	if len(parts) == 0 {
		if g.Free > 0 {
			return phrase.Of(ctx, "free")
		}
		return "-"
	}
	return strings.Join(parts, " + ")
}

// Summary is the answer to a query.
type Summary struct {
	By    string    `json:"by"`
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Groups are in order of time, or else of cost and size, the greatest first.
	Groups []Group `json:"groups"`
	Total  Group   `json:"total"`
	// Unpriced names the models whose price is unknown.
	Unpriced []string `json:"unpricedModels,omitempty"`
}

// Summarize reads the log and sums up what a query asks for.
func (l *Ledger) Summarize(ctx context.Context, q Query) (Summary, error) {
	if q.By == "" {
		q.By = "day"
	}

	if !slices.Contains(Groups(), q.By) {
		return Summary{}, fmt.Errorf("cannot group by %q: want %s", q.By, strings.Join(Groups(), ", "))
	}

	s := Summary{By: q.By, Since: q.Since, Until: q.Until, Groups: []Group{}, Total: Group{Name: "total"}}
	at := map[string]int{}
	for e, err := range l.Entries(ctx, q) {
		if err != nil {
			return Summary{}, err
		}

		name := groupName(&e, q.By, l.loc)
		i, ok := at[name]
		if !ok {
			i = len(s.Groups)
			at[name] = i
			s.Groups = append(s.Groups, Group{Name: name})
		}

		tally(&s.Groups[i], &e)
		tally(&s.Total, &e)
		if model := e.Provider + "/" + e.Model; e.Billing == Unknown && e.Prompt+e.Completion > 0 && !slices.Contains(s.Unpriced, model) {
			s.Unpriced = append(s.Unpriced, model)
		}
	}

	slices.Sort(s.Unpriced)
	slices.SortStableFunc(s.Groups, func(a, b Group) int {
		if q.By == "day" || q.By == "month" {
			return cmp.Compare(a.Name, b.Name)
		}
		return cmp.Or(cmp.Compare(b.USD, a.USD), cmp.Compare(b.Usage.Prompt+b.Usage.Completion, a.Usage.Prompt+a.Usage.Completion), cmp.Compare(a.Name, b.Name))
	})
	return s, nil
}

// unnamed is the group of calls that lack what is asked for.
const unnamed = "(none)"

func groupName(e *Entry, by string, loc *time.Location) string {
	name := ""
	switch by {
	case "day":
		name = e.Time.In(loc).Format(dayLayout)
	case "month":
		name = e.Time.In(loc).Format(monthLayout)
	case "model":
		name = e.Model
	case "provider":
		name = e.Provider
	case "session":
		name = e.Session
	case "source":
		name = e.Source
	}

	return cmp.Or(name, unnamed)
}

// Entries yields the calls a query selects, oldest first within a month. Lines
// that cannot be read, such as one torn by a crash, are passed over.
func (l *Ledger) Entries(ctx context.Context, q Query) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		names, err := l.logs(ctx, q)
		if err != nil {
			yield(Entry{}, err)
			return
		}

		for _, name := range names {
			if err := l.scan(ctx, name, q, func(e Entry) bool { return yield(e, nil) }); err != nil {
				if !errors.Is(err, errStop) {
					yield(Entry{}, err)
				}
				return
			}
		}
	}
}

// errStop ends a scan whose caller has seen enough.
var errStop = errors.New("stop")

func (l *Ledger) scan(ctx context.Context, name string, q Query, yield func(Entry) bool) (err error) {
	f, err := l.store.Log(ctx, name)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Info(ctx)
	if err != nil {
		return err
	}

	session, turn := written(q.Session), written(q.Turn)
	for line, err := range store.Lines(f, 0, info.Size) {
		if err == nil {
			err = ctx.Err()
		}

		if err != nil {
			return fmt.Errorf("read the usage log %s: %w", name, err)
		}
		if !bytes.Contains(line.Bytes, session) || !bytes.Contains(line.Bytes, turn) {
			continue // most lines, and decoding one takes much longer
		}

		var e Entry
		if len(line.Bytes) == 0 || json.Unmarshal(line.Bytes, &e) != nil || !q.selects(&e) {
			continue
		}
		if !yield(e) {
			return errStop
		}
	}

	return nil
}

// written is a text as a line of the log has it, nothing for "".
func written(s string) []byte {
	if s == "" {
		return nil
	}
	b, _ := json.Marshal(s) // texts can always be written
	return b
}

func (q *Query) selects(e *Entry) bool {
	return !e.Time.IsZero() && !e.Time.Before(q.Since) && (q.Until.IsZero() || e.Time.Before(q.Until)) &&
		(q.Source == "" || q.Source == e.Source) && (q.Session == "" || q.Session == e.Session) && (q.Turn == "" || q.Turn == e.Turn)
}

// logs lists the logs that may hold calls of the query. The user may have
// moved to another time zone, so a day more on each side is looked at.
func (l *Ledger) logs(ctx context.Context, q Query) ([]string, error) {
	if l.store == nil {
		return nil, nil
	}

	var out []string
	for d, err := range l.store.Logs(ctx, "") {
		if err != nil {
			return nil, err
		}

		month := strings.TrimSuffix(d.Name, logSuffix)
		if _, err := time.Parse(monthLayout, month); err != nil {
			continue
		}

		early := !q.Since.IsZero() && month < q.Since.In(l.loc).AddDate(0, 0, -1).Format(monthLayout)
		late := !q.Until.IsZero() && month > q.Until.In(l.loc).AddDate(0, 0, 1).Format(monthLayout)
		if !early && !late {
			out = append(out, d.Name)
		}
	}

	return out, nil
}
