package files_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/tool"
)

const notebook = `{
 "nbformat": 4,
 "nbformat_minor": 5,
 "metadata": {"z": 1, "a": "<é>"},
 "cells": [
  {"cell_type": "markdown", "id": "m1", "metadata": {}, "source": ["# Title\n", "text"]},
  {"id": "c1", "cell_type": "code", "metadata": {"k": 1.0}, "execution_count": 7, "outputs": [{"x": 1}], "source": "print(1)"}
 ]
}
`

func TestNotebookEdit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("n.ipynb", notebook)
	contains(t, b.text("notebook_edit", args{"path": "n.ipynb", "cell_index": 1, "new_source": "a < b\nc"}), "Replaced cell 1 of 2 in n.ipynb")
	want := `{
 "nbformat": 4,
 "nbformat_minor": 5,
 "metadata": {
  "z": 1,
  "a": "<é>"
 },
 "cells": [
  {
   "cell_type": "markdown",
   "id": "m1",
   "metadata": {},
   "source": [
    "# Title\n",
    "text"
   ]
  },
  {
   "id": "c1",
   "cell_type": "code",
   "metadata": {
    "k": 1.0
   },
   "execution_count": null,
   "outputs": [],
   "source": "a < b\nc"
  }
 ]
}
`
	if d := cmp.Diff(want, b.get("n.ipynb")); d != "" {
		t.Errorf("replace (-want +got):\n%s", d)
	}
	contains(t, b.text("notebook_edit", args{"path": "n.ipynb", "cell_index": 0, "new_source": "x = 1\ny = 2\n", "cell_type": "code"}), "Replaced cell 0")
	contains(t, b.get("n.ipynb"), `"cell_type": "code",
   "id": "m1",
   "metadata": {},
   "source": [
    "x = 1\n",
    "y = 2\n"
   ],
   "execution_count": null,
   "outputs": []`)
	contains(t, b.text("notebook_edit", args{"path": "n.ipynb", "cell_index": 1, "new_source": "note", "cell_type": "markdown"}), "Replaced")
	lacks(t, b.get("n.ipynb"), `"source": "note",`)
	contains(t, b.text("notebook_edit", args{"path": "n.ipynb", "cell_index": 0, "new_source": "mid", "edit_mode": "insert", "cell_type": "markdown"}), "Inserted cell 1 of 3")
	contains(t, b.text("notebook_edit", args{"path": "n.ipynb", "cell_index": 99, "new_source": "end", "edit_mode": "insert"}), "Inserted cell 3 of 4")
	contains(t, b.text("notebook_edit", args{"path": "n.ipynb", "cell_index": 0, "edit_mode": "delete"}), "Deleted cell 0; 3 left")
	var nb struct {
		Cells []struct {
			ID     string `json:"id"`
			Type   string `json:"cell_type"`
			Source any    `json:"source"`
		} `json:"cells"`
	}
	if err := json.Unmarshal([]byte(b.get("n.ipynb")), &nb); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, c := range nb.Cells {
		kinds = append(kinds, c.Type)
	}
	if d := cmp.Diff([]string{"markdown", "markdown", "code"}, kinds); d != "" {
		t.Errorf("cells (-want +got):\n%s", d)
	}
	if id := nb.Cells[0].ID; len(id) != 8 {
		t.Errorf("id of a new cell = %q, want 8 hex digits", id)
	}
	b.fails("notebook_edit", args{"path": "n.ipynb", "cell_index": 3, "new_source": "x"}, tool.InvalidArgs, "there are 3 cells")
	b.fails("notebook_edit", args{"path": "n.txt", "cell_index": 0}, tool.InvalidArgs, "edit_file")
	b.fails("notebook_edit", args{"path": "new.ipynb", "cell_index": 0, "new_source": "x"}, tool.NotFound, "edit_mode=insert")
	contains(t, b.text("notebook_edit", args{"path": "new.ipynb", "cell_index": 0, "new_source": "x", "edit_mode": "insert"}), "Inserted cell 0 of 1")
	contains(t, b.get("new.ipynb"), `"nbformat_minor": 5`, `"name": "python3"`, `"id": "`)
}

func TestNotebookHostile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, content := range map[string]string{
		"deep.ipynb":  `{"cells":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`,
		"list.ipynb":  `[]`,
		"cut.ipynb":   `{"cells":[`,
		"none.ipynb":  `{}`,
		"cells.ipynb": `{"cells":{}}`,
		"cell.ipynb":  `{"cells":[1]}`,
		"empty.ipynb": ``,
	} {
		b.put(name, content)
		b.fails("notebook_edit", args{"path": name, "cell_index": 0, "new_source": "x"}, tool.InvalidArgs, "not a valid notebook")
		if b.get(name) != content {
			t.Errorf("%s was changed", name)
		}
	}
	var keys strings.Builder
	for range 5000 {
		keys.WriteString(`"` + strings.Repeat("k", keys.Len()%97) + `":1,`)
	}
	b.put("many.ipynb", `{`+keys.String()+`"cells":[`+strings.TrimSuffix(strings.Repeat(`{"source":""},`, 100_000), ",")+`]}`)
	contains(t, b.text("notebook_edit", args{"path": "many.ipynb", "cell_index": 99_999, "edit_mode": "delete"}), "99999 left")
	b.put("huge.ipynb", strings.Repeat(" ", 33<<20))
	b.fails("notebook_edit", args{"path": "huge.ipynb", "cell_index": 0}, tool.TooLarge, "at most")
}
