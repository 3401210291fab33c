package search

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// Hit is a text that was found.
type Hit struct {
	Session string    // key of the conversation; "" for memory files
	Source  string    // where it stands: session, archive, history, or a file of the workspace
	Role    Role      // what it is
	Time    time.Time // when it was said; for files, when they were last changed
	Scope   string    // whose memory it belongs to; "" is the owner's
	Tainted bool      // words from outside are in it or were before it in its turn
	Partial bool      // not all words occur
	Score   float64   // BM25
	Snippet string
	Offset  int64 // of the text in its log or file, in bytes
}

// Result is the answer to a query.
type Result struct {
	Hits []Hit
	// Total counts the texts with all words that were found; when AtLeast is
	// set there are more, older ones.
	Total   int
	AtLeast bool
	// Behind says that new texts are not in the index yet.
	Behind bool
}

const (
	// candidates is how many texts are read and ranked for a query, the newest
	// that match. It bounds the time of a query whatever the words are.
	candidates = 300
	// enough texts with all words make those with some of them uninteresting.
	enough = 3
	// candidateBytes bounds the text that is read for a query.
	candidateBytes = 8 << 20
	// updateTimeout bounds how long a query waits for the index to be current.
	updateTimeout = time.Second
)

// Search finds texts, the best first. Ranking is BM25 over all texts that have
// the words, or over the newest of them when there are very many.
func (x *Index) Search(ctx context.Context, q Query) (Result, error) {
	if q.Limit <= 0 {
		q.Limit = 10
	}

	q.Limit = min(q.Limit, 100)
	want, not := parse(q.Text)
	if len(want) == 0 {
		return Result{}, ErrEmpty
	}

	wait := updateTimeout
	if q.Wait {
		wait = 0
	}

	behind, err := x.update(ctx, wait)
	if err != nil {
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		// What is in the index can still be found.
		x.opt.Log.WarnContext(ctx, "cannot update the search index", "err", err)
		behind = true
	}

	var res Result
	err = x.guard(ctx, func(db *sql.DB) error {
		s := &search{x: x, db: db, q: q, not: not, counts: map[term]int{}, sources: map[int64]*source{}, files: map[int64]*opened{}}
		defer s.close()
		res, err = s.run(ctx, want)
		return err
	})
	if err != nil {
		return Result{}, fmt.Errorf("search: %w", err)
	}

	res.Behind = behind
	return res, nil
}

// search is a query at work.
type search struct {
	x   *Index
	db  *sql.DB
	q   Query
	not []item

	visible string // expression for what may be seen; "" is everything
	hidden  string // expression for what may not
	docs    float64
	average float64 // tokens of a text
	counts  map[term]int
	sources map[int64]*source
	files   map[int64]*opened
}

func (s *search) close() {
	for _, f := range s.files {
		if f != nil {
			_ = f.Close() // only read from
		}
	}
}

func (s *search) run(ctx context.Context, want []item) (res Result, err error) {
	var docs, words int64
	if err := s.db.QueryRowContext(ctx, `SELECT coalesce(sum(docs),0), coalesce(sum(words),0) FROM source`).Scan(&docs, &words); err != nil {
		return res, err
	}

	s.docs, s.average = float64(max(docs, 1)), max(1, float64(words)/float64(max(docs, 1)))
	if ok, err := s.see(ctx); err != nil || !ok {
		return res, err
	}

	found, more, err := s.find(ctx, all(want))
	if err != nil {
		return res, err
	}

	var hits []scored
	if len(found) > 0 {
		weighed, err := s.weigh(ctx, want)
		if err != nil {
			return res, err
		}
		if hits, err = s.rank(ctx, found, weighed, len(want)); err != nil {
			return res, err
		}
	}

	res.Total, res.AtLeast = len(hits), more
	if len(hits) < min(enough, s.q.Limit) && !more {
		rest, err := s.partly(ctx, want, hits)
		if err != nil {
			return res, err
		}
		hits = append(hits, rest...)
	}

	res.Hits, err = s.show(hits[:min(len(hits), s.q.Limit)])
	return res, err
}

// see finds out what the asker may see. ok is false when that is nothing.
func (s *search) see(ctx context.Context) (ok bool, err error) {
	id := func(name string) int64 {
		var n int64
		if serr := s.db.QueryRowContext(ctx, `SELECT id FROM name WHERE text=?`, name).Scan(&n); serr != nil && !errors.Is(serr, sql.ErrNoRows) {
			err = serr
		}
		return n
	}

	var may []string
	switch {
	case s.q.Everyone:
	case s.q.Scope == "":
		s.hidden = `"` + foreignMark + `"`
	default:
		for _, name := range []string{s.q.Scope, dirScope + text.SafeName(s.q.Scope)} {
			if n := id(name); n != 0 {
				may = append(may, `"`+scopeMark(n)+`"`)
			}
		}

		if n := id(s.q.Own); n != 0 && s.q.Own != "" {
			may = append(may, `("`+sessionMark(n)+`" AND "`+foreignMark+`")`)
		}

		if len(may) == 0 {
			return false, err
		}
		s.visible = "(" + strings.Join(may, " OR ") + ")"
	}

	if s.q.Session != "" {
		n := id(s.q.Session)
		if n == 0 {
			return false, err
		}

		mark := `"` + sessionMark(n) + `"`
		if s.visible != "" {
			mark += " AND " + s.visible
		}
		s.visible = mark
	}

	return err == nil, err
}

// match returns the whole expression for texts that may be seen.
func (s *search) match(expr string) string {
	expr = "(" + expr + ")"
	if s.visible != "" {
		expr += " AND " + s.visible
	}

	for _, not := range []string{without(s.not), s.hidden} {
		if not != "" {
			expr = "(" + expr + ") NOT (" + not + ")"
		}
	}
	return expr
}

// weighted is an item and what finding it is worth.
type weighted struct {
	item
	df  int // texts that have it, counted up to candidates+1
	idf float64
}

// weigh counts how many texts have each item, roughly: those that have its
// rarest term.
func (s *search) weigh(ctx context.Context, items []item) ([]weighted, error) {
	out := make([]weighted, len(items))
	for i, it := range items {
		least := candidates + 1
		for _, u := range it.units() {
			n, err := s.count(ctx, u.terms[0])
			if err != nil {
				return nil, err
			}
			least = min(least, n)
		}

		df := float64(least)
		if least > candidates {
			df = math.Sqrt(candidates * max(s.docs, candidates)) // somewhere between
		}
		out[i] = weighted{it, least, math.Log1p((max(s.docs, df) - df + 0.5) / (df + 0.5))}
	}

	return out, nil
}

// count counts the texts with a term that may be seen, up to candidates+1.
func (s *search) count(ctx context.Context, t term) (n int, err error) {
	if n, ok := s.counts[t]; ok {
		return n, nil
	}
	err = s.db.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)`, s.match(t.expr()), candidates+1).Scan(&n)
	s.counts[t] = n
	return n, err
}

// place is where a text is found.
type place struct {
	id, source, pos, len, session, scope, time int64
	role                                       int
	tainted                                    bool
}

// find asks the index, the newest first. more says that there would be more.
func (s *search) find(ctx context.Context, expr string) (out []place, more bool, err error) {
	query := `SELECT d.id,d.source,d.pos,d.len,d.session,d.scope,d.time,d.role,d.tainted FROM words CROSS JOIN doc d ON d.id=words.rowid WHERE words MATCH ?`
	args := []any{s.match(expr)}
	if !s.q.After.IsZero() {
		ms := s.q.After.UnixMilli()
		query += ` AND words.rowid >= ? AND d.time >= ?`
		args = append(args, idOf(ms), ms)
	}

	if !s.q.Before.IsZero() {
		ms := s.q.Before.UnixMilli()
		const crowded = perSecond * 24 * 3600 // texts of one second may go beyond it
		query += ` AND words.rowid <= ? AND d.time < ?`
		args = append(args, idOf(ms)+crowded, ms)
	}

	if len(s.q.Roles) > 0 {
		in := []byte(` AND d.role IN (-1`)
		for _, r := range s.q.Roles {
			in = fmt.Appendf(in, ",%d", slices.Index(roles(), r))
		}
		query += string(in) + `)`
	}

	rows, err := s.db.QueryContext(ctx, query+` ORDER BY words.rowid DESC LIMIT ?`, append(args, candidates+1)...)
	if err != nil {
		return nil, false, err
	}

	defer rows.Close() //nolint:errcheck // the error is that of Err
	for rows.Next() {
		var p place
		if err := rows.Scan(&p.id, &p.source, &p.pos, &p.len, &p.session, &p.scope, &p.time, &p.role, &p.tainted); err != nil {
			return nil, false, err
		}
		if len(out) == candidates {
			return out, true, nil
		}
		out = append(out, p)
	}

	return out, false, rows.Err()
}

// partly finds texts that have some of the words. The rarest words choose
// which texts are looked at, all of them decide how good they are.
func (s *search) partly(ctx context.Context, want []item, have []scored) ([]scored, error) {
	var must, units []item
	for _, it := range want {
		if it.quoted {
			must = append(must, it)
		} else {
			units = append(units, it.units()...)
		}
	}

	if len(units) == 0 || len(units)+len(must) < 2 {
		return nil, nil
	}

	weighed, err := s.weigh(ctx, units)
	if err != nil {
		return nil, err
	}

	rare := slices.DeleteFunc(slices.Clone(weighed), func(w weighted) bool { return w.df == 0 })
	slices.SortStableFunc(rare, func(a, b weighted) int { return cmp.Compare(a.df, b.df) })
	var choose []item
	sum := 0
	for _, w := range rare {
		if sum += w.df; sum > candidates/2 && len(choose) > 0 {
			break
		}
		choose = append(choose, w.item)
	}

	if len(choose) == 0 {
		return nil, nil
	}

	expr := "(" + anyOf(choose) + ")"
	if len(must) > 0 {
		expr += " AND " + all(must)
		more, err := s.weigh(ctx, must)
		if err != nil {
			return nil, err
		}
		weighed = append(more, weighed...)
	}

	found, _, err := s.find(ctx, expr)
	if err != nil {
		return nil, err
	}

	found = slices.DeleteFunc(found, func(p place) bool {
		return slices.ContainsFunc(have, func(h scored) bool { return h.id == p.id })
	})
	hits, err := s.rank(ctx, found, weighed, len(must))
	for i := range hits {
		hits[i].partial = true
	}
	return slices.DeleteFunc(hits, func(h scored) bool {
		return slices.ContainsFunc(have, func(g scored) bool { return g.session == h.session && g.text == h.text })
	}), err
}

// scored is a text with its worth and the places of what was found in it.
type scored struct {
	place
	text    string
	score   float64
	spans   []span
	partial bool
}

// span is a place of an item in a text.
type span struct{ start, end, item int }

// rank reads the texts and orders them. The first must items have to occur.
func (s *search) rank(ctx context.Context, found []place, items []weighted, must int) ([]scored, error) {
	// Files are read from front to back.
	slices.SortStableFunc(found, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.pos, b.pos))
	})
	var out []scored
	read := int64(0)
	for _, p := range found {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if read += p.len; read > candidateBytes && len(out) >= s.q.Limit {
			break
		}

		text, ok, err := s.text(ctx, p)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue // changed since; the next update sees it
		}

		if h, ok := s.score(text, items, must); ok {
			h.place = p
			out = append(out, h)
		}
	}

	slices.SortStableFunc(out, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.id, a.id))
	})
	// The same words may be in a log and in what a crash left of it.
	type key struct {
		session int64
		role    int
		time    int64
		text    string
	}

	seen := map[key]bool{}
	return slices.DeleteFunc(out, func(h scored) bool {
		k := key{h.session, h.role, h.time, h.text}
		dup := seen[k]
		seen[k] = true
		return dup
	}), nil
}

// text reads a text from where it stands.
func (s *search) text(ctx context.Context, p place) (string, bool, error) {
	src := s.sources[p.source]
	if src == nil {
		src = &source{id: p.source}
		err := s.db.QueryRowContext(ctx, `SELECT path,kind FROM source WHERE id=?`, p.source).Scan(&src.label, &src.kind)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return "", false, err
		}
		s.sources[p.source] = src
	}

	f, known := s.files[p.source]
	if !known {
		const openAtOnce = 200
		if len(s.files) >= openAtOnce {
			s.close()
			clear(s.files)
		}
		f, _ = s.x.openSource(ctx, src.label) // nil when it is gone
		s.files[p.source] = f
	}

	if f == nil {
		return "", false, nil
	}

	text, ok := load(f, src.kind, p.pos, p.len)
	return text, ok, nil
}

// score weighs a text by BM25. ok is false when it lacks an item that must be
// in it, or has one that must not.
func (s *search) score(text string, items []weighted, must int) (h scored, ok bool) {
	const k1, b = 1.2, 0.75
	toks := tokens(text)
	h.text = text
	count := make([]int, len(items))
	for i := range toks {
		for n := range items {
			if items[n].at(toks[i:]) {
				count[n]++
				h.spans = append(h.spans, span{toks[i].start, toks[i+len(items[n].terms)-1].end, n})
			}
		}
		for _, it := range s.not {
			if it.at(toks[i:]) {
				return h, false
			}
		}
	}

	long := k1 * (1 - b + b*float64(len(toks))/s.average)
	for n, it := range items {
		if count[n] == 0 && n < must {
			return h, false
		}
		tf := float64(count[n])
		h.score += it.idf * tf * (k1 + 1) / (tf + long)
	}

	return h, len(h.spans) > 0
}

// show makes hits of the best.
func (s *search) show(best []scored) ([]Hit, error) {
	out := make([]Hit, 0, len(best))
	for _, h := range best {
		session, err := s.x.name(s.db, h.session)
		if err != nil {
			return nil, err
		}

		scope, err := s.x.name(s.db, h.scope)
		if err != nil {
			return nil, err
		}

		out = append(out, Hit{
			Session: session, Source: placeName(s.sources[h.source].label), Role: roles()[h.role], Time: time.UnixMilli(h.time),
			Scope: strings.TrimPrefix(scope, dirScope), Tainted: h.tainted, Partial: h.partial, Score: h.score,
			Snippet: snippet(h.text, h.spans, s.q.Open, s.q.Close), Offset: h.pos,
		})
	}

	return out, nil
}

// placeName returns what a label means to people.
func placeName(label string) string {
	switch place, name, _ := strings.Cut(label, "/"); place {
	case "n":
		return name
	case "h":
		return "history"
	case "a":
		return "archive"
	}
	return "session"
}

// name returns the conversation or scope with a number.
func (x *Index) name(db *sql.DB, id int64) (string, error) {
	x.mu.Lock()
	name, ok := x.names[id]
	x.mu.Unlock()
	if ok {
		return name, nil
	}

	err := db.QueryRow(`SELECT text FROM name WHERE id=?`, id).Scan(&name) //nolint:noctx // one row by its number
	if err != nil {
		return "", err
	}

	x.mu.Lock()
	defer x.mu.Unlock()
	if x.db == db {
		x.names[id] = name
	}
	return name, nil
}
