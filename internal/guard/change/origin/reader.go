package origin

import (
	"cmp"
	"context"
	"path/filepath"
	"strings"
)

// reader is a command of this process that reads: from its start until it has
// ended, also when it can no longer write. It is as clean as everything that was
// readable meanwhile.
type reader struct {
	dir     string // by name, what it sees
	flipped bool   // something from outside became readable
	changed func() // called when it flips; may be nil
}

func (r *reader) flip() {
	if r.flipped {
		return
	}
	r.flipped = true
	if r.changed != nil {
		r.changed()
	}
}

// flip tells every command but one that something from outside is readable: the
// windows are those of all processes, the readers those of this one. Whatever a
// command could read it may have written where the others read it.
func (s *Store) flip(but string) {
	for _, w := range s.windows {
		w.outside = true
	}
	for id, r := range s.readers {
		if id != but {
			r.flip()
		}
	}
}

// anyOutside reports whether a command that runs or was not looked at yet may
// have brought something.
func (s *Store) anyOutside() bool {
	for _, w := range s.windows {
		if w.outside {
			return true
		}
	}
	return false
}

// marked tells the commands that can see a path that it was marked.
func (s *Store) marked(path string, prefix bool) {
	for _, w := range s.windows {
		if !w.outside && s.visible(path, cmp.Or(w.dir, "."), prefix) {
			s.flip("")
			return
		}
	}
	for _, r := range s.readers {
		if s.visible(path, r.dir, prefix) {
			r.flip()
		}
	}
}

// counts reports whether a window may hold content from outside by now: by what
// its command did, by what it could read, or by what another command wrote that
// it could read. The commands of this process are asked; what they say is
// recorded for the others.
func (s *Store) counts(id string) bool {
	if w := s.windows[id]; w == nil || w.outside {
		return true
	}

	for other, outside := range s.live {
		if s.windows[other] != nil && outside() {
			_ = s.taint(other) // here it counts all the same
			return true
		}
	}
	return false
}

// taint records that a command has brought in content from outside.
func (s *Store) taint(id string) error {
	if w := s.windows[id]; w == nil || w.outside {
		return nil
	}
	err := s.append(line{Op: opTaint, ID: id})
	s.flip(id)
	return err
}

// Taint records that the command is about to bring in content from outside, such
// as by its first connection. What it brings must wait for it.
func (w *Window) Taint() error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if err := w.s.follow(); err != nil {
		return err
	}
	return w.s.taint(w.open.ID)
}

// Outside reports whether the command may have read content from outside by now,
// so that what it printed until this call may hold some. It looks at the record
// again: a mark or a command of another conversation or process counts that was
// added since the command began. It can be called until Close.
func (w *Window) Outside() bool {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.readers[w.open.ID]
	if s.follow() != nil || r == nil || r.flipped {
		return true
	}
	return s.example(r.dir, w.open.ID) != ""
}

// Flipped is Outside without a look for files that were moved, which costs little
// enough to be asked for every connection.
func (w *Window) Flipped() bool {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.readers[w.open.ID]
	return s.follow() != nil || r == nil || r.flipped
}

// Close says that the command reads nothing any more.
func (w *Window) Close() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	delete(w.s.readers, w.open.ID)
}

// sees reports whether a command reaches a file, by its name.
func (w *window) sees(name string) bool {
	return w.dir == "" || w.dir == "." || name == w.dir || strings.HasPrefix(name, w.dir+"/")
}

// neighbours are views of the other records in the same place, for what they know
// about contents and inodes.
func (s *Store) neighbours() []*Store {
	ctx := context.Background()
	var out []*Store
	for info, err := range s.o.Store.Logs(ctx, "") {
		if err != nil {
			s.o.Log.WarnContext(ctx, "cannot read the records of other folders", "err", err)
			break
		}

		name, ok := strings.CutSuffix(filepath.Base(info.Name), ".jsonl")
		if !ok || name == s.o.Name || strings.HasSuffix(name, ".copy") {
			continue
		}

		other := s.others[name]
		if other == nil {
			o := s.o
			o.Name = name
			o.Roots = nil
			o.Sealed = nil
			var err error
			if other, err = Open(o); err != nil {
				continue
			}

			other.alone = true
			s.others[name] = other
		}

		other.mu.Lock()
		err := other.follow()
		other.mu.Unlock()

		if err != nil {
			s.o.Log.WarnContext(ctx, "cannot read the record of another folder", "err", err)
			continue
		}
		out = append(out, other)
	}

	return out
}
