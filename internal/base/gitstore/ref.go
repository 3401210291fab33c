package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/wait"
)

// head finds the checked-out branch and its newest commit, which is zero when
// there is none.
func (r *repo) head() (ref string, id hash, err error) {
	b, err := r.root.ReadFile("HEAD", maxPart)
	if err != nil {
		return "", hash{}, fmt.Errorf("read HEAD: %w", err)
	}

	text := strings.TrimSpace(string(b))
	if h, ok := parseHash(text); ok {
		return "HEAD", h, nil
	}

	ref, ok := strings.CutPrefix(text, "ref: ")
	ref = strings.TrimSpace(ref)
	if !ok || !strings.HasPrefix(ref, "refs/") || path.Clean(ref) != ref {
		return "", hash{}, fmt.Errorf("HEAD is %q: %w", text, errCorrupt)
	}

	id, err = r.ref(ref)
	return ref, id, err
}

// ref reads a reference; zero means that there is none.
func (r *repo) ref(name string) (hash, error) {
	b, err := r.root.ReadFile(name, maxPart)
	if err == nil {
		h, ok := parseHash(strings.TrimSpace(string(b)))
		if !ok {
			return h, fmt.Errorf("%s: %w", name, errCorrupt)
		}
		return h, nil
	}

	if !errors.Is(err, fs.ErrNotExist) {
		return hash{}, err
	}

	packed, err := r.packedRefs()
	return packed[name], err
}

func (r *repo) packedRefs() (map[string]hash, error) {
	b, err := r.root.ReadFile("packed-refs", maxPart)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	out := map[string]hash{}
	for line := range strings.Lines(string(b)) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if h, ok := parseHash(id); ok && name != "" {
			out[name] = h
		}
	}
	return out, nil
}

// setRef moves a reference from old to id, all at once.
func (r *repo) setRef(ctx context.Context, name string, old, id hash) error {
	if err := r.mkdir(parentDir(name)); err != nil {
		return err
	}

	f, err := r.gitLock(ctx, name)
	if err != nil {
		return err
	}

	now, err := r.ref(name)
	if err == nil && now != old {
		err = fmt.Errorf("%s moved meanwhile: %w", name, errBusy)
	}

	if err != nil {
		return errors.Join(err, r.dropLock(f, name))
	}
	return r.fillLock(f, name, []byte(id.String()+"\n"))
}

// lockPatience is how long a file that git itself has locked is waited for.
const lockPatience = 2 * time.Second

// gitLock takes the lock git programs respect: a file of that name with .lock
// behind it, which becomes the new version.
func (r *repo) gitLock(ctx context.Context, name string) (*os.File, error) {
	for waited := time.Duration(0); ; waited += lockPause {
		f, err := r.root.OpenFile(name+".lock", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return f, err
		}
		if waited >= lockPatience {
			return nil, fmt.Errorf("%s.lock exists: %w", name, errBusy)
		}
		if err := wait.For(ctx, lockPause); err != nil {
			return nil, err
		}
	}
}

func (r *repo) dropLock(f *os.File, name string) error {
	return errors.Join(f.Close(), r.root.Remove(name+".lock"))
}

// fillLock writes the new version and puts it in place.
func (r *repo) fillLock(f *os.File, name string, data []byte) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = r.root.Rename(name+".lock", name)
	}

	if err != nil {
		return errors.Join(err, r.root.Remove(name+".lock"))
	}
	return nil
}

// readShallow reads which commits end the history although they name parents.
func (r *repo) readShallow() error {
	b, err := r.root.ReadFile("shallow", maxPart)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read shallow: %w", err)
	}

	r.shallow = map[hash]bool{}
	for line := range strings.Lines(string(b)) {
		if h, ok := parseHash(strings.TrimSpace(line)); ok {
			r.shallow[h] = true
		}
	}
	return nil
}

// history walks along first parents.
func (r *repo) history(ctx context.Context, from hash, n int) (out []Commit, err error) {
	if n <= 0 || n > maxWalk {
		n = maxWalk
	}

	for at := from; !at.zero() && len(out) < n; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}

		c, err := r.commit(at)
		if err != nil {
			return out, err
		}

		out = append(out, c)
		if len(c.parents) == 0 {
			break
		}
		at = c.parents[0]
	}

	return out, nil
}

// minPrefix is how much of an id must be given.
const minPrefix = 4

// find looks a commit up in the history of the checked-out branch.
func (r *repo) find(ctx context.Context, t *tip, prefix string) (Commit, error) {
	prefix = strings.ToLower(strings.TrimSpace(prefix))
	if prefix == "" || prefix == "head" {
		return r.commit(t.id)
	}
	if len(prefix) < minPrefix {
		return Commit{}, ErrNoCommit
	}

	all, err := r.history(ctx, t.id, 0)
	if err != nil {
		return Commit{}, err
	}

	var found []Commit
	for _, c := range all {
		if strings.HasPrefix(c.ID, prefix) {
			found = append(found, c)
		}
	}

	switch len(found) {
	case 0:
		return Commit{}, ErrNoCommit
	case 1:
		return found[0], nil
	}
	return Commit{}, ErrAmbiguous
}
