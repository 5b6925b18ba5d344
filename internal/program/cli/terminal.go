package cli

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// narrow is the width of a terminal that does not tell its own.
const narrow = 80

// terminal tells whether a stream of a command is a terminal, and how many
// columns that has.
func (e Env) terminal(stream any) (columns int, ok bool) {
	ask := e.Terminal
	if ask == nil {
		ask = askTerminal
	}
	if w, isWriter := stream.(io.Writer); isWriter {
		stream = Raw(w)
	}
	columns, ok = ask(stream)
	if !ok {
		return 0, false
	}
	// Whoever sets COLUMNS means it.
	if n, err := strconv.Atoi(e.Getenv("COLUMNS")); err == nil && n > 0 {
		return n, true
	}
	if columns <= 0 {
		columns = narrow
	}
	return columns, true
}

// width is how wide what is written to out may be; 0: as wide as it is, because
// no terminal shows it.
func (e Env) width(out io.Writer) int {
	columns, _ := e.terminal(out)
	return columns
}

// askTerminal asks the operating system. Columns is 0 where a terminal does not
// know.
func askTerminal(stream any) (columns int, ok bool) {
	f, ok := stream.(*os.File)
	if !ok {
		return 0, false
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	return int(size.Col), true
}
