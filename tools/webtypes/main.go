// Command webtypes writes the TypeScript types of what crosses the wire between the
// gateway and its pages, from the Go code that makes it.
//
//	go run ./webtypes -root ..          write web/src/wire/types.ts and reads.ts
//	go run ./webtypes -root .. -check   fail if they are not what the Go code says
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", "..", "the folder of the repository")
	check := flag.Bool("check", false, "compare the files, do not write them")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	files, err := generate(root, webFiles())
	if err != nil {
		return err
	}

	var stale []error
	for name, want := range files {
		path := filepath.Join(root, "web", "src", "wire", name)
		if !check {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				return err
			}
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			stale = append(stale, fmt.Errorf("%s is not what the Go code says: run make web-types", path))
		}
	}
	return errors.Join(stale...)
}
