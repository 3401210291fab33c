package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/run/config"
)

func TestSyntaxErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		message    string
		excerpt    string
	}{
		{
			"missing comma", "{\n  \"api\": {\"port\": 1}\n  \"gateway\": {}\n}",
			"a comma is missing before this (line 3, column 3); add , at the end of the value before",
			"    3 |   \"gateway\": {}\n      |   ^\n",
		},
		{
			"missing colon", `{"api" {}}`,
			"a colon is missing before this (line 1, column 8)",
			"    1 | {\"***\" {}}\n      |        ^\n",
		},
		{
			"unquoted key", "{\n\tapi: {}\n}",
			"this is neither a number nor true, false or null (line 2, column 2); texts are written in double quotes",
			"    2 | \t***: {}\n      | \t^\n",
		},
		{
			"unquoted value", `{"apiKey": sk-SECRET}`,
			"this is neither a number nor true, false or null (line 1, column 12); texts are written in double quotes",
			"    1 | {\"apiKey\": *********}\n      |            ^\n",
		},
		{
			"single quotes", `{'api': {}}`,
			"this is not JSON (line 1, column 2); use double quotes \"",
			"    1 | {*****: {}}\n      |  ^\n",
		},
		{
			"typographic quotes", `{“api”: {}}`,
			"this is not JSON (line 1, column 2); typographic quotes are not allowed, use \"",
			"    1 | {*****: {}}\n      |  ^\n",
		},
		{
			"full-width comma", `{"a": "SECRET"，"b": 1}`,
			"this is not JSON (line 1, column 15); this is a full-width comma, use ,",
			"    1 | {\"a\": \"******\"*\"b\": *}\n      |               ^\n",
		},
		{
			"python words", `{"a": True}`,
			"this is not JSON (line 1, column 7); write true, false and null in lower case",
			"    1 | {\"a\": ****}\n      |       ^\n",
		},
		{
			"open text", "{\n  \"apiKey\": \"SECRET,\n  \"b\": 1\n}",
			"this text holds a character JSON does not allow (line 2, column 13); write \\\\ for a backslash and \\n for a line break, and look for a missing \"",
			"    2 |   \"apiKey\": \"******,\n      |             ^\n",
		},
		{
			"text open to the end", "{\n  \"a\": \"SECRET",
			"a text is not closed (line 2, column 8); add the missing \"",
			"    2 |   \"a\": \"******\n      |        ^\n",
		},
		{
			"windows path", `{"workspace": "C:\work"}`,
			"this text holds a character JSON does not allow (line 1, column 15); write \\\\ for a backslash and \\n for a line break, and look for a missing \"",
			"    1 | {\"workspace\": \"*******\"}\n      |               ^\n",
		},
		{
			"missing brace", "{\"a\": {\"b\": 1}\n",
			"the file ends too early (line 1, column 15); a } or ] is missing",
			"    1 | {\"a\": {\"b\": *}\n      |               ^\n",
		},
		{
			"open comment", "{} /* x",
			"a comment is not closed (line 1, column 4); add */",
			"    1 | {} ** *\n      |    ^\n",
		},
		{
			"one brace too many", "{}\n}",
			"there is more after the end of the configuration (line 2, column 1); remove it, or look for a } too many above",
			"    2 | }\n      | ^\n",
		},
		{
			"no value", `{"a": }`,
			"a value is expected here (line 1, column 7)",
			"    1 | {\"a\": }\n      |       ^\n",
		},
		{
			"long line", `{"a": "` + strings.Repeat("S", 300) + `" "b": 1` + strings.Repeat(" ", 99) + `}`,
			"a comma is missing before this (line 1, column 310); add , at the end of the value before",
			"    1 | ..." + strings.Repeat("*", 58) + "\" \"b\": *" + strings.Repeat(" ", 24) + "\n      |    " + strings.Repeat(" ", 60) + "^\n",
		},
		{
			"too deep", strings.Repeat("[", 5000),
			"more than 100 levels of nesting (line 1, column 101)",
			"",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Load(config.Options{Path: write(t, tt.text)})
			e, ok := errors.AsType[*config.Error](err)
			if !ok || e.Kind != config.InvalidJSON || len(e.Issues) != 1 {
				t.Fatalf("error = %v, want invalid_json with one issue", err)
			}
			if got := e.Issues[0].String(); got != tt.message {
				t.Errorf("message = %s\nwant      %s", got, tt.message)
			}
			if diff := cmp.Diff(tt.excerpt, e.Excerpt); diff != "" && tt.excerpt != "" {
				t.Errorf("excerpt (-want +got):\n%s", diff)
			}
			if strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "SSS") {
				t.Errorf("a value is shown: %v", err)
			}
		})
	}
}
