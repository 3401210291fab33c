package schedule

import (
	"errors"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
)

func TestFindJob(t *testing.T) {
	t.Parallel()
	all := []Job{{ID: "ab12", Name: "mail"}, {ID: "ab34", Name: "water"}, {ID: "ab3", Name: "tea"}}
	for id, want := range map[string]string{"ab1": "ab12", "ab3": "ab3", "WATER": "ab34", "ab": "", "x": ""} {
		got, err := FindJob(all, id)
		var wrong *NameError
		if got.ID != want || (want == "") != errors.As(err, &wrong) {
			t.Errorf("FindJob(%q) = %q, %v, want %q", id, got.ID, err, want)
		}
	}
}

func TestParseInterval(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]time.Duration{"90": 90 * time.Second, "2h": 2 * time.Hour, "1d": 24 * time.Hour, "-1": 0, "x": 0, "0": 0} {
		if got, err := ParseInterval(s); got != want || (want == 0) != (err != nil) {
			t.Errorf("ParseInterval(%q) = %v, %v", s, got, err)
		}
	}
}

// TestDescribe says schedules in words, in both languages.
func TestDescribe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		timing      Timing
		english, zh string
	}{
		{Every(5 * time.Minute), "every 5m", "每 5 分钟"},
		{Every(48 * time.Hour), "every 2d", "每 2 天"},
		{Every(2 * time.Hour), "every 2h", "每 2 小时"},
		{Every(90 * time.Second), "every 90s", "每 90 秒"},
		{Every(300 * time.Millisecond), "every 300ms", "每 300 毫秒"},
		{Every(90*time.Second + time.Millisecond), "every 1m3", "每 1m3"},
		{Once(time.Date(2027, 1, 31, 9, 0, 0, 0, time.UTC)), "at 2027-01-31 09:00 UTC", "一次，2027-01-31 09:00 UTC"},
		{Cron("0 8 * * 1-5", ""), "cron: 0 8 * * 1-5 (local time)", "定时 0 8 * * 1-5（本地时间）"},
		{Cron("0 9 * * *", "Asia/Shanghai"), "cron: 0 9 * * * (Asia/Shanghai)", "定时 0 9 * * *（Asia/Shanghai）"},
	} {
		said := c.timing.Describe(time.UTC)
		if said.String() != c.english || said.In(phrase.Chinese) != c.zh {
			t.Errorf("got %q and %q, want %q and %q", said, said.In(phrase.Chinese), c.english, c.zh)
		}
	}
}
