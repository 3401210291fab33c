package mcp

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

func TestOfferedName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200)
	for _, c := range []struct {
		server string
		kind   kind
		raw    string
		want   string
	}{
		{"fs", kindTool, "read_file", "mcp_fs_read_file"},
		{"fs", kindResource, "notes", "mcp_fs_resource_notes"},
		{"fs", kindPrompt, "greet", "mcp_fs_prompt_greet"},
		{"my fs", kindTool, "read file!!", "mcp_my_fs_read_file_"},
		{"fs", kindTool, "exec", "mcp_fs_exec"},
		{"fs", kindTool, "mcp_x_exec", "mcp_fs_mcp_x_exec"},
		{"fs", kindTool, "日本", "mcp_fs_"},
		{"a__b", kindTool, "c", "mcp_a_b_c"},
		{"fs", kindTool, "a.b/c", "mcp_fs_a_b_c"},
		{"fs", kindTool, "a-b", "mcp_fs_a-b"},
		{"fs", kindTool, long, "mcp_fs_" + strings.Repeat("x", 48) + "_2a9e3f2b"},
	} {
		got := offeredName(c.server, c.kind, c.raw)
		if len(c.raw) > 100 {
			if len(got) != 64 || !strings.HasPrefix(got, c.want[:55]) {
				t.Errorf("%s/%s: %q", c.server, c.raw, got)
			}
			continue
		}
		if got != c.want {
			t.Errorf("%s/%s: got %q, want %q", c.server, c.raw, got, c.want)
		}
	}
	if offeredName("fs", kindTool, long+"a") == offeredName("fs", kindTool, long+"b") {
		t.Error("two long names are one")
	}
}

// Row 111: servers a_b and a collide; nobody wins, and built-in names are safe.
func TestUniqueNames(t *testing.T) {
	t.Parallel()
	one, two := identity{"a_b", kindTool, "c"}, identity{"a", kindTool, "b_c"}
	free := identity{"a", kindTool, "free"}
	taken := identity{"x", kindTool, "y"}
	got := uniqueNames([]identity{one, two, free, taken}, []string{"mcp_x_y", "exec"})
	want := map[identity]string{
		one: "mcp_a_b_c_" + one.suffix(), two: "mcp_a_b_c_" + two.suffix(), free: "mcp_a_free", taken: "mcp_x_y_" + taken.suffix(),
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(identity{})); d != "" {
		t.Error(d)
	}
	// Somebody who takes the very name that the suffix makes gets none.
	thief := identity{"a", kindTool, "b_c_" + one.suffix()}
	got = uniqueNames([]identity{one, two, thief}, nil)
	if got[two] == "" || got[one] != "" && got[one] == got[thief] {
		t.Errorf("names = %v", got)
	}
}

func FuzzNames(f *testing.F) {
	f.Add("srv", "tool", "other", "")
	f.Add("a_b", "c", "a", "b_c")
	f.Add("", " ", "\x00", strings.Repeat("ü", 100))
	f.Add("x", "exec", "mcp", "_x_exec")
	f.Fuzz(func(t *testing.T, s1, t1, s2, t2 string) {
		ids := []identity{{s1, kindTool, t1}, {s2, kindTool, t2}, {s1, kindResource, t2}, {s2, kindPrompt, t1}, {s1, kindTool, "prompt_" + t2}}
		reserved := []string{"exec", "read_file", offeredName(s1, kindTool, t1)}
		names := uniqueNames(ids, reserved)
		seen := map[string]identity{}
		for id, n := range names {
			if n == "" || len(n) > 64 || !strings.HasPrefix(n, "mcp_") || strings.ContainsFunc(n, func(r rune) bool {
				return r != '_' && r != '-' && (r >= 0x80 || !unicode.IsLetter(r) && !unicode.IsDigit(r))
			}) {
				t.Fatalf("%q is no name", n)
			}
			if slices.Contains(reserved, n) {
				t.Fatalf("%q replaces another tool", n)
			}
			if other, dup := seen[n]; dup && other != id {
				t.Fatalf("%q is the name of %v and %v", n, other, id)
			}
			seen[n] = id
		}
		slices.Reverse(ids)
		if d := cmp.Diff(names, uniqueNames(ids, reserved), cmp.AllowUnexported(identity{})); d != "" {
			t.Fatalf("the order matters: %s", d)
		}
	})
}
