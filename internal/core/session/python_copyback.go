package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// CopiedBack says what CopyBack did.
type CopiedBack struct {
	Dir      string   // where the copies are
	Copied   []string // keys
	Same     []string // keys whose copy was there already
	Conflict []string // keys whose place holds something else, which was left alone
}

// CopyBack copies all conversations to where the first version kept them, in
// the workspace, in a form that every version can read. Nothing is removed; a
// file is replaced only if the conversation has all that it says.
func (st *Store) CopyBack(ctx context.Context) (CopiedBack, error) {
	done := CopiedBack{Dir: filepath.Join(st.opt.Workspace, "sessions")}
	list, err := st.List(ctx)
	if err != nil {
		return done, err
	}
	if err := diskio.MkdirAll(st.opt.Workspace, 0o700); err != nil {
		return done, err
	}

	tree, err := diskio.OpenTree(st.opt.Workspace)
	if err != nil {
		return done, err
	}

	defer tree.Close() //nolint:errcheck // nothing is pending
	if err := tree.MkdirAll(dirOld, 0o700); err != nil {
		return done, err
	}

	for _, info := range list {
		target := path.Join(dirOld, pythonName(info.Key)+suffixLog)
		list, err := &done.Copied, error(nil)
		switch same, e := st.copied(ctx, info.Key, tree, target); {
		case e == nil && same:
			list = &done.Same
		case e == nil && covers(ctx, st, info.Key, tree, target):
			err = st.copyTo(ctx, info.Key, tree, target, true)
		case e == nil, errors.Is(e, diskio.ErrLink), errors.Is(e, diskio.ErrNotRegular):
			list = &done.Conflict
		case errors.Is(e, fs.ErrNotExist):
			err = st.copyTo(ctx, info.Key, tree, target, false)
		default:
			err = e
		}

		if err != nil {
			return done, fmt.Errorf("copy %s: %w", info.Key, err)
		}
		*list = append(*list, info.Key)
	}

	return done, nil
}

// covers reports whether a conversation has every message of a file, in order
// and without a gap.
func covers(ctx context.Context, st *Store, key string, tree *diskio.Tree, target string) bool {
	data, err := tree.ReadFile(target, maxOldBytes)
	if err != nil {
		return false
	}

	theirs, err := recordsIn(bytes.NewReader(data))
	if err != nil {
		return false
	}

	ours, err := st.all(ctx, key)
	if err != nil {
		return false
	}

	for i := 0; i+len(theirs) <= len(ours); i++ {
		if slices.EqualFunc(ours[i:i+len(theirs)], theirs, sameMessage) {
			return true
		}
	}
	return false
}

// copyTo writes the export of a conversation to a file, which must not exist
// unless it is to be replaced.
func (st *Store) copyTo(ctx context.Context, key string, tree *diskio.Tree, target string, replace bool) error {
	var b bytes.Buffer
	if err := st.Export(ctx, key, &b); err != nil {
		return err
	}
	if replace {
		return tree.WriteFile(target, b.Bytes(), 0o600)
	}
	_, err := tree.CreateNew(target, b.Bytes(), 0o600)
	return err
}

// copied reports whether a file is the export of a conversation.
func (st *Store) copied(ctx context.Context, key string, tree *diskio.Tree, target string) (bool, error) {
	f, err := tree.Open(target)
	if err != nil {
		return false, err
	}

	defer f.Close() //nolint:errcheck // only read from
	c := &comparer{f: f}
	if err := st.Export(ctx, key, c); err != nil {
		return false, err
	}
	return c.same() && !c.different, nil
}

// comparer compares what is written to it with a file.
type comparer struct {
	f         *os.File
	at        int64
	different bool
}

func (c *comparer) Write(p []byte) (int, error) {
	if !c.different {
		have := make([]byte, len(p))
		n, err := c.f.ReadAt(have, c.at)
		c.different = err != nil && n < len(p) || string(have) != string(p)
		c.at += int64(len(p))
	}
	return len(p), nil
}

// same reports whether the file ends here.
func (c *comparer) same() bool {
	info, err := c.f.Stat()
	return err == nil && info.Size() == c.at
}
