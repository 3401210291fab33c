package trial

import (
	"context"
	"encoding/base64"
	"errors"
	"image/png"
	"iter"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
)

func TestRedSquareIsAPicture(t *testing.T) {
	t.Parallel()
	img, err := png.Decode(base64.NewDecoder(base64.StdEncoding, strings.NewReader(redSquare)))
	if err != nil {
		t.Fatal(err)
	}
	r, g, b, _ := img.At(63, 63).RGBA()
	if size := img.Bounds().Size(); size.X != 64 || size.Y != 64 || r>>8 != 220 || g>>8 != 20 || b>>8 != 20 {
		t.Errorf("got %v of colour %d %d %d", size, r>>8, g>>8, b>>8)
	}
}

// A model that cannot answer is asked nothing else.
func TestNoText(t *testing.T) {
	t.Parallel()
	calls := 0
	dead := llm.ModelFunc(func(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
		calls++
		return func(yield func(llm.Event, error) bool) {
			yield(llm.Event{}, &llm.Error{Kind: llm.Auth, Message: "no such key"})
		}
	})
	tr := New("m", dead, catalog.Choice{WireModel: "m"}, func(err error, _ string) string { return "in words: " + err.Error() })
	var told []Verdict
	tr.Run(t.Context(), catalog.Offer{Vision: catalog.Supported}, func(v Verdict) { told = append(told, v) })
	var e *llm.Error
	if !errors.As(tr.Err(), &e) || e.Kind != llm.Auth || calls != 1 {
		t.Errorf("%d calls, %v", calls, tr.Err())
	}
	if len(told) != 1 || told[0].Result != "failed" || !strings.HasPrefix(told[0].Note, "in words: ") {
		t.Errorf("told %+v", told)
	}
}
