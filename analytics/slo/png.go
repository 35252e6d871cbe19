package slo

import (
	"image/color"
	"io"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// The size of the picture in pixels, and how many are an inch of type.
const (
	pngWidth  = 1920
	pngHeight = 720
	pngDPI    = 144
)

var (
	colorP50       = color.RGBA{0x4c, 0x78, 0xa8, 0xff}
	colorP99       = color.RGBA{0xf2, 0x8e, 0x2b, 0xff}
	colorWorst     = color.RGBA{0xb0, 0x00, 0x20, 0xff}
	colorObjective = color.RGBA{0x22, 0x22, 0x22, 0xff}
	colorGrid      = color.RGBA{0xee, 0xee, 0xee, 0xff}
)

// PNG writes a picture of lateness over time: of each hour the median, p99 and the worst.
func (r *Report) PNG(w io.Writer) error {
	canvas := vgimg.NewWith(vgimg.UseWH(inches(pngWidth), inches(pngHeight)), vgimg.UseDPI(pngDPI))
	p, err := r.plot()
	if err != nil {
		return err
	}
	const margin = 12 // points; labels of the axes stand beyond the edges of the plot
	p.Draw(draw.Crop(draw.New(canvas), margin, -3*margin, margin, -margin))
	_, err = vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

func inches(pixels int) vg.Length { return vg.Length(pixels) / pngDPI * vg.Inch }

// plot has seconds since 1970 to the right, and to the top what height makes of a lateness.
func (r *Report) plot() (*plot.Plot, error) {
	from, err := time.Parse(time.RFC3339, r.From)
	if err != nil {
		return nil, err
	}
	until, err := time.Parse(time.RFC3339, r.Until)
	if err != nil {
		return nil, err
	}
	p := plot.New()
	p.Title.Text = "Lateness by the hour (UTC); objective: " + r.Objective
	p.Title.Padding = vg.Points(6)
	p.Legend.Top = true
	p.Legend.ThumbnailWidth = vg.Points(24)
	p.X.Min, p.X.Max = float64(from.Unix()), float64(until.Unix())
	p.Y.Min, p.Y.Max = 0, height(r.top())*1.25 // the legend stands above
	p.X.Tick.Marker, p.Y.Tick.Marker = times(from, until), latenesses(r.top())
	for _, text := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.Legend.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label,
	} {
		text.Font.Variant = "Sans"
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = colorGrid, colorGrid
	p.Add(grid)
	curves := []struct {
		name  string
		color color.Color
		width vg.Length
	}{{"median", colorP50, 2}, {"p99", colorP99, 2}, {"worst", colorWorst, 1}}
	for i, c := range curves {
		if err := r.addCurve(p, i, c.name, draw.LineStyle{Color: c.color, Width: c.width}); err != nil {
			return nil, err
		}
	}
	limit, err := plotter.NewLine(plotter.XYs{
		{X: p.X.Min, Y: height(r.WithinMS)}, {X: p.X.Max, Y: height(r.WithinMS)},
	})
	if err != nil {
		return nil, err
	}
	limit.LineStyle = draw.LineStyle{
		Color: colorObjective, Width: vg.Points(1), Dashes: []vg.Length{vg.Points(6), vg.Points(4)},
	}
	p.Add(limit)
	p.Legend.Add("objective", limit)
	return p, nil
}

// addCurve draws a level for each hour. Hours in which nothing fired break the curve.
func (r *Report) addCurve(p *plot.Plot, which int, name string, style draw.LineStyle) error {
	var run plotter.XYs
	end := func() error {
		if len(run) == 0 {
			return nil
		}
		line, err := plotter.NewLine(run)
		if err != nil {
			return err
		}
		line.LineStyle = style
		p.Add(line)
		run = nil
		return nil
	}
	for l := range r.levels(which) {
		if l.after {
			if err := end(); err != nil {
				return err
			}
		}
		y := height(l.ms)
		begin, over := float64(l.at.Unix()), float64(l.at.Add(time.Hour).Unix())
		run = append(run, plotter.XY{X: max(begin, p.X.Min), Y: y}, plotter.XY{X: min(over, p.X.Max), Y: y})
	}
	p.Legend.Add(name, &plotter.Line{LineStyle: style})
	return end()
}

func times(from, until time.Time) (all plot.ConstantTicks) {
	for at, label := range columns(from, until) {
		all = append(all, plot.Tick{Value: float64(at.Unix()), Label: label})
	}
	return all
}

func latenesses(top int64) (all plot.ConstantTicks) {
	for ms, label := range rows(top) {
		all = append(all, plot.Tick{Value: height(ms), Label: label})
	}
	return all
}
