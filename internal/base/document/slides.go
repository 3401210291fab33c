package document

import (
	"encoding/xml"
	"errors"
	"fmt"
)

// readSlides reads the texts of the shapes of each slide, in the order of the
// presentation.
func readSlides(z *archive, out *output, o Options) (Text, error) {
	name, err := z.main("ppt/presentation.xml")
	if err != nil {
		return Text{}, err
	}

	byID, _, err := z.relations(name)
	if err != nil {
		return Text{}, err
	}

	var slides []string
	err = z.each(name, func(_ *part, e xml.StartElement) error {
		if target := byID[prefixed(e, "id")]; e.Name.Local == "sldId" && target != "" {
			if len(slides) >= maxMembers {
				return problem(ErrTooLarge, "more than %d slides", maxMembers)
			}
			slides = append(slides, target)
		}
		return nil
	})
	if err != nil {
		return Text{}, err
	}

	t := Text{Pages: len(slides)}
	if t.From, t.To, err = o.pages(t.Pages); err != nil {
		return Text{}, err
	}

	f := &flow{out: out, breaks: "\n"}
	for n := t.From; n <= t.To; n++ {
		out.section(fmt.Sprintf("--- Slide %d ---", n))
		err = f.read(z, slides[n-1])
		if errors.Is(err, errFull) {
			t.To, t.Cut = n, true
			break
		}
		if err != nil {
			return Text{}, err
		}
	}

	t.Content, t.Notes = out.b.String(), f.notes
	return t, nil
}
