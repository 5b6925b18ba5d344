package cli

import (
	"cmp"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// narrow is the width of a terminal that does not report its own.
const narrow = 80

// terminal reports whether a stream of a command is a terminal, and how many columns it
// has.
func (e Env) terminal(stream any) (columns int, ok bool) {
	ask := e.Terminal
	if ask == nil {
		ask = askTerminal
	}
	if w, isWriter := stream.(io.Writer); isWriter {
		stream = Raw(w)
	}
	if columns, ok = ask(stream); !ok {
		return 0, false
	}
	return cmp.Or(e.columns(), max(columns, 0), narrow), true
}

// columns is COLUMNS, which says more than the terminal; 0: it is not set.
func (e Env) columns() int {
	n, _ := strconv.Atoi(e.Getenv("COLUMNS"))
	return max(n, 0)
}

// width is how many columns text for out may have; 0: any number, because no terminal
// shows it.
func (e Env) width(out io.Writer) int {
	columns, _ := e.terminal(out)
	return columns
}

// askTerminal asks the operating system. Columns is 0 if the terminal does not know.
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
