package document

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxHeld bounds the text of one paragraph or table row, in bytes.
const maxHeld = 2 << 20

// readWord reads paragraphs, separated by blank lines, and tables as rows of
// tab-joined cells.
func readWord(z *archive, out *output) (Text, error) {
	name, err := z.main("word/document.xml")
	if err != nil {
		return Text{}, err
	}
	f := &flow{out: out, breaks: "\n\n"}
	err = f.read(z, name)
	return Text{Content: out.b.String(), Cut: errors.Is(err, errFull), Notes: f.notes}, ignoreFull(err)
}

// ignoreFull drops the error that means success.
func ignoreFull(err error) error {
	if errors.Is(err, errFull) {
		return nil
	}
	return err
}

// flow turns the paragraphs and tables of Word and PowerPoint, which use the
// same element names, into text as they come by.
type flow struct {
	out    *output
	breaks string // between paragraphs
	para   strings.Builder
	tables []*table // inside each other, outermost first
	held   int      // bytes in unfinished rows
	cells  int
	notes  notes
}

// table is a table being read. One inside a cell becomes text of the cell.
type table struct {
	rows int
	row  []string
	cell strings.Builder
}

// notes keeps each remark once.
type notes []string

func (n *notes) add(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !slices.Contains(*n, s) {
		*n = append(*n, s)
	}
}

// read consumes a part.
func (f *flow) read(z *archive, name string) error {
	p, err := z.open(name)
	if err != nil {
		return err
	}

	defer p.close()
	inText := false
	for {
		t, err := p.next()
		if errors.Is(err, io.EOF) {
			return f.flush()
		}
		if err != nil {
			return err
		}

		switch t := t.(type) {
		case xml.StartElement:
			inText = t.Name.Local == "t"
			err = f.start(p, t.Name.Local)
		case xml.EndElement:
			inText = false
			err = f.closeElement(t.Name.Local)
		case xml.CharData:
			if inText {
				f.para.Write(t)
			}
			if f.para.Len() > maxHeld {
				err = f.flush()
			}
		}

		if err != nil {
			return err
		}
	}
}

func (f *flow) start(p *part, name string) error {
	switch name {
	case "p":
		return f.flush() // a text box inside a paragraph
	case "tab":
		f.para.WriteByte('\t')
	case "br", "cr":
		f.para.WriteByte('\n')
	case "noBreakHyphen":
		f.para.WriteByte('-')
	case "tbl":
		if err := f.flush(); err != nil {
			return err
		}
		if len(f.tables) == maxTables {
			f.notes.add("Tables nested deeper than %d were left out.", maxTables)
			return p.skip()
		}
		f.tables = append(f.tables, &table{})

	case "tc":
		if f.cells++; f.cells > maxCells {
			f.notes.add("Only the first %d table cells were read.", maxCells)
			return errFull
		}

	case "Fallback", "pPr", "rPr", "sectPr", "tblPr", "trPr", "tcPr", "del", "moveFrom":
		// Fallback repeats what another element says better; the others hold
		// settings, or text that was taken out.
		return p.skip()
	}
	return nil
}

func (f *flow) closeElement(name string) error {
	n := len(f.tables)
	switch name {
	case "p":
		return f.flush()
	case "tc":
		if n > 0 {
			t := f.tables[n-1]
			t.row = append(t.row, t.cell.String())
			t.cell.Reset()
		}

	case "tr":
		return f.closeRow()
	case "tbl":
		if n > 0 {
			f.tables = f.tables[:n-1]
		}
	}

	return nil
}

// flush ends a paragraph: into its cell, or into the text.
func (f *flow) flush() error {
	if f.para.Len() == 0 {
		return nil
	}

	s := f.para.String()
	f.para.Reset()
	if n := len(f.tables); n > 0 {
		f.addToCell(f.tables[n-1], s)
		return nil
	}
	return f.out.write(f.breaks, s)
}

// addToCell adds text to the cell that is being read. A tab or a line break in it
// would look like the next cell or row.
func (f *flow) addToCell(t *table, s string) {
	s = strings.Join(strings.Fields(s), " ")
	if f.held += len(s); f.held > maxHeld {
		f.notes.add("A table row over %d MiB was cut.", maxHeld>>20)
		return
	}
	if t.cell.Len() > 0 && s != "" {
		t.cell.WriteByte(' ')
	}
	t.cell.WriteString(s)
}

func (f *flow) closeRow() error {
	n := len(f.tables)
	if n == 0 {
		return nil
	}

	t := f.tables[n-1]
	row := strings.TrimRight(strings.Join(t.row, "\t"), "\t")
	t.row = t.row[:0]

	if n > 1 {
		f.addToCell(f.tables[n-2], row)
		return nil
	}

	f.held = 0
	if strings.TrimSpace(row) == "" {
		return nil
	}

	sep := "\n"
	if t.rows++; t.rows == 1 {
		sep = f.breaks
	}
	return f.out.write(sep, row)
}
