package main

import (
	"errors"
	"os"
	"os/user"
	"runtime"
	"testing"
)

// A start without HOME uses the entry of the user database, and nothing relative.
func TestFindHome(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the system has no HOME")
	}
	for name, c := range map[string]struct {
		home, entry string
		err         error
		want        string
	}{
		"set":             {home: "/home/set", entry: "/home/entry", want: "/home/set"},
		"empty":           {entry: "/home/entry", want: "/home/entry"},
		"relative":        {home: "here", entry: "/home/entry", want: "/home/entry"},
		"no entry":        {err: errors.New("unknown user"), want: ""},
		"a useless entry": {entry: "nowhere", want: ""},
	} {
		t.Setenv("HOME", c.home)
		findHome(func() (*user.User, error) { return &user.User{HomeDir: c.entry}, c.err })
		if got := os.Getenv("HOME"); got != c.want {
			t.Errorf("%s: HOME is %q, want %q", name, got, c.want)
		}
	}
}
