package schedule_test

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/core/schedule"
)

// A renewed key is another one; those of other triggers stay.
func TestRenewTriggerSecret(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	secret := func(id string) string {
		s, err := schedule.TriggerSecret(data, id)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b := secret("trg_A"), secret("trg_B")
	seen := map[string]bool{a: true, b: true}
	for range 2 {
		renewed, err := schedule.RenewTriggerSecret(data, "trg_A")
		if err != nil || seen[renewed] || len(renewed) != 64 {
			t.Fatalf("renewed = %q, %v", renewed, err)
		}
		seen[renewed] = true
		if secret("TRG_a") != renewed || string(schedule.TriggerKey(data, "trg_A")) != renewed || secret("trg_B") != b {
			t.Error("the renewed key is not used, or another one changed")
		}
	}
	if _, err := schedule.RenewTriggerSecret(t.TempDir(), "trg_C"); err != nil {
		t.Errorf("without keys: %v", err)
	}
}
