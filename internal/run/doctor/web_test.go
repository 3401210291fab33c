package doctor

import (
	"archive/zip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/web/subject"
)

// What the pages show is what the command shows, each finding once, and a fix
// makes the changes that were shown or none.
func TestWeb(t *testing.T) {
	t.Parallel()
	o, d, dir := doctored(t, `{"tools": {"exec": {"sandbox": "none"}, "approval": {"mode": "off"}}}`, true)
	w := Web{o}
	var found []subject.Finding
	w.Run(t.Context(), false, func(f subject.Finding) { found = append(found, f) })
	n := 0
	for _, f := range found {
		if !strings.HasPrefix(f.ID, "security.") {
			n++
		}
	}
	if n != len(d.Symptoms) || len(found) == n {
		t.Errorf("%d findings, %d of them like the %d of the command", len(found), n, len(d.Symptoms))
	}
	of := func(id string) subject.Finding {
		i := slices.IndexFunc(found, func(f subject.Finding) bool { return f.ID == id })
		if i < 0 {
			t.Fatalf("nothing about %s: %+v", id, found)
		}
		return found[i]
	}
	ws := filepath.Join(dir, "ws")
	if f := of("workspace"); !slices.Equal(f.Changes, []string{"mkdir " + ws}) {
		t.Errorf("workspace: %+v", f)
	}
	if fixed, err := w.Fix(t.Context(), "workspace", []string{"mkdir /elsewhere"}); fixed || err != nil {
		t.Errorf("other changes: %v %v", fixed, err)
	}
	if _, err := os.Stat(ws); err == nil {
		t.Error("it was made although that was not shown")
	}
	if fixed, err := w.Fix(t.Context(), "workspace", of("workspace").Changes); !fixed || err != nil {
		t.Errorf("fix: %v %v", fixed, err)
	}
	if _, err := os.Stat(ws); err != nil {
		t.Error(err)
	}
	if fixed, err := w.Fix(t.Context(), "workspace", of("workspace").Changes); fixed || err != nil {
		t.Errorf("a second time: %v %v", fixed, err)
	}

	i := slices.IndexFunc(found, func(f subject.Finding) bool {
		return strings.HasPrefix(f.ID, "security.") && len(f.Changes) == 1 && strings.HasPrefix(f.Changes[0], "set ")
	})
	if i < 0 {
		t.Fatalf("no setting to close: %+v", found)
	}
	if fixed, err := w.Fix(t.Context(), found[i].ID, found[i].Changes); !fixed || err != nil {
		t.Errorf("%+v: %v %v", found[i], fixed, err)
	}
	name := strings.Fields(found[i].Changes[0])[1]
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil || !strings.Contains(string(data), `"`+name[strings.LastIndex(name, ".")+1:]+`"`) {
		t.Errorf("%s is not in the configuration: %s %v", name, data, err)
	}
}

func TestWebBundle(t *testing.T) {
	t.Parallel()
	o, _, dir := doctored(t, `{}`, true)
	if err := os.MkdirAll(filepath.Join(dir, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := Web{o}.Bundle(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := zip.OpenReader(file); err != nil || len(r.File) < 3 || r.Close() != nil {
		t.Errorf("bundle: %v", err)
	}
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 || filepath.Dir(filepath.Dir(file)) != filepath.Join(dir, "run") {
		t.Errorf("%s: %v %v", file, info, err)
	}
}
