package main

import (
	"fmt"
	"html"
	"strings"
)

// svg draws a picture that can be read on a light and on a dark page: its colours
// follow the reader's, and it asks for no font that is not there.
type svg struct {
	strings.Builder
	width, height int
}

// style of all pictures. The classes are: t text, m muted text, h heading, g grid,
// and a, b, c for the things compared.
const style = `
text{font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;font-size:13px;fill:#24292f}
.m{fill:#57606a;font-size:12px}.h{font-size:15px;font-weight:600}
.g{stroke:#d0d7de;stroke-width:1;fill:none}.mark{stroke:#24292f;stroke-width:2}
.a{fill:#1f6feb}.b{fill:#8c959f}.c{fill:#d4762b}
.la{stroke:#1f6feb}.lc{stroke:#d4762b}.la,.lc{fill:none;stroke-width:2;stroke-linejoin:round}
.shade{fill:#afb8c1;fill-opacity:.22}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}.m{fill:#9198a1}.g{stroke:#3d444d}.mark{stroke:#e6edf3}
.a{fill:#4493f8}.b{fill:#7d8590}.c{fill:#e8945a}.la{stroke:#4493f8}.lc{stroke:#e8945a}.shade{fill:#656c76}}
`

func newSVG(width, height int, title string) *svg {
	s := &svg{width: width, height: height}
	fmt.Fprintf(s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img"><title>%s</title><style>%s</style>`,
		width, height, width, height, html.EscapeString(title), style)
	s.WriteByte('\n')
	return s
}

// text writes at a point; anchor is start, middle or end.
func (s *svg) text(x, y float64, class, anchor, format string, args ...any) {
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`+"\n", x, y, class, anchor, html.EscapeString(fmt.Sprintf(format, args...)))
}

func (s *svg) rect(x, y, width, height float64, class string) {
	fmt.Fprintf(s, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="%s"/>`+"\n", x, y, max(width, 0), height, class)
}

func (s *svg) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(s, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`+"\n", x1, y1, x2, y2, class)
}

// point of a curve.
type point struct{ x, y float64 }

func (s *svg) curve(points []point, class string) {
	s.WriteString(`<polyline class="` + class + `" points="`)
	for _, p := range points {
		fmt.Fprintf(s, "%.1f,%.1f ", p.x, p.y)
	}
	s.WriteString("\"/>\n")
}

// end returns the picture.
func (s *svg) end() string {
	s.WriteString("</svg>\n")
	return s.String()
}
