package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/session/search"
)

// search builds an index over synthetic conversations, half of the words
// chosen as often as in a language, in English and Chinese, and asks it.
func (b *bench) search() error {
	dir := filepath.Join(b.dir, "search")
	if _, err := b.searchOf(filepath.Join(dir, "few"), 10000); err != nil {
		return err
	}
	many, err := b.searchOf(filepath.Join(dir, "many"), b.messages)
	if err != nil {
		return err
	}
	one, err := takeOne(filepath.Join(dir, "few"), filepath.Join(dir, "many"))
	if err != nil {
		return err
	}
	b.add(fmt.Sprintf("search index over %d messages: build", b.messages),
		fmt.Sprintf("%.0f s, %.0f messages/s, peak RSS %s", many.build.Seconds(), float64(b.messages)/many.build.Seconds(), mib(many.rss)), "", "", true)
	b.add("index relative to the text", fmt.Sprintf("%.2fx (%s of %s)", many.share(), mib(many.index), mib(many.text)), "", "< 1.5x", many.share() < 1.5)
	b.add("200 queries, p50 / p95", ms(many.p50)+" / "+ms(many.p95), "", "p95 < 50 ms", many.p95 < 50*time.Millisecond)
	b.add(fmt.Sprintf("taking in one message at 10,000 / %d", b.messages), ms(one[0])+" / "+ms(one[1]), "", "within 1.3x", ratio(one[1], one[0]) <= 1.3)
	return nil
}

type searchFigures struct {
	build, p50, p95  time.Duration
	index, text, rss int64
}

func (f searchFigures) share() float64 { return float64(f.index) / float64(max(f.text, 1)) }

func (b *bench) searchOf(dir string, n int) (f searchFigures, err error) {
	if err := writeConversations(dir, n); err != nil {
		return f, err
	}
	if f.build, f.rss, err = b.child(dir, "search-build", dir); err != nil {
		return f, err
	}
	x, err := openSearch(dir)
	if err != nil {
		return f, err
	}
	defer x.Close()
	ctx := context.Background()
	st, err := x.Stats(ctx)
	if err != nil {
		return f, err
	}
	f.index, f.text = st.Bytes, st.TextBytes
	if st.Documents != int64(n) {
		return f, fmt.Errorf("%d messages in the index, want %d", st.Documents, n)
	}
	f.p50, f.p95, err = askMany(ctx, x)
	return f, err
}

func openSearch(dir string) (*search.Index, error) {
	return search.Open(search.Options{Path: filepath.Join(dir, "index", "x.db"), Store: disk.Open(dir, nil), Sessions: "sessions"})
}

func buildSearch(dir string) (time.Duration, error) {
	x, err := openSearch(dir)
	if err != nil {
		return 0, err
	}
	defer x.Close()
	start := time.Now()
	err = x.Update(context.Background())
	return time.Since(start), err
}

// askMany asks 200 questions of one to three words, from frequent to rare.
func askMany(ctx context.Context, x *search.Index) (p50, p95 time.Duration, err error) {
	w := newWriter(2)
	var took []time.Duration
	for i := range 200 {
		var q []string
		for range 1 + i%3 {
			if i%4 == 3 {
				q = append(q, w.chinese(1+i%2))
			} else {
				q = append(q, w.word())
			}
		}
		start := time.Now()
		if _, err := x.Search(ctx, search.Query{Text: strings.Join(q, " ")}); err != nil {
			return 0, 0, err
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*95/100], nil
}

// takeOne is the median time to take in one message behind all others, in two
// homes by turns, so that whatever else the machine does slows both alike.
func takeOne(homes ...string) (medians [2]time.Duration, err error) {
	var took [2][]time.Duration
	var add [2]func(line string) (time.Duration, error)
	for i, dir := range homes {
		f, err := os.OpenFile(filepath.Join(dir, "sessions", logName(0)), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return medians, err
		}
		defer f.Close()
		x, err := openSearch(dir)
		if err != nil {
			return medians, err
		}
		defer x.Close()
		add[i] = func(line string) (time.Duration, error) {
			if _, err := f.WriteString(line); err != nil {
				return 0, err
			}
			start := time.Now()
			err := x.Update(context.Background())
			return time.Since(start), err
		}
	}
	w := newWriter(3)
	for n := range 401 {
		line := w.line(time.Unix(1790000000+int64(n)*60, 0))
		for i := range add {
			d, err := add[i](line)
			if err != nil {
				return medians, err
			}
			if n > 0 { // the first opens the file
				took[i] = append(took[i], d)
			}
		}
	}
	for i := range took {
		medians[i] = median(took[i])
	}
	return medians, nil
}

// perLog is how many messages one conversation has.
const perLog = 5000

func logName(i int) string { return fmt.Sprintf("log%05d.jsonl", i) }

func writeConversations(dir string, n int) error {
	dir = filepath.Join(dir, "sessions")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	w := newWriter(1)
	logs := (n + perLog - 1) / perLog
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	step := 300 * 24 * time.Hour / time.Duration(n)
	for i := range logs {
		f, err := os.Create(filepath.Join(dir, logName(i)))
		if err != nil {
			return err
		}
		out := bufio.NewWriterSize(f, 1<<20)
		fmt.Fprintf(out, `{"_type":"metadata","key":"chat:%d"}`+"\n", i)
		for j := i; j < n; j += logs { // conversations go on side by side
			out.WriteString(w.line(at.Add(time.Duration(j) * step)))
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// writer makes up messages.
type writer struct {
	r     *rand.Rand
	words *rand.Zipf
	han   *rand.Zipf
	n     int
}

func newWriter(seed uint64) *writer {
	r := rand.New(rand.NewPCG(seed, 7))
	return &writer{r: r, words: rand.NewZipf(r, 1.07, 4, 80000), han: rand.NewZipf(r, 1.1, 8, 30000)}
}

// word is a made-up word; frequent ones are short.
func (w *writer) word() string {
	n := w.words.Uint64()
	return "w" + strconv.FormatUint(n*2654435761%(1<<(10+min(20, n/8))), 32)
}

// chinese is a run of made-up words of one to three characters.
func (w *writer) chinese(words int) string {
	var b strings.Builder
	for range words {
		n := w.han.Uint64()
		for range 1 + n%8/3 {
			b.WriteRune(rune(0x4e00 + n*n%3500))
			n = n*31 + 7
		}
	}
	return b.String()
}

func (w *writer) line(at time.Time) string {
	w.n++
	var b strings.Builder
	role := [2]string{"user", "assistant"}[w.n%2]
	fmt.Fprintf(&b, `{"role":%q,"content":"`, role)
	if w.n%10 < 3 {
		for range 3 + w.r.IntN(6) {
			b.WriteString(w.chinese(3 + w.r.IntN(8)))
			b.WriteString("，")
		}
	} else {
		for range 10 + w.r.IntN(80) {
			b.WriteString(w.word())
			b.WriteByte(' ')
		}
	}
	fmt.Fprintf(&b, `","timestamp":%q,"ts":%d}`+"\n", at.Format(time.RFC3339), at.UnixMilli())
	return b.String()
}
