package catalog

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Status is a provider and what is set up for it.
type Status struct {
	Choice      // without a model
	Ready  bool // it has what it needs; for a sign-in see there
	Own    bool // an endpoint of the user's own
}

// Survey tells for every brand, and for the user's own endpoints, where its key
// and its address come from. Model and Provider of the input are not looked at.
func Survey(in MatchInput) ([]Status, error) {
	in.Model, in.Provider = "", ""
	m := matcher{in: in, rows: Rows()}
	m.rows = slices.DeleteFunc(m.rows, m.taken)
	if err := m.collision(); err != nil {
		return nil, err
	}

	out := make([]Status, 0, len(m.rows))
	for _, row := range m.rows {
		c, _ := m.choice(m.found(row, "", "")) // an error says what Ready says
		row.Display = c.Row.Display
		c.Name, c.Row = row.Name, row // whatever its key looks like
		out = append(out, Status{Choice: c, Ready: m.configured(row, true) || row.Speech && !c.Key.IsZero()})
	}

	for _, name := range slices.Sorted(maps.Keys(in.Providers)) {
		if _, known := m.row(name); !known {
			c, _ := m.choice(found{row: m.customRow(name), block: name})
			out = append(out, Status{Choice: c, Ready: c.Base != "", Own: true})
		}
	}
	return out, nil
}

// NearestModels returns up to n offered names that a wrong one may have meant,
// the best first.
func NearestModels(model string, offers []Offer, n int) []string {
	type scored struct {
		id    string
		score float64
	}
	var all []scored
	want := grams(model)
	for _, o := range offers {
		have := grams(o.ID)
		shared := 0
		for g := range want {
			if have[g] {
				shared++
			}
		}

		if s := 2 * float64(shared) / float64(len(want)+len(have)+1); s > 0.35 {
			all = append(all, scored{o.ID, s})
		}
	}

	slices.SortStableFunc(all, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(len(a.id), len(b.id)))
	})
	out := make([]string, 0, n)
	for _, s := range all[:min(n, len(all))] {
		out = append(out, s.id)
	}
	return out
}

// grams returns the pairs of neighbouring characters of a name without its vendor.
func grams(model string) map[string]bool {
	m := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	out := map[string]bool{}
	for i := 0; i+2 <= len(m); i++ {
		out[m[i:i+2]] = true
	}
	return out
}
