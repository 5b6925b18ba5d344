package cli

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// fit says what happens to a column if the terminal is too narrow.
type fit int

const (
	whole       fit = iota // it stays
	asID                   // only its first characters are shown
	asURL                  // its middle is left out, also of other long texts
	asHost                 // the same, and the host stays until nothing else can be shortened
	dropped                // it is left out
	droppedLast            // the same, after all that is dropped
	droppedURL             // as asURL, and then as droppedLast
)

// url reports whether a column gives way as a URL does.
func (f fit) url() bool { return f == asURL || f == asHost || f == droppedURL }

const (
	shownID  = 8  // what is left of an id; the commands accept that much
	shownURL = 16 // what is left of a URL at least
	gutter   = 2  // between columns
)

// column is the head of a column, and how it gives way.
type column struct {
	name string
	fit  fit
}

// grid writes a table page by page. On a terminal the first page decides the widths.
// Elsewhere nothing is shortened, and a column only grows.
type grid struct {
	out     io.Writer
	columns []column
	width   int // of the terminal; 0: there is none
	widths  []int
}

// write writes rows of as many cells as there are columns, the heads before the first page.
// Control characters are escaped. Without rows it writes nothing.
func (g *grid) write(rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	return g.page(rows)
}

// page is write that writes the heads even if there are no rows.
func (g *grid) page(rows [][]string) error {
	first := g.widths == nil
	natural, hosts := slices.Clone(g.widths), make([]int, len(g.columns))
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
			row[i] = Line(row[i])
			natural[i] = max(natural[i], utf8.RuneCountInString(row[i]))
			host, _ := splitURL(row[i])
			hosts[i] = max(hosts[i], utf8.RuneCountInString(host))
		}
	}
	if first || g.width == 0 {
		g.widths = fitted(g.columns, natural, hosts, g.width)
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
		case asURL, asHost, droppedURL:
			cell = shortenURL(cell, w)
		case whole, dropped, droppedLast:
		}
		b.WriteString(cell)
		b.WriteString(strings.Repeat(" ", max(w-utf8.RuneCountInString(cell), 0)+gutter))
	}
	return strings.TrimRight(b.String(), " ")
}

// fitted returns the width of each column on a terminal of width characters; 0: the column is
// left out. Natural and hosts are the widths of their cells and of the hosts in them. It first
// shortens ids, then leaves out optional columns from the right, then shortens URLs, the
// longest first, and hosts last. If that is not enough, the terminal breaks the lines.
func fitted(columns []column, natural, hosts []int, width int) []int {
	w := slices.Clone(natural)
	// total is the width of the table if URLs have limit characters, or those of their host.
	total := func(limit int, withHosts bool) int {
		sum := -gutter
		for i, c := range columns {
			switch {
			case w[i] == 0:
			case c.fit.url():
				sum += floor(c, w[i], hosts[i], limit, withHosts) + gutter
			default:
				sum += w[i] + gutter
			}
		}
		return sum
	}
	widest := slices.Max(natural)
	if width == 0 || total(widest, true) <= width {
		return w
	}
	for i, c := range columns {
		if c.fit == asID {
			w[i] = min(w[i], shownID)
		}
	}
	for _, fits := range [][]fit{{dropped}, {droppedLast, droppedURL}} {
		for i := len(columns) - 1; i >= 0 && total(shownURL, true) > width; i-- {
			if slices.Contains(fits, columns[i].fit) {
				w[i] = 0
			}
		}
	}
	withHosts := total(shownURL, true) <= width
	limit := widest
	for limit > shownURL && total(limit, withHosts) > width {
		limit--
	}
	for i, c := range columns {
		if c.fit.url() && w[i] > 0 {
			w[i] = floor(c, w[i], hosts[i], limit, withHosts)
		}
	}
	return w
}

// floor is the width of a column of URLs that may have limit characters, or as many as its
// hosts.
func floor(c column, natural, host, limit int, withHosts bool) int {
	if withHosts && c.fit == asHost {
		limit = max(limit, host)
	}
	return min(natural, limit)
}

// splitURL returns the host of a URL and the rest after it. If s is not a URL, host is empty.
func splitURL(s string) (host, rest string) {
	_, after, ok := strings.Cut(s, "://")
	if !ok {
		return "", s
	}
	if i := strings.IndexAny(after, "/?#"); i >= 0 {
		return after[:i], after[i:]
	}
	return after, ""
}

// shortenURL shortens a URL to n characters. It leaves out the scheme, then the middle of the
// part after the host, then the beginning of the host. Of other text it leaves out the middle.
func shortenURL(s string, n int) string {
	host, rest := splitURL(s)
	length, hosts := utf8.RuneCountInString(host+rest), utf8.RuneCountInString(host)
	switch {
	case host == "" || utf8.RuneCountInString(s) <= n:
		return shorten(s, n)
	case length <= n:
		return host + rest
	case hosts > n:
		return cut(host, 0, n)
	case hosts == n:
		return host
	default:
		return host + cut(rest, 0, n-hosts)
	}
}

// shorten shortens text to n characters. It leaves out the middle, because beginnings and ends
// identify names.
func shorten(s string, n int) string { return cut(s, n/2, n) }

// cut shortens s to n characters: it leaves some out after the first head characters.
func cut(s string, head, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	if n <= 0 {
		return ""
	}
	return string(runes[:head]) + "…" + string(runes[len(runes)-(n-1-head):])
}

// WriteTable writes rows below heads, in aligned columns. A row has as many cells as there are
// heads; control characters in them are escaped.
func WriteTable(out io.Writer, heads []string, rows [][]string) error {
	g := grid{out: out}
	for _, head := range heads {
		g.columns = append(g.columns, column{name: head})
	}
	return g.page(rows)
}

// details writes names and values, one pair a line, aligned. It leaves out empty values.
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
			say(&text, "%-*s  %s\n", wide, row[0], Line(row[1]))
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}
