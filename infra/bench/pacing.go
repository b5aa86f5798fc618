package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
)

// course is what the simulation in internal/cycle writes about an outage.
type course struct {
	Samples []struct {
		Second   int `json:"second"`
		Window   int `json:"window"`
		Attempts int `json:"attempts"`
		Backlog  int `json:"backlog"`
	} `json:"samples"`
	Events     int     `json:"events"`
	OutageEnds int     `json:"outage_ends"`
	Spent      int     `json:"attempts_spent"`
	Drain      float64 `json:"drain_seconds"`
	Ideal      float64 `json:"drain_ideal"`
	Doubles    int     `json:"executed_once_more"`
}

// pacingPart has the simulation run and draws it.
func pacingPart(ctx context.Context, p *place, _ options) error {
	file := filepath.Join(p.folder, "series.json")
	cmd := exec.CommandContext(ctx, "go", "test", "./internal/cycle", "-count=1", "-run", "^TestPacingThroughAnOutage$", "-args", "-series", file)
	cmd.Dir = p.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the simulation: %w\n%s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var c struct{ Paced, Unpaced course }
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	fmt.Printf("with pacing: %s\nwithout:     %s\n", c.Paced, c.Unpaced)
	return save("pacing.svg", pacingPlot(c.Paced, c.Unpaced))
}

func (c course) String() string {
	return fmt.Sprintf("%s attempts spent, drained %.0f s after the outage (%.0f at best), %s events executed twice", thousands(float64(c.Spent)), c.Drain, c.Ideal, thousands(float64(c.Doubles)))
}

// panel is one of the three curves of the picture, over the same time.
type panel struct {
	title string
	value func(c course, i int) float64
	top   float64 // of the scale
	log   bool
	marks []float64
}

// pacingPlot draws backlog, attempts and window with pacing and without.
func pacingPlot(paced, unpaced course) string {
	const (
		width, left, right     = 820, 84.0, 24.0
		first, tall, gap, foot = 92.0, 130.0, 46.0, 50.0
	)
	panels := []panel{
		{"Events that wait", func(c course, i int) float64 { return float64(c.Samples[i].Backlog) }, 10_000, false, []float64{0, 5000, 10_000}},
		{"Attempts made, on a logarithmic scale", func(c course, i int) float64 { return float64(c.Samples[i].Attempts) }, 1e6, true, []float64{1, 100, 10_000, 1e6}},
		{"POSTs that may be in flight", func(c course, i int) float64 { return float64(c.Samples[i].Window) }, 200, false, []float64{0, 100, 200}},
	}
	minutes := math.Ceil(float64(max(lastSecond(paced), lastSecond(unpaced)))/300) * 5
	height := int(first + float64(len(panels))*(tall+gap) + foot - gap + 10)
	s := newSVG(width, height, "An outage of n8n of 30 minutes, with pacing and without")
	s.text(16, 28, "h", "start", "n8n is away for %d minutes with %s events waiting, then answers 20 a second", paced.OutageEnds/60, thousands(float64(paced.Events)))
	for i, l := range []struct {
		class, name string
		c           course
	}{{"a", "with pacing", paced}, {"c", "without", unpaced}} {
		y := 50 + 18*float64(i)
		s.rect(left, y-10, 12, 12, l.class)
		s.text(left+18, y, "", "start", "%s: %s", l.name, l.c)
	}
	x := func(second int) float64 { return left + float64(second)/60/minutes*(width-left-right) }
	for i, p := range panels {
		top := first + 24 + float64(i)*(tall+gap)
		y := func(v float64) float64 {
			if p.log {
				return top + tall*(1-math.Log10(max(v, 1))/math.Log10(p.top))
			}
			return top + tall*(1-v/p.top)
		}
		s.text(left, top-8, "m", "start", "%s", p.title)
		s.rect(x(0), top, x(paced.OutageEnds)-x(0), tall, "shade")
		for _, m := range p.marks {
			s.line(left, y(m), width-right, y(m), "g")
			s.text(left-8, y(m)+4, "m", "end", "%s", thousands(m))
		}
		for _, l := range []struct {
			class string
			c     course
		}{{"lc", unpaced}, {"la", paced}} {
			s.curve(thin(l.c, x, y, p.value), l.class)
		}
	}
	bottom := first + 24 + float64(len(panels))*(tall+gap) - gap
	for m := 0.0; m <= minutes; m += 5 {
		s.text(x(int(m*60)), bottom+18, "m", "middle", "%.0f", m)
	}
	s.text(width-right, bottom+34, "m", "end", "minutes; grey: n8n refuses connections")
	return s.end()
}

// thin keeps what changes the curve by half a pixel.
func thin(c course, x func(int) float64, y func(float64) float64, value func(course, int) float64) (points []point) {
	for i, s := range c.Samples {
		p := point{x(s.Second), y(value(c, i))}
		if n := len(points); n > 0 && i < len(c.Samples)-1 && math.Abs(p.x-points[n-1].x) < 2 && math.Abs(p.y-points[n-1].y) < 0.5 {
			continue
		}
		points = append(points, p)
	}
	return points
}

func lastSecond(c course) int { return c.Samples[len(c.Samples)-1].Second }

func thousands(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.0f M", v/1e6)
	case v >= 1000:
		return fmt.Sprintf("%.0f,%03.0f", math.Floor(v/1000), math.Mod(v, 1000))
	}
	return fmt.Sprintf("%.0f", v)
}
