package api

// Observe counts one value.
func (h *Histogram) Observe(v float64, values ...string) { h.observe(v, values...) }
