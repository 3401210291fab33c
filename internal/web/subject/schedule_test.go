package subject_test

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
)

type timing struct {
	EverySeconds float64 `json:"every_seconds"`
	Cron, At, TZ string
}

type automation struct {
	Kind, ID, Name, Message string
	Schedule                *timing
	When                    string
	Enabled, Protected      bool
	Deliver                 bool
	Channel                 string
	SessionKey              string `json:"session_key"`
	CatchUp                 string `json:"catch_up"`
	TimeoutS                int    `json:"timeout_seconds"`
	NextRun                 string `json:"next_run"`
	Command                 string
	History                 []struct{ At, Status string }
}

type automations struct{ Automations []automation }

type acted struct{ Automation *automation }

func room(id string) bus.Route { return bus.Route{Channel: "websocket", ChatID: id} }

func addJob(t *testing.T, h *home, chat, message string) string {
	t.Helper()
	added, err := h.Schedule.Add(t.Context(), schedule.Draft{Message: message, Timing: schedule.Cron("0 8 * * *", "Europe/Berlin"), Route: room(chat)})
	must(t, err)
	return added.Job.ID
}

func TestAutomations(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	if got := read[automations](t, h, "webui/automations"); got.Automations == nil || len(got.Automations) != 0 {
		t.Errorf("none: %+v", got)
	}
	id := addJob(t, h, "a", "Tell the weather, sk-hush-0123456789")
	addJob(t, h, "b", "Tell the news")
	trg, err := h.Schedule.Triggers.Add(t.Context(), "deploys", room("a"), "")
	must(t, err)
	all := read[automations](t, h, "webui/automations").Automations
	if len(all) != 3 || all[2].Kind != "trigger" || all[0].Kind != "job" {
		t.Fatalf("all = %+v", all)
	}
	here := read[automations](t, h, "sessions/websocket%3Aa/automations").Automations
	if len(here) != 2 || here[0].ID != id || here[1].ID != trg.ID {
		t.Fatalf("of the conversation: %+v", here)
	}
	j, tr := here[0], here[1]
	if j.When != "cron: 0 8 * * * (Europe/Berlin)" || j.NextRun != "2026-05-05T06:00:00Z" || !j.Enabled || j.Protected || !j.Deliver ||
		*j.Schedule != (timing{Cron: "0 8 * * *", TZ: "Europe/Berlin"}) || j.Message != "Tell the weather, [redacted:key]" || j.History == nil || j.SessionKey != "cron:"+id {
		t.Errorf("job = %+v, %+v", j, j.Schedule)
	}
	if tr.Command != `nanobot trigger `+trg.ID+` "what happened"` || tr.Name != "deploys" || tr.Schedule != nil {
		t.Errorf("trigger = %+v", tr)
	}
	// Its words are said in one chat and heard in another.
	_, err = h.Schedule.Triggers.Add(t.Context(), "elsewhere", room("c"), "telegram:7")
	must(t, err)
	for _, key := range []string{"websocket:c", "telegram:7"} {
		if got := read[automations](t, h, "sessions/"+key+"/automations").Automations; len(got) != 1 || got[0].Name != "elsewhere" {
			t.Errorf("of %s: %+v", key, got)
		}
	}
	if own := read[automations](t, h, "sessions/cron%3A"+id+"/automations").Automations; len(own) != 1 || own[0].ID != id {
		t.Errorf("of the job's own conversation: %+v", own)
	}
}

func TestAutomationActions(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	id := addJob(t, h, "a", "Tell the weather")
	trg, err := h.Schedule.Triggers.Add(t.Context(), "deploys", room("a"), "")
	must(t, err)
	for _, x := range []string{id, trg.ID, strings.ToLower(trg.ID)} {
		for action, on := range map[string]bool{"automation.disable": false, "automation.enable": true} {
			if got := acts[acted](t, h, action, `{"id":"`+x+`"}`); got.Automation == nil || got.Automation.Enabled != on {
				t.Errorf("%s %s: %+v", action, x, got.Automation)
			}
		}
	}
	acts[acted](t, h, "automation.disable", `{"id":"`+id+`"}`)
	acts[acted](t, h, "automation.run", `{"id":"`+id+`"}`)
	if j, err := h.Schedule.Get(t.Context(), id); err != nil || j.State.RunRequested != schedule.MS(noon().UnixMilli()) {
		t.Errorf("asked to run: %+v, %v", j.State, err)
	}
	h.refuses(t, "automation.run", `{"id":"`+trg.ID+`"}`, 422, "nanobot trigger "+trg.ID)
	for _, action := range []string{"automation.enable", "automation.disable", "automation.run", "automation.delete", "automation.update"} {
		h.refuses(t, action, `{"id":"none"}`, 404, "no such job")
		h.refuses(t, action, `{"job":"`+id+`"}`, 400, "job")
	}
	for _, action := range []string{"automation.enable", "automation.disable", "automation.delete"} {
		h.refuses(t, action, `{"id":"trg_NONE"}`, 404, "no such trigger")
	}
	for _, x := range []string{id, trg.ID} {
		if got := acts[acted](t, h, "automation.delete", `{"id":"`+x+`"}`); got.Automation != nil {
			t.Errorf("deleted: %+v", got.Automation)
		}
	}
	if got := read[automations](t, h, "webui/automations").Automations; len(got) != 0 {
		t.Errorf("left: %+v", got)
	}
}

func TestAutomationUpdate(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	id := addJob(t, h, "a", "Tell the weather")
	set := func(what string) automation {
		t.Helper()
		got := acts[acted](t, h, "automation.update", `{"id":"`+id+`",`+what+`}`)
		return *got.Automation
	}
	if a := set(`"name":"weather","message":"Tell it","deliver":false,"catch_up":"skip","timeout_seconds":90`); a.Name != "weather" || a.Message != "Tell it" ||
		a.Deliver || a.CatchUp != "skip" || a.TimeoutS != 90 || a.Schedule.Cron != "0 8 * * *" {
		t.Errorf("changed: %+v", a)
	}
	if a := set(`"schedule":{"every_seconds":1800}`); *a.Schedule != (timing{EverySeconds: 1800}) || a.When != "every 30m" || a.Name != "weather" {
		t.Errorf("every: %+v %+v", a, a.Schedule)
	}
	if a := set(`"schedule":{"cron":"30  9 * * 1","tz":"Asia/Tokyo"}`); *a.Schedule != (timing{Cron: "30 9 * * 1", TZ: "Asia/Tokyo"}) || a.NextRun != "2026-05-11T00:30:00Z" {
		t.Errorf("cron: %+v %+v", a, a.Schedule)
	}
	if a := set(`"schedule":{"at":"2026-05-05T10:00:00"}`); a.NextRun != "2026-05-05T10:00:00Z" || a.Schedule.At != a.NextRun {
		t.Errorf("at: %+v %+v", a, a.Schedule)
	}
	for bad, word := range map[string]string{
		`"schedule":{}`: "one of",
		`"schedule":{"every_seconds":60,"cron":"0 8 * * *"}`:  "one of",
		`"schedule":{"every_seconds":1}`:                      "shortest",
		`"schedule":{"every_seconds":-5}`:                     "every_seconds",
		`"schedule":{"every_seconds":1e12}`:                   "every_seconds",
		`"schedule":{"cron":"61 8 * * *"}`:                    "",
		`"schedule":{"cron":"0 8 * * *","tz":"Mars/Olympus"}`: "Mars",
		`"schedule":{"at":"2026-05-05T10:00:00Z","tz":"UTC"}`: "tz",
		`"schedule":{"at":"tomorrow"}`:                        "tomorrow",
		`"schedule":{"at":"2020-05-05T10:00:00Z"}`:            "past",
		`"message":" "`:        "message",
		`"name":" "`:           "name",
		`"catch_up":"often"`:   "often",
		`"timeout_seconds":-1`: "timeout_seconds",
		`"message":"` + strings.Repeat("x", 5000) + `"`: "4000",
	} {
		h.refuses(t, "automation.update", `{"id":"`+id+`",`+bad+`}`, 422, word)
	}
	h.refuses(t, "automation.update", `{"id":"`+id+`","schedule":{"daily":1}}`, 400, "daily")
	if a := set(`"name":"same"`); a.Message != "Tell it" || a.Schedule.At != "2026-05-05T10:00:00Z" || a.CatchUp != "skip" {
		t.Errorf("refusals left: %+v %+v", a, a.Schedule)
	}
	trg, err := h.Schedule.Triggers.Add(t.Context(), "deploys", room("a"), "")
	must(t, err)
	if got := acts[acted](t, h, "automation.update", `{"id":"`+trg.ID+`","name":"builds"}`); got.Automation.Name != "builds" {
		t.Errorf("trigger: %+v", got.Automation)
	}
	h.refuses(t, "automation.update", `{"id":"`+trg.ID+`","message":"x"}`, 422, "only the name")
	h.refuses(t, "automation.update", `{"id":"trg_NONE","name":"x"}`, 404, "no such trigger")
}

// Jobs of the program stay as they are; a damaged file is named.
func TestAutomationsProtected(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.writeJobs(t, `{"version":1,"jobs":[{"id":"dream","name":"dream","enabled":true,
		"schedule":{"kind":"every","everyMs":3600000},"payload":{"kind":"system_event","message":"Dream"},
		"state":{"runHistory":[{"runAtMs":1777887000000,"status":"ok","durationMs":5}]}}]}`)
	all := read[automations](t, h, "webui/automations").Automations
	if len(all) != 1 || !all[0].Protected || len(all[0].History) != 1 || all[0].History[0].At != "2026-05-04T09:30:00Z" {
		t.Fatalf("all = %+v", all)
	}
	for action, more := range map[string]string{"automation.enable": "", "automation.disable": "", "automation.delete": "", "automation.update": `,"name":"x"`} {
		h.refuses(t, action, `{"id":"dream"`+more+`}`, 403, "belongs to the program")
	}
	acts[acted](t, h, "automation.run", `{"id":"dream"}`)

	h.writeJobs(t, `{"version":1,"jobs":[`)
	h.refused(t, "webui/automations", 409, "jobs.json")
	h.refuses(t, "automation.enable", `{"id":"x"}`, 409, "jobs.json")
}

// A run that is going on is not begun a second time.
func TestAutomationRunning(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.writeJobs(t, `{"version":1,"jobs":[{"id":"j1","name":"x","enabled":true,"schedule":{"kind":"every","everyMs":3600000},
		"payload":{"kind":"agent_turn","message":"x","channel":"websocket","to":"a"},"state":{"pending":{"occurrenceMs":1,"beganMs":1,"submitted":true}}}]}`)
	h.refuses(t, "automation.run", `{"id":"j1"}`, 409, "running already")
}
