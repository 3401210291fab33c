package mochat

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// What is packed reads as the same JSON.
func TestMsgpack(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 40_000)
	many := make([]any, 70_000)
	for i := range many {
		many[i] = i - 35_000
	}
	for _, v := range []any{
		nil, true, false, 0, 127, 128, -1, -32, -33, 1 << 31, -1 << 40, int64(1)<<53 - 1, "", "short", strings.Repeat("x", 31), strings.Repeat("x", 32), strings.Repeat("x", 256), long,
		[]any{},
		[]string{"a", "b"},
		many,
		map[string]any{"a": map[string]any{"b": []any{1, "<é>\n"}}},
		map[string]int64{"s": 5},
	} {
		got, err := fromMsgpack(toMsgpack(nil, v))
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(compact(t, got), compact(t, want)) {
			t.Errorf("%.60s reads as %.60s", want, got)
		}
	}
}

// compact is JSON that was read and written by the library.
func compact(t *testing.T, data []byte) []byte {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v in %.100s", err, data)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What others pack in other ways is read, too; bombs and broken data are not.
func TestMsgpackOthers(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		"\xca\x3f\xc0\x00\x00":                     "1.5",
		"\xcb\x40\x59\x00\x00\x00\x00\x00\x00":     "100",
		"\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00":     "null", // infinite
		"\xcc\xff":                                 "255",
		"\xcd\xff\xff":                             "65535",
		"\xce\xff\xff\xff\xff":                     "4294967295",
		"\xcf\xff\xff\xff\xff\xff\xff\xff\xff":     "18446744073709551615",
		"\xd0\x80":                                 "-128",
		"\xd1\x80\x00":                             "-32768",
		"\xd3\x80\x00\x00\x00\x00\x00\x00\x00":     "-9223372036854775808",
		"\xc4\x02hi":                               `"aGk="`,
		"\xd4\x00\x00":                             "null", // undefined of notepack
		"\xd6\xff\x00\x00\x00\x01":                 `"1970-01-01T00:00:01Z"`,
		"\xd7\x00\x00\x00\x00\x00\x00\x00\x03\xe8": `"1970-01-01T00:00:01Z"`,
		"\xd7\xff\x00\x00\x00\x00\x00\x00\x00\x01": `"1970-01-01T00:00:01Z"`,
		"\xc7\x01\x05x":                            "null",
		"\x81\x07\x01":                             `{"7":1}`,
		"\xde\x00\x01\xa1a\xdc\x00\x01\xc0":        `{"a":[null]}`,
		"\xdf\x00\x00\x00\x00":                     "{}",
		"\xda\x00\x01\xff":                         `"\ufffd"`,
	} {
		if got, err := fromMsgpack([]byte(data)); err != nil || string(compact(t, got)) != string(compact(t, []byte(want))) {
			t.Errorf("%x reads as %s, %v, want %s", data, got, err, want)
		}
	}
	for data, want := range map[string]error{
		"": errShort, "\xdb\xff\xff\xff\xffx": errShort, "\xdd\xff\xff\xff\xff\xc0": errShort, "\xdf\xff\xff\xff\xff": errShort, "\xc6\x7f\xff\xff\xff": errShort,
		"\xc9\xff\xff\xff\xff\x00": errShort, "\xc0\xc0": errExtra, "\xc1": errKind, "\x81\xc0\xc0": errKind, "\x81\x90\x90": errDeep,
		strings.Repeat("\x91", 1<<20): errDeep, strings.Repeat("\x81\xa1a", 1<<20): errDeep,
	} {
		if _, err := fromMsgpack([]byte(data)); !errors.Is(err, want) {
			t.Errorf("%.20x: %v, want %v", data, err, want)
		}
	}
}

// Whatever is read becomes JSON, and never much more of it than there was.
func FuzzMsgpack(f *testing.F) {
	f.Add(toMsgpack(nil, map[string]any{"type": 2, "nsp": "/", "data": []any{"e", map[string]any{"x": -7}}}))
	f.Add([]byte("\x82\x07\xcb\x40\x59\x00\x00\x00\x00\x00\x00\xa1b\xd7\x00\x00\x00\x00\x00\x00\x00\x03\xe8"))
	f.Add([]byte("\x91\x91\xdf\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := fromMsgpack(data)
		if err != nil {
			return
		}
		if !json.Valid(got) {
			t.Errorf("%x became %q", data, got)
		}
		if len(got) > 32*len(data) {
			t.Errorf("%d bytes became %d", len(data), len(got))
		}
	})
}
