package search

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

// Forget takes every text that contains the given words, standing together,
// out of the index, whoever they belong to, and returns how they would have
// been shown. Session logs are not changed, but the texts do not come back when
// the index is built again: only a fingerprint of them is kept.
func (x *Index) Forget(ctx context.Context, words string) (gone []Hit, err error) {
	toks := terms(canonical(words), maxUnits)
	if len(toks) == 0 {
		return nil, ErrEmpty
	}

	x.mu.Lock()
	clear(x.dirs) // nothing may be overlooked
	x.mu.Unlock()
	if err := x.Update(ctx); err != nil {
		return nil, err
	}

	done, err := x.write(ctx)
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, done()) }()
	err = x.guard(ctx, func(db *sql.DB) error {
		before := time.Time{}
		for {
			s := &search{
				x: x, db: db, docs: 1, average: 1, sources: map[int64]*source{}, files: map[int64]*opened{},
				q: Query{Everyone: true, Limit: candidates, Before: before},
			}
			hits, last, err := s.forget(ctx, item{terms: toks})
			s.close()
			gone = append(gone, hits...)
			if err != nil || last == 0 {
				return err
			}
			before = time.UnixMilli(last)
		}
	})
	if err != nil {
		return gone, fmt.Errorf("forget: %w", err)
	}
	return gone, nil
}

// forget removes what the newest candidates hold. last is where to go on, 0
// when that was all.
func (s *search) forget(ctx context.Context, it item) (hits []Hit, last int64, err error) {
	found, more, err := s.find(ctx, all([]item{it}))
	if err != nil || len(found) == 0 {
		return nil, 0, err
	}

	if more {
		last = found[len(found)-1].time + 1
		if !s.q.Before.IsZero() && last >= s.q.Before.UnixMilli() {
			last-- // more of one moment than are looked at in one go
		}
	}

	matched, err := s.rank(ctx, found, []weighted{{item: it, idf: 1}}, 1)
	if err != nil || len(matched) == 0 {
		return nil, last, err
	}
	if hits, err = s.show(matched); err != nil {
		return nil, 0, err
	}

	// Duplicates were left out of the ranking, but must go, too.
	var prints []byte
	var ids []int64
	for _, p := range found {
		text, ok, err := s.text(ctx, p)
		if err != nil {
			return nil, 0, err
		}
		if _, match := s.score(text, []weighted{{item: it}}, 1); !ok || !match {
			continue
		}

		raw := make([]byte, p.len)
		if _, err := s.files[p.source].ReadAt(raw, p.pos); err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, err
		}

		h := hashOf(raw)
		prints = append(hex.AppendEncode(prints, h[:]), '\n')
		ids = append(ids, p.id)
	}

	if err := s.x.remember(ctx, prints); err != nil {
		return nil, 0, err
	}

	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, 0, err
	}

	defer tx.Rollback() //nolint:errcheck // does nothing after a commit
	for _, id := range ids {
		for _, q := range []string{`DELETE FROM words WHERE rowid=?`, `DELETE FROM doc WHERE id=?`} {
			if _, err := tx.ExecContext(ctx, q, id); err != nil {
				return nil, 0, err
			}
		}
	}

	return hits, last, tx.Commit()
}

// forgotten opens the log with the fingerprints of what must not be indexed
// again.
func (x *Index) forgotten(ctx context.Context) (log store.Log, size int64, err error) {
	log, err = x.opt.Store.Log(ctx, path.Join(string(datadir.Index), filepath.Base(x.opt.Path)+".forgotten"))
	if err != nil {
		return nil, 0, err
	}
	info, err := log.Info(ctx)
	return log, info.Size, err
}

// remember adds fingerprints.
func (x *Index) remember(ctx context.Context, prints []byte) error {
	log, _, err := x.forgotten(ctx)
	if err == nil && len(prints) > 0 {
		err = store.Add(ctx, log, prints, true)
	}
	if log != nil {
		err = errors.Join(err, log.Close())
	}
	return err
}

func (x *Index) readForgotten(ctx context.Context) (out map[hash]struct{}, err error) {
	log, size, err := x.forgotten(ctx)
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, log.Close()) }()

	out = map[hash]struct{}{}
	for line, err := range store.Lines(log, 0, size) {
		if err != nil {
			return nil, err
		}
		var h hash
		if n, err := hex.Decode(h[:], line.Bytes[:min(len(line.Bytes), 2*len(h))]); err == nil && n == len(h) {
			out[h] = struct{}{}
		}
	}

	return out, nil
}
