package llm_test

import (
	"encoding/json"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
)

func TestCount(t *testing.T) {
	t.Parallel()
	const no = llm.Unbelievable
	for text, want := range map[string]llm.Count{
		"0": 0, "12": 12, "12.0": 12, "12.2": 13, `"12"`: 12, "null": 0, `""`: 0, `"many"`: 0, "true": 0, "{}": 0, "[1]": 0, "-0": 0,
		"1e300": no, "-1": no, "-1e300": no, "1e999": no, "-1e999": no, "1000000001": no, "9223372036854775808": no, `"1e300"`: no, `"-5"`: no, `"NaN"`: no, `"Infinity"`: no,
	} {
		var got struct{ N llm.Count }
		if err := json.Unmarshal([]byte(`{"n":`+text+`}`), &got); err != nil || got.N != want {
			t.Errorf("%s: %d, %v, want %d", text, got.N, err, want)
		}
	}
}

// A number that cannot be does not disappear in a sum.
func TestSumOfCounts(t *testing.T) {
	t.Parallel()
	if got := llm.SumCounts(1, 2, 3); got != 6 {
		t.Errorf("got %d", got)
	}
	if got := llm.SumCounts(5000, llm.Unbelievable); got >= 0 {
		t.Errorf("got %d", got)
	}
	if got := (llm.Usage{Prompt: 5000}).Add(llm.Usage{Prompt: -1}); got.Prompt >= 0 {
		t.Errorf("got %+v", got)
	}
}
