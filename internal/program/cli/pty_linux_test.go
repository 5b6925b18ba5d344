package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a terminal of so many columns.
func openTerminal(t *testing.T, columns uint16) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals here: ", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals here: ", err)
	}
	t.Cleanup(func() { _ = program.Close() })
	if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: 25}); err != nil {
		t.Fatal(err)
	}
	return person, program
}

// On a real terminal help is as wide as that is, and what destroys something asks.
func TestOnATerminal(t *testing.T) {
	s, vars := someStock(t)
	person, program := openTerminal(t, 47)
	env := Env{Getenv: func(name string) string { return vars[name] }}
	if got := env.helpWidth(program); got != 47 {
		t.Errorf("help is %d wide", got)
	}
	if got := env.width(program); got != 47 {
		t.Errorf("tables are %d wide", got)
	}
	root := operatorCommands(env)
	root.SetContext(t.Context())
	if _, err := person.WriteString("y\n"); err != nil {
		t.Fatal(err)
	}
	if code := Execute(root, []string{"topic", "rm", testTopic}, program, program, program); code != ExitOK || len(s.changes) != 2 {
		t.Errorf("exit code %d, changes %q", code, s.changes)
	}
	// What was shown can be read until the end, as the program's side is closed.
	if err := program.Close(); err != nil {
		t.Fatal(err)
	}
	shown, _ := io.ReadAll(person) // it ends with an error, as terminals do
	if !strings.Contains(string(shown), "Go on? [y/N]") || !strings.Contains(string(shown), "Removed: "+testTopic) {
		t.Errorf("%q", shown)
	}
}
