package slo

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"testing"
	"time"
)

// The curve is drawn where the numbers say. The median is 9 ms for the first half of the
// window and 999 ms for the second, and the objective 99 ms: on the logarithmic scale it is
// in the middle between the two. An hour without fires breaks the curve.
func TestPNG(t *testing.T) {
	l := newLake(t, 1)
	for hour := range 24 {
		late := 9 * time.Millisecond
		if hour >= 12 {
			late = 999 * time.Millisecond
		}
		if hour == 6 {
			continue
		}
		due := noon.Add(time.Duration(hour-24)*time.Hour + time.Minute)
		l.add(0, due.Add(late), fired("k", due, late))
	}
	o := options()
	o.Objective.Within = 99 * time.Millisecond
	r, err := Read(t.Context(), l.export(256), o)
	if err != nil {
		t.Fatal(err)
	}
	img := drawn(t, &r)
	if size := img.Bounds().Size(); size != image.Pt(pngWidth, pngHeight) {
		t.Fatalf("the picture has %v", size)
	}
	// Labels of the axes have nearly the objective's colour, and stand to the left and below.
	limit := boxOf(img, colorObjective, image.Rect(100, 0, pngWidth, pngHeight*4/5), widest)
	left, right := limit.Min.X, limit.Max.X // it goes from edge to edge, but for a dash
	width := float64(right - left)
	if width < 0.8*pngWidth || limit.Dy() > 4 {
		t.Fatalf("the objective is drawn in %v", limit)
	}
	at := func(hour float64) int { return left + int(width*hour/24) }
	// Only the worst is drawn where all three are the same, since it is drawn last.
	const band = 5
	early := boxOf(img, colorWorst, image.Rect(at(1), 0, at(5), pngHeight), all)
	late := boxOf(img, colorWorst, image.Rect(at(13), 0, at(20), pngHeight), all)
	if early.Empty() || late.Empty() || early.Dy() > band || late.Dy() > band {
		t.Fatalf("the curve is drawn in %v and %v", early, late)
	}
	low, high, middle := center(early), center(late), center(limit)
	if high >= middle || middle >= low || abs((low-middle)-(middle-high)) > 3 {
		t.Errorf("9 ms is drawn at %d, 99 ms at %d, 999 ms at %d", low, middle, high)
	}
	if gap := boxOf(img, colorWorst, image.Rect(at(6.2), 0, at(6.8), pngHeight), all); !gap.Empty() {
		t.Errorf("an hour without fires is drawn in %v", gap)
	}
	jump := boxOf(img, colorWorst, image.Rect(at(11.5), middle-3, at(12.5), middle+3), all)
	if x := (jump.Min.X + jump.Max.X) / 2; jump.Empty() || abs(x-at(12)) > 8 {
		t.Errorf("the curve rises at %v, want %d", jump, at(12))
	}
}

// A report without fires has a picture, too.
func TestPNGOfNothing(t *testing.T) {
	r, err := Read(t.Context(), newLake(t, 1).export(8), options())
	if err != nil {
		t.Fatal(err)
	}
	img := drawn(t, &r)
	if curve := boxOf(img, colorP50, image.Rect(200, 200, 1200, 600), all); !curve.Empty() {
		t.Errorf("something is drawn in %v", curve)
	}
}

func drawn(t *testing.T, r *Report) image.Image {
	t.Helper()
	var b, second bytes.Buffer
	if err := r.PNG(&b); err != nil {
		t.Fatal(err)
	}
	if err := r.PNG(&second); err != nil || !bytes.Equal(b.Bytes(), second.Bytes()) {
		t.Errorf("a second picture differs: %v", err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// widest keeps of a colour's rows those in which it is drawn far; all keeps them all. Text has
// the objective's colour, too.
const (
	all    = 1
	widest = pngWidth / 3
)

// boxOf is where a colour is drawn within a rectangle.
func boxOf(img image.Image, c color.RGBA, in image.Rectangle, least int) (box image.Rectangle) {
	for y := in.Min.Y; y < in.Max.Y; y++ {
		row, n := image.Rectangle{}, 0
		for x := in.Min.X; x < in.Max.X; x++ {
			if near(img.At(x, y), c) {
				row = row.Union(image.Rect(x, y, x+1, y+1))
				n++
			}
		}
		if n >= least {
			box = box.Union(row)
		}
	}
	return box
}

// near: edges of lines are mixed with what is behind them.
func near(got color.Color, want color.RGBA) bool {
	r, g, b, _ := got.RGBA()
	return abs(int(r>>8)-int(want.R)) < 24 && abs(int(g>>8)-int(want.G)) < 24 && abs(int(b>>8)-int(want.B)) < 24
}

func center(r image.Rectangle) int { return (r.Min.Y + r.Max.Y) / 2 }

func abs(n int) int { return max(n, -n) }
