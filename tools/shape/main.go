// Command shape reports the shape of the code, beside that of a month ago: lines,
// biggest packages, types with many methods, long files and statements, blank lines,
// duplicates, and references that run back up between the files of a package.
// Nothing fails because of a figure: a reviewer reads them.
//
//	go run ./shape -root ..                    two screens of tables
//	go run ./shape -root .. -all               the same with complete tables
//	go run ./shape -root .. -since 67256fe3    beside that commit
//	GODEBUG=inittrace=1 nanobot version 2>trace; go run ./shape -root .. -inittrace trace
//
// The other commit is the newest one of the main line that is older than a month, or
// the first one that has the program. It is read from git; without its history the
// report has the figures of today alone. A package that has moved is compared with
// the one whose path ended in the same way and which had a file of the same name.
//
// Only the product is measured, without tests, suites, fakes and tools, and but for
// the lines without generated files. The code is parsed, not type checked:
//
//   - Methods of a type are its methods, the functions of its package that take it or
//     a pointer to it as their first parameter (after a context), and the methods of
//     structs of its package whose only field it is. Files for different systems that
//     have the same function count once.
//   - A line is too wide beyond 110 columns, where a tab has four and the comment
//     at its end does not count. Imports, further lines of long literals, fields with
//     a tag, and rows of tables are left out: elements of a literal that begin on
//     lines of their own and have no function in them.
//   - A duplicate is a pair of places with six or more equal lines, of which at least
//     four are more than a brace. Comments, imports, empty lines and white space are
//     left out. Code that is in three places is three pairs.
//   - The files of a package are put in an order in which as few references as
//     possible run from a lower file up to a higher one. Finding the best order takes
//     too long, so this one is found step by step and may be a little worse. A
//     reference is the use of a function, type, variable or constant that another file
//     of the package declares, and the use of a method as far as its type can be told
//     without type checking; fields do not count.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "shape:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	fl := flag.NewFlagSet("shape", flag.ContinueOnError)
	root := fl.String("root", ".", "the folder of the repository")
	since := fl.String("since", "", "the commit to compare with, instead of that of a month ago")
	all := fl.Bool("all", false, "complete tables")
	trace := fl.String("inittrace", "", "a file with what a program wrote under GODEBUG=inittrace=1")
	if err := fl.Parse(args); err != nil {
		return err
	}

	r := report{all: *all}
	if *trace != "" {
		text, err := os.ReadFile(*trace)
		if err != nil {
			return err
		}
		if r.allocations, err = readInitTrace(string(text)); err != nil {
			return fmt.Errorf("%s: %w", *trace, err)
		}
	}

	other, err := chooseCommit(ctx, *root, *since)
	if err != nil {
		return err
	}
	r.other = other

	// The two trees are measured at the same time.
	var both sync.WaitGroup
	var errNow, errBefore error
	both.Go(func() {
		r.now, errNow = measureFolder(*root)
	})
	if other.commit != "" {
		both.Go(func() {
			r.before, errBefore = measureCommit(ctx, *root, other.commit)
		})
	}
	both.Wait()
	if errNow != nil {
		return errNow
	}
	if errBefore != nil {
		return fmt.Errorf("commit %s: %w", other.commit, errBefore)
	}

	_, err = io.WriteString(out, r.String())
	return err
}

func measureFolder(root string) (*shape, error) {
	files, err := readFolder(os.DirFS(root))
	if err != nil {
		return nil, err
	}
	return measure(files)
}

func measureCommit(ctx context.Context, root, commit string) (*shape, error) {
	files, err := readCommit(ctx, root, commit)
	if err != nil {
		return nil, err
	}
	return measure(files)
}
