package tool

import (
	"strings"
	"testing"
)

func TestValidName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"read_file": true, "mcp_a-b_C9": true, "x": true, strings.Repeat("x", 64): true,
		"": false, strings.Repeat("x", 65): false, "a b": false, "a.b": false, "é": false, "a\n": false, "a/b": false, "@": false, "[": false, "`": false, "{": false, ":": false,
	} {
		if got := validName(name); got != want {
			t.Errorf("validName(%q) = %v, want %v", name, got, want)
		}
		_, err := NewSet(Tool{Name: name, Schema: []byte(`{"type":"object"}`)})
		if got := err == nil; got != want {
			t.Errorf("NewSet with %q: %v, want it taken: %v", name, err, want)
		}
	}
}
