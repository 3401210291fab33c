package schedule

import (
	"errors"
	"testing"
	"time"
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
