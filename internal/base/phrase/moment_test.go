package phrase_test

import (
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
)

// A time is told in the zone of the person, and in that of the machine where no person
// is known.
func TestMoment(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 4, 22, 30, 59, 0, time.UTC)
	tokyo := phrase.InZone(t.Context(), time.FixedZone("JST", 9*3600))
	if got := phrase.Moment(tokyo, at) + ", " + phrase.Clock(tokyo, at); got != "2026-05-05 07:30, 07:30" {
		t.Errorf("in Tokyo it is %q", got)
	}
	if got, want := phrase.Moment(phrase.InZone(t.Context(), nil), at), at.Local().Format("2006-01-02 15:04"); got != want {
		t.Errorf("without a zone it is %q, want %q", got, want)
	}
	if got := phrase.Moment(phrase.InZone(tokyo, time.UTC), at); got != "2026-05-04 22:30" {
		t.Errorf("the last zone does not win: %q", got)
	}
}
