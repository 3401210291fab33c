package doctor

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

func stateOf(d *Diagnosis, id string) (Health, string) {
	for _, s := range d.Symptoms {
		if s.ID == id {
			return s.State, s.Detail
		}
	}
	return "", ""
}

func TestCheckup(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	job := `{"version":1,"jobs":[{"id":"a","name":"late","enabled":true,"schedule":{"kind":"every","everyMs":3600000},` +
		`"payload":{"message":"x"},"state":{"nextRunAtMs":1000,"errorsInRow":2,"lastError":"no model"}}]}`
	const id = "00000000000000000000000000000001"
	const configured = `{"agents":{"defaults":{"workspace":"DIR/workspace"}}}`
	known := map[string]string{
		"config.json": configured, "cron/" + id + "/jobs.json": job, "workspace/x.txt": "",
		"sessions/" + id + "/.workspace.json": `{"path":"DIR/workspace","taken":{"jobs":"2026-01-01T00:00:00Z","sessions":"2026-01-01T00:00:00Z"}}`,
	}
	python := "{\"_type\":\"metadata\",\"key\":\"cli:x\"}\n{\"role\":\"user\",\"content\":\"hi\"}\n"
	with := func(name, body string) map[string]string {
		all := maps.Clone(known)
		all[name] = body
		return all
	}
	tests := map[string]struct {
		files  map[string]string
		now    time.Time
		id     string
		want   Health
		detail string
	}{
		"nothing there":   {nil, now, "config", Well, "no configuration yet"},
		"clock":           {nil, time.Unix(0, 0), "clock", Broken, "1970"},
		"unknown key":     {map[string]string{"config.json": `{"gatway":{}}`}, now, "config.warning", Doubt, "gatway"},
		"broken config":   {map[string]string{"config.json": `{`}, now, "config", Broken, ""},
		"unset reference": {map[string]string{"config.json": `{"agents":{"defaults":{"model":"${NO_SUCH_VARIABLE}"}}}`}, now, "config", Broken, "NO_SUCH_VARIABLE"},
		"crash":           {map[string]string{"config.json": "{}", "run/starts.json": `{"starts":["2026-05-01T10:00:00Z"]}`}, now, "crash", Doubt, "1 such"},
		"stale":           {map[string]string{"config.json": "{}", "run/gateway.json": `{"pid":4194303,"identity":"start:1"}`}, now, "gateway", Doubt, "is gone"},
		"torn journal":    {map[string]string{"config.json": "{}", "bus/journal.jsonl": "{}\n{\"a"}, now, "journal", Doubt, "incomplete last line"},
		"damaged journal": {map[string]string{"config.json": "{}", "bus/journal.jsonl.bad": "x\n"}, now, "sessions", Doubt, "journal.jsonl.bad"},
		"damaged origin":  {map[string]string{"config.json": "{}", "origin/a.copy.jsonl.bad": "x\n"}, now, "origin", Doubt, "a.copy.jsonl.bad"},
		"damaged undo":    {map[string]string{"config.json": "{}", "undo/a/folder-b/log.bad": "x\n"}, now, "undo", Doubt, "log.bad"},
		"a guest's undo":  {map[string]string{"config.json": "{}", "guests/a/undo/log.bad": "x\n"}, now, "undo", Doubt, "log.bad"},
		"bad session":     {map[string]string{"config.json": "{}", "sessions/a/b.jsonl": "{}\nxx\n"}, now, "sessions", Broken, "b.jsonl"},
		"good session":    {map[string]string{"config.json": "{}", "sessions/a/b.jsonl": "{}\n"}, now, "sessions", Well, "intact"},
		"late job":        {known, now, "schedule", Doubt, "overdue, because no gateway is running: late"},
		"failing job":     {known, now, "schedule.a", Doubt, "2 times"},
		"jobs of Python":  {map[string]string{"config.json": "{}", "workspace/cron/jobs.json": job}, now, "schedule", Doubt, "not imported yet"},
		"old jobs":        {map[string]string{"config.json": configured, "cron/jobs.json": job}, now, "schedule", Doubt, "cron/jobs.json are not imported yet"},
		"old jobs beside": {with("cron/jobs.json", job), now, "schedule.old", Doubt, "nothing runs: late"},
		"old jobs, none":  {with("cron/jobs.json", `{"version":1,"jobs":[]}`), now, "schedule.old", "", ""},
		"added jobs":      {with("workspace/cron/jobs.json", strings.ReplaceAll(job, `"a"`, `"b"`)), now, "schedule.workspace", Doubt, "late"},
		"Python sessions": {map[string]string{"config.json": "{}", "workspace/sessions/cli_x.jsonl": python}, now, "sessions.import", Doubt, "cli:x (1)"},
		"old sessions":    {map[string]string{"config.json": configured, "sessions/cli_x.jsonl": python}, now, "sessions.import", Doubt, "cli:x (1)"},
		"no old sessions": {known, now, "sessions.import", "", ""},
		"grown session":   {with("workspace/sessions/cli_x.jsonl", python), now, "sessions.import", Doubt, "cli:x (1)"},
		"bad table":       {map[string]string{"config.json": "{}", "workspaces.json": "{"}, now, "workspaces", Broken, "damaged"},
		"bad channel":     {map[string]string{"config.json": `{"channels":{"telegram":{"enabled":true}}}`}, now, "channel.telegram", Broken, "token"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			files := fstest.MapFS{}
			for name, body := range tt.files {
				files[name] = &fstest.MapFile{Mode: 0o600, Data: []byte(strings.ReplaceAll(body, "DIR", filepath.ToSlash(dir)))}
			}
			if err := os.CopyFS(dir, files); err != nil {
				t.Fatal(err)
			}
			o := app.Options{Config: config.Options{Home: dir}, Version: "1", Now: func() time.Time { return tt.now }, Workspace: filepath.Join(dir, "workspace")}
			if tt.files != nil {
				o.Config.Path = filepath.Join(dir, "config.json")
			}
			d := Checkup(t.Context(), o)
			if got, detail := stateOf(d, tt.id); got != tt.want || !strings.Contains(detail, tt.detail) {
				t.Errorf("%s is %q (%s), want %q with %q\n%+v", tt.id, got, detail, tt.want, tt.detail, d.Symptoms)
			}
			err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() && files[name] == nil {
					t.Errorf("the checkup made %s", name)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
