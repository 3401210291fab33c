package sandbox_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestHelperStartsEarly keeps package net and what stands on it out: a helper
// would have to wait for their initialisation.
func TestHelperStartsEarly(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Skipf("no go tool, or no sources: %v", err)
	}
	for _, late := range []string{"net", "net/http", "crypto/tls", "regexp", "encoding/xml", "text/template"} {
		if slices.Contains(strings.Fields(string(out)), late) {
			t.Errorf("the sandbox depends on %s", late)
		}
	}
}
