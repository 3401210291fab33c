package config

import (
	"os"
	"path/filepath"
	"testing"
)

// The decoder of a platform gets what we understood, also where a value came
// as text: from the environment, a reference or a careless hand.
func TestChannelSectionIsUnderstood(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file string
		env        []string
		overrides  []Override
		want       string
	}{
		{"environment", `{}`, []string{"NANOBOT_CHANNELS__DESK__ENABLED=true"}, nil, `{"enabled":true}`},
		{"override", `{}`, nil, []Override{{"channels.desk.enabled", "true"}, {"channels.desk.restartBackoffMaxS", "60"}}, `{"enabled":true,"restartBackoffMaxS":60}`},
		{"reference", `{"channels":{"desk":{"enabled":"${ON}"}}}`, []string{"ON=true"}, nil, `{"enabled":true}`},
		{"text in the file", `{"channels":{"desk":{"enabled":"true","sendProgress":"false","name":"x"}}}`, nil, nil, `{"enabled":true,"sendProgress":false,"name":"x"}`},
		{"nothing to do", `{"channels":{"desk":{"enabled":true,"allowFrom":["5"]}}}`, nil, nil, `{"enabled":true,"allowFrom":["5"]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "config.json")
			if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := Load(Options{Path: file, Env: append([]string{"HOME=" + t.TempDir()}, c.env...), Overrides: c.overrides})
			if err != nil {
				t.Fatal(err)
			}
			ch := l.Config.Channels.Each["desk"]
			if got := string(ch.Raw.JSON()); got != c.want || !ch.Enabled {
				t.Errorf("section %s (enabled %v), want %s", got, ch.Enabled, c.want)
			}
		})
	}
}
