package skill_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/skill"
)

// Whatever lies in the roots: prompts can be built, disabled and unavailable
// skills give no text, and the order does not depend on chance.
func TestPromptInvariant(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 20))
		ws, tree := t.TempDir(), fstest.MapFS{}
		want := map[string]bool{} // marker of a text -> it must be in the active part
		var disabled []string
		pool := []string{"alpha", "beta", "gamma", "delta", "eps", "zeta"}
		own := map[string]bool{}
		for i, name := range slices.Concat(pool, pool) {
			inWorkspace := i < len(pool)
			if r.IntN(3) == 0 {
				continue
			}
			marker := fmt.Sprintf("marker-%s-%v.", name, inWorkspace)
			always, off := r.IntN(2) == 0, slices.Contains(disabled, name) || r.IntN(4) == 0
			need := []string{"", "", "have", "lack"}[r.IntN(4)]
			text := fmt.Sprintf("---\nalways: %v\ndescription: d %s\nmetadata: {nanobot: {requires: {bins: [%s]}}}\n---\n%s\n", always, name, need, marker)
			odd := r.IntN(5) == 0
			if odd {
				text = string(noise(r, 400))
			}
			if off && !slices.Contains(disabled, name) {
				disabled = append(disabled, name)
			}
			if inWorkspace {
				write(t, ws, name, text)
				own[name] = true
			} else {
				tree["skills/"+name+"/SKILL.md"] = &fstest.MapFile{Data: []byte(text)}
			}
			want[marker] = !odd && always && need != "lack" && (inWorkspace || !own[name])
		}
		for marker := range want {
			name := strings.Split(marker, "-")[1]
			want[marker] = want[marker] && !slices.Contains(disabled, name)
		}
		o := options(ws, "have")
		o.Builtin, o.Disabled = tree, disabled
		lib := skill.Open(o)
		active, summary, _ := lib.Prompt()
		for marker, there := range want {
			if strings.Contains(active, marker) != there {
				t.Errorf("seed %d: %q in the active text is %v, want %v\n%s", seed, marker, !there, there, active)
			}
		}
		for _, name := range disabled {
			if _, ok := lib.Load(name); ok || strings.Contains(summary, "**"+name+"**") {
				t.Errorf("seed %d: disabled %s is there", seed, name)
			}
		}
		if again, second, _ := skill.Open(o).Prompt(); again != active || second != summary || !utf8.ValidString(active+summary) {
			t.Errorf("seed %d: a second library says something else", seed)
		}
		for group := range strings.SplitSeq(summary, "\n\n") {
			if lines := strings.Split(group, "\n")[1:]; group != "" && !slices.IsSorted(lines) {
				t.Errorf("seed %d: %q is not sorted", seed, lines)
			}
		}
	}
}

// noise is a text that looks like front matter often enough to get far.
func noise(r *rand.Rand, n int) []byte {
	parts := []string{"---\n", "name: ", "description: ", "always: true\n", "metadata: ", "{", "}", "[", "]", "\"", "'", "|\n", ">", "\n", "  ", "- ", ": ", "#", "\x00", "\xff", "\r", "requires", "é", "\u2028", "nanobot", ","}
	var out []byte
	for len(out) < n {
		out = append(out, parts[r.IntN(len(parts))]...)
	}
	return out
}

func TestSkillsOfMissingToolsAreNotListed(t *testing.T) {
	t.Parallel()
	o := options("")
	o.Builtin = fstest.MapFS{"skills/draw/SKILL.md": {Data: []byte("---\ndescription: d\nalways: true\nmetadata: {nanobot: {requires: {tools: [paint]}}}\n---\nPaint.")}}
	if active := skill.Open(o).Active(); !strings.Contains(active, "Paint.") {
		t.Errorf("with all tools: %q", active)
	}
	o.HasTool = func(name string) bool { return name != "paint" }
	lib := skill.Open(o)
	active, summary, _ := lib.Prompt()
	if s, ok := lib.Load("draw"); active != "" || summary != "" || !ok || s.Missing != "TOOL: paint" {
		t.Errorf("without the tool: %q, %q, %+v", active, summary, s)
	}
}

// Any bytes taken for an archive either install one skill inside its directory
// or nothing at all.
func FuzzInstall(f *testing.F) {
	for _, file := range []string{"---\nname: a\ndescription: b\n---\nc", "x"} {
		f.Add([]byte(file), "SKILL.md")
		f.Add([]byte(file), "a/../SKILL.md")
	}
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		ws, dir := t.TempDir(), t.TempDir()
		source := filepath.Join(dir, "in.zip")
		if name == "" {
			if err := os.WriteFile(source, data, 0o600); err != nil {
				t.Fatal(err)
			}
		} else {
			if !utf8.ValidString(name) || len(name) > 60000 {
				t.Skip()
			}
			source = zipOf(t, item{name: "SKILL.md", data: string(data)}, item{name: name, data: "x"})
		}
		p := skill.Place{Workspace: filepath.Join(ws, "inner"), Ledger: disk.Open(dir, nil)}
		rec, _, err := skill.Install(p, source, false, day)
		for _, at := range tree(t, ws) {
			inside := strings.HasPrefix(at, "inner/skills/"+rec.Name+"/") && rec.Name != ""
			if at != "inner/" && at != "inner/skills/" && at != "inner/.nanobot/" && (!inside || err != nil) {
				t.Errorf("%q was made; error %v", at, err)
			}
		}
		if err == nil && rec.Changed() {
			t.Error("the installed files are not those of the archive")
		}
	})
}
