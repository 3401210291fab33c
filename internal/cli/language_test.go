package cli

import "testing"

func TestLanguage(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		env  []string
		want string
	}{
		"nothing is said":         {nil, ""},
		"a Chinese locale":        {[]string{"LANG=zh_CN.UTF-8"}, "zh"},
		"messages before LANG":    {[]string{"LANG=zh_CN.UTF-8", "LC_MESSAGES=en_GB.UTF-8"}, "en"},
		"everything before both":  {[]string{"LANG=C", "LC_MESSAGES=en_GB", "LC_ALL=zh_TW"}, "zh"},
		"empty is not set":        {[]string{"LANG=zh_CN", "LC_ALL="}, "zh"},
		"a language without ours": {[]string{"LANG=de_DE.UTF-8"}, ""},
		"the C locale":            {[]string{"LANG=C.UTF-8"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := newProgram(Stdio{Env: row.env}, "", "").language; got != row.want {
				t.Errorf("language %q, want %q", got, row.want)
			}
		})
	}
}
