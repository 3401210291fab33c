package sandbox

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlanTravels(t *testing.T) {
	t.Parallel()
	want := &plan{
		Profile: Profile{
			Workspace: "/a b/\n\xff", ReadOnly: []string{"/r", ""}, ReadWrite: []string{}, Protected: []string{"/p"},
			Network: NetProxy, ProxySocket: "/s", Limits: Limits{Processes: -1, Memory: 1 << 40, FileSize: 3, Files: 4, CPU: 5},
		},
		Dir: "/d", Home: "/h", Temp: "/t", Links: []string{"/l", "/m"}, Spaces: allSpaces, NoProc: true, PIDMax: true,
		ABI: 7, Inner: true, OwnNet: true, Trial: true, DropEnv: 1,
	}
	var buf bytes.Buffer
	if err := want.write(&buf); err != nil {
		t.Fatal(err)
	}
	data := slices.Clone(buf.Bytes())
	got, err := readPlan(&buf)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Profile{})); diff != "" {
		t.Error(diff)
	}
	for i := range data { // cut short, and with a byte changed: an error or a plan, no panic
		if _, err := readPlan(bytes.NewReader(data[:i])); err == nil {
			t.Errorf("%d of %d bytes were a plan", i, len(data))
		}
		odd := slices.Clone(data)
		odd[i] ^= 0xff
		_, _ = readPlan(bytes.NewReader(odd))
	}
	big := &plan{Profile: Profile{ReadOnly: slices.Repeat([]string{"/a/long/path"}, 6000)}}
	if err := big.write(&buf); err == nil {
		t.Error("a plan that does not fit was written")
	}
}
