package gitstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// FileChange is how much of a file changed, in lines.
type FileChange struct {
	Path    string `json:"path"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
	Created bool   `json:"created,omitempty"`
	Deleted bool   `json:"deleted,omitempty"`
}

// Change is what differs between two states of the files. Diff is a patch in
// git's form; it may hold control characters that came from the files.
type Change struct {
	Files []FileChange `json:"files"`
	Diff  string       `json:"diff"`
}

// Show returns a commit and what it changed.
func (s *Store) Show(ctx context.Context, prefix string) (c Commit, change Change, err error) {
	err = s.read(ctx, func(r *repo, t *tip) error {
		if c, err = r.find(ctx, t, prefix); err != nil {
			return err
		}
		before, after, err := s.around(r, c)
		change = compare(before, after)
		return err
	})
	return c, change, noRepo(err)
}

// around returns the tracked files before and after a commit.
func (s *Store) around(r *repo, c Commit) (before, after filesOf, err error) {
	before = filesOf{}
	if len(c.parents) > 0 {
		parent, err := r.commit(c.parents[0])
		if err != nil {
			return nil, nil, err
		}
		if before, err = r.contents(parent.tree, s.patterns()); err != nil {
			return nil, nil, err
		}
	}
	after, err = r.contents(c.tree, s.patterns())
	return before, after, err
}

// Diff compares two commits. An empty from is the newest commit, an empty to
// the files as they are now.
func (s *Store) Diff(ctx context.Context, from, to string) (change Change, err error) {
	err = s.read(ctx, func(r *repo, t *tip) error {
		c, err := r.find(ctx, t, from)
		if err != nil {
			return err
		}
		before, err := r.contents(c.tree, s.patterns())
		if err != nil {
			return err
		}
		after, err := s.state(ctx, r, t, to, before)
		change = compare(before, after)
		return err
	})
	if errors.Is(err, errNoRepo) && from == "" && to == "" {
		return Change{}, nil
	}
	return change, noRepo(err)
}

// state reads the files of a commit, or of the work tree if none is named; then
// what cannot be tracked counts as it is in base.
func (s *Store) state(ctx context.Context, r *repo, t *tip, commit string, base filesOf) (filesOf, error) {
	if commit != "" {
		c, err := r.find(ctx, t, commit)
		if err != nil {
			return nil, err
		}
		return r.contents(c.tree, s.patterns())
	}
	w, err := s.openWork()
	if err != nil {
		return nil, err
	}
	defer w.close()
	files, odd, err := w.snapshot(ctx, s.patterns())
	for name := range odd {
		if data, ok := base[name]; ok {
			files[name] = data
		}
	}
	return files, err
}

// compare makes a patch of two states.
func compare(before, after filesOf) (out Change) {
	names := slices.Sorted(maps.Keys(before))
	for name := range after {
		if _, ok := before[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		old, was := before[name]
		now, is := after[name]
		if was == is && bytes.Equal(old, now) {
			continue
		}
		f := FileChange{Path: name, Created: !was, Deleted: !is}
		from, to := "a/"+name, "b/"+name
		fmt.Fprintf(&b, "diff --git %s %s\n", from, to)
		if !was {
			from = "/dev/null"
			b.WriteString("new file mode " + modeFile + "\n")
		}
		if !is {
			to = "/dev/null"
			b.WriteString("deleted file mode " + modeFile + "\n")
		}
		switch {
		case !isText(old) || !isText(now):
			fmt.Fprintf(&b, "Binary files %s and %s differ\n", from, to)
		case len(old)+len(now) > 0:
			fmt.Fprintf(&b, "--- %s\n+++ %s\n", from, to)
			x, y := splitLines(old), splitLines(now)
			spans := differences(x, y)
			for _, s := range spans {
				f.Removed += s.a1 - s.a0
				f.Added += s.b1 - s.b0
			}
			writeHunks(&b, x, y, spans)
		}
		out.Files = append(out.Files, f)
	}
	out.Diff = b.String()
	return out
}

func isText(data []byte) bool { return utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 }

// splitLines cuts a text behind its newlines.
func splitLines(data []byte) []string { return slices.Collect(strings.Lines(string(data))) }

// span says that lines a0 to a1 of one text became b0 to b1 of another.
type span struct{ a0, a1, b0, b1 int }

// maxEdits bounds the work of differences: texts that differ more count as
// replaced.
const maxEdits = 2000

// differences finds a shortest list of changes from a to b, in order. It is
// the greedy algorithm of Myers (1986) between the common beginning and end.
func differences(a, b []string) []span {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	x, y := a[head:len(a)-tail], b[head:len(b)-tail]
	if len(x) == 0 && len(y) == 0 {
		return nil
	}
	kept, ok := common(x, y)
	if !ok {
		return []span{{head, len(a) - tail, head, len(b) - tail}}
	}
	var out []span
	i, j := 0, 0
	for _, k := range append(kept, [2]int{len(x), len(y)}) {
		if k[0] > i || k[1] > j {
			out = append(out, span{head + i, head + k[0], head + j, head + k[1]})
		}
		i, j = k[0]+1, k[1]+1
	}
	return out
}

// common returns the pairs of lines that stay; false if there are too many
// differences.
func common(a, b []string) (kept [][2]int, ok bool) {
	most := min(len(a)+len(b), maxEdits)
	far := make([]int, 2*most+2) // how far down a each diagonal was followed
	var steps [][]int
	for d := range most + 1 {
		steps = append(steps, slices.Clone(far))
		for k := -d; k <= d; k += 2 {
			x := follow(far, most, d, k)
			for x < len(a) && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			far[most+k] = x
			if x >= len(a) && x-k >= len(b) {
				return trace(steps, most, len(a), len(b)), true
			}
		}
	}
	return nil, false
}

// follow is where step d enters diagonal k.
func follow(far []int, mid, d, k int) int {
	if d == 0 {
		return 0
	}
	if k == -d || k != d && far[mid+k-1] < far[mid+k+1] {
		return far[mid+k+1]
	}
	return far[mid+k-1] + 1
}

// trace walks the steps back from the end and collects what stays.
func trace(steps [][]int, mid, x, y int) (kept [][2]int) {
	for d, far := range slices.Backward(steps) {
		k := x - y
		start := follow(far, mid, d, k)
		for x > start {
			x, y = x-1, y-1
			kept = append(kept, [2]int{x, y})
		}
		if d == 0 {
			break
		}
		if k == -d || k != d && far[mid+k-1] < far[mid+k+1] {
			y-- // an added line led here
		} else {
			x--
		}
	}
	slices.Reverse(kept)
	return kept
}

const hunkContext = 3

// writeHunks writes changes with the lines around them.
func writeHunks(out *strings.Builder, a, b []string, spans []span) {
	for len(spans) > 0 {
		n := 1
		for n < len(spans) && spans[n].a0-spans[n-1].a1 <= 2*hunkContext {
			n++
		}
		group := spans[:n]
		spans = spans[n:]
		lead := min(hunkContext, group[0].a0)
		a0, b0 := group[0].a0-lead, group[0].b0-lead
		last := group[n-1]
		trail := min(hunkContext, len(a)-last.a1)
		fmt.Fprintf(out, "@@ -%s +%s @@\n", place1(a0, last.a1+trail-a0), place1(b0, last.b1+trail-b0))
		at := a0
		for _, s := range group {
			writeLines(out, ' ', a[at:s.a0])
			writeLines(out, '-', a[s.a0:s.a1])
			writeLines(out, '+', b[s.b0:s.b1])
			at = s.a1
		}
		writeLines(out, ' ', a[at:at+trail])
	}
}

// place1 is a range of lines as a patch writes it.
func place1(from, n int) string {
	if n > 0 {
		from++
	}
	if n == 1 {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d,%d", from, n)
}

func writeLines(out *strings.Builder, mark byte, lines []string) {
	for _, l := range lines {
		out.WriteByte(mark)
		out.WriteString(l)
		if !strings.HasSuffix(l, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}
