package cli

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// fit says what becomes of a column where a terminal is too narrow.
type fit int

const (
	whole   fit = iota // it stays as it is
	asID               // its first characters say which one it is
	asURL              // its middle is left out, also of other long texts
	dropped            // it is left out
)

const (
	shownID  = 8  // what is left of an id; the commands take that much
	shownURL = 16 // what is left of a URL at least
	gutter   = 2  // between columns
)

// column is the head of a column, and how it gives way.
type column struct {
	name string
	fit  fit
}

// grid writes a table page by page. The first page settles the widths on a
// terminal; elsewhere nothing is shortened and a column only grows.
type grid struct {
	out     io.Writer
	columns []column
	width   int // of the terminal; 0: there is none
	widths  []int
}

// write writes rows of as many cells as there are columns, the heads before the
// first ones. What a terminal would act on is taken out.
func (g *grid) write(rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	first := g.widths == nil
	natural := slices.Clone(g.widths)
	if first {
		heads := make([]string, len(g.columns))
		for i, c := range g.columns {
			heads[i] = c.name
		}
		natural = make([]int, len(g.columns))
		rows = slices.Concat([][]string{heads}, rows)
	}
	for _, row := range rows {
		for i := range row {
			row[i] = plain(row[i])
			natural[i] = max(natural[i], utf8.RuneCountInString(row[i]))
		}
	}
	if first || g.width == 0 {
		g.widths = fitted(g.columns, natural, g.width)
	}
	var text strings.Builder
	for _, row := range rows {
		text.WriteString(g.line(row))
		text.WriteByte('\n')
	}
	_, err := io.WriteString(g.out, text.String())
	return err
}

// line is a row in the widths of the grid, without spaces at its end.
func (g *grid) line(row []string) string {
	var b strings.Builder
	for i, cell := range row {
		w := g.widths[i]
		if w == 0 {
			continue
		}
		switch g.columns[i].fit {
		case asID:
			cell = string([]rune(cell)[:min(w, utf8.RuneCountInString(cell))])
		case asURL:
			cell = shorten(cell, w)
		case whole, dropped:
		}
		b.WriteString(cell)
		b.WriteString(strings.Repeat(" ", max(w-utf8.RuneCountInString(cell), 0)+gutter))
	}
	return strings.TrimRight(b.String(), " ")
}

// fitted returns how wide each column is where the terminal has width columns
// and their cells are as wide as natural says; 0: it is left out. First ids give
// way, then columns that can be done without, from the right, then URLs, the
// longest first. What does not fit even so is left to the terminal.
func fitted(columns []column, natural []int, width int) []int {
	w := slices.Clone(natural)
	total := func(floor int) int {
		sum := -gutter
		for i, c := range columns {
			switch {
			case w[i] > 0 && c.fit == asURL:
				sum += min(w[i], floor) + gutter
			case w[i] > 0:
				sum += w[i] + gutter
			}
		}
		return sum
	}
	widest := slices.Max(natural)
	if width == 0 || total(widest) <= width {
		return w
	}
	for i, c := range columns {
		if c.fit == asID {
			w[i] = min(w[i], shownID)
		}
	}
	for i := len(columns) - 1; i >= 0 && total(shownURL) > width; i-- {
		if columns[i].fit == dropped {
			w[i] = 0
		}
	}
	limit := widest
	for limit > shownURL && total(limit) > width {
		limit--
	}
	for i, c := range columns {
		if c.fit == asURL {
			w[i] = min(w[i], limit)
		}
	}
	return w
}

// shorten leaves out the middle of what is longer than n characters: a URL is
// told by its host and by its end.
func shorten(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	if n <= 0 {
		return ""
	}
	head := n / 2
	tail := n - 1 - head
	return string(runes[:head]) + "…" + string(runes[len(runes)-tail:])
}

// details writes names and what they stand for, one a line and aligned. What is
// empty is left out.
func details(out io.Writer, rows [][2]string) error {
	wide := 0
	for _, row := range rows {
		if row[1] != "" {
			wide = max(wide, len(row[0]))
		}
	}
	var text strings.Builder
	for _, row := range rows {
		if row[1] != "" {
			say(&text, "%-*s  %s\n", wide, row[0], plain(row[1]))
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}
