package phrase

import (
	_ "embed" // the tables
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Two tables go from what the program says in findings, about its configuration and in
// descriptions of settings to Chinese; {1} stands for the first value. Pages have the first
// one, too, which also has names of settings behind an @. The second has what no page shows.
var (
	//go:embed zh.json
	pagesTable []byte
	//go:embed zh_terminal.json
	terminalTable []byte
)

// sentences are those of the two tables.
type sentences struct {
	whole    map[string]string
	patterns []pattern // of those with values
}

// program reads the tables when the first text is looked for.
var program = sync.OnceValue(func() sentences {
	var s sentences
	for _, table := range [][]byte{pagesTable, terminalTable} {
		if err := json.Unmarshal(table, &s.whole); err != nil {
			panic(err) // tests read them
		}
	}

	value := regexp.MustCompile(`\{(\d)\}`)
	for _, english := range slices.Sorted(maps.Keys(s.whole)) {
		zh := s.whole[english]
		switch {
		case strings.HasPrefix(english, "@"):
			delete(s.whole, english)
		case value.MatchString(english):
			s.patterns = append(s.patterns, newPattern(value, english, zh))
		}
	}

	return s
})
