package schedule

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// seedFile holds what the keys of triggers are made from: a seed for all, and
// lines with an id and a seed for triggers whose key was renewed. It lies with the
// logins and not with the triggers, because tools of the agent read the workspace.
func seedFile(data string) string { return datadir.TriggersKey.In(data) }

// TriggerSecret returns the key with which programs elsewhere sign what they send
// to a trigger. The first call makes what all keys come from.
func TriggerSecret(data, id string) (string, error) {
	if key := TriggerKey(data, id); key != nil {
		return string(key), nil
	}

	path := seedFile(data)
	if err := diskio.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}

	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return "", errors.New(path + " is damaged; remove it to make new keys for all triggers")
	}
	if err != nil {
		return "", err
	}

	var seed [seedBytes]byte
	_, _ = rand.Read(seed[:]) // never fails
	_, err = f.WriteString(hex.EncodeToString(seed[:]) + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(path))
	}
	return string(TriggerKey(data, id)), nil
}

// RenewTriggerSecret gives a trigger another key. The one before is void at once.
func RenewTriggerSecret(data, id string) (string, error) {
	if _, err := TriggerSecret(data, id); err != nil {
		return "", err
	}

	text, err := os.ReadFile(seedFile(data))
	if err != nil {
		return "", err
	}

	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		if own, _, _ := strings.Cut(line, " "); own != strings.ToLower(id) {
			out.WriteString(strings.TrimSpace(line) + "\n")
		}
	}

	var seed [seedBytes]byte
	_, _ = rand.Read(seed[:]) // never fails
	out.WriteString(strings.ToLower(id) + " " + hex.EncodeToString(seed[:]) + "\n")
	if err := diskio.WriteFile(seedFile(data), []byte(out.String()), 0o600); err != nil {
		return "", err
	}
	return string(TriggerKey(data, id)), nil
}

const seedBytes = 32

// TriggerKey returns the key of a trigger, nil before the first call of TriggerSecret.
func TriggerKey(data, id string) []byte {
	text, err := os.ReadFile(seedFile(data))
	if err != nil {
		return nil
	}

	id = strings.ToLower(id)
	first, rest, _ := strings.Cut(string(text), "\n")
	for line := range strings.Lines(rest) {
		if own, renewed, _ := strings.Cut(line, " "); own == id {
			first = renewed
		}
	}

	seed, err := hex.DecodeString(strings.TrimSpace(first))
	if err != nil || len(seed) != seedBytes {
		return nil
	}

	h := hmac.New(sha256.New, seed)
	h.Write([]byte("trigger:" + id))
	return []byte(hex.EncodeToString(h.Sum(nil)))
}
