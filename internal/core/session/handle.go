package session

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// keyHandle is the metadata in which other versions keep a handle.
const keyHandle = "session_handle"

// handle returns a short name of a conversation that can be pronounced: the stored
// one, else one made of the key, which never changes. Two conversations may have
// the same.
func handle(key, stored string) string {
	if n := len(stored); 4 <= n && n <= 16 && strings.Trim(stored, "abcdefghijklmnopqrstuvwxyz") == "" {
		return stored
	}

	const consonants, vowels = "bdfghjklmnprstvz", "aeio"
	sum := sha256.Sum256([]byte(key))
	bits := binary.BigEndian.Uint32(sum[:])
	b := make([]byte, 0, 10)
	for range 5 {
		b = append(b, consonants[bits&15], vowels[bits>>4&3])
		bits >>= 6
	}
	return string(b)
}

// Own reports whether a message holds what the owner typed and nothing else.
func (r Record) Own() bool {
	return r.Role == llm.User && r.Event == "" && r.Runtime != nil && !slices.ContainsFunc(r.Runtime.Sources, func(s string) bool {
		return s != "time" && s != "route"
	})
}
