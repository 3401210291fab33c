package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// jsonFlag adds --json, which makes a command write for programs.
func jsonFlag(cmd *cobra.Command, to *bool) { cmd.Flags().BoolVar(to, "json", false, "write JSON") }

// printJSON writes what a command found for a program.
func printJSON(cmd *cobra.Command, v any) error { return encodeJSON(cmd.OutOrStdout(), v, "  ") }

// encodeJSON writes a value, on one line without an indent.
func encodeJSON(w io.Writer, v any, indent string) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(v)
}

// table prints rows with aligned columns for people.
type table struct{ *tabwriter.Writer }

// newTable begins a table with its column heads.
func newTable(w io.Writer, heads ...string) table {
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	fmt.Fprintln(t, strings.Join(heads, "\t"))
	return t
}

// row adds a row.
func (t table) row(cells ...any) {
	for i, c := range cells {
		if i > 0 {
			fmt.Fprint(t, "\t")
		}
		fmt.Fprint(t, c)
	}
	fmt.Fprintln(t)
}
