package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// source has the tags of a struct in quotes, as a raw string cannot hold others.
const source = `package a

type Device struct {
	ID    string   "json:\"id\""
	Names []string "json:\"names,omitempty\""
	State any      "json:\"-\""
	Peer  Kind     "json:\"peer\""
}

type Kind string

func list() map[string]any {
	return map[string]any{"devices": nil, "cursor": nil}
}
`

func module(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "internal", "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "internal", "a", "a.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	types := []webType{
		{"Device", "internal/a", "Device", nil},
		{"DeviceList", "internal/a", "list()", map[string]string{"devices": "Device[]", "cursor?": "string"}},
	}
	files, err := generate(module(t), []webFile{{"types.ts", "Types.", types, ""}})
	if err != nil {
		t.Fatal(err)
	}
	got := string(files["types.ts"])
	for _, line := range []string{
		"export interface Device {\n  id: string;\n  names?: string[];\n  peer: string;\n}",
		"export interface DeviceList {\n  cursor?: string;\n  devices: Device[];\n}",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("the file lacks\n%s\nit is\n%s", line, got)
		}
	}
}

func TestGenerateReports(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		row  webType
		want string
	}{
		"a struct that is gone":   {webType{"A", "internal/a", "Gone", nil}, "has no struct Gone"},
		"a function that is gone": {webType{"A", "internal/a", "gone()", nil}, "has no function gone"},
		"a package that is gone":  {webType{"A", "internal/b", "A", nil}, "internal/b has no Go files"},
		"a member that is gone":   {webType{"A", "internal/a", "Device", map[string]string{"colour": "string"}}, "does not have it"},
		"a member without a type": {webType{"A", "internal/a", "list()", map[string]string{"cursor": "string"}}, "must say what it is"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := generate(module(t), []webFile{{"types.ts", "Types.", []webType{c.row}, ""}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, it must say %q", err, c.want)
			}
		})
	}
}
