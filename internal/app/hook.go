package app

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

	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/diskio"
)

// hookFile holds what the keys of triggers are made from. It lies with the
// logins and not with the triggers, because tools of the agent read the workspace.
func hookFile(l *config.Loaded) string { return datadir.TriggersKey.In(l.DataDir) }

// TriggerSecret is the key with which programs elsewhere sign what they send
// to a trigger. The first call makes what all keys come from.
func TriggerSecret(l *config.Loaded, id string) (string, error) {
	if key := TriggerKey(l, id); key != nil {
		return string(key), nil
	}
	path := hookFile(l)
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
	var seed [hookSeed]byte
	_, _ = rand.Read(seed[:]) // never fails
	_, err = f.WriteString(hex.EncodeToString(seed[:]) + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(path))
	}
	return string(TriggerKey(l, id)), nil
}

const hookSeed = 32

// TriggerKey is the key of a trigger, nil as long as nobody asked for any.
func TriggerKey(l *config.Loaded, id string) []byte {
	data, err := os.ReadFile(hookFile(l))
	if err != nil {
		return nil
	}
	seed, err := hex.DecodeString(strings.TrimSpace(string(data)))
	if err != nil || len(seed) != hookSeed {
		return nil
	}
	h := hmac.New(sha256.New, seed)
	h.Write([]byte("trigger:" + strings.ToLower(id)))
	return []byte(hex.EncodeToString(h.Sum(nil)))
}
