package session

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/quick"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

func TestFileNames(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	check := func(key string) bool {
		name, err := fileName(key)
		if key == "" || !utf8.ValidString(key) {
			return err != nil
		}
		if err != nil || name != filepath.Base(name) || strings.ContainsAny(name, `/\:. `) || len(name) > maxName {
			t.Errorf("fileName(%q) = %q, %v", key, name, err)
			return false
		}
		if other, ok := seen[name]; ok && other != key {
			t.Errorf("%q and %q share the name %q", key, other, name)
			return false
		}
		seen[name] = key
		back, ok := keyOf(name)
		if ok != !strings.Contains(name, "~") || (ok && back != key) {
			t.Errorf("keyOf(%q) = %q, %v; want %q", name, back, ok, key)
			return false
		}
		return true
	}
	for _, key := range []string{
		"", "cli:direct", "a:b_c", "a_b:c", "../../etc/passwd", "/", ".", "..", "\x00", "\xff", "中文:聊天", "🙂",
		strings.Repeat("k", 150), strings.Repeat("k", 151), strings.Repeat("k", 5000), strings.Repeat("k", 5001), "a\nb",
	} {
		check(key)
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
}

func TestLongKeys(t *testing.T) { storetest.Each(t, testLongKeys) }

func testLongKeys(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	a, b := strings.Repeat("k", 1000)+"a", strings.Repeat("k", 1000)+"b"
	st := openStore(t, open, dir)
	for _, key := range []string{a, b} {
		s := acquire(t, st, key)
		must(t, s.Append(user(key[1000:])))
		must(t, s.Release())
	}
	st = openStore(t, open, dir)
	for _, key := range []string{a, b} {
		s := acquire(t, st, key)
		if s.Len() != 1 || s.Messages()[0].Content.Text != key[1000:] {
			t.Errorf("session %s holds %q", key[1000:], gist(s.Messages()))
		}
		must(t, s.Release())
	}
}

// On a file system that ignores case two keys may meet at one name.
func TestNameOfAnotherKey(t *testing.T) { storetest.Each(t, testNameOfAnotherKey) }

func testNameOfAnotherKey(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	st := openStore(t, open, dir)
	st.plant(t, "aw.jsonl", []byte(pythonLog("other", "{}", "0", `{"role": "user", "content": "not yours"}`, "")))
	for range 2 {
		s := acquire(t, openStore(t, open, dir), "k")
		must(t, s.Append(user("mine"), answer("yours")))
		for _, r := range s.Messages() {
			if r.Content.Text == "not yours" {
				t.Error("another key's messages were handed out")
			}
		}
		must(t, s.Release())
	}
	s := acquire(t, openStore(t, open, dir), "k")
	if s.Len() != 4 {
		t.Errorf("Len = %d, want 4", s.Len())
	}
	must(t, s.Release())
	n := 0
	for _, err := range openStore(t, open, dir).Records(t.Context(), "k") {
		must(t, err)
		n++
	}
	if n != 4 {
		t.Errorf("Records found %d, want 4", n)
	}
}
