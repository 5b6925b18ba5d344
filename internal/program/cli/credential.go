package cli

import (
	"os"
	"strings"
	"sync"
)

// Credential is the one line of a file that a flag names, read again when the file
// has changed. Its methods may be called from several goroutines.
type Credential struct {
	name string
	read func() (string, error)

	mu   sync.Mutex
	file os.FileInfo // as it was read last
	line string
	// refused, if it is set, is called once for each change of the file that cannot be used;
	// the line before stays in force.
	refused func(error)
	bad     os.FileInfo // what refused was called for; nil with gone: the file is missing
	gone    bool
}

// ReadCredential reads the file for the first time; an empty name means no file.
// An error is for ExitUsage.
func ReadCredential(flag, name string) (*Credential, error) {
	return readCredential(name, func() (string, error) { return readLine(flag, name) })
}

// readCredential is ReadCredential with a function that reads the file.
func readCredential(name string, read func() (string, error)) (c *Credential, err error) {
	c = &Credential{name: name, read: read}
	if name == "" {
		return c, nil
	}
	c.file, _ = os.Stat(name) // reading it reports the error
	c.line, err = c.read()
	return c, err
}

// Get returns the line that the file has now; empty: no file was named. While the file is
// missing, or does not have exactly one line, Get returns the last valid one.
func (c *Credential) Get() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.name == "" {
		return ""
	}
	now, err := os.Stat(c.name)
	if err != nil {
		c.refuse(nil, err)
		return c.line
	}
	switch {
	case c.file != nil && same(now, c.file):
		c.bad, c.gone = nil, false
		return c.line
	case c.bad != nil && same(now, c.bad):
		return c.line
	}
	line, err := c.read()
	if err != nil {
		c.refuse(now, err)
		return c.line
	}
	c.line, c.file, c.bad, c.gone = line, now, nil, false
	return c.line
}

// refuse reports that the file cannot be used as it is now; nil: it is missing.
func (c *Credential) refuse(now os.FileInfo, err error) {
	if now == nil && c.gone {
		return
	}
	c.bad, c.gone = now, now == nil
	if c.refused != nil {
		c.refused(err)
	}
}

func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func readLine(flag, name string) (string, error) {
	text, err := os.ReadFile(name) //nolint:gosec // the user names the file
	if err != nil {
		return "", Fail(ExitUsage, "%s: %w", flag, err)
	}
	line := strings.TrimSpace(string(text))
	if line == "" || strings.ContainsAny(line, "\r\n") {
		return "", Fail(ExitUsage, "%s %s must have exactly one line", flag, name)
	}
	return line, nil
}
