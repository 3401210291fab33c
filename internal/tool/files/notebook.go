package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"

	"github.com/nanobot-go/nanobot/internal/tool"
)

type notebookInput struct {
	Path      string `json:"path" alias:"file_path|notebook_path"`
	CellIndex int    `json:"cell_index" min:"0" desc:"from 0"`
	NewSource string `json:"new_source,omitempty" alias:"source"`
	CellType  string `json:"cell_type,omitempty" enum:"code|markdown"`
	EditMode  string `json:"edit_mode,omitempty" enum:"replace|insert|delete" desc:"insert goes after cell_index"`
}

func (f *family) notebookEdit(ctx context.Context, c tool.Call, in notebookInput) (tool.Result, error) {
	if res, no := readOnlyName(in.Path); no {
		return res, nil
	}
	if !strings.EqualFold(extension(in.Path), ".ipynb") {
		return tool.Fail(tool.InvalidArgs, "%s is not a notebook (.ipynb); use edit_file", in.Path), nil
	}

	var message string
	var written []byte
	w, err := f.jail.Update(ctx, in.Path, maxEditBytes, func(old []byte, info fs.FileInfo) ([]byte, error) {
		var err error
		if info == nil {
			if in.EditMode != "insert" {
				return nil, refuse(tool.NotFound, "%s does not exist; edit_mode=insert creates it", in.Path)
			}
			old = []byte(newNotebook)
		}

		written, message, err = in.apply(old)
		return written, err
	})
	if err != nil {
		return f.refused(ctx, in.Path, err)
	}

	f.wrote(c, in.Path, w, written)
	return tool.Textf("%s in %s", message, f.show(w.Path)), nil
}

const newNotebook = `{"cells":[],"metadata":{"kernelspec":{"display_name":"Python 3","language":"python","name":"python3"},` +
	`"language_info":{"name":"python"}},"nbformat":4,"nbformat_minor":5}`

// apply changes one cell. Everything else keeps its order and spelling.
func (in notebookInput) apply(raw []byte) (out []byte, message string, err error) {
	broken := func(err error) error {
		return refuse(tool.InvalidArgs, "not a valid notebook: %v", err)
	}
	book, err := parseObject(raw)
	if err != nil {
		return nil, "", broken(err)
	}

	var cells []json.RawMessage
	if err := json.Unmarshal(book.get("cells"), &cells); err != nil {
		return nil, "", broken(fmt.Errorf("cells: %w", err))
	}

	if in.EditMode == "insert" {
		at := min(in.CellIndex+1, len(cells))
		if len(cells) == 0 {
			at = 0
		}
		cell := in.newCell(book, cells)
		cells = append(cells[:at:at], append([]json.RawMessage{cell}, cells[at:]...)...)
		message = fmt.Sprintf("Inserted cell %d of %d", at, len(cells))
	} else {
		if in.CellIndex >= len(cells) {
			return nil, "", refuse(tool.InvalidArgs, "cell_index %d is out of range: there are %s, the first is 0", in.CellIndex, plural(len(cells), "cell"))
		}
		if in.EditMode == "delete" {
			cells = append(cells[:in.CellIndex:in.CellIndex], cells[in.CellIndex+1:]...)
			message = fmt.Sprintf("Deleted cell %d; %d left", in.CellIndex, len(cells))
		} else {
			cell, err := in.replaceCell(cells[in.CellIndex])
			if err != nil {
				return nil, "", broken(err)
			}
			cells[in.CellIndex] = cell
			message = fmt.Sprintf("Replaced cell %d of %d", in.CellIndex, len(cells))
		}
	}

	book.set("cells", joinArray(cells))
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, book.json(), "", " "); err != nil {
		return nil, "", broken(err)
	}

	pretty.WriteByte('\n')
	return pretty.Bytes(), message, nil
}

func (in notebookInput) newCell(book *object, cells []json.RawMessage) json.RawMessage {
	cell := &object{}
	kind := in.CellType
	if kind == "" {
		kind = "code"
	}

	cell.set("cell_type", jsonString(kind))
	if kind == "code" {
		cell.set("execution_count", json.RawMessage("null"))
	}

	var major, minor int
	_ = json.Unmarshal(book.get("nbformat"), &major)
	_ = json.Unmarshal(book.get("nbformat_minor"), &minor)
	if major > 4 || major == 4 && minor >= 5 {
		cell.set("id", jsonString(cellID()))
	}

	cell.set("metadata", json.RawMessage("{}"))
	if kind == "code" {
		cell.set("outputs", json.RawMessage("[]"))
	}

	list := true
	if len(cells) > 0 {
		if first, err := parseObject(cells[0]); err == nil {
			list = isList(first.get("source"))
		}
	}

	cell.set("source", sourceJSON(in.NewSource, list))
	return cell.json()
}

func (in notebookInput) replaceCell(raw json.RawMessage) (json.RawMessage, error) {
	cell, err := parseObject(raw)
	if err != nil {
		return nil, fmt.Errorf("cell %d: %w", in.CellIndex, err)
	}

	var kind string
	_ = json.Unmarshal(cell.get("cell_type"), &kind)
	if in.CellType != "" && in.CellType != kind {
		kind = in.CellType
		cell.set("cell_type", jsonString(kind))
	}

	if kind == "code" { // what the old source printed is no longer true
		cell.set("execution_count", json.RawMessage("null"))
		cell.set("outputs", json.RawMessage("[]"))
	} else {
		cell.drop("execution_count")
		cell.drop("outputs")
	}

	old := cell.get("source")
	cell.set("source", sourceJSON(in.NewSource, old == nil || isList(old)))
	return cell.json(), nil
}

func cellID() string {
	var b [4]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func isList(raw json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) }

// sourceJSON returns a cell's source as one string or as a list of lines.
func sourceJSON(s string, list bool) json.RawMessage {
	if !list {
		return jsonString(s)
	}
	var lines []json.RawMessage
	for l := range strings.Lines(s) {
		lines = append(lines, jsonString(l))
	}
	return joinArray(lines)
}

func jsonString(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string cannot fail
	return bytes.TrimSpace(b.Bytes())
}

func joinArray(items []json.RawMessage) json.RawMessage {
	out := []byte{'['}
	for i, it := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, it...)
	}
	return append(out, ']')
}

// object is a JSON object that keeps the order of its keys and the spelling of
// its values.
type object struct {
	keys   []string
	values []json.RawMessage
}

// maxKeys bounds an object; looking keys up takes time in proportion.
const maxKeys = 4096

func parseObject(raw []byte) (*object, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if t != json.Delim('{') {
		return nil, fmt.Errorf("want a JSON object")
	}

	o := &object{}
	for d.More() {
		if len(o.keys) == maxKeys {
			return nil, fmt.Errorf("more than %d keys in one object", maxKeys)
		}

		k, err := d.Token()
		if err != nil {
			return nil, err
		}

		key, _ := k.(string)
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		o.set(key, v)
	}

	_, err = d.Token()
	return o, err
}

func (o *object) index(key string) int {
	for i, k := range o.keys {
		if k == key {
			return i
		}
	}
	return -1
}

func (o *object) get(key string) json.RawMessage {
	if i := o.index(key); i >= 0 {
		return o.values[i]
	}
	return nil
}

func (o *object) set(key string, v json.RawMessage) {
	if i := o.index(key); i >= 0 {
		o.values[i] = v
		return
	}
	o.keys = append(o.keys, key)
	o.values = append(o.values, v)
}

func (o *object) drop(key string) {
	if i := o.index(key); i >= 0 {
		o.keys = append(o.keys[:i], o.keys[i+1:]...)
		o.values = append(o.values[:i], o.values[i+1:]...)
	}
}

func (o *object) json() json.RawMessage {
	out := []byte{'{'}
	for i, k := range o.keys {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, jsonString(k)...)
		out = append(out, ':')
		out = append(out, o.values[i]...)
	}

	return append(out, '}')
}
