package skill_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/core/skill"
)

// write makes a skill in a workspace.
func write(t *testing.T, workspace, name, content string) string {
	t.Helper()
	file := filepath.Join(workspace, "skills", name, "SKILL.md")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// options describe a system on which the named commands and variables exist.
func options(workspace string, has ...string) skill.Options {
	have := map[string]bool{}
	for _, h := range has {
		have[h] = true
	}
	return skill.Options{
		Workspace: workspace,
		Builtin:   fstest.MapFS{},
		GOOS:      "linux",
		LookPath: func(name string) (string, error) {
			if have[name] {
				return "/bin/" + name, nil
			}
			return "", errors.New("not found")
		},
		Getenv: func(name string) string {
			if have[name] {
				return "set"
			}
			return ""
		},
	}
}

func names(skills []skill.Skill) []string {
	list := []string{}
	for _, s := range skills {
		list = append(list, s.Name)
	}
	return list
}

func TestRootsAndSummary(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	o := options(ws, "curl")
	o.Builtin = fstest.MapFS{
		"skills/cron/SKILL.md":    {Data: []byte("---\ndescription: built-in cron\n---\nx")},
		"skills/weather/SKILL.md": {Data: []byte("---\ndescription: Sky\nmetadata: {nanobot: {requires: {bins: [curl, jq], env: [KEY]}}}\n---\nx")},
		"skills/off/SKILL.md":     {Data: []byte("off")},
		"skills/notes.txt":        {Data: []byte("no skill")},
	}
	o.Disabled = []string{"off", "gone"}
	write(t, ws, "cron", "---\ndescription: |\n  my own\n  cron\n---\nhow")
	write(t, ws, "zeta", "no front matter")
	write(t, ws, "gone", "---\ndescription: x\n---\n")
	write(t, ws, "always", "---\nalways: true\ndescription: in every prompt\n---\n\nBe kind.\n")
	write(t, ws, "never", "---\nalways: true\ndescription: lacks\nmetadata:\n  openclaw:\n    os: [macos]\n---\nhidden")
	if err := os.MkdirAll(filepath.Join(ws, "skills", "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	lib := skill.Open(o)
	if diff := cmp.Diff([]string{"always", "cron", "never", "weather", "zeta"}, names(lib.List())); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	want := "### Workspace `" + filepath.Join(ws, "skills") + "`\n" +
		"- **cron** — my own cron `cron/SKILL.md`\n" +
		"- **never** — lacks (unavailable: OS: darwin) `never/SKILL.md`\n" +
		"- **zeta** — zeta `zeta/SKILL.md`\n\n" +
		"### Built-in `builtin://skills`\n" +
		"- **weather** — Sky (unavailable: CLI: jq, ENV: KEY) `weather/SKILL.md`"
	if diff := cmp.Diff(want, lib.Summary()); diff != "" {
		t.Errorf("Summary (-want +got):\n%s", diff)
	}
	if got := skill.Open(o).Summary(); got != want {
		t.Errorf("a second library gives %q", got)
	}
	if got, want := lib.Active(), "### Skill: always\n\nBe kind."; got != want {
		t.Errorf("Active = %q, want %q", got, want)
	}
	if got := skill.Open(skill.Options{Builtin: fstest.MapFS{}, Workspace: filepath.Join(ws, "none")}); got.Summary() != "" || got.Active() != "" || len(got.List()) != 0 {
		t.Errorf("an empty library says %q, %q, %v", got.Summary(), got.Active(), got.List())
	}
}

func TestChangesAreNoticed(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	lib := skill.Open(options(ws))
	if got := lib.Summary(); got != "" {
		t.Fatalf("Summary without skills = %q", got)
	}
	file := write(t, ws, "one", "---\ndescription: first\n---\nx")
	if got := lib.Summary(); !strings.Contains(got, "first") {
		t.Errorf("new skill is missing: %q", got)
	}
	write(t, ws, "one", "---\ndescription: second one\n---\nx")
	if got := lib.Summary(); !strings.Contains(got, "second one") {
		t.Errorf("changed skill is missing: %q", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := lib.Summary(); got != "" {
		t.Errorf("Summary after removal = %q", got)
	}
}

func TestUnchangedFilesAreNotReadAgain(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	file := write(t, ws, "one", "---\ndescription: aaaa\n---\nx")
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	lib := skill.Open(options(ws))
	before := lib.Summary()
	write(t, ws, "one", "---\ndescription: bbbb\n---\nx")
	if err := os.Chtimes(file, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if got := lib.Summary(); got != before {
		t.Errorf("a file with the same size and time was read again: %q", got)
	}
	write(t, ws, "one", "---\ndescription: longer\n---\nx")
	if err := os.Chtimes(file, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if got := lib.Summary(); !strings.Contains(got, "longer") {
		t.Errorf("a file of another size was not read again: %q", got)
	}
}

func TestLoadAndMentioned(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	write(t, ws, "git", "---\ndescription: x\n---\r\nUse git.\r\n")
	write(t, ws, "git-log", "log text")
	write(t, ws, "天气", "sky")
	o := options(ws)
	o.Builtin = fstest.MapFS{"skills/cron/SKILL.md": {Data: []byte("---\ndescription: x\nmetadata: {nanobot: {requires: {bins: [nope]}}}\n---\ntick")}}
	lib := skill.Open(o)
	for _, c := range []struct {
		msg  string
		want []string
	}{
		{"nothing here", nil},
		{"use $git please", []string{"git"}},
		{"$git-log, then $git.", []string{"git-log", "git"}},
		{"($git) $git", []string{"git"}},
		{"用$cron提醒我", []string{"cron"}},
		{"查$天气吧", []string{"天气"}},
		{"$gitlab $git_x $git-x $git.io $Git", nil},
		{"cost$git $$git \\$git a_$git", nil},
		{"$git- and $cron...", []string{"git", "cron"}},
		{"$", nil},
		{"$ git $$", nil},
	} {
		var got []string
		for _, s := range lib.Mentioned(c.msg) {
			got = append(got, s.Name)
			if s.Body == "" {
				t.Errorf("%q: %s has no body", c.msg, s.Name)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("Mentioned(%q) (-want +got):\n%s", c.msg, diff)
		}
	}
	git, ok := lib.Load("git")
	if want := "### Skill: git\n\nUse git."; !ok || git.Text() != want {
		t.Errorf("Load(git) = %q, %v, want %q", git.Text(), ok, want)
	}
	if cron, ok := lib.Load("cron"); !ok || cron.Available() || cron.Path != "builtin://skills/cron/SKILL.md" || cron.Body != "tick" {
		t.Errorf("Load(cron) = %+v, %v", cron, ok)
	}
	for _, bad := range []string{"", "nope", "../git", "git/"} {
		if _, ok := lib.Load(bad); ok {
			t.Errorf("Load(%q) found something", bad)
		}
	}
}

func TestBodyIsCapped(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	write(t, ws, "big", "---\nalways: true\n---\n"+strings.Repeat("好", skill.MaxBody))
	write(t, ws, "exact", "---\ndescription: x\n---\n"+strings.Repeat("a", skill.MaxBody))
	lib := skill.Open(options(ws))
	got, _ := lib.Load("big")
	if len(got.Body) > skill.MaxBody+100 || !utf8.ValidString(got.Body) || !strings.HasSuffix(got.Body, "64 KiB.]") {
		t.Errorf("body of %d bytes ends with %q", len(got.Body), got.Body[len(got.Body)-80:])
	}
	if active := lib.Active(); len(active) > skill.MaxBody+200 {
		t.Errorf("Active has %d bytes", len(active))
	}
	if got, _ := lib.Load("exact"); len(got.Body) != skill.MaxBody {
		t.Errorf("a body of the largest size has %d bytes, want %d", len(got.Body), skill.MaxBody)
	}
}

// A description is shown in full while all of them together leave room for the
// conversation; the short form is for small models.
func TestSummaryShowsLongDescriptions(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	long := strings.TrimSpace(strings.Repeat("word ", 200)) + " the end"
	write(t, ws, "a", "---\ndescription: "+long+"\n---\nx")
	lib := skill.Open(options(ws))
	_, summary, short := lib.Prompt()
	if !strings.Contains(summary, long+" `a/SKILL.md`") {
		t.Errorf("the summary cuts a description of %d characters:\n%s", len(long), summary)
	}
	if strings.Contains(short, "the end") || len(short) > 500 {
		t.Errorf("the short summary has %d bytes:\n%s", len(short), short)
	}

	for i := range 40 {
		write(t, ws, fmt.Sprintf("b%d", i), "---\ndescription: "+long+"\n---\nx")
	}
	_, summary, short = lib.Prompt()
	if summary != short || strings.Count(summary, "\n- ") != 41 {
		t.Errorf("the summary of many long descriptions has %d bytes, the short one %d", len(summary), len(short))
	}
}

func TestOddNames(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	for _, name := range []string{"My Skill", ".hidden", strings.Repeat("x", 65), "ok"} {
		write(t, ws, name, "---\ndescription: d\n---\nx")
	}
	if runtime.GOOS != "windows" {
		write(t, ws, "a\nb", "x")
		write(t, ws, "a`b", "x")
	}
	list := skill.Open(options(ws)).List()
	if diff := cmp.Diff([]string{"My Skill", "ok"}, names(list)); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	if len(list[0].Notes) != 1 || len(list[1].Notes) != 0 {
		t.Errorf("notes = %q, %q, want one for the odd name only", list[0].Notes, list[1].Notes)
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	write(t, ws, "one", "---\ndescription: d\n---\nx")
	lib := skill.Open(options(ws))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				if i == 0 {
					write(t, ws, "two", strings.Repeat("y", i+1))
				}
				lib.Mentioned("$one " + lib.Summary() + lib.Active())
			}
		})
	}
	wg.Wait()
	if got := names(lib.List()); !cmp.Equal(got, []string{"one", "two"}) {
		t.Errorf("List = %v", got)
	}
}

func TestBuiltinSkills(t *testing.T) {
	t.Parallel()
	o := options("")
	o.Builtin = nil
	lib := skill.Open(o)
	list := lib.List()
	if diff := cmp.Diff([]string{"clawhub", "cron", "github", "image-generation", "memory", "my", "skill-creator", "summarize", "tmux", "update-setup", "weather"}, names(list)); diff != "" {
		t.Fatalf("built-in skills (-want +got):\n%s", diff)
	}
	needs := map[string]string{"clawhub": "CLI: npx", "github": "CLI: gh", "summarize": "CLI: summarize", "weather": "CLI: curl"}
	for _, s := range list {
		if s.Always || len(s.Notes) > 0 || s.Missing != needs[s.Name] || s.Description == s.Name {
			t.Errorf("%s: always %v, notes %q, missing %q, description %q", s.Name, s.Always, s.Notes, s.Missing, s.Description)
		}
		full, ok := lib.Load(s.Name)
		if lines := strings.Count(full.Body, "\n"); !ok || lines < 20 || lines > 90 || strings.HasPrefix(full.Body, "---") {
			t.Errorf("%s: %d lines", s.Name, lines)
		}
		// Whatever the text says to read must be there.
		for _, at := range regexp.MustCompile(`builtin://[A-Za-z0-9/.-]+`).FindAllString(full.Body, -1) {
			if _, err := fs.Stat(skill.BuiltinFS(), strings.TrimPrefix(at, skill.Scheme)); err != nil {
				t.Errorf("%s mentions %s: %v", s.Name, at, err)
			}
		}
	}
	if got := len(lib.Summary()); got >= 1100 {
		t.Errorf("the summary has %d bytes even without their needs, want fewer than 1100:\n%s", got, lib.Summary())
	}
	o.GOOS = "windows"
	if s, _ := skill.Open(o).Load("tmux"); s.Missing != "OS: darwin or linux" {
		t.Errorf("tmux on windows lacks %q", s.Missing)
	}
	if err := fs.WalkDir(skill.BuiltinFS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path.Ext(p) != ".md" && path.Ext(p) != ".sh" {
			t.Errorf("%s does not belong into the binary", p)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func BenchmarkFirstPrompt(b *testing.B) {
	for b.Loop() {
		lib := skill.Open(skill.Options{LookPath: func(string) (string, error) { return "", nil }})
		_ = lib.Active() + lib.Summary()
	}
}

func BenchmarkNextPrompt(b *testing.B) {
	ws := b.TempDir()
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if err := os.MkdirAll(filepath.Join(ws, "skills", name), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(ws, "skills", name, "SKILL.md"), []byte("---\ndescription: x\n---\ny"), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	lib := skill.Open(skill.Options{Workspace: ws})
	for b.Loop() {
		_ = lib.Active() + lib.Summary()
	}
}
