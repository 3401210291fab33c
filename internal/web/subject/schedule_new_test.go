package subject_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/core/schedule"
)

// A page makes jobs and triggers, and knows before what they will do.
func TestCreateAutomation(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	type made struct {
		Automation struct{ Kind, ID, Name, When string }
		When       string
		NextRuns   []string `json:"next_runs"`
		Secret     string
		Existed    bool
	}
	p := acts[made](t, h, "automation.preview", `{"schedule":{"cron":"0 9 * * *","tz":"UTC"}}`)
	if len(p.NextRuns) != 5 || p.NextRuns[0] != "2026-05-05T09:00:00Z" || p.When == "" {
		t.Errorf("preview = %+v", p)
	}
	if all := read[map[string][]any](t, h, "webui/automations"); len(all["automations"]) != 0 {
		t.Errorf("a preview made something: %v", all)
	}
	job := `{"name":"News","message":"read the news","schedule":{"cron":"0 9 * * *","tz":"UTC"},"channel":"websocket","chat_id":"a"}`
	j := acts[made](t, h, "automation.create", job)
	if j.Automation.Kind != "job" || j.Automation.Name != "News" || len(j.NextRuns) != 3 || j.Existed || j.Secret != "" {
		t.Errorf("job = %+v", j)
	}
	if again := acts[made](t, h, "automation.create", job); !again.Existed || again.Automation.ID != j.Automation.ID {
		t.Errorf("the same job = %+v", again)
	}
	type upcoming struct {
		Automations []struct{ Upcoming []string }
	}
	if got := read[upcoming](t, h, "webui/automations?days=7").Automations[0].Upcoming; len(got) != 7 || got[6] != "2026-05-11T09:00:00Z" {
		t.Errorf("the next seven days = %v", got)
	}
	if got := read[upcoming](t, h, "webui/automations").Automations[0].Upcoming; got != nil {
		t.Errorf("without days = %v", got)
	}
	tr := acts[made](t, h, "automation.create", `{"kind":"trigger","name":"Door","channel":"websocket","chat_id":"a"}`)
	key := string(schedule.TriggerKey(h.DataDir, tr.Automation.ID))
	if tr.Automation.Kind != "trigger" || key == "" || tr.Secret != key {
		t.Errorf("trigger = %+v, want the key %q", tr, key)
	}
	again := acts[made](t, h, "automation.renew_secret", `{"id":"`+tr.Automation.ID+`"}`)
	if renewed := string(schedule.TriggerKey(h.DataDir, tr.Automation.ID)); again.Secret != renewed || renewed == key {
		t.Errorf("renewed = %+v, want the key %q and not %q", again, renewed, key)
	}
	h.refuses(t, "automation.renew_secret", `{"id":"trg_NOTHERE1"}`, 404, "no such trigger")
	if _, body := get(t, h.Desk, "/api/webui/automations"); strings.Contains(body, key) || strings.Contains(body, again.Secret) {
		t.Errorf("the list has the secret: %s", body)
	}
	for payload, status := range map[string]int{
		`{"message":"x","schedule":{"every_seconds":60}}`:                                                               400,
		`{"kind":"moon","channel":"a","chat_id":"b"}`:                                                                   400,
		`{"kind":"trigger","name":"x","message":"y","channel":"a","chat_id":"b"}`:                                       400,
		`{"message":"x","channel":"a","chat_id":"b"}`:                                                                   422,
		`{"message":"","schedule":{"every_seconds":3600},"channel":"a","chat_id":"b"}`:                                  422,
		`{"message":"x","schedule":{"cron":"99 * * * *"},"channel":"a","chat_id":"b"}`:                                  422,
		`{"message":"x","schedule":{"every_seconds":3600},"timeout_seconds":1e9,"channel":"a","chat_id":"b"}`:           422,
		`{"message":"` + strings.Repeat("x", 4001) + `","schedule":{"every_seconds":3600},"channel":"a","chat_id":"b"}`: 422,
	} {
		h.refuses(t, "automation.create", payload, status, "")
	}
	h.refuses(t, "automation.preview", `{"schedule":{}}`, 422, "every_seconds")
}

// The history of a job comes in pages, the newest run first.
func TestAutomationHistory(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	runs := []string{}
	for i := range 20 {
		runs = append(runs, fmt.Sprintf(`{"runAtMs":%d,"status":"ok","durationMs":5,"error":null}`, 1000*(i+1)))
	}
	h.writeJobs(t, `{"version":1,"jobs":[{"id":"aabbccdd","name":"n","enabled":true,"schedule":{"kind":"every","everyMs":3600000},"payload":{"kind":"agent_turn","message":"m","deliver":true,"channel":"websocket","to":"a"},"state":{"runHistory":[`+strings.Join(runs, ",")+`]},"createdAtMs":1,"updatedAtMs":1}]}`)
	type page struct {
		Runs   []struct{ At string }
		Cursor *string
	}
	seen := []string{}
	pages := 0
	for next := ""; pages < 9; pages++ {
		p := read[page](t, h, "webui/automations/aabbccdd/history?limit=8"+next)
		for _, r := range p.Runs {
			seen = append(seen, r.At)
		}
		if p.Cursor == nil {
			break
		}
		next = "&cursor=" + *p.Cursor
	}
	if len(seen) != 20 || pages != 2 || seen[0] != "1970-01-01T00:00:20Z" || seen[19] != "1970-01-01T00:00:01Z" {
		t.Errorf("%d runs on %d pages: %v", len(seen), pages+1, seen)
	}
	h.refused(t, "webui/automations/none/history", 404, "job_missing")
	h.refused(t, "webui/automations/trg_NONE/history", 404, "trigger_missing")
	h.refused(t, "webui/automations/aabbccdd/history?cursor=x", 400, "not_a_number")
}
