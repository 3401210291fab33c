package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/cli/tui"
)

// jsonFlag adds --json, which makes a command write for programs.
func jsonFlag(cmd *cobra.Command, to *bool) { cmd.Flags().BoolVar(to, "json", false, "write JSON") }

// encodeJSON writes a value, on one line without an indent.
func encodeJSON(w io.Writer, v any, indent string) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(v)
}

// table prints rows with aligned columns for people.
type table struct {
	w    io.Writer
	rows [][]string
}

// newTable begins a table with its column heads, if it has any.
func newTable(w io.Writer, heads ...string) *table {
	t := &table{w: w}
	if len(heads) > 0 {
		t.rows = append(t.rows, heads)
	}
	return t
}

// row adds a row.
func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

// columnGap stands between the columns of a table.
const columnGap = "  "

// Flush prints the table.
func (t *table) Flush() error {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], tui.Width(c))
		}
	}

	var b strings.Builder
	for _, row := range t.rows {
		for i, c := range row {
			if i < len(row)-1 {
				c = pad(c, widths[i]) + columnGap
			}
			b.WriteString(c)
		}
		b.WriteByte('\n')
	}

	_, err := io.WriteString(t.w, b.String())
	return err
}

// pad fills a text with spaces to a number of columns of the terminal.
func pad(s string, columns int) string {
	return s + strings.Repeat(" ", max(columns-tui.Width(s), 0))
}
