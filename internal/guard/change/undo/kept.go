package undo

import (
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
)

// ask finds out where the contents come from that changes found. It is called
// after they were read.
func (s *Store) ask(changes []change) {
	if s.Origins == nil {
		return
	}
	for _, c := range changes {
		if c.Before == nil || c.Before.Kind != kindFile && c.Before.Kind != kindLink {
			continue
		}
		abs := s.area.abs(c.Path)
		c.Kept.Says = s.said(abs, []origin.Asks{{Path: abs, Sum: sumOf(*c.Before)}})[0]
	}
}

// ask finds out where the files of the workspace come from.
func (w *walker) ask() {
	s := w.s
	if s.Origins == nil {
		return
	}

	var names []string
	var files []origin.Asks
	for p, e := range w.tree {
		if e.Kind == kindFile || e.Kind == kindLink {
			names = append(names, p)
			files = append(files, origin.Asks{Path: s.area.abs(p), Sum: sumOf(e.state)})
		}
	}

	for i, says := range s.said(s.area.workspace, files) {
		e := w.tree[names[i]]
		e.Says = says
		w.tree[names[i]] = e
	}
}

// said returns what the records of a place say about files: one that knows a
// file as from outside is enough. So is one that cannot be read.
func (s *Store) said(place string, files []origin.Asks) []origin.Says {
	out := make([]origin.Says, len(files))
	records, err := s.Origins(place)
	if err != nil {
		return slices.Repeat([]origin.Says{origin.Outside}, len(files))
	}

	for _, rec := range records {
		said, err := rec.Ask(files)
		for i := range out {
			switch {
			case err != nil || said[i] == origin.Outside:
				out[i] = origin.Outside
			case out[i] == origin.Unasked || out[i] == origin.Silent:
				out[i] = said[i]
			}
		}
	}

	return out
}

// restoreContent puts a content back, and where it comes from with it.
func (s *Store) restoreContent(it item, put func() error) error {
	if s.Origins == nil || it.want.Kind != kindFile && it.want.Kind != kindLink {
		return put()
	}

	abs := s.area.abs(it.path)
	records, err := s.Origins(abs)
	if err != nil {
		return errors.Join(errOrigin, err)
	}

	content := origin.Kept{Sum: sumOf(it.want), Size: it.want.Size, Says: it.from.Says}
	if it.from.At != 0 {
		content.At = time.Unix(0, it.from.At)
	}

	for _, rec := range records {
		inner := put
		put = func() error { return rec.Restore(abs, content, inner) }
	}
	return put()
}

// errOrigin means that a file was not put back, because it would have lost
// where it comes from.
var errOrigin = errors.New("where it comes from cannot be recorded")

// sumOf returns the SHA-256 of the content of a file; zero for anything else.
func sumOf(st state) (sum [32]byte) {
	if st.Kind == kindFile {
		_, _ = hex.Decode(sum[:], []byte(st.Hash)) // a hash that we wrote
	}
	return sum
}
