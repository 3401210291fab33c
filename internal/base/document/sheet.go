package document

import (
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
)

// Limits of workbooks.
const (
	maxSharedBytes = 16 << 20 // of the strings that cells refer to
	maxColumns     = 16_384
	maxStyles      = 65_536
)

// workbook is an open Excel file.
type workbook struct {
	z      *archive
	out    *output
	shared []string
	dates  []bool // by cell style: numbers are days
	since  time.Time
	cells  int
	notes  notes
}

type sheet struct{ name, part string }

// readExcel reads the values of each sheet, as they were last calculated, a row
// per line with tabs between cells. Blank rows are left out.
func readExcel(z *archive, out *output, o Options) (Text, error) {
	name, err := z.main("xl/workbook.xml")
	if err != nil {
		return Text{}, err
	}

	byID, byType, err := z.relations(name)
	if err != nil {
		return Text{}, err
	}

	b := &workbook{z: z, out: out, since: time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)}
	sheets, err := b.contents(name, byID)
	if err != nil {
		return Text{}, err
	}

	t := Text{Pages: len(sheets)}
	if t.From, t.To, err = o.pages(t.Pages); err != nil {
		return Text{}, err
	}

	if part := byType["styles"]; part != "" && z.has(part) {
		if err := b.readStyles(part); err != nil {
			return Text{}, err
		}
	}

	if part := byType["sharedStrings"]; part != "" && z.has(part) {
		if err := b.readShared(part); err != nil {
			return Text{}, err
		}
	}

	for n := t.From; n <= t.To; n++ {
		s := sheets[n-1]
		if !strings.Contains(strings.ToLower(s.part), "worksheet") {
			continue // a chart or a dialog
		}

		out.section("--- Sheet: " + strings.Join(strings.Fields(s.name), " ") + " ---")
		err = b.readSheet(s.part)
		if errors.Is(err, errFull) {
			t.To, t.Cut = n, true
			break
		}
		if err != nil {
			return Text{}, err
		}
	}

	t.Content, t.Notes = out.b.String(), b.notes
	return t, nil
}

// contents lists the sheets.
func (b *workbook) contents(name string, byID map[string]string) (sheets []sheet, err error) {
	err = b.z.each(name, func(_ *part, e xml.StartElement) error {
		switch e.Name.Local {
		case "workbookPr":
			if v := attr(e, "date1904"); v == "1" || v == "true" {
				b.since = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
			}
		case "sheet":
			if len(sheets) >= maxMembers {
				return problem(ErrTooLarge, "more than %d sheets", maxMembers)
			}
			if target := byID[prefixed(e, "id")]; target != "" {
				sheets = append(sheets, sheet{attr(e, "name"), target})
			}
		}
		return nil
	})
	return sheets, err
}

// readStyles learns which cell styles show numbers as dates.
func (b *workbook) readStyles(name string) error {
	custom := map[string]bool{}
	inCells := false
	return b.z.each(name, func(_ *part, e xml.StartElement) error {
		switch e.Name.Local {
		case "numFmt":
			if len(custom) < maxStyles {
				custom[attr(e, "numFmtId")] = isDateFormat(attr(e, "formatCode"))
			}
		case "cellStyleXfs", "cellStyles", "dxfs":
			inCells = false
		case "cellXfs":
			inCells = true
		case "xf":
			if inCells && len(b.dates) < maxStyles {
				id := attr(e, "numFmtId")
				n, _ := strconv.Atoi(id)
				date, known := custom[id]
				b.dates = append(b.dates, known && date || !known && isDateNumber(n))
			}
		}
		return nil
	})
}

// isDateNumber knows the formats that are built into Excel.
func isDateNumber(n int) bool {
	return n >= 14 && n <= 22 || n >= 27 && n <= 36 || n >= 45 && n <= 47 || n >= 50 && n <= 58
}

// isDateFormat looks for parts of a date outside of quotes and brackets.
func isDateFormat(code string) bool {
	quoted, bracket := false, false
	for i := 0; i < len(code); i++ {
		switch c := code[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '\\' || c == '_' || c == '*':
			i++ // the next character stands for itself
		case c == '[':
			bracket = true
		case c == ']':
			bracket = false
		case c == ';':
			return false
		case !bracket && strings.IndexByte("dDmMyYhHsS", c) >= 0:
			return true
		}
	}

	return false
}

// readShared reads the strings that cells refer to by number.
func (b *workbook) readShared(name string) error {
	total := 0
	return b.z.each(name, func(p *part, e xml.StartElement) error {
		if e.Name.Local != "si" {
			return nil
		}

		s, err := plain(p)
		if err != nil {
			return err
		}

		if total += len(s) + 16; total > maxSharedBytes {
			s = ""
			if len(b.shared) >= maxSharedBytes/16 {
				return nil
			}
			b.notes.add("Texts after the first %d MiB are missing.", maxSharedBytes>>20)
		}

		b.shared = append(b.shared, s)
		return nil
	})
}

// plain joins the text of the element just started, without what says how to
// pronounce it.
func plain(p *part) (string, error) {
	var s strings.Builder
	inText := false
	for want := p.depth - 1; p.depth > want; {
		t, err := p.next()
		if err != nil {
			return "", err
		}

		switch t := t.(type) {
		case xml.StartElement:
			if inText = t.Name.Local == "t"; t.Name.Local == "rPh" {
				if err := p.skip(); err != nil {
					return "", err
				}
			}

		case xml.EndElement:
			inText = false
		case xml.CharData:
			if inText && s.Len() < maxTokenBytes {
				s.Write(t)
			}
		}
	}

	return s.String(), nil
}

// row is a line being built.
type row struct {
	line strings.Builder
	next int // column of the next cell, from 0
	tabs int // written so far
}

func (b *workbook) readSheet(name string) error {
	var r row
	p, err := b.z.open(name)
	if err != nil {
		return err
	}

	defer p.close()
	for {
		t, err := p.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}

		switch t := t.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "row":
				r = row{}
			case "c":
				err = b.readCell(p, t, &r)
			}
		case xml.EndElement:
			if t.Name.Local == "row" {
				err = b.out.write("\n", r.line.String())
			}
		}

		if err != nil {
			return err
		}
	}
}

// readCell adds a cell to its row.
func (b *workbook) readCell(p *part, e xml.StartElement, r *row) error {
	if b.cells++; b.cells > maxCells {
		b.notes.add("Only the first %d cells were read.", maxCells)
		if err := b.out.write("\n", r.line.String()); err != nil {
			return err
		}
		return errFull
	}

	value, err := b.value(p, e)
	if err != nil {
		return err
	}

	at := max(r.next, columnOf(attr(e, "r")))
	r.next = at + 1
	if value == "" || r.line.Len() > maxHeld {
		return nil
	}

	for ; r.tabs < at; r.tabs++ {
		r.line.WriteByte('\t')
	}

	r.line.WriteString(value)
	return nil
}

// columnOf returns the column of a reference such as "AB12", from 0; -1 without one.
func columnOf(ref string) int {
	n := 0
	for i := 0; i < len(ref) && ref[i] >= 'A' && ref[i] <= 'Z'; i++ {
		if n = n*26 + int(ref[i]-'A') + 1; n > maxColumns {
			return -1
		}
	}
	return n - 1
}

// value reads what a cell shows.
func (b *workbook) value(p *part, e xml.StartElement) (string, error) {
	var raw, inline strings.Builder
	element := ""
	for want := p.depth - 1; p.depth > want; {
		t, err := p.next()
		if err != nil {
			return "", err
		}

		switch t := t.(type) {
		case xml.StartElement:
			if element = t.Name.Local; element == "is" {
				s, err := plain(p)
				if err != nil {
					return "", err
				}
				inline.WriteString(s)
			}

		case xml.EndElement:
			element = ""
		case xml.CharData:
			if element == "v" && raw.Len() < maxTokenBytes {
				raw.Write(t)
			}
		}
	}

	s := raw.String()
	switch attr(e, "t") {
	case "s":
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if s = ""; err == nil && n >= 0 && n < len(b.shared) {
			s = b.shared[n]
		}

	case "inlineStr":
		s = inline.String()
	case "b":
		if s = strings.TrimSpace(s); s == "1" {
			return "TRUE", nil
		} else if s == "0" {
			return "FALSE", nil
		}

	case "", "n":
		style, _ := strconv.Atoi(attr(e, "s"))
		return b.number(strings.TrimSpace(s), style >= 0 && style < len(b.dates) && b.dates[style]), nil
	}

	// A tab or a line break in a cell would look like the next cell or row.
	return strings.Join(strings.Fields(s), " "), nil
}

// number writes a number the way a sheet would, without the noise of binary
// fractions, and a date as a date.
func (b *workbook) number(s string, date bool) string {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return s
	}

	if !date || v < 0 || v > 2_958_466 { // the last day of the year 9999
		if strings.ContainsAny(s, ".eE") {
			return strconv.FormatFloat(v, 'g', 15, 64)
		}
		return s
	}

	seconds := int64(v*86_400 + 0.5)
	at := b.since.Add(time.Duration(seconds%86_400)*time.Second).AddDate(0, 0, int(seconds/86_400))
	switch {
	case seconds < 86_400 && v != 0:
		return at.Format("15:04:05")
	case seconds%86_400 == 0:
		return at.Format(time.DateOnly)
	}
	return at.Format(time.DateTime)
}
