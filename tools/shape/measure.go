package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"runtime"
	"slices"
	"sync"
)

// maxFileLines is how many lines a file may have before the report names it.
const maxFileLines = 400

// shape is what was measured in one tree. All but the lines is of the product alone.
type shape struct {
	goLines, scriptLines [kinds]int
	goBlank, scriptBlank int // lines
	goWide, scriptWide   int // lines

	packages   map[string]int      // folder -> lines of Go
	files      map[string]int      // path -> lines
	folders    map[string][]string // folder -> names of its files
	types      map[typeName]int    // -> methods
	pairs      []pair
	pairLines  int
	upward     map[string]upward // folder -> references; of packages with some files
	upwardSums upward
}

func measure(files []file) (*shape, error) {
	s := &shape{
		packages: map[string]int{},
		files:    map[string]int{},
		folders:  map[string][]string{},
		types:    map[typeName]int{},
		upward:   map[string]upward{},
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.path, b.path) })

	var goFiles, scripts []file
	for _, f := range files {
		all, blank := countLines(f.text)
		if f.isGo() {
			s.goLines[f.kind()] += all
		} else {
			s.scriptLines[f.kind()] += all
		}
		if f.kind() != product || f.isGenerated() {
			continue
		}

		s.files[f.path] = all
		s.folders[f.folder()] = append(s.folders[f.folder()], path.Base(f.path))
		if f.isGo() {
			s.packages[f.folder()] += all
			s.goBlank += blank
			goFiles = append(goFiles, f)
		} else {
			s.scriptBlank += blank
			scripts = append(scripts, f)
		}
	}

	set := token.NewFileSet()
	parsed, err := parseAll(set, goFiles)
	if err != nil {
		return nil, err
	}
	s.measureLines(set, goFiles, parsed, scripts)
	s.measurePackages(goFiles, parsed)
	return s, nil
}

// parseAll parses files, as many at a time as there are processors.
func parseAll(set *token.FileSet, files []file) ([]*ast.File, error) {
	parsed := make([]*ast.File, len(files))
	errs := make([]error, len(files))
	var workers sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := range next {
				parsed[i], errs[i] = parser.ParseFile(set, files[i].path, files[i].text, parser.ParseComments)
			}
		})
	}
	for i := range files {
		next <- i
	}
	close(next)
	workers.Wait()

	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return parsed, nil
}

// measureLines counts wide lines and duplicates.
func (s *shape) measureLines(set *token.FileSet, goFiles []file, parsed []*ast.File, scripts []file) {
	goFinder, scriptFinder := newFinder(), newFinder()
	for i, f := range goFiles {
		lines := goLines(set, parsed[i], f.text)
		s.goWide += countWide(lines)
		goFinder.add(f.path, lines)
	}
	for _, f := range scripts {
		lines := scriptLines(f.text)
		s.scriptWide += countWide(lines)
		scriptFinder.add(f.path, lines)
	}

	for _, finder := range []*finder{goFinder, scriptFinder} {
		pairs, lines := finder.pairs()
		s.pairs = append(s.pairs, pairs...)
		s.pairLines += lines
	}
	slices.SortStableFunc(s.pairs, func(a, b pair) int { return b.lines - a.lines })
}

func countWide(lines []line) int {
	n := 0
	for _, l := range lines {
		if l.isWide() {
			n++
		}
	}
	return n
}

// measurePackages counts methods, and references between files.
func (s *shape) measurePackages(files []file, parsed []*ast.File) {
	byFolder := map[string][]*ast.File{}
	for i, f := range files {
		byFolder[f.folder()] = append(byFolder[f.folder()], parsed[i])
	}
	for folder, parsed := range byFolder {
		for name, n := range countMethods(parsed) {
			s.types[typeName{folder, name}] = n
		}
		if len(parsed) < minFiles {
			continue
		}
		u := countUpward(parsed)
		if u.all > 0 {
			s.upward[folder] = u
		}
		s.upwardSums.up += u.up
		s.upwardSums.all += u.all
	}
}
