package main

// ratioPlot draws how near ours and River come to the bare client: two bars a cell,
// and a mark at what is to be reached.
func ratioPlot(cells []cell, all runs) string {
	const (
		left, top, barHeight, row = 190.0, 78.0, 15.0, 46.0
		width, full               = 820, 520.0 // full is the length of a bar at 1.0
	)
	height := int(top + row*float64(len(cells)) + 44)
	s := newSVG(width, height, "Events per second as a share of a bare HTTP client")
	s.text(16, 28, "h", "start", "Events per second, as a share of a bare Go HTTP client with as many in flight")
	s.rect(left, 42, 12, 12, "a")
	s.text(left+18, 53, "", "start", "this program")
	s.rect(left+120, 42, 12, 12, "c")
	s.text(left+138, 53, "", "start", "River, tuned")
	s.line(left+245, 42, left+245, 54, "mark")
	s.text(left+253, 53, "", "start", "to be reached")
	bottom := top + row*float64(len(cells))
	for _, at := range []float64{0, 0.25, 0.5, 0.75, 1} {
		x := left + full*at
		s.line(x, top-8, x, bottom, "g")
		s.text(x, bottom+18, "m", "middle", "%.0f %%", 100*at)
	}
	for i, c := range cells {
		y := top + row*float64(i)
		r := all[c]
		ours, river := median(ratios(r["ours"], r["bare"])), median(ratios(r["river"], r["bare"]))
		s.text(left-12, y+13, "", "end", "n8n in %d ms", c.ms)
		s.text(left-12, y+29, "m", "end", "%d in flight", c.inFlight)
		bar(s, left, y, full, barHeight, ours, figure(r["ours"], result.rate), "a")
		bar(s, left, y+barHeight+2, full, barHeight, river, figure(r["river"], result.rate), "c")
		x := left + full*c.target()
		s.line(x, y-3, x, y+2*barHeight+5, "mark")
	}
	s.text(left, bottom+36, "m", "start", "100 %% is the bare client: the same bodies and checks, no database")
	return s.end()
}

// bar draws one bar; its share and rate stand in a column at the right, clear of
// the marks.
func bar(s *svg, x, y, full, height, share, rate float64, class string) {
	length := full * min(share, 1.02)
	s.rect(x, y, length, height, class)
	s.text(x+full+14, y+height-3, "m", "start", "%.0f %%, %.0f/s", 100*share, rate)
}
