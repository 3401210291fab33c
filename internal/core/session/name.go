package session

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"unicode/utf8"
)

const (
	suffixLog = ".jsonl"

	// maxName keeps file names with all suffixes below the 255 bytes that
	// common file systems allow.
	maxName   = 200
	shortened = 120
)

// fileName returns the name of a key's log without suffix: the key in base64url. It
// cannot leave the directory, whatever the key holds, and is reversible.
func fileName(key string) (string, error) {
	switch {
	case key == "":
		return "", errors.New("the session key is empty")
	case !utf8.ValidString(key):
		return "", errors.New("the session key is not valid UTF-8")
	}

	name := base64.RawURLEncoding.EncodeToString([]byte(key))
	if len(name) > maxName {
		return hashName(key), nil
	}
	return name, nil
}

// hashName returns the name used when the plain one is too long, or when another
// key owns it because the file system ignores case. The tilde is not in the
// base64url alphabet, so it meets no plain name; the key stands in the log.
func hashName(key string) string {
	name := base64.RawURLEncoding.EncodeToString([]byte(key))
	sum := sha256.Sum256([]byte(key))
	return name[:min(len(name), shortened)] + "~" + hex.EncodeToString(sum[:])
}

// keyOf undoes fileName; ok is false for names that do not tell their key.
func keyOf(name string) (key string, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(name)
	if err != nil || len(raw) == 0 || !utf8.Valid(raw) {
		return "", false
	}
	return string(raw), true
}

// pythonName returns the lossy file name that v0.1.5 gave a key.
func pythonName(key string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if strings.ContainsRune(`<>:"/\|?*`, r) {
			return '_'
		}
		return r
	}, key))
}
