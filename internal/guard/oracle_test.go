package guard_test

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// Whether something of the owner exists makes no difference to what a guest is
// told: every answer about a file that is there is the answer about one that is
// not, with the other name.
func TestGuestsLearnNothingAboutOtherFiles(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need rights on Windows")
	}
	for name, conf := range map[string]string{
		"sandbox": strings.ReplaceAll(execConfigAny, "%S%", "auto"), "no sandbox": strings.ReplaceAll(execConfigAny, "%S%", ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShared(t, conf)
			outside := t.TempDir()
			guests := filepath.Dir(filepath.Dir(s.guestSpace()))
			for _, dir := range []string{s.ws, outside, guests} {
				for _, sub := range []string{"isfolder", "isfolder/inner"} {
					if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
						t.Fatal(err)
					}
				}
				for _, f := range []string{"isthere.txt", "isfolder/isthere.txt"} {
					if err := os.WriteFile(filepath.Join(dir, f), []byte("CANARY-outside\n"), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			s.putGuest("sub/own.txt", "own\n")
			room := s.guestSpace()
			up, err := filepath.Rel(room, s.ws)
			if err != nil {
				t.Fatal(err)
			}
			link := func(name, target string) string {
				if err := os.Symlink(target, filepath.Join(room, name)); err != nil {
					t.Fatal(err)
				}
				return name
			}
			type pair struct{ what, there, missing string }
			pairs := []pair{
				{"absolute file", s.ws + "/isthere.txt", s.ws + "/missing.txt"},
				{"absolute folder", s.ws + "/isfolder", s.ws + "/nofolder"},
				{"relative", up + "/isthere.txt", up + "/missing.txt"},
				{"somewhere else", outside + "/isfolder", outside + "/nofolder"},
				{"other file", outside + "/isthere.txt", outside + "/missing.txt"},
				{"below a folder", outside + "/isfolder/inner", outside + "/nofolder/inner"},
				{"below a file", outside + "/isthere.txt/x", outside + "/missing.txt/x"},
				{"file or folder", outside + "/isthere.txt", outside + "/isfolder"},
				{"the data folder", filepath.Dir(room) + "/../../config.json", filepath.Dir(room) + "/../../nothing.json"},
				{"another guest", guests + "/isfolder", guests + "/nofolder"},
				{"link", link("l1", outside+"/isfolder"), link("m1", outside+"/nofolder")},
				{"link to a file", link("l2", outside+"/isthere.txt"), link("m2", outside+"/missing.txt")},
				{"link below", link("l3", outside+"/isfolder") + "/inner", link("m3", outside+"/nofolder") + "/inner"},
				{"relative link", link("l4", up+"/isfolder"), link("m4", up+"/nofolder")},
				{"link to a link", link("l5", "l1"), link("m5", "m1")},
				{"link in a folder", link("sub/l6", outside+"/isfolder"), link("sub/m6", outside+"/nofolder")},
				{"file link or folder link", "l2", "l1"},
			}
			tools := []struct {
				what string
				make func(path string) map[string]any
			}{
				{"read_file", func(p string) map[string]any { return call("read_file", "path", p) }},
				{"list_dir", func(p string) map[string]any { return call("list_dir", "path", p) }},
				{"glob", func(p string) map[string]any { return call("glob", "pattern", "*", "path", p) }},
				{"glob pattern", func(p string) map[string]any { return call("glob", "pattern", p) }},
				{"grep", func(p string) map[string]any {
					return call("grep", "pattern", "CANARY", "path", p, "output_mode", "content")
				}},
				{"write_file", func(p string) map[string]any { return call("write_file", "path", p+"/sub/x", "content", "x") }},
				{"edit_file", func(p string) map[string]any { return call("edit_file", "path", p, "old_text", "a", "new_text", "b") }},
				{"apply_patch", func(p string) map[string]any {
					return call("apply_patch", "patch", "*** Begin Patch\n*** Delete File: "+p+"\n*** End Patch")
				}},
				{"working_dir", func(p string) map[string]any { return call("exec", "command", "true", "working_dir", p) }},
				{"message", func(p string) map[string]any { return call("message", "content", "here", "media", []string{p}) }},
			}
			names := regexp.MustCompile(`id=[0-9a-f]+|isthere\.txt|missing\.txt|isfolder|nofolder|config\.json|nothing\.json|\b[lm][1-6]\b`)
			// A turn costs far more than a call, so one turn asks a tool about all paths. It
			// does not ask all tools about one path: the third refusal of a path says so.
			ask := func(calls []map[string]any) []string {
				s.run(guest, calls...)
				s.mu.Lock()
				defer s.mu.Unlock()
				if len(s.each) != len(calls) {
					t.Fatalf("%d answers to %d calls", len(s.each), len(calls))
				}
				var answers []string
				for _, answer := range s.each {
					answers = append(answers, names.ReplaceAllString(answer, "NAME"))
				}
				return answers
			}
			for _, tool := range tools {
				var askThere, askMissing []map[string]any
				for _, p := range pairs {
					askThere = append(askThere, tool.make(p.there))
					askMissing = append(askMissing, tool.make(p.missing))
				}
				there, missing := ask(askThere), ask(askMissing)
				for i, p := range pairs {
					if there[i] != missing[i] {
						t.Errorf("%s, %s:\n  there:   %.300q\n  missing: %.300q", tool.what, p.what, there[i], missing[i])
					}
					if strings.Contains(there[i], "CANARY") || there[i] == "" {
						t.Errorf("%s, %s: %.300q", tool.what, p.what, there[i])
					}
				}
			}
			if s.run(guest, call("read_file", "path", "sub/own.txt")); !strings.Contains(s.got.String(), "own") {
				t.Errorf("guests cannot read their own files: %s", s.got.String())
			}
		})
	}
}

const execConfigAny = `{"tools":{"restrictToWorkspace":true,"approval":{"mode":"off"},"exec":{"sandbox":"%S%","network":"none"}}}`
