package arch_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// purposes says what each direct dependency is for. It is the only place: make
// deps writes the table of docs/reference/dependencies.md from it, go.mod and the licence files.
func purposes() map[string]string {
	return map[string]string{
		"codeberg.org/readeck/go-readability/v2":          "plain text of a web page (decisions 33 and 151)",
		"github.com/JohannesKaufmann/html-to-markdown/v2": "Markdown of a web page (decision 33)",
		"github.com/aws/aws-sdk-go-v2":                    "tests compare our signatures with its own (decision 150)",
		"github.com/aws/aws-sdk-go-v2/config":             "tests compare our reading of AWS profiles with it (decision 130)",
		"github.com/aws/aws-sdk-go-v2/service/sso":        "tests compare our addresses with its own (decision 150)",
		"github.com/aws/aws-sdk-go-v2/service/ssooidc":    "tests compare our addresses with its own (decision 150)",
		"github.com/aws/aws-sdk-go-v2/service/sts":        "tests compare our addresses with its own (decision 150)",
		"rsc.io/qr":                              "QR codes of logins (decision 70)",
		"github.com/aymanbagabas/go-udiff":       "line diffs (decision 36)",
		"github.com/coder/websocket":             "the websocket channel, and connections to chat platforms (decision 69)",
		"github.com/emersion/go-imap/v2":         "reading mail; its server in tests",
		"github.com/emersion/go-message":         "the parts of a mail",
		"github.com/emersion/go-msgauth":         "checking DKIM signatures of mail",
		"github.com/emersion/go-sasl":            "logging in to mail servers",
		"github.com/emersion/go-smtp":            "sending mail; its server in tests",
		"github.com/creack/pty":                  "terminals for commands (decision 53)",
		"github.com/fsnotify/fsnotify":           "noticing changed files of the schedule at once",
		"github.com/go-git/go-git/v5":            "packs of the memory repository (decision 132)",
		"github.com/godbus/dbus/v5":              "the Secret Service (decision 137) and notifications of Linux",
		"github.com/google/jsonschema-go":        "the JSON Schema of the configuration",
		"github.com/golang-jwt/jwt/v5":           "signatures of Microsoft Teams (decision 76)",
		"github.com/google/go-cmp":               "tests: readable differences",
		"github.com/modelcontextprotocol/go-sdk": "MCP clients and our MCP server",
		"github.com/rogpeppe/go-internal":        "tests: testscript",
		"github.com/rs/zerolog":                  "the log of mautrix (decision 141)",
		"github.com/slack-go/slack":              "the Web API of Slack (decision 72)",
		"github.com/spf13/cobra":                 "commands, flags, help, shell completion",
		"github.com/spf13/pflag":                 "the flags of cobra, in our help texts",
		"github.com/tailscale/hujson":            "JSON with comments that survive an edit",
		"github.com/yuin/goldmark":               "Markdown for chat platforms (decisions 133 and 152)",
		"github.com/zalando/go-keyring":          "the keyrings of macOS and Windows (decision 137)",
		"go.mau.fi/util":                         "the database of mautrix (decision 141)",
		"go.uber.org/goleak":                     "tests: left-over goroutines",
		"go.yaml.in/yaml/v3":                     "front matter of skills, configurations of others (decision 37)",
		"golang.org/x/image":                     "pictures in WebP",
		"golang.org/x/oauth2":                    "OAuth logins: codes with PKCE, device codes, refresh",
		"golang.org/x/net":                       "parsing HTML, the list of public suffixes",
		"golang.org/x/sys":                       "system calls that the standard library lacks",
		"golang.org/x/term":                      "raw mode, terminal size, hidden input",
		"golang.org/x/text":                      "old character sets, Unicode normal forms",
		"golang.org/x/tools":                     "tests: types of the whole program for the rules of the repository",
		"maunium.net/go/mautrix":                 "encrypted Matrix rooms (decision 141)",
		"modernc.org/sqlite":                     "the search index (decision 11), keys of Matrix (decision 141)",
		"mvdan.cc/sh/v3":                         "shell syntax tree for the command guard",
	}
}

// goJSON decodes what a go command prints, one value after the other.
func goJSON[T any](t *testing.T, args ...string) []T {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	var list []T
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var v T
		if err := dec.Decode(&v); err == io.EOF {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
}

func TestDependencyTable(t *testing.T) {
	var direct []string
	for _, mod := range goJSON[struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}](t, "mod", "edit", "-json") {
		for _, r := range mod.Require {
			if !r.Indirect {
				direct = append(direct, r.Path)
			}
		}
	}
	slices.Sort(direct)

	why := purposes()
	for path := range why {
		if !slices.Contains(direct, path) {
			t.Errorf("%s is not a direct dependency: remove its sentence from purposes", path)
		}
	}

	var table strings.Builder
	table.WriteString("| Module | Licence | What for |\n| --- | --- | --- |\n")
	for _, m := range goJSON[struct{ Path, Dir string }](t, append([]string{"mod", "download", "-json"}, direct...)...) {
		if why[m.Path] == "" {
			t.Errorf("%s is a direct dependency: say in purposes what it is for", m.Path)
		}
		licence, err := licenceOf(m.Dir)
		if err != nil {
			t.Errorf("%s: %v", m.Path, err)
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", m.Path, licence, why[m.Path])
	}
	if !t.Failed() {
		compareTable(t, "make deps", "docs/reference/dependencies.md", table.String())
	}
}

// licenceOf names the licences of a module by the words of its licence files.
func licenceOf(dir string) (string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, f := range files {
		name := strings.ToUpper(f.Name())
		if f.IsDir() || !strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "COPYING") {
			continue
		}
		body, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return "", err
		}
		all.WriteString(" " + strings.Join(strings.Fields(string(body)), " "))
	}
	names := licences(all.String())
	if len(names) == 0 {
		return "", fmt.Errorf("no licence file in %s that this test knows", dir)
	}
	return strings.Join(names, ", "), nil
}

// licences names the licences in a text without line breaks. Others than these
// need a look: they may ask for more.
func licences(text string) (names []string) {
	add := func(name string, parts ...string) {
		if slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) }) {
			names = append(names, name)
		}
	}
	add("Apache-2.0", "Apache License, Version 2.0", "Apache License Version 2.0")
	if strings.Contains(text, "Redistribution and use in source and binary forms") {
		if strings.Contains(text, "Neither the name") {
			names = append(names, "BSD-3-Clause")
		} else {
			names = append(names, "BSD-2-Clause")
		}
	}
	add("ISC", "Permission to use, copy, modify, and/or distribute", "Permission to use, copy, modify, and distribute")
	add("MIT", "Permission is hereby granted, free of charge")
	add("MPL-2.0", "Mozilla Public License")
	return names
}

func TestLicences(t *testing.T) {
	for text, want := range map[string]string{
		"Apache License Version 2.0, January 2004":                                                "Apache-2.0",
		"Permission is hereby granted, free of charge, to":                                        "MIT",
		"Redistribution and use in source and binary forms, with":                                 "BSD-2-Clause",
		"Redistribution and use in source and binary forms, 3. Neither the name of":               "BSD-3-Clause",
		"Permission is hereby granted, free of charge. Licensed under Apache License Version 2.0": "Apache-2.0, MIT",
		"GNU GENERAL PUBLIC LICENSE":                                                              "",
	} {
		if got := strings.Join(licences(text), ", "); got != want {
			t.Errorf("licences(%q) = %q, want %q", text, got, want)
		}
	}
	if _, err := licenceOf(t.TempDir()); err == nil {
		t.Error("a module without a licence has one")
	}
}
