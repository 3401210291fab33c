package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

// Logs lists the files of all conversations in a data folder, of every workspace:
// the logs, archived ones, and lines that a crash tore.
func Logs(ctx context.Context, data string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(filepath.Join(data, dirRoot), func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.Type().IsRegular() && strings.Contains(d.Name(), suffixLog) && !strings.HasSuffix(d.Name(), suffixTemp):
			out = append(out, path)
		}
		return context.Cause(ctx)
	})
	return out, err
}

// Scrub replaces texts in a file that Logs named, under the lock of its session.
// A text and what replaces it have the same length, so that every place in the
// log stays what it was. The old file is not kept: it has what must go. It
// reports whether there was something to replace.
func Scrub(ctx context.Context, path string, replace map[string]string) (changed bool, err error) {
	for old, fresh := range replace {
		if len(old) != len(fresh) {
			return false, errors.New("scrub: the texts differ in length")
		}
	}

	unlock, err := lockLog(ctx, path)
	if err != nil {
		return false, err
	}

	defer func() { err = errors.Join(err, unlock()) }()

	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false, err
	}

	before, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}

	after := before
	for old, fresh := range replace {
		after = bytes.ReplaceAll(after, []byte(old), []byte(fresh))
	}

	if bytes.Equal(before, after) {
		return false, nil
	}

	after = reseal(before, after)
	if err := writeTemp(path+suffixTemp, bytes.NewReader(after)); err != nil {
		return false, err
	}
	if err := os.Chtimes(path+suffixTemp, time.Time{}, info.ModTime()); err != nil {
		return false, err
	}
	return true, diskio.Replace(path+suffixTemp, path)
}

// lockLog takes the lock of the session that a log belongs to. Archives and what
// is kept beside sessions have none.
func lockLog(ctx context.Context, path string) (unlock func() error, err error) {
	dir := filepath.Dir(path)
	if filepath.Base(filepath.Dir(dir)) != dirRoot {
		return func() error { return nil }, nil
	}

	name, _, _ := strings.Cut(filepath.Base(path), suffixLog)
	if key, err := storedKey(path); err == nil && key != "" { // a hashed name does not tell it
		if name, err = fileName(key); err != nil {
			return nil, err
		}
	}

	locks := diskio.NewLocks(dir)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()

	for err = locks.Try(name); err != nil; err = locks.Try(name) {
		_, busy := errors.AsType[*diskio.LockedError](err)
		select {
		case <-ctx.Done():
			busy = false
		case <-time.After(10 * time.Millisecond):
		}

		if !busy {
			return nil, errors.Join(fmt.Errorf("the conversation is in use; try again: %w", err), locks.Close())
		}
	}

	return func() error { return errors.Join(locks.Release(name), locks.Close()) }, nil
}

// Damage is a log with lines that are not as they were written.
type Damage struct {
	File  string
	Lines []int // from 1
}

// Damaged reads all logs of a data folder and finds those with damaged lines.
func Damaged(ctx context.Context, data string) ([]Damage, error) {
	logs, err := Logs(ctx, data)
	if err != nil {
		return nil, err
	}

	var out []Damage
	for _, path := range logs {
		if strings.HasSuffix(path, ".torn") {
			continue // a line that a crash tore is kept there
		}

		d, err := damageIn(path)
		if err != nil {
			return nil, err
		}

		if len(d.Lines) > 0 {
			out = append(out, d)
		}
	}

	return out, ctx.Err()
}

func damageIn(path string) (Damage, error) {
	d := Damage{File: path}
	f, err := os.Open(path)
	if err != nil {
		return d, err
	}

	defer f.Close() //nolint:errcheck // only read from
	n := 0
	for line, err := range diskio.Lines(f, 0) {
		if err != nil {
			return d, err
		}

		n++
		_, sealed, ok := store.Unseal(line.Bytes)
		unsealed := !sealed && line.Whole && len(line.Bytes) > 0
		if !ok || unsealed && !json.Valid(line.Bytes) {
			d.Lines = append(d.Lines, n)
		}
	}

	return d, nil
}
