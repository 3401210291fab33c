package config

import (
	"bytes"
	"reflect"
	"strings"

	"github.com/nanobot-go/nanobot/internal/httpsafe"
)

// Schema is the JSON Schema (2020-12) of config.json, for editors. It is made
// from the Go types: descriptions, defaults, choices and ranges.
func Schema() []byte {
	d := Default()
	b := []byte(`{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"nanobot configuration",`)
	body := schemaOf(rootPlace(), reflect.ValueOf(d))
	return indent(append(b, body[1:]...))
}

// schemaWriter writes the members of one JSON object.
type schemaWriter struct{ bytes.Buffer }

func (w *schemaWriter) key(name string) {
	if w.Len() == 0 {
		w.WriteByte('{')
	} else {
		w.WriteByte(',')
	}
	w.Write(plainJSON(name))
	w.WriteByte(':')
}

func (w *schemaWriter) put(name string, v any) {
	w.key(name)
	w.Write(plainJSON(v))
}

func (w *schemaWriter) raw(name string, b []byte) {
	w.key(name)
	w.Write(b)
}

func (w *schemaWriter) done() []byte {
	if w.Len() == 0 {
		return []byte("{}")
	}
	w.WriteByte('}')
	return w.Bytes()
}

// schemaOf describes the setting at p; def is its default, invalid for none.
func schemaOf(p place, def reflect.Value) []byte {
	w := &schemaWriter{}
	if doc := p.tag.Get("doc"); doc != "" {
		w.put("description", doc)
	}
	t := p.typ
	if t != nil && t.Kind() == reflect.Pointer {
		t, def = t.Elem(), reflect.Value{}
	}
	switch {
	case t == nil || t == reflect.TypeFor[Raw]():
		return w.done()
	case t == reflect.TypeFor[httpsafe.Secret]():
		w.put("type", []string{"string", "null"})
		w.put("writeOnly", true)
		return w.done()
	}
	switch t.Kind() {
	case reflect.Struct:
		sectionSchema(w, p.as(t, p.tag), def)
	case reflect.Map:
		w.put("type", []string{"object", "null"})
		w.raw("additionalProperties", schemaOf(p.as(t.Elem(), elemTag(p.tag)), elementDefault(t.Elem())))
	case reflect.Slice:
		w.put("type", []string{"array", "null"})
		w.raw("items", schemaOf(p.as(t.Elem(), elemTag(p.tag)), elementDefault(t.Elem())))
		if def.IsValid() && def.Len() > 0 {
			w.put("default", def.Interface())
		}
	default:
		scalarSchema(w, t, p.tag)
		if def.IsValid() && (t.Kind() != reflect.String || def.Len() > 0) && len(p.path) > 0 {
			w.put("default", def.Interface())
		}
	}
	return w.done()
}

func scalarSchema(w *schemaWriter, t reflect.Type, tag reflect.StructTag) {
	kind := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Float64: "number",
	}[t.Kind()]
	w.put("type", []string{kind, "null"})
	if enum := tag.Get("enum"); enum != "" {
		words := []any{}
		for s := range strings.SplitSeq(enum, "|") {
			words = append(words, s)
		}
		w.put("enum", append(words, nil))
	}
	for _, k := range []struct{ tag, name string }{{"min", "minimum"}, {"max", "maximum"}} {
		if v := tag.Get(k.tag); v != "" {
			w.raw(k.name, []byte(v))
		}
	}
}

// sectionSchema describes an object of settings. Keys that start with x- are
// free for notes; older names are there, marked as deprecated.
func sectionSchema(w *schemaWriter, p place, def reflect.Value) {
	sh := p.shapes.of(p.typ)
	fields, rest := sh.fields, sh.rest
	props := &schemaWriter{}
	var required []string
	if len(p.path) == 0 {
		props.put("$schema", map[string]any{"type": "string"})
	}
	for _, f := range fields {
		var d reflect.Value
		if def.IsValid() {
			d = def.Field(f.index)
		}
		props.raw(f.name, schemaOf(p.at(f.name, f.typ, f.tag), d))
		if f.alias != "" {
			props.put(f.alias, map[string]any{"description": "Older name of " + f.name + ".", "deprecated": true})
		}
		if f.tag.Get("required") != "" {
			required = append(required, f.name)
		}
	}
	kind := []string{"object", "null"}
	if p.typ.Field(0).Tag.Get("bare") != "" {
		kind = append(kind, "string")
	}
	w.put("type", kind)
	w.raw("properties", props.done())
	if required != nil {
		w.put("required", required)
	}
	switch {
	case rest == nil:
		w.put("additionalProperties", false)
		w.put("patternProperties", map[string]any{"^x-": map[string]any{}})
	case rest.typ.Kind() == reflect.Map:
		w.raw("additionalProperties", schemaOf(p.as(rest.typ.Elem(), rest.tag), elementDefault(rest.typ.Elem())))
	default:
		w.put("additionalProperties", true)
	}
}
